"""HDF5 files, read: verified by their seal and their checksum, refused in one line where something is wrong.

Needs no MPI, so that a result can be opened on any machine; `store` has the other half, writing, which does.
A file is verified once: `contents` gives a `Content`, which reads what is wanted of it afterwards.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Files are moved into place whole, so nobody needs HDF5's own locks, which fail on some network file systems.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
import h5py

from ..errors import Damaged, InputError
from ..runtime import memory
from . import probe
from .checksum import check_seal, checksum, row_digests, sealed
from .formats import Format
from .pieces import runs

# What h5py raises on a damaged file, depending on where the damage is.
DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError)


@dataclass(frozen=True, eq=False)
class Content:
    """A file of this program that was verified: what it says of itself, and the way to its datasets.

    shapes : {name: (shape, type)} of every dataset, the type as in "f8"
    """

    path: Path
    attributes: dict[str, Any]
    shapes: dict[str, tuple[tuple[int, ...], str]]

    @property
    def format(self) -> str:
        """The name of the kind of file, one of those in `formats`."""
        return self.attributes["format"]

    def require(self, wanted: Format) -> None:
        """Refuse a file of another kind, or of a newer version."""
        _check_format(self.path, self.attributes, *wanted)

    def arrays(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """The datasets `names`, or all, by their names in the file."""
        with _opened(self.path, None, None, verify=False) as file:
            return _whole(file, names)

    def rows(self, name: str, index: np.ndarray) -> np.ndarray:
        """The rows of one dataset that have the ascending numbers `index`."""
        with _opened(self.path, None, None, verify=False) as file:
            return _some_rows(file[name], np.asarray(index))


def contents(path: Path) -> Content:
    """Verify any file of this program; on one rank."""
    with _opened(path, None, None, verify=True) as file:
        shapes = {n: (d.shape, d.dtype.str[1:]) for n, d in sorted(_datasets(file).items())}
        return Content(Path(path), _attributes(file), shapes)


def read(
    path: Path,
    kind: str,
    version: int,
    names: Iterable[str] | None = None,
    verify: bool = True,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes, and the datasets `names` (all if None), of a file of `kind`; on one rank."""
    with _opened(path, kind, version, verify) as file:
        return _attributes(file), _whole(file, names)


def read_rows(path: Path, kind: str, version: int, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Only some rows, {name: ascending row numbers}, of a file that was verified before; on one rank."""
    with _opened(path, kind, version, verify=False) as file:
        return {name: _some_rows(file[name], np.asarray(index)) for name, index in rows.items()}


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


def refuse_older(path: Path, attributes: Mapping[str, Any], version: int, what: str) -> None:
    """Refuse a file of an older program, from which nothing that is the same could be made; `what` it has."""
    if attributes["version"] < version:
        raise InputError(
            f"{path}: version {attributes['version']} of an older mpi_potts, {what}; another --output is "
            f"accepted, or --fresh"
        )


def plain(value: Any) -> Any:
    """An attribute as str, int, float, bool or a list of them: the same before writing and after reading."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value


@contextmanager
def _opened(path: Path, kind: str | None, version: int | None, verify: bool) -> Iterator[h5py.File]:
    """The file, open for reading, once it is known to be ours; whatever is wrong with it is one line."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    if verify:
        check_seal(path)
    try:
        with h5py.File(path, "r") as file:
            _check_format(path, file.attrs, kind, version)
            if verify:
                _verify(path, file)
            yield file
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:200]
        raise Damaged(f"{path}: not a readable HDF5 file, or truncated ({reason})") from None


def _check_format(path: Path, attributes: Mapping[str, Any], kind: str | None, version: int | None) -> None:
    found = attributes.get("format")
    if not isinstance(found, str) or "version" not in attributes:
        raise InputError(f"{path}: not a file of mpi_potts")
    if kind is not None and found != kind:
        raise InputError(f"{path}: format is {found!r}; {kind!r} is accepted")
    if version is not None and attributes["version"] > version:
        raise InputError(
            f"{path}: version {attributes['version']} of a newer mpi_potts; up to {version} is accepted"
        )


def _verify(path: Path, file: h5py.File) -> None:
    """Compare the attributes and all rows with the checksum that the file carries."""
    described = (
        (name, dataset.shape, dataset.dtype, _dataset_digests(dataset))
        for name, dataset in sorted(_datasets(file).items())
    )
    attributes = _attributes(file)
    if checksum(attributes, described) != attributes.get("checksum"):
        raise Damaged(f"{path}: damaged, its content does not match its checksum")


def _dataset_digests(dataset: h5py.Dataset) -> np.ndarray:
    """Digests a piece at a time, so that a large file need not fit into memory."""
    if not dataset.shape or not dataset.shape[0]:
        return row_digests(dataset[()])
    pieces = runs(np.arange(dataset.shape[0]), dataset.shape, dataset.dtype)
    return np.concatenate([row_digests(dataset[start:stop]) for start, stop in pieces])


def _attributes(file: h5py.File) -> dict[str, Any]:
    return {name: plain(value) for name, value in file.attrs.items()}


def _datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Every dataset of a file, of all its groups, by its whole name."""
    found: dict[str, h5py.Dataset] = {}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def _whole(file: h5py.File, names: Iterable[str] | None) -> dict[str, np.ndarray]:
    """The datasets `names`, or all, read whole."""
    wanted = _datasets(file) if names is None else {name: file[name] for name in names}
    return {name: dataset[()] for name, dataset in wanted.items()}


def _some_rows(dataset: h5py.Dataset, index: np.ndarray) -> np.ndarray:
    rows = np.empty((len(index), *dataset.shape[1:]), dtype=dataset.dtype)
    for start, stop in runs(index, dataset.shape, dataset.dtype):
        rows[start:stop] = dataset[index[start] : index[start] + stop - start]
    return rows
