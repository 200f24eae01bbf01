"""Where the chequerboard kernels keep the labels of a first-order plane.

Four sublattices by the parities of row and column, each flat, in the order (row, column) = (0,0), (1,1),
(0,1), (1,0): the first two are colour 0, the others colour 1.  A sublattice has `width` = ceil(columns / 2) +
1 places a row, one of them padding, so that every neighbour of place p is at a constant offset:

    sublattice s    vertical neighbours, in sublattice 3 - s      horizontal neighbours, in sublattice s ^ 2
    row even        p - width, p                                  column even   p - 1, p
    row odd         p + width, p                                  column odd    p + 1, p

Labels are uint8; 255 stands on padding and on masked pixels, where it equals no label: that is the free
boundary.  The places of a sublattice are updated in blocks of `BLOCK`, the unit of all loops, random numbers
and sums, so that no result depends on how blocks are divided between calls, threads or ranks.
"""

from dataclasses import dataclass, field

import numpy as np

from ..lattice import MASKED, Lattice

BLOCK = 512

# (row parity, column parity) of the four sublattices.
PARITIES = ((0, 0), (1, 1), (0, 1), (1, 0))


@dataclass(frozen=True, eq=False)
class ChequerboardLayout:
    """The places of one lattice: `blocks` of them in each sublattice, after `guard` places of padding.

    absent : (4, places) uint8, 0 where a pixel exists and 255 elsewhere.
    """

    lattice: Lattice
    labels: int
    width: int
    height: int
    guard: int
    blocks: int
    absent: np.ndarray = field(repr=False)

    @property
    def geometry(self) -> tuple[int, int, int]:
        """What kernels need to find a place's neighbours."""
        return self.width, self.guard, self.blocks

    def place_of(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """The places of pixels, the four sublattices counted through."""
        sublattice = np.array([[0, 2], [3, 1]])[row % 2, column % 2]
        places = 2 * self.guard + self.blocks * BLOCK
        return sublattice * places + self.guard + row // 2 * self.width + column // 2

    def scatter(self, image: np.ndarray, fill: float) -> np.ndarray:
        """(4, places) array of an image in the order of the layout, `fill` where there is no pixel."""
        padded = np.full((2 * self.height, 2 * self.width), fill, dtype=image.dtype)
        rows, columns = self.lattice.shape
        padded[:rows, :columns] = np.where(self.lattice.exists, image, fill)
        planes = np.full((4, 2 * self.guard + self.blocks * BLOCK), fill, dtype=image.dtype)
        for plane, (row, column) in zip(planes, PARITIES):
            plane[self.guard : self.guard + self.height * self.width] = padded[row::2, column::2].ravel()
        return planes

    def gather(self, planes: np.ndarray) -> np.ndarray:
        """The image (rows, columns, ...) of an array (4, places, ...)."""
        rest = planes.shape[2:]
        padded = np.empty((2 * self.height, 2 * self.width, *rest), dtype=planes.dtype)
        for plane, (row, column) in zip(planes, PARITIES):
            used = plane[self.guard : self.guard + self.height * self.width]
            padded[row::2, column::2] = used.reshape(self.height, self.width, *rest)
        rows, columns = self.lattice.shape
        return np.ascontiguousarray(padded[:rows, :columns])


def layout(lattice: Lattice, labels: int) -> ChequerboardLayout:
    """The layout of a first-order plane with `labels` = k labels."""
    rows, columns = lattice.shape
    height, width = (rows + 1) // 2, (columns + 1) // 2 + 1
    # Neighbours of the first and last blocks lie within width + 1; whole cache lines keep blocks aligned.
    guard = -(-(width + 1) // 64) * 64
    blocks = -(-height * width // BLOCK)
    empty = ChequerboardLayout(lattice, labels, width, height, guard, blocks, np.empty((4, 0), np.uint8))
    absent = empty.scatter(np.zeros(lattice.shape, np.uint8), MASKED)
    return ChequerboardLayout(lattice, labels, width, height, guard, blocks, absent)


def from_labels(layout: ChequerboardLayout, labels: np.ndarray) -> np.ndarray:
    """The state, (4, places) uint8, of an image of labels; what stands on masked pixels does not matter."""
    return layout.scatter(np.asarray(labels, dtype=np.uint8), MASKED)


def to_labels(layout: ChequerboardLayout, state: np.ndarray) -> np.ndarray:
    """The image of labels, uint8, 255 where masked."""
    return layout.gather(state)
