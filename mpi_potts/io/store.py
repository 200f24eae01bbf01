"""HDF5 files, written: named arrays and attributes, whole or not at all, by all ranks.

`write` knows nothing of what a file is for: a kind of file is its name and version (`formats`), and the
datasets and attributes it is given; `reading` is the other half, which needs no ranks.  Two writers stand
behind one interface: `mpio`, in which every rank writes its own rows by parallel HDF5, and `gather`, in which
rank 0 receives and writes them.  The content is the same.

Collective HDF5 calls hang when ranks do not make the same ones.  Here all ranks create the same datasets and
set the same attributes; rows are written independently (a rank may have none); nothing closes the file on the
way out of an exception, so that the error reaches the top and ends all ranks.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# As in `reading`: nobody needs HDF5's own locks.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
import h5py

from .. import __version__
from ..errors import InputError, WriteFailed
from ..runtime.parallel import Comm, merge_rows, on_root, raise_together
from . import files
from .checksum import SEAL_BYTES, checksum, row_digests, seal
from .reading import plain
from .rows import Rows, dtype_of, gather, pieces_of, shape_of, size_of, whole_or_rows

WRITERS = ("mpio", "gather")
# Room for what HDF5 itself needs beside the arrays.
OVERHEAD = 1 << 16
# What h5py raises where a file cannot be written.
FAILURE = (OSError, RuntimeError)


def parallel_hdf5() -> bool:
    """Whether this h5py can write one file from many ranks."""
    return bool(h5py.get_config().mpi)


def choose_writer(writer: str = "auto") -> str:
    """`mpio` where h5py is parallel, else `gather`; a writer asked for by name is given or refused."""
    if writer == "auto":
        return "mpio" if parallel_hdf5() else "gather"
    if writer not in WRITERS:
        raise InputError(f'run.writer = {writer!r}: "auto", "mpio" or "gather" is accepted')
    if writer == "mpio" and not parallel_hdf5():
        raise InputError(
            'run.writer = "mpio": this h5py has no parallel HDF5; "auto" or "gather" is accepted'
        )
    return writer


def write(
    comm: Comm,
    path: Path,
    kind: str,
    version: int,
    attributes: Mapping[str, Any],
    datasets: Mapping[str, np.ndarray | Rows],
    writer: str = "auto",
    previous: Path | None = None,
) -> None:
    """Write a file of `kind`, collectively and atomically.

    A dataset is an array that every rank has whole, or `Rows`.  Attributes are strings, numbers, or lists of
    them, the same on every rank; those of rank 0 are written.  Where `previous` is given, the file that was
    there before is kept under that name.
    """
    writer = choose_writer(writer)
    datasets = {name: whole_or_rows(datasets[name]) for name in sorted(datasets)}
    attributes = {name: plain(value) for name, value in attributes.items()}
    attributes |= {"format": kind, "version": version, "program": f"mpi_potts {__version__}"}
    attributes["checksum"] = checksum(attributes, ((n, *_describe(comm, d)) for n, d in datasets.items()))
    attributes |= {"writer": writer, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    attributes = comm.bcast(attributes)

    path = Path(path)
    temporary = files.temporary_name(path)
    needed = OVERHEAD + sum(map(size_of, datasets.values()))
    try:
        on_root(comm, files.check_space, path, temporary, needed)
        if writer == "mpio":
            _write_mpio(comm, path, temporary, attributes, datasets, needed)
        else:
            _write_gathered(comm, path, temporary, attributes, datasets)
        on_root(comm, _move, temporary, path, previous)
    except InputError:
        if comm.rank == 0:
            files.discard(temporary)
        raise


def write_draws(path: Path, draws: Mapping[str, np.ndarray]) -> None:
    """Arrays (chain, draw) or (chain, draw, label) as group `posterior` of a netCDF-4 file; on one rank."""
    temporary = files.temporary_name(path)
    target = _Target(temporary, track_order=True)
    target.attempt(lambda: _put_draws(target.file, draws))
    error = target.close()
    try:
        if error is not None:
            raise error
        files.replace(temporary, path)
    except OSError as error:
        files.discard(temporary)
        raise files.refusal(path, error) from error


def _put_draws(file: h5py.File, draws: Mapping[str, np.ndarray]) -> None:
    """The draws as netCDF-4 has them: every axis is a dimension with a scale of its own."""
    group = file.create_group("posterior", track_order=True)
    longest = max(draws.values(), key=lambda values: values.ndim)
    sizes = dict(zip(("chain", "draw", "label"), longest.shape))
    for name, size in sizes.items():
        group.create_dataset(name, data=np.arange(size)).make_scale(name)
    for name, values in draws.items():
        group.create_dataset(name, data=values)
        for i, dimension in zip(range(values.ndim), sizes):
            group[name].dims[i].attach_scale(group[dimension])


def describe() -> dict[str, str]:
    """Versions of the library and its wrapper, and the writer they allow: for `mpi-potts doctor`."""
    return {
        "library": h5py.version.hdf5_version,
        "h5py": h5py.__version__,
        "parallel": f"{'yes' if parallel_hdf5() else 'no'} (writer {choose_writer()})",
    }


# Writing


def _move(temporary: Path, path: Path, previous: Path | None) -> None:
    """Seal a complete file and move it into place; on one rank."""
    try:
        seal(temporary)
        files.replace(temporary, path, previous)
    except OSError as error:
        raise files.refusal(path, error) from error


def _create(file: h5py.File, name: str, data: np.ndarray | Rows) -> h5py.Dataset:
    return file.create_dataset(name, shape=shape_of(data), dtype=dtype_of(data), fill_time="never")


def _write_mpio(
    comm: Comm,
    path: Path,
    temporary: Path,
    attributes: Mapping[str, Any],
    datasets: Mapping[str, np.ndarray | Rows],
    needed: int,
) -> None:
    """Every rank writes its own rows; collective.

    After an error HDF5 may hang or crash in its next collective call, so the ranks agree before it, and leave
    the file open.  An error in closing may come to one rank alone: it is raised there, and ends all.
    """
    file = _attempt(comm, path, lambda: _open_mpio(comm, temporary))
    on_root(comm, lambda: _reserve(path, temporary, needed))
    file.attrs.update(attributes)
    targets = {name: _create(file, name, data) for name, data in datasets.items()}

    def put_all() -> None:
        for name, data in datasets.items():
            _put_rows(comm, targets[name], data)

    _attempt(comm, path, put_all)
    try:
        file.close()
    except FAILURE as error:
        raise _failed(path, error) from error


def _open_mpio(comm: Comm, temporary: Path) -> h5py.File:
    return h5py.File(temporary, "w", driver="mpio", comm=comm, userblock_size=SEAL_BYTES)


def _reserve(path: Path, temporary: Path, needed: int) -> None:
    try:
        files.reserve(temporary, needed)
    except OSError as error:
        raise _failed(path, error) from error


def _put_rows(comm: Comm, dataset: h5py.Dataset, data: np.ndarray | Rows) -> None:
    """This rank's rows of a dataset; what all ranks have whole is written by rank 0."""
    if isinstance(data, Rows):
        for where, piece in pieces_of(data):
            dataset[where] = piece
    elif comm.rank == 0:
        dataset[()] = data


