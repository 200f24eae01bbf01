"""Where the pixels of a file lie, on the earth or in space, and whether two files lie in the same place.

A GeoTIFF says it by a coordinate reference system (CRS), its GeoKeys, and a transform from row and column to
coordinates: a pixel scale with a tie point, or a matrix.  A NIfTI file has the affine of its voxels.  A file
that says nothing contradicts no other.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SCALE, TIE_POINTS, TRANSFORMATION, KEYS, DOUBLES = 33550, 33922, 34264, 34735, 34736
# GeoKeys: pixels are areas or points (half a pixel apart), and the systems that have a number of the EPSG.
RASTER, IS_POINT, GEOGRAPHIC, PROJECTED, OF_USER = 1025, 2, 2048, 3072, 32767
# Two files lie in the same place where no corner is farther off than this part of a pixel.
NEAR = 0.01


@dataclass(frozen=True, eq=False)
class Georeference:
    """matrix : (d, d + 1) from the indices of a pixel, row and column first, and 1 to its coordinates

    system : of a GeoTIFF, the numbers of the GeoKeys that are no text
    name   : what a user knows the matrix by
    """

    matrix: np.ndarray
    system: dict[int, Any] = field(default_factory=dict)
    name: str = "transform"

    def shifted(self, offset: tuple[int, ...]) -> "Georeference":
        """That of the part of the image that begins at this pixel."""
        matrix = self.matrix.copy()
        for axis, start in enumerate(offset[: matrix.shape[1] - 1]):
            matrix[:, -1] += start * matrix[:, axis]
        return Georeference(matrix, self.system, self.name)

    def unlike(self, other: "Georeference", shape: tuple[int, ...]) -> str:
        """How another file of this shape lies elsewhere, with what both say; "" where it does not."""
        both = self.system.keys() & other.system.keys() - {RASTER}
        if any(self.system[key] != other.system[key] for key in both):
            return f"has the CRS {other.crs}, the image {self.crs}"
        if self.matrix.shape != other.matrix.shape:
            return ""
        sides = (*shape, 1)[: self.matrix.shape[1] - 1]
        ends = np.array(np.meshgrid(*((0.0, float(n)) for n in sides)))
        corners = np.concatenate([ends.reshape(len(ends), -1), np.ones((1, ends[0].size))])
        apart = ((self.matrix - other.matrix)[:, :, None] * corners).sum(axis=1)
        pixel = np.sqrt((self.matrix[:, :-1] * self.matrix[:, :-1]).sum(axis=0)).min()
        if np.abs(apart).max() <= NEAR * pixel:
            return ""
        return f"has the {self.name} {_rows(other.matrix)}, the image {_rows(self.matrix)}"

    @property
    def crs(self) -> str:
        """The CRS in words."""
        for key in (PROJECTED, GEOGRAPHIC):
            if self.system.get(key, OF_USER) != OF_USER:
                return f"EPSG:{self.system[key]}"
        return f"with the GeoKeys {self.system}"


def _rows(matrix):
    return [[float(f"{value:.10g}") for value in row] for row in matrix]


def of_tags(tags: dict[int, Any]) -> Georeference | None:
    """The place that the tags of a TIFF file say, if they do."""
    if TRANSFORMATION in tags:
        whole = np.reshape(np.asarray(tags[TRANSFORMATION], dtype=np.float64), (4, 4))
        matrix = whole[:2][:, [1, 0, 3]]
    elif SCALE in tags and len(tags.get(TIE_POINTS, ())) == 6:
        (x_step, y_step, *_), (i, j, _, x, y, _) = tags[SCALE], tags[TIE_POINTS]
        matrix = np.array([[0.0, x_step, x - i * x_step], [-y_step, 0.0, y + j * y_step]])
    else:
        return None
    system = _numbers(tags)
    if system.get(RASTER) == IS_POINT:
        matrix[:, 2] -= 0.5 * (matrix[:, 0] + matrix[:, 1])
    return Georeference(matrix, system)


def _numbers(tags: dict[int, Any]) -> dict[int, Any]:
    """The GeoKeys that are numbers: a header of 4, then (key, where, how many, value or place) for each."""
    keys, doubles = [int(n) for n in np.ravel(tags.get(KEYS, ()))], np.ravel(tags.get(DOUBLES, ()))
    found: dict[int, Any] = {}
    for key, where, count, value in zip(keys[4::4], keys[5::4], keys[6::4], keys[7::4]):
        if where == 0:
            found[key] = value
        elif where == DOUBLES:
            found[key] = tuple(float(each) for each in doubles[value : value + count])
    return found


def of_affine(affine: np.ndarray) -> Georeference:
    """The place of a volume whose voxels have this affine (4, 4)."""
    return Georeference(np.asarray(affine, dtype=np.float64)[:3], name="affine")
