"""The lattice: which pixels exist, which are neighbours, which can be updated together.

A lattice has free boundaries in two or three dimensions.  `first`-order neighbours differ by one step along
one axis (4 in a plane, 6 in a volume); `second`-order neighbours differ by at most one step along every axis
(8 and 26); between them, in a volume, 18 differ in one or two axes.  The numbers of neighbours are names too.

A `hexagonal` plane has its odd rows (counted from 0) shifted to the right by half a pixel.  A pixel has six
neighbours: two in its row, and in the rows above and below those of its own column and of the column before
it (even rows) or after it (odd rows): six of the eight, by the parity of the row.

A mask leaves pixels out: they have no label, and their edges do not count.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from .errors import InputError

# What may be written for a neighbourhood: names, and numbers of neighbours, of which each has its dimensions.
NEIGHBOURHOODS = ("first", "second", "hexagonal")
NUMBERS = (4, 6, 8, 18, 26)
# The name of the neighbourhood of a graph, which is in no list of choices: see `graph.Graph`.
GRAPH = "graph"
# In an image of labels, uint8: a pixel that does not exist.  Labels are 0..k-1 with k at most 255.
MASKED = 255
# The largest beta accepted: every label of a state is then frozen, and exp(26 beta) is still a finite number.
LARGEST_BETA = 25.0

# By dimensions and what may be written for it; the names on the right are in digests and files.
_NAMES = {
    2: {"first": "first", "4": "first", "second": "second", "8": "second", "hexagonal": "hexagonal"},
    3: {"first": "first", "6": "first", "18": "18", "second": "second", "26": "second"},
}

_WORDS = {
    "first": "first-order neighbours",
    "second": "second-order neighbours",
    "hexagonal": "hexagonal neighbours",
    "18": "18 neighbours",
    GRAPH: "neighbours by a graph",
}

# How many axes the steps to neighbours may differ in, where it is not all.
_AXES = {"first": 1, "18": 2}


def half_offsets(dimensions: int, neighbourhood: str, row: int = 0) -> np.ndarray:
    """(h, dimensions) int steps to the neighbours that follow in raster order: every edge once.

    Those of a hexagonal plane depend on the parity of the row that they begin in.
    """
    steps = [step for step in product((-1, 0, 1), repeat=dimensions) if step > (0,) * dimensions]
    axes = _AXES.get(neighbourhood, dimensions)
    steps = [step for step in steps if sum(map(abs, step)) <= axes]
    if neighbourhood == "hexagonal":
        steps.remove((1, -1) if row % 2 else (1, 1))
    return np.array(steps, dtype=np.int64)


def pairs(array: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two views of `array`: every site with a neighbour at `step` inside the array, and that neighbour."""
    near = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, array.shape))
    far = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, array.shape))
    return array[near], array[far]


