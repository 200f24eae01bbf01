"""Threads of one rank, for the sweeps of a large image.

One label chain cannot be split over ranks, and the other ranks wait for it without spinning; so on a node
the rank that has the chain may use their cores.  A `Team` divides a range between its threads.  The work is
compiled code that runs without the interpreter's lock, and its result does not depend on the division.
"""

import os
from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

# A thread has at least this many sites: with fewer, a sweep is over before the threads have met.
SITES = 50_000


def enough(sites: int, cores: int) -> int:
    """How many threads an image of so many sites is worth, at most one for each core."""
    return max(1, min(cores, sites // SITES))


class Team:
    """`size` threads, the caller's own among them."""

    def __init__(self, size: int, cores: Set[int] = frozenset()):
        """cores: where the further threads may run; by default, where the caller may."""
        self.size = size
        self._pool = ThreadPoolExecutor(max(size - 1, 1), "sweep", _move_to, (cores,))

    def share(self, count: int, work: Callable[[int, int], Any]) -> list[Any]:
        """work(first, last) for parts of range(count) at once; what they return, in order."""
        ends = [count * part // self.size for part in range(self.size + 1)]
        others = [self._pool.submit(work, *part) for part in pairwise(ends[1:])]
        return [work(ends[0], ends[1]), *(other.result() for other in others)]


def _move_to(cores):
    """Let this thread run on the cores: mpirun binds a rank, and so its threads, to one.

    What the operating system does not allow changes the speed alone, so it is not an error.
    """
    if cores and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, cores)
        except OSError:
            pass


def own_cores() -> frozenset[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


ALONE = Team(1)
