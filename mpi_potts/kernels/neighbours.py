"""The neighbours of single sites, one after the other: for what looks at sites once, not sweep after sweep.

The labels of a lattice lie in a flat array padded by one layer on every side, 255 where no pixel exists, so
that the neighbours of a place are at constant offsets; in a hexagonal plane they depend on the parity of the
row.  Those of a graph are not padded, and every place has offsets of its own.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..graph import Graph
from ..lattice import Lattice
from ..slabs import rows_of, slabs


class Neighbours(NamedTuple):
    """Where the sites of a lattice are in a padded flat array, and their neighbours from there.

    The kind of a place is (place // width + shift) & mask: the parity of its row, or the place itself.
    """

    sites: np.ndarray  # (n,) uint32 places of the sites that exist, in raster order
    offsets: np.ndarray  # uint64 from the places of the first kind, the second, ...
    start: np.ndarray  # (kinds + 1,) int64 where the offsets of each kind begin
    most: int  # the largest number of neighbours
    width: int  # the number of places of a row
    shift: int
    mask: int


def neighbours(lattice: Lattice, step: int = 1) -> Neighbours:
    """The neighbours on a lattice or in a graph, of every `step`-th site that exists."""
    if isinstance(lattice, Graph):
        found = _of_graph(lattice)
        return found._replace(sites=np.ascontiguousarray(found.sites[::step]))
    return _on_rows(lattice, lattice.exists, _places(lattice.exists, step))


def by_slabs(lattice: Lattice) -> Iterator[tuple[slice, Neighbours]]:
    """The rows of a lattice by slabs, and of each the neighbours of its sites but those in its last row,
    which is the first of the next slab; a graph is one slab.

    Whoever looks at later neighbours sees every pair once and all sites in order, and needs no copy of the
    whole image.
    """
    if isinstance(lattice, Graph):
        yield slice(0, lattice.shape[0]), _of_graph(lattice)
        return
    exists = lattice.exists
    # Even, so that a row has its parity in its slab.
    rows = 2 * rows_of(2 * exists.size // len(exists))
    for first in range(0, len(exists), rows):
        here = exists[first : first + rows + 1]
        yield slice(first, first + rows + 1), _on_rows(lattice, here, _places(here[:rows]))


def _places(exists, step=1):
    """(n,) uint32 places in the padded array of every `step`-th site, by few rows at a time."""
    beside = [(0, 0)] + [(1, 1)] * (exists.ndim - 1)
    row = math.prod(n + 2 for n in exists.shape[1:])
    found, before = [], 0
    for rows in slabs(len(exists), row):
        sites = np.flatnonzero(np.pad(exists[rows], beside)) + (rows.start + 1) * row
        found.append(sites[-before % step :: step].astype(np.uint32))
        before += sites.size
    return np.concatenate(found)


def _on_rows(lattice, exists, sites):
    """The neighbours of sites of some rows of a lattice."""
    shape = [n + 2 for n in exists.shape]
    strides = np.array([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    offsets = [(lattice.offsets(row) * strides).sum(axis=1) for row in range(2)]
    most = len(offsets[0])
    # The padding's row before the first is odd.
    start, row = np.array([0, most, 2 * most]), {"width": shape[-1], "shift": 1, "mask": 1}
    return Neighbours(sites, np.concatenate(offsets).view(np.uint64), start, most, **row)


def _of_graph(graph):
    start, near = graph.adjacency
    offsets = near - np.repeat(np.arange(start.size - 1), np.diff(start))
    sites = np.flatnonzero(graph.exists).astype(np.uint32)
    place = {"width": 1, "shift": 0, "mask": 2**32 - 1}
    return Neighbours(sites, offsets.astype(np.int64).view(np.uint64), start, graph.most, **place)


def pad(image: np.ndarray, exists: np.ndarray, fill: float) -> np.ndarray:
    """An image as the flat array, `fill` where no pixel exists."""
    inside = np.where(exists, image, image.dtype.type(fill))
    return np.pad(inside, 1, constant_values=fill).ravel() if image.ndim > 1 else inside


def unpad(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The image of this shape in a flat array that `pad` made."""
    if len(shape) == 1:
        return flat
    padded = flat.reshape([n + 2 for n in shape])
    return padded[tuple(slice(1, -1) for _ in shape)]


@njit(inline="always")
def offsets_at(neighbours, place):
    """The offsets from a place."""
    row = place // uint64(neighbours.width)
    kind = (row + uint64(neighbours.shift)) & uint64(neighbours.mask)
    return neighbours.offsets[neighbours.start[kind] : neighbours.start[kind + uint64(1)]]