def _attempt(comm: Comm, path: Path, function: Callable[[], Any]) -> Any:
    """The value of a function on every rank; an error on one of them is raised on all.  Collective."""
    value, failed = None, None
    try:
        value = function()
    except FAILURE as error:
        failed = _failed(path, error)
    raise_together(comm, failed)
    return value


def _failed(path: Path, error: Exception) -> WriteFailed:
    return WriteFailed(f"{path}: cannot be written ({files.reason(error)})")


def _write_gathered(
    comm: Comm,
    path: Path,
    temporary: Path,
    attributes: Mapping[str, Any],
    datasets: Mapping[str, np.ndarray | Rows],
) -> None:
    """Rank 0 receives the rows of one rank after the other and writes them; collective."""
    target = None
    if comm.rank == 0:
        target = _Target(temporary, userblock_size=SEAL_BYTES)
        target.attempt(partial(target.file.attrs.update, attributes))
    for name, data in datasets.items():
        if target:
            target.create(name, data)
        if isinstance(data, Rows):
            gather(comm, data, target.put if target else None)
        elif target:
            target.put(..., data)
    error = target.close() if target else None
    raise_together(comm, None if error is None else files.refusal(path, error))


class _Target:
    """The file of one rank.  After an error of the disk it takes and drops what still comes."""

    dataset: h5py.Dataset

    def __init__(self, temporary: Path, **options: Any):
        self._sink = files.Sink(temporary)
        self.file = h5py.File(self._sink, "w", **options)

    def create(self, name: str, data: np.ndarray | Rows) -> None:
        """Begin the next dataset."""
        self.dataset = self.attempt(lambda: _create(self.file, name, data))

    def put(self, where: Any, values: np.ndarray) -> None:
        """Write into the dataset that was begun."""
        self.attempt(lambda: self.dataset.__setitem__(where, values))

    def attempt(self, function: Callable[[], Any]) -> Any:
        """Call a function that writes, unless the disk has failed."""
        return function() if self._sink.error is None else None

    def close(self) -> OSError | None:
        """Close the file; returns the first error of the disk, if any."""
        self.file.close()
        return self._sink.finish()


# Checksums


def _describe(comm: Comm, data: np.ndarray | Rows) -> tuple[tuple[int, ...], np.dtype, np.ndarray]:
    """(shape, dtype, digests of all rows in order) of a dataset; collective."""
    if isinstance(data, Rows):
        return shape_of(data), dtype_of(data), merge_rows(comm, data.index, data.digests(), data.n)
    return data.shape, data.dtype, row_digests(data)
