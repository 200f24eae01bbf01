"""Where the Potts model on a lattice orders: beta_crit, and whether S(z) jumps there."""

import math

from .. import arithmetic
from ..lattice import GRAPH, Lattice

# exp(beta_crit) - 1 = a * k**b.  Exact for the plane with first-order neighbours (Potts 1952: sqrt(k)); for
# the others through the known Ising point (k = 2), with b from k = 3 where it is known: only to place a grid.
_TRANSITION = {
    (2, "first"): (1.0, 0.5),
    (2, "second"): (0.316, 0.55),
    (3, "first"): (0.349, 0.678),
    (3, "18"): (0.079, 0.8),
    (3, "second"): (0.0499, 0.85),
}

# Neighbours: the Bethe lattice of 2 is a chain, which orders nowhere.
FEWEST = 2.5


def _triangular(labels):
    """exp(beta_crit) - 1 = v of the hexagonal plane, exactly: v**3 + 3 v**2 = k (Baxter and others 1978)."""
    v = math.sqrt(labels)
    for _ in range(60):
        # Newton's steps from above, until rounding is all that is left.
        v -= (v * v * (v + 3.0) - labels) / (3.0 * v * (v + 2.0))
    return v


def transition(lattice: Lattice, labels: int) -> float:
    """beta_crit: exact in the plane with 4 neighbours, log(1 + sqrt(k)), and with 6; else an estimate."""
    mean = 2.0 * lattice.edges / lattice.sites
    return transition_of(lattice.dimensions, lattice.neighbourhood, mean, labels)


def transition_of(dimensions: int, neighbourhood: str, mean: float, labels: int) -> float:
    """The same, by the mean number of neighbours of a pixel, which only a graph's depends on.

    A graph's is that of the Bethe lattice with d neighbours, exp(beta_crit) - 1 = k / (d - 2), beyond which
    the disordered phase is not stable; with d the mean, and at least `FEWEST`: only to place a grid.
    """
    if neighbourhood == "hexagonal":
        return arithmetic.log1p(_triangular(labels))
    if neighbourhood == GRAPH:
        return arithmetic.log1p(labels / (max(mean, FEWEST) - 2.0))
    a, b = _TRANSITION[dimensions, neighbourhood]
    power = math.sqrt(labels) if b == 0.5 else arithmetic.power(float(labels), b)
    return arithmetic.log1p(a * power)


def first_order(lattice: Lattice, labels: int) -> bool:
    """Whether S jumps at beta_crit, so that chains from different starts may not meet."""
    return first_order_of(lattice.dimensions, labels)


def first_order_of(dimensions: int, labels: int) -> bool:
    """The same, by the number of dimensions."""
    return labels > (4 if dimensions == 2 else 2)
