"""A graph of a user's own: samples, numbered from 0, and which pairs of them are neighbours.

It takes the place of a lattice of one dimension.  A mask leaves samples out, with their edges.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from .errors import InputError
from .lattice import GRAPH, Lattice

# exp(beta n), n the number of neighbours of a sample, must be a number.
LARGEST_POWER = 700.0


class Graph(Lattice):
    """n samples; ends (m, 2), integers: the pairs of neighbours, each counted once however often it is given.

    `ends` is then (edges of all samples, 2) int64, the smaller number first, in ascending order.
    """

    ends: np.ndarray

    def __init__(self, samples: int, ends: np.ndarray, mask: np.ndarray | None = None):
        object.__setattr__(self, "ends", _checked(int(samples), np.asarray(ends)))
        super().__init__((samples,), GRAPH, mask)

    def _name(self):
        return GRAPH

    @property
    def small(self) -> "Graph":
        """A few samples in a row."""
        return Graph(16, np.stack([np.arange(15), np.arange(1, 16)], axis=1))

    @cached_property
    def half_offsets(self) -> np.ndarray:
        """There are none."""
        raise TypeError("the neighbours in a graph are not at constant steps")

    def offsets(self, row: int = 0) -> np.ndarray:
        """There are none."""
        return self.half_offsets

    def pairs(self, array: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The two ends of all edges, each once; copies."""
        yield array[self.ends[:, 0]], array[self.ends[:, 1]]

    def neighbour_sums(self, array: np.ndarray) -> np.ndarray:
        """For every sample the sum over its neighbours, masked or not, in float64."""
        n, (one, other) = self.shape[0], self.ends.T
        sums = (np.bincount(a, weights=array[b], minlength=n) for a, b in ((one, other), (other, one)))
        return sum(sums, np.zeros(n))

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """(n + 1,) where the neighbours of each sample begin, and (2 edges,) the neighbours, ascending."""
        both = np.concatenate([self.ends, self.ends[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        return np.searchsorted(both[:, 0], np.arange(self.shape[0] + 1)), both[:, 1]

    @cached_property
    def most(self) -> int:
        """The largest number of neighbours that a sample has."""
        return int(np.diff(self.adjacency[0]).max())

    @cached_property
    def colours(self) -> np.ndarray:
        """(n,) int32: of each sample in turn the first colour that none of its neighbours before it has."""
        start, near = (array.tolist() for array in self.adjacency)
        colours: list[int] = []
        for i in range(self.shape[0]):
            taken = {colours[j] for j in near[start[i] : start[i + 1]] if j < i}
            colours.append(next(c for c in range(i + 1) if c not in taken))
        return np.array(colours, dtype=np.int32)

    @cached_property
    def digest(self) -> str:
        """64 hex digits that identify samples, edges and mask."""
        head = f"graph 1 {self.shape[0]} {len(self.ends)} ".encode()
        bits = b"full" if self.mask is None else np.packbits(self.mask).tobytes()
        return hashlib.sha256(head + self.ends.astype("<i8").tobytes() + bits).hexdigest()


def _checked(samples, ends):
    """The edges in order, each once; what is no graph is refused by the first pair that is wrong."""
    if samples < 1:
        raise InputError(f"a graph of {samples} samples: 1 or more are accepted")
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iuf":
        raise InputError(
            f"has shape {list(ends.shape)} of {ends.dtype}; pairs of integers (m, 2) are accepted"
        )
    _refuse(ends, ends != np.floor(ends), "integers are accepted")
    _refuse(ends, (ends < 0) | (ends >= samples), f"samples have the numbers 0 to {samples - 1}")
    whole = ends.astype(np.int64)
    _refuse(whole, whole[:, :1] == whole[:, 1:], "a sample is no neighbour of its own")
    smaller, larger = whole.min(axis=1), whole.max(axis=1)
    return np.stack(np.divmod(np.unique(smaller * samples + larger), samples), axis=1)


def _refuse(ends, wrong, why):
    rows = np.flatnonzero(wrong.any(axis=1))
    if rows.size:
        raise InputError(f"pair {rows[0]} is {ends[rows[0]].tolist()}: {why}")
