"""Swendsen-Wang on every lattice beside the plane, in one table: python -m benchmarks.clusters.

Time per site that exists and sweep, S(z) included, at betas below, at and above each lattice's transition;
minima over interleaved rounds, and in brackets the multiple of the plane's at the same k and share.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mpi_potts.graph import Graph
from mpi_potts.kernels import swendsen_wang
from mpi_potts.lattice import Lattice
from mpi_potts.model.transition import transition
from mpi_potts.rng import Purpose, stream

SHARES = (0.7, 1.0, 1.3)
BOX = (91, 109, 91)


def brain_like(shape=BOX) -> np.ndarray:
    """A mask of a quarter of the box: an ellipsoid with folds, a fissure and two ventricles."""
    z, y, x = np.ogrid[tuple(slice(-1, 1, n * 1j) for n in shape)]
    radius = np.sqrt((z / 0.78) ** 2 + (y / 0.83) ** 2 + (x / 0.79) ** 2)
    inside = radius < 1 + 0.06 * np.sin(9 * np.arctan2(y, x)) * np.cos(14 * z)
    fissure = (np.abs(x) < 0.02) & (z > 0.2)
    ventricles = ((np.abs(x) - 0.16) / 0.1) ** 2 + (y / 0.3) ** 2 + ((z - 0.05) / 0.15) ** 2 < 1
    return inside & ~fissure & ~ventricles


def as_graph(lattice: Lattice) -> Graph:
    """The same neighbours, one edge at a time."""
    number = np.arange(math.prod(lattice.shape)).reshape(lattice.shape)
    ends = [np.stack([here.ravel(), there.ravel()], axis=1) for here, there in lattice.pairs(number)]
    return Graph(number.size, np.concatenate(ends))


def lattices() -> dict[str, Lattice]:
    """What is timed; the plane first."""
    found = {"plane, 4": Lattice((989, 989)), "plane 125x125, 4": Lattice((125, 125))}
    found |= {f"plane, {n}": Lattice((989, 989), n) for n in (8, "hexagonal")}
    found["hexagonal as a graph"] = as_graph(found["plane, hexagonal"])
    for n in (6, 18, 26):
        found[f"volume, {n}"] = Lattice(BOX, n)
        found[f"brain-like, {n}"] = Lattice(BOX, n, brain_like())
    return found


@dataclass
class Case:
    """One lattice, k and share of beta_crit, with the least time seen so far, in ns a site and sweep."""

    name: str
    sites: int
    k: int
    share: float
    advance: Callable = field(repr=False)
    first: int = 0
    best: float = math.inf

    def measure(self, count: int) -> None:
        # The thread's CPU time does not count what other jobs take of the machine.
        start = time.thread_time()
        self.advance(self.first, count)
        self.best = min(self.best, (time.thread_time() - start) / (count * self.sites) * 1e9)
        self.first += count


def prepare(name: str, lattice: Lattice, k: int, share: float, warm_up: int = 30) -> Case:
    """A chain from the side of the transition where beta lies, soon in equilibrium."""
    beta = share * transition(lattice, k)
    layout = swendsen_wang.layout(lattice, k)
    z = np.zeros(lattice.shape, dtype=np.uint8)
    if share <= 1:
        z = np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8)
    state, draws = swendsen_wang.from_labels(layout, z), stream(1, Purpose.PRIOR_SWEEP)

    def advance(first, count):
        swendsen_wang.sweeps(layout, state, beta, draws, first, count)

    advance(0, warm_up)
    return Case(name, lattice.sites, k, share, advance, first=warm_up)


def table(cases: list[Case]) -> list[str]:
    """Lines: lattice and k down, share of beta_crit across."""
    plane = {(case.k, case.share): case.best for case in cases if case.name == cases[0].name}
    rows: dict[tuple, list[str]] = {}
    for case in cases:
        cell = f"{case.best:7.2f} ({case.best / plane[case.k, case.share]:4.2f})"
        rows.setdefault((case.name, case.k, case.sites), []).append(cell)
    head = f"{'lattice':20s} {'sites':>8s} {'k':>3s} " + " ".join(
        f"{f'{s:g} beta_crit':>14s}" for s in SHARES
    )
    lines = ["Swendsen-Wang, ns per site and sweep (multiple of the plane's)", head, "-" * len(head)]
    return lines + [f"{name:20s} {n:8d} {k:3d} {' '.join(cells)}" for (name, k, n), cells in rows.items()]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters", description=__doc__)
    parser.add_argument("--lattices", metavar="TEXT", default="", help="only names with this, and the plane")
    parser.add_argument("--labels", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--repeats", type=int, default=15, help="rounds; the least time counts")
    options = parser.parse_args()
    cases = [
        prepare(name, lattice, k, share)
        for number, (name, lattice) in enumerate(lattices().items())
        if number == 0 or options.lattices in name
        for k in options.labels
        for share in SHARES
    ]
    for _ in range(options.repeats):
        for case in cases:
            case.measure(max(1, 2_000_000 // case.sites))
    print(*table(cases), sep="\n")


if __name__ == "__main__":
    main()
