"""Maps of the labels in the format of the image, GeoTIFF, PNG or NIfTI, with its place on earth or in space.

Those of the samples of a graph are columns of numbers, CSV.

Three maps of every pixel i, from the probabilities p_j that it has label j:

    labels       the most probable label, numbered 1..k by ascending mean; 0 where masked
    entropy      - sum_j p_j log2 p_j in bits, from 0 (certain) to log2 k (nothing known)
    probability  max_j p_j, of the label that the first map shows

A cropped image begins inside its file, so its origin is shifted by the crop: X + c s_x and Y - r s_y for a
tie point with pixel scale s, and M T(c, r) for a transformation M.
"""

import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import arithmetic
from ..io import files
from .pixels import Image
from .readers import NODATA_TAG, optional

# Dark to light, so that the labels' order survives printing in grey (viridis at ninths of its length).
_ANCHORS = np.array(
    [
        (68, 1, 84),
        (71, 44, 122),
        (59, 81, 139),
        (44, 113, 142),
        (33, 144, 141),
        (39, 173, 129),
        (92, 200, 99),
        (170, 220, 50),
        (253, 231, 37),
    ],
    dtype=np.float64,
)
# TIFF tags and types: their numbers in the TIFF 6.0 and GeoTIFF specifications.
SCALE, TIE_POINTS, TRANSFORMATION = 33550, 33922, 34264
_ASCII, _SHORT, _DOUBLE = 2, 3, 12
_TYPES = {SCALE: _DOUBLE, TIE_POINTS: _DOUBLE, TRANSFORMATION: _DOUBLE}
_TYPES |= {34735: _SHORT, 34736: _DOUBLE, 34737: _ASCII}


@dataclass(frozen=True, eq=False)
class Maps:
    """labels: uint8 1..k, 0 where masked; entropy (bits) and probability: float32, nan where masked, or None
    where the labels were observed."""

    labels: np.ndarray
    count: int
    entropy: np.ndarray | None = None
    probability: np.ndarray | None = None

    def items(self) -> list[tuple[str, np.ndarray]]:
        """(name, values) of the maps that there are, in the order in which they are written."""
        named = [("labels", self.labels), ("entropy", self.entropy), ("probability", self.probability)]
        return [(name, values) for name, values in named if values is not None]


def entropy(probability: np.ndarray) -> np.ndarray:
    """The entropy of every pixel in bits, (...,) float32, from its probabilities (..., k)."""
    p = np.asarray(probability, dtype=np.float64)
    # A label that never occurred contributes nothing; + 0 turns the negative zero of certainty positive.
    bits = p * arithmetic.log(np.where(p > 0.0, p, 1.0)) / arithmetic.log(2.0)
    return (-bits.sum(axis=-1) + 0.0).astype(np.float32)


def colours(labels: int) -> np.ndarray:
    """(k, 3) uint8: a colour for each label, from dark to light."""
    where = np.linspace(0.0, len(_ANCHORS) - 1.0, labels)
    channels = [arithmetic.interp(where, np.arange(len(_ANCHORS)), channel) for channel in _ANCHORS.T]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def write_maps(maps: Maps, image: Image | None, directory: Path) -> list[Path]:
    """Write the maps into `directory`, each whole or not at all; returns the files."""
    name = "" if image is None else image.source.name.lower()
    if maps.labels.ndim == 1:
        ending, encode = ".csv", _csv
    elif maps.labels.ndim == 3 or name.endswith((".nii", ".nii.gz")):
        ending, encode = ".nii.gz", _nifti
    elif name.endswith((".tif", ".tiff")):
        ending, encode = ".tif", _tiff
    else:
        ending, encode = ".png", _png
    written = []
    for name, values in maps.items():
        path = directory / f"{name}{ending}"
        files.write_bytes(path, encode(path, values, maps.count, image))
        written.append(path)
    return written


def _csv(path, values, count, image):
    """One number in a line: labels as integers, others to the digits that float32 has."""
    form = "d" if values.dtype == np.uint8 else ".9g"
    return "".join(f"{value:{form}}\n" for value in values.tolist()).encode()


