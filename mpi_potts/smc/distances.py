"""The particles of an SMC over the ranks, and their counts in windows around S(z).

Rank 0 looks for the tolerance, and for that asks for the counts within some trial values; every rank counts
for its own rows.  These are the M pseudo-statistics of a particle, or, where M is infinite, mean and sd of
their distribution: a `Replicates` says which, and how they are counted and accepted.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arithmetic
from ..kernels import smc as kernels
from ..kernels import windows as closed_form
from ..runtime.parallel import Comm, allgather_rows, bcast, block
from . import weights

# So many sds around its mean hold a normal variable, but for 1e-15.
WHOLE = 8.0


class Slots:
    """The N slots for particles and the block of them that this rank has."""

    def __init__(self, comm: Comm, particles: int):
        self.comm = comm
        self.particles = particles
        self.start, self.stop = block(particles, comm.size, comm.rank)
        self.own = slice(self.start, self.stop)
        self.index = np.arange(self.start, self.stop)

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """All rows in the order of the slots, on every rank, from each rank's block of them; collective."""
        return allgather_rows(self.comm, rows, self.particles)


class Expected(weights.CountScale):
    """Counts are logarithms, up to a number that all particles share: however small, none vanishes."""

    def per_count(self, weight: np.ndarray, count: np.ndarray) -> np.ndarray:
        """As `weights.CountScale.per_count`, the logarithm of it."""
        return arithmetic.log(weight) - np.where(weight > 0.0, count, 0.0)

    def times(self, value: np.ndarray, count: np.ndarray) -> np.ndarray:
        """As `weights.CountScale.times`: the largest is 1."""
        both = np.where(value > -np.inf, value + count, -np.inf)
        return arithmetic.exp(both - both.max()) if both.max() > -np.inf else np.zeros(both.size)


class _Shared:
    """What rank 0 asks of all ranks while the others `serve`, until it calls `conclude`."""

    def __init__(self, slots: Slots, x: np.ndarray, alive: np.ndarray, statistic: float):
        self._slots = slots
        self._x = x
        self._alive = alive
        self._statistic = statistic

    def counts(self, tolerances: np.ndarray) -> np.ndarray:
        """See `weights.Windows`; on rank 0, while the others serve."""
        return self._ask("_counts", tolerances)

    def farthest(self) -> float:
        """See `weights.Windows`; on rank 0, while the others serve."""
        return self._ask("_farthest")

    def _ask(self, *question):
        """On rank 0, while the others serve: the answer of all ranks to a method's name and its arguments."""
        return self._answer(*bcast(self._slots.comm, question))

    def conclude(self, outcome: Any) -> Any:
        """On rank 0: end the service of the other ranks, give them the outcome, and return it."""
        return bcast(self._slots.comm, (None, outcome))[1]

    def serve(self) -> Any:
        """On the other ranks: answer the questions of rank 0, and return the outcome it concludes with."""
        while (question := bcast(self._slots.comm))[0] is not None:
            self._answer(*question)
        return question[1]

    def _answer(self, name, *arguments):
        return getattr(self, name)(*arguments)

    def _reach(self) -> np.ndarray:
        """Of this rank's rows, the tolerances beyond which each has all there is."""
        raise NotImplementedError

    def _farthest(self):
        largest = max(self._slots.comm.allgather(float(self._reach().max())))
        return float(np.nextafter(largest, math.inf))


class SharedWindows(_Shared):
    """`weights.Windows` of the particles of all ranks, whose rows are means and sds."""

    scale: weights.CountScale = Expected()
    fractions = weights.FEW_FRACTIONS

    def refine(
        self, value: np.ndarray, target: float, bracket: weights.Bracket, held: int
    ) -> weights.Tolerance:
        """See `weights.Windows`."""
        return weights.interpolate(self, value, target, bracket)

    def _counts(self, tolerances):
        out = np.empty((self._alive.size, tolerances.size))
        closed_form.log_densities(out, self._x, self._alive, self._statistic, tolerances)
        return self._slots.gather(out)

    def _reach(self):
        """Beyond WHOLE sds around the farthest mean nothing of a particle is missed."""
        return np.abs(self._x[:, 0] - self._statistic) + WHOLE * self._x[:, 1]


