"""Draws on many copies of a tiny lattice or graph, compared with the enumeration of its labellings.

The copies are apart from each other: one sweep draws all of them, independently.
"""

import itertools

import numpy as np
from scipy import stats

from mpi_potts.lattice import Lattice

# The chance that a correct kernel fails any of the comparisons of one test, were the seeds not fixed.
RARE = 1e-4
COPIES = {2: (37, 43), 3: (11, 12, 13)}


def neighbours(lattice):
    """For each pixel that exists the set of its neighbours, by their numbers in raster order."""
    sites = np.count_nonzero(lattice.exists)
    number = np.full(lattice.shape, -1)
    number[lattice.exists] = np.arange(sites)
    around = [set() for _ in range(sites)]
    for here, there in lattice.pairs(number):
        edge = (here >= 0) & (there >= 0)
        for i, j in zip(here[edge].tolist(), there[edge].tolist()):
            around[i].add(j)
            around[j].add(i)
    return around


def copies(tiny, name):
    """A lattice of many copies of a tiny one, and the number of each pixel in its copy, -1 where none is."""
    # An even distance keeps the parities, and a gap keeps copies apart.
    box = tuple((n + 2) // 2 * 2 for n in tiny.shape)
    mask = np.zeros(box, dtype=bool)
    mask[tuple(slice(0, n) for n in tiny.shape)] = tiny
    number = np.full(box, -1)
    number[mask] = np.arange(tiny.sum())
    many = COPIES[tiny.ndim]
    return Lattice(tuple(np.multiply(box, many)), name, np.tile(mask, many)), np.tile(number, many)


def labellings_of(lattice, k):
    """Every labelling of a tiny lattice: (k**n, n) labels, (k**n,) values of S, and the edges."""
    around = neighbours(lattice)
    labels = np.array(list(itertools.product(range(k), repeat=len(around))), dtype=np.uint8)
    edges = [(i, j) for i, near in enumerate(around) for j in near if i < j]
    return labels, sum(labels[:, i] == labels[:, j] for i, j in edges).astype(np.int64), edges


def features(labels, k, edges):
    """What is compared, by labelling: every label at every site, and every pair of neighbours alike."""
    at = (labels[..., None] == np.arange(k)).reshape(*labels.shape[:-1], -1)
    like = np.stack([labels[..., i] == labels[..., j] for i, j in edges], axis=-1)
    return np.concatenate([at, like, like.sum(axis=-1, keepdims=True) ** 2], axis=-1).astype(np.float64)


def average(labels_after, number, k, edges, burn_in, sweeps):
    """(copies, m) features of every copy, averaged over sweeps; labels_after(t) sweeps once."""
    order = np.argsort(number[number >= 0], kind="stable")
    total = 0.0
    for t in range(burn_in + sweeps):
        labels = labels_after(t)[number >= 0]
        if t >= burn_in:
            total = total + features(labels[order].reshape(number.max() + 1, -1).T, k, edges)
    return total / sweeps


def hold(draws, expected):
    """Means over independent copies (copies, m) of averages over sweeps agree with what is expected, (m,)."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    scores = (draws.mean(axis=0) - expected) / np.maximum(error, 1e-12)
    assert np.abs(scores).max() < stats.norm.isf(RARE / (2 * scores.size))
