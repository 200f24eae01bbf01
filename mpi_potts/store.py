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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Files are moved into place whole, so nobody needs HDF5's own locks, which fail on some network file systems.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
import h5py

from . import __version__, files
from .checksum import SEAL_BYTES, check_seal, checksum, row_bytes, row_digests, seal
from .errors import InputError
from .parallel import MESSAGE, Comm, block, merge_rows, on_root, raise_together

WRITERS = ("mpio", "gather")
# Room for what HDF5 itself needs beside the arrays.
OVERHEAD = 1 << 16
# What h5py raises on a damaged file, depending on where the damage is.
DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError)


@dataclass(frozen=True)
class Rows:
    """This rank's rows of a dataset of n: `values` (m, ...) with global numbers `index` (m,), any m >= 0.

    Every row is on exactly one rank, and all ranks give the same dtype and trailing shape.
    """

    index: np.ndarray
    values: np.ndarray
    n: int

    @classmethod
    def of_block(cls, comm: Comm, values: np.ndarray, n: int) -> "Rows":
        """Rows that are split in blocks in rank order."""
        return cls(np.arange(*block(n, comm.size, comm.rank)), values, n)


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
) -> None:
    """Write a file of `kind`, collectively and atomically.

    A dataset is an array that every rank has whole, or `Rows`.  Attributes are strings, numbers, or lists of
    them, the same on every rank; those of rank 0 are written.
    """
    writer = choose_writer(writer)
    datasets = {name: _whole_or_rows(datasets[name]) for name in sorted(datasets)}
    attributes = {name: _plain(value) for name, value in attributes.items()}
    attributes |= {"format": kind, "version": version, "program": f"mpi_potts {__version__}"}
    attributes["checksum"] = checksum(attributes, ((n, *_describe(comm, d)) for n, d in datasets.items()))
    attributes |= {"writer": writer, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    attributes = comm.bcast(attributes)

    path = Path(path)
    temporary = files.temporary_name(path)
    on_root(comm, _prepare, path, temporary, datasets)
    error = (_write_mpio if writer == "mpio" else _write_gathered)(comm, temporary, attributes, datasets)
    try:
        raise_together(comm, None if error is None else files.refusal(path, error))
        on_root(comm, _move, temporary, path)
    except InputError:
        if comm.rank == 0:
            temporary.unlink(missing_ok=True)
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
    try:
        with h5py.File(path, "r") as file:
            found = _datasets(file)
            if name.strip("/") not in found:
                raise InputError(f"{path}: no dataset {name!r}; it has {', '.join(sorted(found)) or 'none'}")
            return np.asarray(found[name.strip("/")])
    except DAMAGE as error:
        raise InputError(f"{path}: not a readable HDF5 file ({' '.join(str(error).split())[:200]})") from None


def write_draws(path: Path, draws: Mapping[str, np.ndarray]) -> None:
    """Arrays (chain, draw) or (chain, draw, label) as group `posterior` of a netCDF-4 file; on one rank."""
    temporary = files.temporary_name(path)
    try:
        with h5py.File(temporary, "w", track_order=True) as file:
            group = file.create_group("posterior", track_order=True)
            sizes = dict(zip(("chain", "draw", "label"), max((v.shape for v in draws.values()), key=len)))
            for name, size in sizes.items():
                group.create_dataset(name, data=np.arange(size)).make_scale(name)
            for name, values in draws.items():
                group.create_dataset(name, data=values)
                for i, dimension in zip(range(values.ndim), sizes):
                    group[name].dims[i].attach_scale(group[dimension])
        files.replace(temporary, path)
    except OSError as error:
        raise files.refusal(path, error) from error


def describe() -> dict[str, str]:
    """Versions of the library and its wrapper, and the writer they allow: for `mpi-potts doctor`."""
    return {
        "library": h5py.version.hdf5_version,
        "h5py": h5py.__version__,
        "parallel": f"{'yes' if parallel_hdf5() else 'no'} (writer {choose_writer()})",
    }


# Writing


def _whole_or_rows(data):
    if isinstance(data, Rows):
        return Rows(
            np.ascontiguousarray(data.index, np.int64), np.ascontiguousarray(data.values), int(data.n)
        )
    return np.asarray(data, order="C")


def _shape(data):
    return (data.n, *data.values.shape[1:]) if isinstance(data, Rows) else data.shape


def _dtype(data):
    return data.values.dtype if isinstance(data, Rows) else data.dtype


def _runs(index: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Iterator[tuple[int, int]]:
    """(from, to) in a rank's own rows: runs of consecutive global rows, none larger than one message."""
    most = max(1, MESSAGE // max(1, row_bytes(shape, dtype)))
    breaks = np.flatnonzero(np.diff(index) != 1) + 1
    for first, last in zip([0, *breaks], [*breaks, len(index)]):
        for start in range(first, last, most):
            yield start, min(start + most, last)


def _prepare(path, temporary, datasets):
    needed = sum(
        _shape(d)[0] * row_bytes(_shape(d), _dtype(d)) if _shape(d) else 8 for d in datasets.values()
    )
    try:
        files.check_space(path, temporary, needed + OVERHEAD)
    except OSError as error:
        raise files.refusal(path, error) from error


def _move(temporary, path):
    try:
        seal(temporary)
        files.replace(temporary, path)
    except OSError as error:
        raise files.refusal(path, error) from error


def _create(file, name, data):
    return file.create_dataset(name, shape=_shape(data), dtype=_dtype(data), fill_time="never")


def _write_mpio(comm, temporary, attributes, datasets):
    """Every rank writes its own rows; returns this rank's error, if any."""
    try:
        file = h5py.File(temporary, "w", driver="mpio", comm=comm, userblock_size=SEAL_BYTES)
    except OSError as error:
        return error
    file.attrs.update(attributes)
    failed = None
    for name, data in datasets.items():
        dataset = _create(file, name, data)
        try:
            if isinstance(data, Rows):
                for start, stop in _runs(data.index, _shape(data), _dtype(data)):
                    first = data.index[start]
                    dataset[first : first + stop - start] = data.values[start:stop]
            elif comm.rank == 0:
                dataset[()] = data
        except OSError as error:
            # Go on with the collective calls, or the other ranks would wait for this one.
            failed = error
    try:
        file.close()
    except OSError as error:
        failed = error
    return failed


def _write_gathered(comm, temporary, attributes, datasets):
    """Rank 0 receives the rows of one rank after the other and writes them; returns its error, if any."""
    target = _Target(temporary, attributes) if comm.rank == 0 else None
    for name, data in datasets.items():
        if target:
            target.create(name, data)
        if isinstance(data, Rows):
            _gather(comm, data, target)
        elif target:
            target.put(..., data)
    if target:
        target.attempt(lambda: target.file.close())
        return target.error
    return None


def _gather(comm, data, target):
    """Bring the rows of all ranks to rank 0, a run at a time: it never holds more than one message."""
    counts = comm.gather(len(data.index))
    shape, dtype = _shape(data), _dtype(data)
    if comm.rank > 0 and len(data.index):
        comm.Send(data.index, dest=0)
        for start, stop in _runs(data.index, shape, dtype):
            comm.Send(data.values[start:stop].reshape(-1).view(np.uint8), dest=0)
    for source in range(comm.size) if target else ():
        index = data.index
        if source > 0:
            index = np.empty(counts[source], dtype=np.int64)
            if len(index):
                comm.Recv(index, source=source)
        for start, stop in _runs(index, shape, dtype):
            piece = data.values[start:stop]
            if source > 0:
                piece = np.empty((stop - start, *shape[1:]), dtype=dtype)
                comm.Recv(piece.reshape(-1).view(np.uint8), source=source)
            target.put(slice(index[start], index[start] + stop - start), piece)


class _Target:
    """The file of the gathering rank.  After an error it takes and drops what still comes."""

    def __init__(self, temporary, attributes):
        self.error = None
        self.file = self.attempt(lambda: h5py.File(temporary, "w", userblock_size=SEAL_BYTES))
        self.attempt(lambda: self.file.attrs.update(attributes))

    def create(self, name, data):
        self.dataset = self.attempt(lambda: _create(self.file, name, data))

    def put(self, where, values):
        self.attempt(lambda: self.dataset.__setitem__(where, values))

    def attempt(self, function):
        if self.error is None:
            try:
                return function()
            except OSError as error:
                self.error = error
        return None


# Checksums


def _describe(comm, data):
    """(shape, dtype, digests of all rows in order) of a dataset, collectively."""
    if isinstance(data, Rows):
        return _shape(data), _dtype(data), merge_rows(comm, data.index, row_digests(data.values), data.n)
    return data.shape, data.dtype, row_digests(data)


def _verify(path, file):
    described = (
        (name, dataset.shape, dataset.dtype, _dataset_digests(dataset))
        for name, dataset in sorted(_datasets(file).items())
    )
    attributes = _attributes(file)
    if checksum(attributes, described) != attributes.get("checksum"):
        raise InputError(f"{path}: damaged, its content does not match its checksum")


def _dataset_digests(dataset):
    """Digests a piece at a time, so that a large file need not fit into memory."""
    if not dataset.shape or not dataset.shape[0]:
        return row_digests(dataset[()])
    pieces = _runs(np.arange(dataset.shape[0]), dataset.shape, dataset.dtype)
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
        raise InputError(f"{path}: not a readable HDF5 file, or truncated ({reason})") from None


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
    for start, stop in _runs(index, dataset.shape, dataset.dtype):
        rows[start:stop] = dataset[index[start] : index[start] + stop - start]
    return rows