def shifted(tags: dict[int, Any], offset: tuple[int, ...]) -> dict[int, Any]:
    """Georeference tags of the part of an image that begins at row and column `offset`."""
    row, column = offset[:2]
    moved = dict(tags)
    if TRANSFORMATION in tags:
        shift = np.eye(4)
        shift[:2, 3] = column, row
        matrix = np.array(tags[TRANSFORMATION], dtype=np.float64).reshape(4, 4)
        matrix = arithmetic.product(matrix, shift)
        moved[TRANSFORMATION] = tuple(matrix.ravel().tolist())
    if TIE_POINTS in tags:
        points = np.array(tags[TIE_POINTS], dtype=np.float64).reshape(-1, 6)
        if SCALE in tags and len(points) == 1:
            points[0, 3] += column * tags[SCALE][0]
            points[0, 4] -= row * tags[SCALE][1]
        else:
            points[:, :2] -= column, row
        moved[TIE_POINTS] = tuple(points.ravel().tolist())
    return moved


def _tiff(path, values, count, image):
    """A GeoTIFF: labels with a colour table and nodata 0, numbers with nodata nan."""
    tifffile = optional("tifffile", "geotiff", path)
    named = values.dtype == np.uint8
    tags = [(NODATA_TAG, _ASCII, 0, "0" if named else "nan", True)]
    for code, value in shifted(image.tags, image.offset).items():
        length = 0 if _TYPES[code] == _ASCII else len(value)
        tags.append((code, _TYPES[code], length, value, True))
    # TIFF counts colours from 0 to 65535.
    table = {"photometric": "palette", "colormap": _palette(count).T.astype(np.uint16) * 257}
    settings = table if named else {"photometric": "minisblack"}
    buffer = io.BytesIO()
    # metadata=None: no description of tifffile's own, which would say nothing to other programs.
    tifffile.imwrite(buffer, values, compression="zlib", extratags=tags, metadata=None, **settings)
    return buffer.getvalue()


def _palette(count):
    """(256, 3) uint8: white for masked pixels and for numbers that are no label."""
    table = np.full((256, 3), 255, dtype=np.uint8)
    table[1 : count + 1] = colours(count)
    return table


def _png(path, values, count, image):
    """Labels by a colour table, their numbers kept; numbers as grey, from 0 to the largest possible."""
    pictures = optional("PIL.Image", "images", path)
    buffer = io.BytesIO()
    if values.dtype == np.uint8:
        picture = pictures.fromarray(values)
        picture.putpalette(_palette(count).ravel().tolist())
        picture.save(buffer, format="png", transparency=0)
    else:
        largest = arithmetic.log(count) / arithmetic.log(2.0) if path.stem == "entropy" else 1.0
        layers = np.empty((*values.shape, 2), np.uint8)
        for row, (grey, opaque) in zip(values, np.moveaxis(layers, -1, 1)):
            exists = ~np.isnan(row)
            grey[...] = np.where(exists, np.clip(row / largest, 0.0, 1.0) * 255.0, 0.0).round()
            opaque[...] = np.where(exists, 255, 0)
        pictures.fromarray(layers).save(buffer, format="png")
    return buffer.getvalue()


def _nifti(path, values, count, image):
    """A volume where its source stands: the affine of the NIfTI file, else that of voxel numbers."""
    nibabel = optional("nibabel", "nifti", path)
    made, affine, header = nibabel.Nifti1Image, np.eye(4), None
    offset = (0, 0, 0) if image is None else (*image.offset, 0)[:3]
    if image is not None and image.source.name.lower().endswith((".nii", ".nii.gz")):
        source = nibabel.load(image.source)
        made, affine, header = type(source), source.affine.copy(), source.header.copy()
        header.set_data_dtype(values.dtype)
        header["cal_min"], header["cal_max"] = 0.0, 0.0
    affine[:3, 3] += arithmetic.product(affine[:3, :3], np.array(offset, dtype=np.float64))
    volume = made(values.reshape(*values.shape, 1) if values.ndim == 2 else values, affine, header)
    # No time of writing in the header: equal maps are equal bytes.
    return gzip.compress(volume.to_bytes(), mtime=0)
