"""The Gibbs sweeps of any graph: colours, S(z) and sums by definition, splits, distributions."""

from types import SimpleNamespace

import numpy as np
import pytest
from enumeration import average, features, hold, labellings_of, neighbours

from mpi_potts import rng
from mpi_potts.kernels import gaussian, graph_gibbs
from mpi_potts.kernels.gibbs_data import Sites
from mpi_potts.kernels.graph_gibbs import from_labels, layout, to_labels
from mpi_potts.lattice import Lattice
from mpi_potts.rng import Purpose

SWEEPS = rng.stream(3, Purpose.LABEL_SWEEP)


def graph(sites, ends, exists=None):
    """A graph as the kernel wants it."""
    first, second = np.array(ends).T
    exists = np.ones(sites, dtype=bool) if exists is None else exists
    return SimpleNamespace(
        shape=(sites,),
        exists=exists,
        mask=None if exists.all() else exists,
        pairs=lambda array: [(array[first], array[second])],
    )


def irregular(sites, edges, seed=1):
    """A random graph, some of whose sites are missing, and one of which is a neighbour of all."""
    draw = np.random.default_rng(seed)
    ends = {
        tuple(sorted(pair)) for pair in draw.integers(1, sites, (edges, 2)).tolist() if pair[0] != pair[1]
    }
    ends = sorted(ends) + [(0, i) for i in range(1, sites)]
    exists = draw.random(sites) < 0.9
    exists[:2] = True
    return graph(sites, draw.permutation(ends), exists)


def statistic(lattice, labels):
    around, z = neighbours(lattice), labels[lattice.exists]
    return sum(int(z[i] == z[j]) for i, near in enumerate(around) for j in near) // 2


GRAPHS = [irregular(9, 12), irregular(2000, 9000), irregular(5000, 600), Lattice((30, 40), 8)]
# A wheel with a gap, and a tail.
TINY = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5)]


class Chain:
    """Sweeps with data at fixed mean and sd."""

    def __init__(self, lattice, k, values, mean, sd):
        self.layout = layout(lattice, k)
        labels = np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8)
        self.state = from_labels(self.layout, labels)
        data = gaussian.prepare(self.layout, values)
        self.sites, self.terms = (
            Sites(self.state, self.layout.pieces, data),
            gaussian.terms_of(mean, sd, data),
        )
        self.sums = np.zeros((k, gaussian.COLUMNS), np.int64)

    def arguments(self, beta, number):
        key = rng.key(SWEEPS, number)
        return self.sites, self.terms, beta, key

    @property
    def labels(self):
        return to_labels(self.layout, self.state)


@pytest.mark.parametrize("lattice", GRAPHS)
def test_no_two_neighbours_share_a_colour(lattice):
    places = layout(lattice, 3)
    colour = np.searchsorted(places.pieces.first, places.position // 512, side="right") - 1
    around = neighbours(lattice)
    assert all(colour[i] != colour[j] for i, near in enumerate(around) for j in near)
    assert colour.max() <= max(map(len, around))


@pytest.mark.parametrize("k", [2, 3, 9, 255])
@pytest.mark.parametrize("lattice", GRAPHS)
def test_statistic_and_sums_are_those_of_the_labels_however_blocks_are_divided(lattice, k):
    values = np.random.default_rng(2).normal(size=lattice.shape)
    whole, split = (Chain(lattice, k, values, np.linspace(-1, 1, k), np.ones(k)) for _ in range(2))
    for number in range(2):
        s = graph_gibbs.sweep(*whole.arguments(0.4, number), whole.sums)
        parts = [
            graph_gibbs.update(*split.arguments(0.4, number), colour, block, block + 1)
            for colour in range(split.layout.colours)
            for block in reversed(range(split.layout.blocks_of(colour)))
        ]
        z = whole.labels
        assert z[lattice.exists].max() < k and np.all(z[~lattice.exists] == 255)
        assert s == statistic(lattice, z) == sum(like for like, _ in parts)
        assert np.array_equal(whole.state, split.state)
        assert np.array_equal(whole.sums, sum(sums for _, sums in parts))
    q = np.rint(values * whole.sites.data.scale).astype(np.int64)
    for j in range(k):
        d = (q[z == j] - whole.terms.reference[j]).tolist()
        n, first, high, low = whole.sums[j].tolist()
        assert (n, first, (high << 32) + low) == (len(d), sum(d), sum(v * v for v in d))


@pytest.mark.parametrize("beta", [0.0, 0.3, 25.0])
@pytest.mark.parametrize("lattice", GRAPHS)
def test_sweeps_of_the_prior_return_the_statistic_in_any_number_of_calls(lattice, beta):
    places = layout(lattice, 5)
    whole, split = (from_labels(places, np.zeros(lattice.shape, np.uint8)) for _ in range(2))
    s = graph_gibbs.sweeps(places, whole, beta, SWEEPS, 0, 4)
    for t in range(4):
        assert graph_gibbs.sweeps(places, split, beta, SWEEPS, t, 1) == s[t]
        assert s[t] == statistic(lattice, to_labels(places, split))
    assert np.array_equal(whole, split)


def copies(many, sites):
    ends = np.array(TINY) + sites * np.arange(many)[:, None, None]
    return graph(many * sites, ends.reshape(-1, 2)), np.tile(np.arange(sites), many)


@pytest.mark.parametrize("beta", [0.25, 0.7])
@pytest.mark.parametrize("data", [False, True])
def test_labels_have_the_distribution_found_by_enumeration(data, beta):
    k, sites = 3, 6
    lattice, number = copies(1500, sites)
    labellings, like, edges = labellings_of(graph(sites, TINY), k)
    y, mean, sd = np.linspace(-1.2, 1.0, sites), np.array([-1.0, 0.2, 0.9]), np.array([0.5, 0.8, 1.1])
    density = -0.5 * ((y[:, None] - mean) / sd) ** 2 - np.log(sd)
    log_weight = beta * like + data * sum(density[i, labellings[:, i]] for i in range(sites))
    weight = np.exp(log_weight - log_weight.max())
    chain = Chain(lattice, k, y[number], mean, sd)

    def labels_after(t):
        if data:
            graph_gibbs.sweep(*chain.arguments(beta, t), chain.sums)
        else:
            graph_gibbs.sweeps(chain.layout, chain.state, beta, SWEEPS, t, 1)
        return chain.labels

    draws = average(labels_after, number, k, edges, 30, 200)
    hold(draws, weight / weight.sum() @ features(labellings, k, edges))
