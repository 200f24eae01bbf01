"""HDF5 files: named arrays and attributes, written whole by all ranks, verified when they are read.

`write` and `read` know nothing of what a file is for: a kind of file is its name (`format`), a version, and
the datasets and attributes it is given.  Two writers stand behind one interface: `mpio`, in which every rank
writes its own rows by parallel HDF5, and `gather`, in which rank 0 receives and writes them.  The content is
the same.

Collective HDF5 calls hang when ranks do not make the same ones.  Here all ranks create the same datasets and
set the same attributes; rows are written independently (a rank may have none); nothing closes the file on the
way out of an exception, so that the error reaches the top and ends all ranks.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

# Files are moved into place whole, so nobody needs HDF5's own locks, which fail on some network file systems.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
import h5py

from .. import __version__
from ..errors import Damaged, InputError, WriteFailed
from ..runtime import memory
from ..runtime.parallel import Comm, merge_rows, on_root, raise_together
from . import files, probe
from .checksum import SEAL_BYTES, check_seal, checksum, row_digests, seal, sealed
from .rows import Rows, dtype_of, gather, runs, shape_of, size_of, whole_or_rows

WRITERS = ("mpio", "gather")
# Room for what HDF5 itself needs beside the arrays.
OVERHEAD = 1 << 16
# What h5py raises on a damaged file, depending on where the damage is.
DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError)
# What it raises where a file cannot be written.
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
    attributes = {name: _plain(value) for name, value in attributes.items()}
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


def read(
    path: Path,
    kind: str,
    version: int,
    names: Iterable[str] | None = None,
    verify: bool = True,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes, and the datasets `names` (all if None), of a file of `kind`; on one rank."""
    with _opened(path, kind, version, verify) as file:
        wanted = _datasets(file) if names is None else {name: file[name] for name in names}
        return _attributes(file), {name: dataset[()] for name, dataset in wanted.items()}