def degree(dimensions: int, neighbourhood: str, sites: int, edges: int) -> float:
    """The number of neighbours of a pixel that has them all; in a graph their mean, rounded up."""
    if neighbourhood == GRAPH:
        return float(max(1, -(-2 * edges // sites)))
    return 2.0 * len(half_offsets(dimensions, neighbourhood))


def in_words(neighbourhood: str) -> str:
    """What the neighbours are, for those who read."""
    return _WORDS[neighbourhood]


@dataclass(frozen=True, eq=False)
class Lattice:
    """Shape (2 or 3 dimensions), neighbourhood, and mask (True where the pixel exists; None for all).

    In place of the neighbourhood's name its number of neighbours may be given; it becomes the name.
    """

    shape: tuple[int, ...]
    neighbourhood: str = "first"
    mask: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        shape = tuple(int(n) for n in self.shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "neighbourhood", self._name())
        if self.mask is not None:
            # A copy: the digest must not change behind a caller's array.
            self._set_mask(np.array(self.mask, dtype=bool, order="C"))
        if self.edges == 0:
            raise InputError("the lattice has no pair of neighbours: at least two adjacent pixels must exist")

    def _name(self):
        """The neighbourhood's name; what cannot be is refused."""
        if len(self.shape) not in _NAMES or min(self.shape) < 1:
            raise InputError(f"image.shape = {list(self.shape)}: 2 or 3 positive numbers are accepted")
        names = _NAMES[len(self.shape)]
        if str(self.neighbourhood) not in names:
            accepted = f"{', '.join(names)} are accepted in {len(self.shape)} dimensions"
            raise InputError(f"model.neighbourhood = {self.neighbourhood!r}: {accepted}")
        return names[str(self.neighbourhood)]

    def _set_mask(self, mask):
        if mask.shape != self.shape:
            raise InputError(f"the mask has shape {list(mask.shape)}, the lattice {list(self.shape)}")
        object.__setattr__(self, "mask", None if mask.all() else mask)

    @property
    def dimensions(self) -> int:
        """2 for an image, 3 for a volume; 1 for a graph."""
        return len(self.shape)

    @property
    def small(self) -> "Lattice":
        """A lattice of a few sites for which the same code is compiled."""
        return Lattice((4,) * self.dimensions, self.neighbourhood)

    @property
    def first_order_plane(self) -> bool:
        """The paper's lattice, with or without a mask: it has kernels of its own."""
        return self.dimensions == 2 and self.neighbourhood == "first"

    @cached_property
    def exists(self) -> np.ndarray:
        """The mask as an array of bool, also where every pixel exists."""
        return np.ones(self.shape, dtype=bool) if self.mask is None else self.mask

    def pixels(self, image: np.ndarray) -> np.ndarray:
        """(n,) of an array of the lattice's shape those that exist, in raster order; no copy where all do."""
        return image.reshape(-1) if self.mask is None else image[self.mask]

    @cached_property
    def sites(self) -> int:
        """The number n of pixels that exist."""
        return math.prod(self.shape) if self.mask is None else int(self.mask.sum())

    @cached_property
    def half_offsets(self) -> np.ndarray:
        """See the function; of a hexagonal plane those of even rows, so that only their number is of use."""
        return half_offsets(self.dimensions, self.neighbourhood)

    def offsets(self, row: int = 0) -> np.ndarray:
        """(d, dimensions) steps to all neighbours of a pixel, in a row of this parity."""
        ahead, other = (half_offsets(self.dimensions, self.neighbourhood, row + r) for r in range(2))
        # A step backwards is one ahead from the row where it ends.
        back = -np.concatenate([ahead[ahead[:, -2] == 0], other[other[:, -2] != 0]])
        return np.concatenate([ahead, back])

    def pairs(self, array: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Views of an array of the lattice's shape: the two ends of all edges inside the box, each once."""
        if self.neighbourhood != "hexagonal":
            yield from (pairs(array, step) for step in self.half_offsets)
            return
        for row in range(2):
            for step in half_offsets(2, "hexagonal", row):
                here, there = pairs(array, step)
                yield here[row::2], there[row::2]

    def neighbour_sums(self, array: np.ndarray) -> np.ndarray:
        """For every site the sum over its neighbours inside the box, masked or not."""
        out = np.zeros_like(array)
        for (here, there), (to_here, to_there) in zip(self.pairs(array), self.pairs(out)):
            to_here += there
            to_there += here
        return out

    @property
    def degree(self) -> float:
        """See the function."""
        return degree(self.dimensions, self.neighbourhood, self.sites, self.edges)

    @cached_property
    def edges(self) -> int:
        """The number of neighbour pairs |E|."""
        # A view of one byte has the shape of the box, and takes no memory.
        exists = np.broadcast_to(True, self.shape) if self.mask is None else self.mask
        if self.mask is None:
            return sum(here.size for here, _ in self.pairs(exists))
        return sum(int(np.logical_and(here, there).sum()) for here, there in self.pairs(exists))

    @cached_property
    def colours(self) -> np.ndarray:
        """uint8 colour of every site, shared by no neighbours: see `colour`."""
        return self.colour(np.indices(self.shape, sparse=True)).astype(np.uint8)

    def colour(self, index: Sequence[np.ndarray]) -> np.ndarray:
        """The colours of sites given by their indices: functions of the parities of the indices alone.

        2 colours first-order; 4 or 8 second-order, one for each class of parities; 4 with 18 neighbours,
        where sites that differ in every axis are none.  A hexagonal plane has 4 as well: three would do, but
        not by parities.
        """
        if self.neighbourhood == "first":
            return np.asarray(sum(index) % 2)
        parity = np.asarray(sum((i % 2) << d for d, i in enumerate(index)))
        return np.minimum(parity, 7 - parity) if self.neighbourhood == "18" else parity

    @cached_property
    def digest(self) -> str:
        """64 hex digits that identify shape, neighbourhood and mask."""
        head = f"lattice 1 {'x'.join(map(str, self.shape))} {self.neighbourhood} ".encode()
        bits = b"full" if self.mask is None else np.packbits(self.mask).tobytes()
        return hashlib.sha256(head + bits).hexdigest()

    def statistic(self, labels: np.ndarray) -> int:
        """S(z), the number of like neighbour pairs (paper, equation 8), by the definition."""
        there_is = self.pairs(self.exists)
        return sum(
            int(((here == there) & exists & exist).sum())
            for (here, there), (exists, exist) in zip(self.pairs(labels), there_is)
        )
