"""The lattice: which pixels exist, which are neighbours, which can be updated together.

A lattice has free boundaries in two or three dimensions.  `first`-order neighbours differ by one step along
one axis (4 in a plane, 6 in a volume); `second`-order neighbours differ by at most one step along every axis
(8 and 26).  A mask leaves pixels out: they have no label, and their edges do not count.
"""

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from . import arithmetic
from .errors import InputError

NEIGHBOURHOODS = ("first", "second")

# exp(beta_crit) - 1 = a * k**b.  Exact for the plane with first-order neighbours (Potts 1952: sqrt(k)); for
# the others through the known Ising point (k = 2), with b from k = 3 where it is known: only to place a grid.
_TRANSITION = {
    (2, "first"): (1.0, 0.5),
    (2, "second"): (0.316, 0.55),
    (3, "first"): (0.349, 0.678),
    (3, "second"): (0.0499, 0.85),
}


def half_offsets(dimensions: int, neighbourhood: str) -> np.ndarray:
    """(h, dimensions) int steps to the neighbours that follow in raster order: every edge once."""
    steps = [step for step in product((-1, 0, 1), repeat=dimensions) if step > (0,) * dimensions]
    if neighbourhood == "first":
        steps = [step for step in steps if sum(map(abs, step)) == 1]
    return np.array(steps, dtype=np.int64)


def pairs(array: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two views of `array`: every site with a neighbour at `step` inside the array, and that neighbour."""
    near = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, array.shape))
    far = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, array.shape))
    return array[near], array[far]


@dataclass(frozen=True, eq=False)
class Lattice:
    """Shape (2 or 3 dimensions), neighbourhood, and mask (True where the pixel exists; None for all)."""

    shape: tuple[int, ...]
    neighbourhood: str = "first"
    mask: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        shape = tuple(int(n) for n in self.shape)
        object.__setattr__(self, "shape", shape)
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise InputError(f"image.shape = {list(shape)}: 2 or 3 positive numbers are accepted")
        if self.neighbourhood not in NEIGHBOURHOODS:
            raise InputError(
                f"model.neighbourhood = {self.neighbourhood!r}: one of {NEIGHBOURHOODS} is accepted"
            )
        if self.mask is not None:
            # A copy: the digest must not change behind a caller's array.
            self._set_mask(np.array(self.mask, dtype=bool, order="C"))
        if self.edges == 0:
            raise InputError("the lattice has no pair of neighbours: at least two adjacent pixels must exist")

    def _set_mask(self, mask):
        if mask.shape != self.shape:
            raise InputError(f"the mask has shape {list(mask.shape)}, the lattice {list(self.shape)}")
        object.__setattr__(self, "mask", None if mask.all() else mask)

    @property
    def dimensions(self) -> int:
        return len(self.shape)

    @property
    def first_order_plane(self) -> bool:
        """The paper's lattice, with or without a mask: it has kernels of its own."""
        return self.dimensions == 2 and self.neighbourhood == "first"

    @cached_property
    def exists(self) -> np.ndarray:
        """The mask as an array of bool, also where every pixel exists."""
        return np.ones(self.shape, dtype=bool) if self.mask is None else self.mask

    @cached_property
    def sites(self) -> int:
        """The number n of pixels that exist."""
        return math.prod(self.shape) if self.mask is None else int(self.mask.sum())

    @cached_property
    def half_offsets(self) -> np.ndarray:
        return half_offsets(self.dimensions, self.neighbourhood)

    @cached_property
    def edges(self) -> int:
        """The number of neighbour pairs |E|."""
        if self.mask is None:
            return sum(
                math.prod(n - abs(int(s)) for n, s in zip(self.shape, step)) for step in self.half_offsets
            )
        return sum(int(np.logical_and(*pairs(self.mask, step)).sum()) for step in self.half_offsets)

    @cached_property
    def colours(self) -> np.ndarray:
        """uint8 colour of every site, shared by no neighbours: 2 colours first-order, 4 or 8 second-order."""
        index = np.indices(self.shape, sparse=True)
        if self.neighbourhood == "first":
            return (sum(index) % 2).astype(np.uint8)
        return sum((i % 2) << d for d, i in enumerate(index)).astype(np.uint8)

    @cached_property
    def digest(self) -> str:
        """64 hex digits that identify shape, neighbourhood and mask."""
        head = f"lattice 1 {'x'.join(map(str, self.shape))} {self.neighbourhood} ".encode()
        bits = b"full" if self.mask is None else np.packbits(self.mask).tobytes()
        return hashlib.sha256(head + bits).hexdigest()

    def statistic(self, labels: np.ndarray) -> int:
        """S(z), the number of like neighbour pairs (paper, equation 8), by the definition."""
        total = 0
        for step in self.half_offsets:
            here, there = pairs(labels, step)
            like = here == there
            if self.mask is not None:
                like &= np.logical_and(*pairs(self.mask, step))
            total += int(like.sum())
        return total

    def transition(self, labels: int) -> float:
        """beta_crit: exactly log(1 + sqrt(k)) in the plane with first-order neighbours, else an estimate."""
        a, b = _TRANSITION[self.dimensions, self.neighbourhood]
        power = math.sqrt(labels) if b == 0.5 else arithmetic.power(float(labels), b)
        return arithmetic.log1p(a * power)

    def first_order_transition(self, labels: int) -> bool:
        """Whether S jumps at beta_crit, so that chains from different starts may not meet."""
        return labels > (4 if self.dimensions == 2 else 2)
