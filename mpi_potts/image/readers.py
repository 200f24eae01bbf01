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
from .places import Georeference, of_affine, of_tags

# TIFF tags that place an image on the earth, copied as they are to maps made from it.
GEOREFERENCE_TAGS = (33550, 33922, 34264, 34735, 34736, 34737)
NODATA_TAG = 42113
# As many numbers as a pixel of a picture in colours has, without and with its opacity.
COLOURS = (3, 4)


@dataclass(frozen=True, eq=False)
class FileContents:
    """What an image file holds: an array, whether its last axis counts bands, and what it says besides.

    note : what the numbers may have been taken for by mistake, and the key that says otherwise
    """

    array: np.ndarray
    banded: bool = False
    nodata: float | None = None
    tags: dict[int, Any] = field(default_factory=dict)
    place: Georeference | None = None
    note: str = ""


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
    return _plain(np.load(path, allow_pickle=False), banded)


def _plain(array, banded):
    """An array that does not say what its axes are."""
    note = ""
    if not banded and array.ndim == 3 and array.shape[2] in COLOURS and min(array.shape[:2]) > max(COLOURS):
        n = array.shape[2]
        note = f"its last axis is taken for {n} planes of a volume; image.band = 1 to {n} takes it for bands"
    return FileContents(array, banded and array.ndim > 2, note=note)


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
    return _plain(reading.read_array(path, dataset), banded)


def _read_picture(path, dataset, banded):
    with optional("PIL.Image", "images", path).open(path) as picture:
        memory.require(str(path), (*picture.size, len(picture.getbands())), np.uint8, copies=2)
        indices, note = picture.mode == "P", ""
        if indices and banded:
            picture, indices = picture.convert("RGB"), False
        array = np.asarray(picture)
        if indices and not _grey(picture):
            note = (
                "its pixels are taken for numbers, the indices of a palette; image.band = 1, 2 or 3 takes "
                "the red, green or blue of its colours"
            )
    return FileContents(array, banded=array.ndim == 3, note=note)


def _grey(picture):
    """Whether a palette has every index in its own grey, so that index and brightness are the same."""
    colours = np.reshape(picture.getpalette("RGB"), (-1, 3))
    return bool((colours == np.arange(len(colours))[:, None]).all())


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
    return FileContents(array, bool(others), _tiff_nodata(nodata), found, of_tags(found))


def _tiff_nodata(text):
    return None if text is None else float(str(text).strip("\0 "))


def _read_nifti(path, dataset, banded):
    file = optional("nibabel", "nifti", path).load(path)
    stored = file.dataobj
    memory.require(str(path), stored.shape, stored.dtype)
    array = np.asarray(stored)
    # Without a code the affine is none of the file's, but made up from the size of its voxels.
    placed = any(int(file.header[code]) > 0 for code in ("sform_code", "qform_code"))
    return FileContents(array, banded=array.ndim == 4, place=of_affine(file.affine) if placed else None)


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
