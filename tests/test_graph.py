"""The Swendsen-Wang sampler of any graph, against the definition of S(z) and exact moments."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from mpi_potts import rng
from mpi_potts.kernels import graph
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact

DRAWS = rng.stream(5, rng.Purpose.PRIOR_SWEEP)


def irregular(sites, edges, seed=1):
    """A random graph, some of whose sites are missing, as the kernel wants it."""
    chosen = np.random.default_rng(seed)
    every = np.array(list(itertools.combinations(range(sites), 2)))
    ends = chosen.permutation(every)[:edges]
    exists = chosen.random(sites) < 0.9
    exists[ends[0]] = True
    return SimpleNamespace(
        shape=(sites,), exists=exists, pairs=lambda array: [(array[ends[:, 0]], array[ends[:, 1]])]
    )


def statistic(lattice, labels):
    ends = zip(lattice.pairs(labels), lattice.pairs(lattice.exists))
    return sum(int(((a == b) & here & there).sum()) for (a, b), (here, there) in ends)


GRAPHS = [
    irregular(9, 12),
    irregular(100, 700),
    irregular(400, 513, seed=2),
    Lattice((30, 40), 8),
    Lattice((5, 6, 7), 18),
]


@pytest.mark.parametrize("lattice", GRAPHS)
@pytest.mark.parametrize("k", [2, 3, 9, 255])
def test_the_statistic_is_that_of_the_labels_after_every_sweep(lattice, k):
    layout = graph.layout(lattice, k)
    labels = np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8)
    state = graph.from_labels(layout, labels)
    assert np.array_equal(graph.to_labels(layout, state), np.where(lattice.exists, labels, 255))
    apart = state.copy()
    together = graph.swendsen_wang(layout, state, 0.4, DRAWS, 0, 5)
    for sweep in range(5):
        found = graph.swendsen_wang(layout, apart, 0.4, DRAWS, sweep, 1)
        labels = graph.to_labels(layout, apart)
        assert found[0] == together[sweep] == statistic(lattice, labels)
        assert labels[lattice.exists].max() < k
    assert np.array_equal(apart, state)


def enumerated(lattice, k, beta):
    """Mean and variance of S by adding over all labellings."""
    labels = np.zeros(lattice.shape, dtype=np.uint8)
    found = []
    for values in itertools.product(range(k), repeat=int(lattice.exists.sum())):
        labels[lattice.exists] = values
        found.append(statistic(lattice, labels))
    weight = np.exp(beta * np.array(found))
    mean = np.average(found, weights=weight)
    return mean, np.average((found - mean) ** 2, weights=weight)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.8, 1.5])
@pytest.mark.parametrize("kind", ["irregular", "volume"])
def test_moments_agree_with_exact_ones(kind, beta):
    if kind == "irregular":
        lattice, k = irregular(8, 13), 3
        mean, variance = enumerated(lattice, k, beta)
    else:
        lattice, k = Lattice((2, 2, 20), 26), 3
        mean, sd = Exact(lattice, k).moments(beta)
        variance = sd**2
    layout = graph.layout(lattice, k)
    state = graph.from_labels(layout, np.zeros(lattice.shape, dtype=np.uint8))
    chain = graph.swendsen_wang(layout, state, beta, DRAWS, 0, 50_100)[100:]
    # 100 batches, much longer than the autocorrelation; 16 scores, Student's t on 99 degrees of freedom.
    for values, expected in ((chain, mean), ((chain - mean) ** 2, variance)):
        batches = values.reshape(100, -1).mean(axis=1)
        assert abs(batches.mean() - expected) < 4.5 * batches.std(ddof=1) / math.sqrt(100)
