"""The neighbours of single sites, one after the other: for what looks at sites once, not sweep after sweep.

The labels of a lattice lie in a flat array padded by one layer on every side, 255 where no pixel exists, so
that the neighbours of a place are at constant offsets; in a hexagonal plane they depend on the parity of the
row.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..lattice import Lattice


class Neighbours(NamedTuple):
    """Where the sites of a lattice are in a padded flat array, and their neighbours from there."""

    sites: np.ndarray  # (n,) uint32 places of the sites that exist, in raster order
    offsets: np.ndarray  # (2, d) uint64 from the places of even and of odd rows
    width: int  # the number of places of a row


def neighbours(lattice: Lattice) -> Neighbours:
    """The neighbours on a lattice."""
    shape = [n + 2 for n in lattice.shape]
    strides = np.array([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    offsets = [(lattice.offsets(row) * strides).sum(axis=1) for row in range(2)]
    sites = np.flatnonzero(np.pad(lattice.exists, 1)).astype(np.uint32)
    return Neighbours(sites, np.array(offsets).view(np.uint64), shape[-1])


def pad(image: np.ndarray, exists: np.ndarray, fill: float) -> np.ndarray:
    """An image as the flat array, `fill` where no pixel exists."""
    return np.pad(np.where(exists, image, image.dtype.type(fill)), 1, constant_values=fill).ravel()


@njit(inline="always")
def offsets_at(neighbours, place):
    """The offsets from a place; the padding's row before the first is odd."""
    return neighbours.offsets[(place // uint64(neighbours.width) + uint64(1)) & uint64(1)]
