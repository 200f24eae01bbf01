"""Image files to arrays: one small function for each format, chosen by the end of the name.

The axes of an array are rows, columns and, in a volume, planes; then, where there are any, bands.  What needs
a package that only some users have says which extra installs it.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io import reading
from ..runtime import memory

# TIFF tags that place an image on the earth, copied as they are to maps made from it.
GEOREFERENCE_TAGS = (33550, 33922, 34264, 34735, 34736, 34737)
NODATA_TAG = 42113


@dataclass(frozen=True, eq=False)
class FileContents:
    """What an image file holds: an array, whether its last axis counts bands, and what it says besides."""

    array: np.ndarray
    banded: bool = False
    nodata: float | None = None
    tags: dict[int, Any] = field(default_factory=dict)


def read(path: Path, dataset: str = "values", banded: bool = False) -> FileContents:
    """Read an image file; `banded`: a band is asked for, so the last axis of a plain array counts bands."""
    reader = _reader(path)
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise InputError(f"{path}: {what}; a file is accepted, named relative to the input file")
    try:
        contents = reader(path, dataset, banded)
    except InputError:
        raise
    except Exception as error:  # readers of foreign formats raise whatever they like on a damaged file
        raise InputError(f"{path}: cannot be read as {path.suffix}: {_one_line(error)}") from error
    if contents.array.dtype.kind not in "biuf":
        raise InputError(f"{path}: holds values of type {contents.array.dtype}; real numbers are accepted")
    return contents


def _one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _reader(path: Path) -> Callable[[Path, str, bool], FileContents]:
    name = path.name.lower()
    for ending, reader in READERS.items():
        if name.endswith(ending):
            return reader
    raise InputError(f"{path}: unknown kind of image; accepted endings: {', '.join(READERS)}")


def optional(module: str, extra: str, path: Path) -> Any:
    """A package that only some users have, or a line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise InputError(
            f"{path}: needs the package {name}, which is not installed: pip install 'mpi_potts[{extra}]'"
        ) from None


def _read_npy(path, dataset, banded):
    dtype = _check_npy(path)
    if dtype.hasobject:
        raise InputError(f"{path}: holds Python objects, which are never loaded; numbers are accepted")
    array = np.load(path, allow_pickle=False)
    return FileContents(array, banded and array.ndim > 2)


def _check_npy(path):
    """The type of the values; what a damaged file promises and does not have is not asked of the memory."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
        there = path.stat().st_size - file.tell()
    needed = math.prod(map(int, shape)) * dtype.itemsize
    if min(shape, default=1) < 0:
        raise InputError(f"{path}: has shape {list(shape)}; images of 2 or 3 dimensions are accepted")
    memory.require(str(path), shape, dtype)
    if needed > there and not dtype.hasobject:
        raise InputError(f"{path}: truncated: {needed} bytes are announced, {there} are there")
    return dtype


def _read_csv(path, dataset, banded):
    """Rows of numbers with commas between; an empty cell is NaN."""
    memory.require_bytes(str(path), 4.0 * path.stat().st_size)
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    rows = [line.split(",") for line in lines if line.strip()]
    if not rows:
        raise InputError(f"{path}: is empty; rows of numbers with commas between are accepted")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError(f"{path}: row {number} has {len(row)} values, the first row {len(rows[0])}")
    return FileContents(np.array([[_cell(path, text) for text in row] for row in rows]))


def _cell(path, text):
    try:
        return float(text) if text.strip() else math.nan
    except ValueError:
        raise InputError(f"{path}: {text.strip()[:40]!r} is not a number") from None


def _read_hdf5(path, dataset, banded):
    array = reading.read_array(path, dataset)
    return FileContents(array, banded and array.ndim > 2)


def _read_picture(path, dataset, banded):
    with optional("PIL.Image", "images", path).open(path) as picture:
        memory.require(str(path), (*picture.size, len(picture.getbands())), np.uint8, copies=2)
        array = np.asarray(picture)
    return FileContents(array, banded=array.ndim == 3)


def _read_tiff(path, dataset, banded):
    with optional("tifffile", "geotiff", path).TiffFile(path) as file:
        series, tags = file.series[0], file.pages[0].tags
        memory.require(str(path), series.shape, series.dtype)
        array, axes = series.asarray(), series.axes
        found = {code: tags[code].value for code in GEOREFERENCE_TAGS if code in tags}
        nodata = tags[NODATA_TAG].value if NODATA_TAG in tags else None
    # Y and X are rows and columns, Z planes of a volume; any other axis counts bands.
    planes = [axis for axis in axes if axis == "Z"]
    others = [axis for axis in axes if axis not in "YXZ"]
    order = [axes.index(axis) for axis in ["Y", "X", *planes, *others]]
    array = array.transpose(order)
    if len(others) > 1:
        array = array.reshape(*array.shape[: -len(others)], -1)
    return FileContents(array, bool(others), _tiff_nodata(nodata), found)


def _tiff_nodata(text):
    return None if text is None else float(str(text).strip("\0 "))


def _read_nifti(path, dataset, banded):
    stored = optional("nibabel", "nifti", path).load(path).dataobj
    memory.require(str(path), stored.shape, stored.dtype)
    array = np.asarray(stored)
    return FileContents(array, banded=array.ndim == 4)


READERS = {
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".png": _read_picture,
    ".tif": _read_tiff,
    ".tiff": _read_tiff,
    ".nii": _read_nifti,
    ".nii.gz": _read_nifti,
}
