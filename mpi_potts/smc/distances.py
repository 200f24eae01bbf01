"""The particles of an SMC over the ranks, and the distances of their pseudo-statistics from S(z).

Rank 0 looks for the tolerance, and for that asks how many of the N M distances are below some trial values;
every rank counts its own rows.
"""

import math
from typing import Any

import numpy as np

from ..kernels import smc as kernels
from ..runtime.parallel import Comm, allgather_rows, bcast, block
from . import weights


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


class SharedDistances:
    """`weights.Distances` of the particles of all ranks.

    Rank 0 asks, and the others `serve`, until rank 0 calls `conclude`.  Every rank answers for its own rows.
    """

    def __init__(self, slots: Slots, x: np.ndarray, alive: np.ndarray, statistic: float):
        self.size = slots.particles * x.shape[1]
        self._slots = slots
        self._x = x
        self._alive = alive
        self._statistic = statistic
        # Once narrowed: distances inside the bracket, their rows, and for each row how many lie below it.
        self._narrowed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def counts(self, tolerances: np.ndarray) -> np.ndarray:
        """See `weights.Distances`; on rank 0, while the others serve."""
        return self._ask("_counts", tolerances)

    def narrow(self, bracket: weights.Bracket) -> None:
        """See `weights.Distances`; on rank 0, while the others serve."""
        self._ask("_narrow", bracket)

    def pairs(self, bracket: weights.Bracket) -> tuple[np.ndarray, np.ndarray]:
        """See `weights.Distances`; on rank 0, while the others serve."""
        return self._ask("_pairs", bracket)

    def farthest(self) -> float:
        """See `weights.Distances`; on rank 0, while the others serve."""
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

    def _farthest(self):
        largest = np.abs(self._x - self._statistic).max()
        return float(np.nextafter(max(self._slots.comm.allgather(float(largest))), math.inf))