class SharedDistances(_Shared):
    """`weights.Distances` of the particles of all ranks, whose rows are pseudo-statistics."""

    scale: weights.CountScale = weights.Counted()

    def __init__(self, slots: Slots, x: np.ndarray, alive: np.ndarray, statistic: float):
        super().__init__(slots, x, alive, statistic)
        self.size = slots.particles * x.shape[1]
        self.fractions = weights.FRACTIONS if self.size > weights.FEW_PAIRS else weights.ONE_FRACTION
        # Once narrowed: distances inside the bracket, their rows, and for each row how many lie below it.
        self._narrowed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def narrow(self, bracket: weights.Bracket) -> None:
        """See `weights.Distances`; on rank 0, while the others serve."""
        self._ask("_narrow", bracket)

    def pairs(self, bracket: weights.Bracket) -> tuple[np.ndarray, np.ndarray]:
        """See `weights.Distances`; on rank 0, while the others serve."""
        return self._ask("_pairs", bracket)

    def refine(
        self, value: np.ndarray, target: float, bracket: weights.Bracket, held: int
    ) -> weights.Tolerance:
        """See `weights.Windows`."""
        return weights.refine(self, value, target, bracket, held)

    def _counts(self, tolerances):
        out = np.zeros((self._alive.size, tolerances.size), dtype=np.int64)
        if self._narrowed is None:
            kernels.count(out, self._x, self._statistic, tolerances)
            out[~self._alive] = 0
        else:
            distance, row, below = self._narrowed
            kernels.count_pairs(out, distance, row, tolerances)
            out += below[:, None]
        return self._slots.gather(out)

    def _narrow(self, bracket):
        lower, upper = bracket.ends
        if self._narrowed is None:
            inside = bracket.inside[self._slots.own]
            distance, row = kernels.collect(self._x, inside, self._statistic, lower, upper)
        else:
            distance, row, _ = self._narrowed
            keep = (distance >= lower) & (distance < upper)
            distance, row = distance[keep], row[keep]
        self._narrowed = distance, row, bracket.counts[self._slots.own, 0]
        return distance, row

    def _pairs(self, bracket):
        distance, row = self._narrow(bracket)
        blocks = self._slots.comm.allgather((distance, row + self._slots.start))
        distance, particle = (np.concatenate(parts) for parts in zip(*blocks))
        # Blocks come in global order, so a stable sort leaves equal distances in the order of particles.
        order = np.argsort(distance, kind="stable")
        return distance[order], particle[order]

    def _reach(self):
        return np.abs(self._x - self._statistic)


class Replicates:
    """What the rows of the particles are, and how they are counted.

    width   : of a row
    windows : makes the counts of the particles that are alive, from every rank's rows; see `_Shared`
    accept  : the kernel of Metropolis steps, by the ratio of new counts to those held
    """

    width: int
    windows: type[SharedDistances] | type[SharedWindows]
    accept: Callable[..., None]

    def start(self, particles: int) -> np.ndarray:
        """(N,) the counts within an infinite tolerance."""
        raise NotImplementedError


class FiniteReplicates(Replicates):
    """Rows of M pseudo-statistics; counts are whole numbers."""

    windows = SharedDistances
    accept = staticmethod(kernels.accept)

    def __init__(self, replicates: int):
        self.width = replicates

    def start(self, particles: int) -> np.ndarray:
        """All M."""
        return np.full(particles, self.width, dtype=np.int64)


class InfiniteReplicates(Replicates):
    """Rows of mean and sd; counts are logarithms of expected counts, up to a number that all share."""

    width = 2
    windows = SharedWindows
    accept = staticmethod(closed_form.accept)

    def start(self, particles: int) -> np.ndarray:
        """The same for all."""
        return np.zeros(particles)
