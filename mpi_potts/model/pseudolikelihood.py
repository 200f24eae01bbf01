"""The pseudolikelihood of beta (Besag 1975): every pixel given its neighbours, as if they were independent.

    log PL(beta) = sum_i (beta n_i(z_i) - log sum_j exp(beta n_i(j))),

n_i(j) the number of neighbours of pixel i with label j.  The first terms add up to 2 beta S(z); the others
depend on the neighbours of a pixel only by how many labels are there once, twice, ...
"""

from collections.abc import Callable

import numpy as np

from .. import arithmetic, rng
from ..kernels.configurations import tabulate
from ..kernels.neighbours import neighbours, pad
from ..lattice import GRAPH, MASKED, Lattice
from ..rng import Purpose

# Places of the hash table: some times the number of partitions of up to 8 neighbours (67), and of up to 26.
SMALL, LARGE = 256, 32768


class Pseudolikelihood:
    """Of labels 0..k-1 on a lattice."""

    def __init__(self, lattice: Lattice, labels: int):
        self._lattice, self._k = lattice, labels
        self._neighbours = neighbours(lattice)
        most = self._neighbours.most
        # Any words do; these are always the same.
        self._words = rng.words(rng.stream(0, Purpose.POSTERIOR), 0, most + 1)[:, 0].copy()
        self._words[0] = 0
        if lattice.neighbourhood == GRAPH:
            self._places = _places(np.bincount(np.diff(self._neighbours.start)), labels)
        else:
            self._places = SMALL if most <= 8 else LARGE

    def configurations(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (c,) of each kind of neighbourhood, and (c, d + 1) how many labels it has 0..d times."""
        codes, count = np.zeros(self._places, np.uint64), np.zeros(self._places, np.int64)
        parts = np.zeros((self._places, self._words.size), np.int64)
        state = pad(np.asarray(labels, dtype=np.uint8), self._lattice.exists, MASKED)
        tabulate(state, self._neighbours, self._words, codes, count, parts)
        used = np.flatnonzero(count)
        count, parts = count[used], parts[used]
        parts[:, 0] = self._k - parts.sum(axis=1)
        return count, parts

    def log_density(self, labels: np.ndarray, statistic: int) -> Callable[[np.ndarray], np.ndarray]:
        """log PL as a function of beta (n,)."""
        count, parts = self.configurations(labels)
        times = np.arange(parts.shape[1])
        # Relative to the label seen most, by which exp(beta times) would overflow where a site has a great
        # many neighbours.
        top = times[-1] - np.argmax(parts[:, ::-1] > 0, axis=1)
        fewer = top[:, None] - times
        parts = np.where(fewer >= 0, np.take_along_axis(parts, np.maximum(fewer, 0), axis=1), 0)

        def evaluate(beta):
            weight = arithmetic.exp(-np.multiply.outer(beta, times))
            normaliser = arithmetic.log(arithmetic.product(weight, parts.T)) + np.multiply.outer(beta, top)
            return 2.0 * statistic * beta - arithmetic.product(normaliser, count)

        return evaluate


def _places(sites, labels):
    """A power of two, twice as many as there can be partitions, with sites (d + 1,) of 0..d neighbours."""
    # Partitions of a number into at most k parts: as many as those into parts of at most k.
    ways = np.zeros(sites.size)
    ways[0] = 1.0
    for part in range(1, min(labels, sites.size - 1) + 1):
        for number in range(part, sites.size):
            ways[number] = min(ways[number] + ways[number - part], 2.0**31)
    # Those of up to some number of neighbours, and one for each site with more; masks make numbers smaller.
    kinds = (np.cumsum(ways) + sites.sum() - np.cumsum(sites)).min()
    return 1 << int(2.0 * kinds).bit_length()