def read_rows(path: Path, kind: str, version: int, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Only some rows, {name: ascending row numbers}, of a file that was verified before; on one rank."""
    with _opened(path, kind, version, verify=False) as file:
        return {name: _some_rows(file[name], np.asarray(index)) for name, index in rows.items()}


def contents(path: Path) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], str]]]:
    """Attributes, and {name: (shape, type)} of the datasets, of any file of this program, verified."""
    with _opened(path, None, None, verify=True) as file:
        return _attributes(file), {n: (d.shape, d.dtype.str[1:]) for n, d in sorted(_datasets(file).items())}


def read_array(path: Path, name: str) -> np.ndarray:
    """One dataset of any HDF5 file, ours or not."""
    if sealed(path):
        check_seal(path)
    else:
        probe.check(path, name)
    try:
        with h5py.File(path, "r") as file:
            found = _datasets(file)
            if name.strip("/") not in found:
                raise InputError(f"{path}: no dataset {name!r}; it has {', '.join(sorted(found)) or 'none'}")
            dataset = found[name.strip("/")]
            memory.require(f"{path}: {name}", dataset.shape, dataset.dtype)
            return np.asarray(dataset)
    except DAMAGE as error:
        raise InputError(f"{path}: not a readable HDF5 file ({' '.join(str(error).split())[:200]})") from None


def read_to_the_end(path: Path, name: str) -> None:
    """Read one dataset of any HDF5 file a piece at a time, if it can be read, and keep nothing."""
    with h5py.File(path, "r") as file:
        found = _datasets(file)
        if name.strip("/") in found:
            dataset = found[name.strip("/")]
            memory.require(f"{path}: {name}", dataset.shape, dataset.dtype)
            _dataset_digests(dataset)


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


def _put_draws(file, draws):
    group = file.create_group("posterior", track_order=True)
    sizes = dict(zip(("chain", "draw", "label"), max((v.shape for v in draws.values()), key=len)))
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


def _move(temporary, path, previous):
    try:
        seal(temporary)
        files.replace(temporary, path, previous)
    except OSError as error:
        raise files.refusal(path, error) from error


def _create(file, name, data):
    return file.create_dataset(name, shape=shape_of(data), dtype=dtype_of(data), fill_time="never")


def _write_mpio(comm, path, temporary, attributes, datasets, needed):
    """Every rank writes its own rows.

    After an error HDF5 may hang or crash in its next collective call, so the ranks agree before it, and leave
    the file open.  An error in closing may come to one rank alone: it is raised there, and ends all.
    """
    file = _attempt(comm, path, lambda: _open_mpio(comm, temporary))
    on_root(comm, lambda: _reserve(path, temporary, needed))
    file.attrs.update(attributes)
    targets = {name: _create(file, name, data) for name, data in datasets.items()}
    _attempt(comm, path, lambda: [_put_rows(comm, targets[name], data) for name, data in datasets.items()])
    try:
        file.close()
    except FAILURE as error:
        raise _failed(path, error) from error


def _open_mpio(comm, temporary):
    return h5py.File(temporary, "w", driver="mpio", comm=comm, userblock_size=SEAL_BYTES)


def _reserve(path, temporary, needed):
    try:
        files.reserve(temporary, needed)
    except OSError as error:
        raise _failed(path, error) from error


def _put_rows(comm, dataset, data):
    if isinstance(data, Rows):
        for start, stop in runs(data.index, shape_of(data), dtype_of(data)):
            first = data.index[start]
            dataset[first : first + stop - start] = data.values[start:stop]
    elif comm.rank == 0:
        dataset[()] = data


def _attempt(comm, path, function):
    """The value of a function on every rank; an error on one of them is raised on all."""
    value, failed = None, None
    try:
        value = function()
    except FAILURE as error:
        failed = _failed(path, error)
    raise_together(comm, failed)
    return value


def _failed(path, error):
    return WriteFailed(f"{path}: cannot be written ({files.reason(error)})")


def _write_gathered(comm, path, temporary, attributes, datasets):
    """Rank 0 receives the rows of one rank after the other and writes them."""
    target = None
    if comm.rank == 0:
        target = _Target(temporary, userblock_size=SEAL_BYTES)
        target.attempt(lambda: target.file.attrs.update(attributes))
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

    def __init__(self, temporary, **options):
        self._sink = files.Sink(temporary)
        self.file = h5py.File(self._sink, "w", **options)

    def create(self, name, data):
        self.dataset = self.attempt(lambda: _create(self.file, name, data))

    def put(self, where, values):
        self.attempt(lambda: self.dataset.__setitem__(where, values))

    def attempt(self, function):
        return function() if self._sink.error is None else None

    def close(self) -> OSError | None:
        """Close the file; returns the first error of the disk, if any."""
        self.file.close()
        return self._sink.finish()


# Checksums


def _describe(comm, data):
    """(shape, dtype, digests of all rows in order) of a dataset, collectively."""
    if isinstance(data, Rows):
        return shape_of(data), dtype_of(data), merge_rows(comm, data.index, row_digests(data.values), data.n)
    return data.shape, data.dtype, row_digests(data)


def _verify(path, file):
    described = (
        (name, dataset.shape, dataset.dtype, _dataset_digests(dataset))
        for name, dataset in sorted(_datasets(file).items())
    )
    attributes = _attributes(file)
    if checksum(attributes, described) != attributes.get("checksum"):
        raise Damaged(f"{path}: damaged, its content does not match its checksum")


def _dataset_digests(dataset):
    """Digests a piece at a time, so that a large file need not fit into memory."""
    if not dataset.shape or not dataset.shape[0]:
        return row_digests(dataset[()])
    pieces = runs(np.arange(dataset.shape[0]), dataset.shape, dataset.dtype)
    return np.concatenate([row_digests(dataset[start:stop]) for start, stop in pieces])


# Reading


@contextmanager
def _opened(path, kind, version, verify):
    """The file, open for reading, once it is known to be ours; whatever is wrong with it is one line."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    if verify:
        check_seal(path)
    try:
        with h5py.File(path, "r") as file:
            _check_format(path, file, kind, version)
            if verify:
                _verify(path, file)
            yield file
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:200]
        raise Damaged(f"{path}: not a readable HDF5 file, or truncated ({reason})") from None


def _check_format(path, file, kind, version):
    found = file.attrs.get("format")
    if not isinstance(found, str) or "version" not in file.attrs:
        raise InputError(f"{path}: not a file of mpi_potts")
    if kind is not None and found != kind:
        raise InputError(f"{path}: format is {found!r}; {kind!r} is accepted")
    if version is not None and file.attrs["version"] > version:
        raise InputError(
            f"{path}: version {file.attrs['version']} of a newer mpi_potts; up to {version} is accepted"
        )


def refuse_older(path: Path, attributes: Mapping[str, Any], version: int, what: str) -> None:
    """Refuse a file of an older program, from which nothing that is the same could be made; `what` it has."""
    if attributes["version"] < version:
        raise InputError(
            f"{path}: version {attributes['version']} of an older mpi_potts, {what}; another --output is "
            f"accepted, or --fresh"
        )


def _attributes(file):
    return {name: _plain(value) for name, value in file.attrs.items()}


def _plain(value):
    """An attribute as str, int, float, bool or a list of them: the same before writing and after reading."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value


def _datasets(file):
    found = {}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def _some_rows(dataset, index):
    rows = np.empty((len(index), *dataset.shape[1:]), dtype=dataset.dtype)
    for start, stop in runs(index, dataset.shape, dataset.dtype):
        rows[start:stop] = dataset[index[start] : index[start] + stop - start]
    return rows
