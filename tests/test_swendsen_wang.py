"""The bit-plane Swendsen-Wang sampler of the two-dimensional first-order lattice."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from mpi_potts import rng
from mpi_potts.kernels import swendsen_wang as sw
from mpi_potts.lattice import Lattice

# Widths on both sides of a word, single rows and columns; numbers of labels that fill their planes or do not.
SHAPES = [
    (1, 2),
    (2, 1),
    (1, 130),
    (130, 1),
    (3, 63),
    (5, 64),
    (4, 65),
    (7, 127),
    (3, 128),
    (6, 129),
    (40, 33),
]
LABELS = [2, 3, 4, 5, 6, 8, 9, 200, 255]


def stream(address=0):
    return rng.stream(20, rng.Purpose.PRIOR_SWEEP, address)


def random_state(lattice, k, seed=1):
    layout = sw.layout(lattice, k)
    labels = np.random.default_rng(seed).integers(0, k, lattice.shape).astype(np.uint8)
    return layout, sw.from_labels(layout, labels), labels


def holed(shape, seed=2):
    """A mask with about a third of the pixels missing: holes, corners, and islands of one pixel."""
    mask = np.random.default_rng(seed).random(shape) < 0.65
    mask.flat[:2] = True
    mask[shape[0] // 2] = True
    return mask


def lattices():
    for shape in SHAPES:
        yield Lattice(shape)
        if min(shape) > 1:
            yield Lattice(shape, mask=holed(shape))
    island = np.zeros((9, 70), dtype=bool)
    island[4, 63:65] = island[0, 0] = island[8, 69] = True
    yield Lattice((9, 70), mask=island)


@pytest.mark.parametrize("k", LABELS)
def test_labels_survive_the_planes(k):
    for lattice in lattices():
        layout, state, labels = random_state(lattice, k)
        assert np.array_equal(sw.to_labels(layout, state), np.where(lattice.exists, labels, 255))
        assert not sw.from_labels(layout, np.zeros(lattice.shape, np.uint8)).any()


@pytest.mark.parametrize("k", LABELS)
def test_the_statistic_is_that_of_the_labels_after_every_sweep(k):
    for number, lattice in enumerate(lattices()):
        layout, state, _ = random_state(lattice, k)
        for sweep, beta in enumerate((0.0, 0.3, 0.9, 1.2, 2.5, 800.0)):
            statistic = sw.sweeps(layout, state, beta, stream(number), sweep, 1)
            labels = sw.to_labels(layout, state)
            assert statistic[0] == lattice.statistic(labels)
            assert labels[lattice.exists].max() < k
            # Nothing may stand outside the lattice, or states that are equal would differ in their bits.
            assert np.array_equal(state, sw.from_labels(layout, labels))


@pytest.mark.parametrize("lattice", [Lattice((37, 125)), Lattice((30, 70), mask=holed((30, 70)))])
def test_the_bits_do_not_depend_on_how_sweeps_are_split_over_calls(lattice):
    layout, together, _ = random_state(lattice, 3)
    apart = together.copy()
    expected = sw.sweeps(layout, together, 0.9, stream(), 5, 12)
    pieces = [sw.sweeps(layout, apart, 0.9, stream(), f, c) for f, c in ((5, 1), (6, 4), (10, 0), (10, 7))]
    assert np.array_equal(np.concatenate(pieces), expected)
    assert np.array_equal(together, apart)


def bonds(layout, lattice, labels, beta, key):
    """The bonds that a sweep with this key draws: bool (rows, columns) of bonds to the left, and upwards."""
    like_left = np.zeros(lattice.shape, dtype=bool)
    like_up = np.zeros(lattice.shape, dtype=bool)
    like_left[:, 1:] = (labels[:, 1:] == labels[:, :-1]) & lattice.exists[:, 1:] & lattice.exists[:, :-1]
    like_up[1:] = (labels[1:] == labels[:-1]) & lattice.exists[1:] & lattice.exists[:-1]
    one_plane = sw.layout(lattice, 2)
    like = [
        sw.from_labels(one_plane, m.astype(np.uint8))[0, one_plane.width :].copy()
        for m in (like_left, like_up)
    ]
    left, up = np.empty_like(like[0]), np.empty_like(like[0])
    sw.draw_bonds(*like, left, up, sw.threshold(beta), *key)
    padding = np.zeros(layout.width, dtype=np.uint64)
    drawn = [sw.to_labels(one_plane, np.concatenate([padding, m])[None], masked=0) == 1 for m in (left, up)]
    assert not (drawn[0] & ~like_left).any() and not (drawn[1] & ~like_up).any()
    return drawn


def clusters(lattice, left, up):
    """The number of the cluster of every pixel, found by a graph library."""
    index = np.arange(left.size).reshape(lattice.shape)
    here = np.concatenate([index[left], index[up]])
    there = np.concatenate([index[left] - 1, index[up] - lattice.shape[1]])
    graph = coo_array((np.ones(here.size), (here, there)), shape=(left.size, left.size))
    return connected_components(graph, directed=False)[1].reshape(lattice.shape)


@pytest.mark.parametrize("beta", [0.0, 0.4, 0.9, 1.1, 1.8, 50.0])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_every_cluster_has_one_new_label_and_clusters_are_independent(beta, k):
    """Given the bonds, two clusters agree with probability 1/k, whichever clusters are compared."""
    agree = pairs = 0
    for lattice in [*lattices(), Lattice((60, 190))]:
        layout, state, _ = random_state(lattice, k)
        sw.sweeps(layout, state, beta, stream(1), 0, 20)
        for sweep in range(20, 23):
            left, up = bonds(layout, lattice, sw.to_labels(layout, state), beta, rng.key(stream(1), sweep))
            sw.sweeps(layout, state, beta, stream(1), sweep, 1)
            cluster = clusters(lattice, left, up)[lattice.exists]
            label = sw.to_labels(layout, state)[lattice.exists]
            _, representative = np.unique(cluster, return_index=True)
            lookup = np.zeros(cluster.max() + 1, dtype=np.uint8)
            lookup[cluster[representative]] = label[representative]
            assert np.array_equal(lookup[cluster], label)
            ordered = label[np.sort(representative)]
            agree += int((ordered[1:] == ordered[:-1]).sum())
            pairs += ordered.size - 1
    # Agreements of consecutive clusters are independent Bernoulli(1/k); 18 cases, so 4.5 standard errors.
    assert abs(agree - pairs / k) <= 4.5 * np.sqrt(pairs / k * (1 - 1 / k))


@pytest.mark.parametrize("beta", [1e-3, 0.1, 0.5, 1.0, 1.2, 3.0, 8.0])
def test_bonds_are_kept_with_probability_one_minus_exp_minus_beta(beta):
    words = 4001
    like = np.full((2, words), sw.ALL)
    left, up = np.empty((2, words), dtype=np.uint64)
    sw.draw_bonds(like[0], like[1], left, up, sw.threshold(beta), *rng.key(stream(), 3))
    p = 1 - np.exp(-beta)
    for mask in (left, up):
        kept = np.unpackbits(mask.view(np.uint8)).reshape(words, 64)
        z = (kept.mean() - p) / np.sqrt(p * (1 - p) / kept.size)
        assert abs(z) < 4.5
        # Neighbouring bits and neighbouring words are uncorrelated.
        for a, b in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1]), (kept[32:], kept[:-32])):
            r = ((a - p) * (b - p)).mean() / (p * (1 - p))
            assert abs(r) * np.sqrt(a.size) < 4.5


def test_bonds_follow_every_bit_of_the_probability():
    """Where the first 8 bits of the threshold are zeros or ones, the single draws decide."""
    words = 20000
    for threshold, p in (
        (2**64 // 1000, 1e-3),
        (2**64 - 2**64 // 1000, 0.999),
        (2**55, 2**-9),
        (2**56, 2**-8),
    ):
        like = np.full((2, words), sw.ALL)
        left, up = np.empty((2, words), dtype=np.uint64)
        sw.draw_bonds(like[0], like[1], left, up, np.uint64(threshold), *rng.key(stream(), 4))
        kept = np.bitwise_count(left).sum() + np.bitwise_count(up).sum()
        assert abs(kept - 128 * words * p) < 4.5 * np.sqrt(128 * words * p * (1 - p))


def test_single_draws_of_a_word_are_independent():
    """Where the first 8 bits of the threshold are zeros, single draws keep the bonds: count pairs."""
    words, p = 40000, 2**-9
    like = np.full((2, words), sw.ALL)
    left, up = np.empty((2, words), dtype=np.uint64)
    sw.draw_bonds(like[0], like[1], left, up, np.uint64(2**55), *rng.key(stream(), 5))
    for mask in (left, up):
        kept = np.bitwise_count(mask).astype(np.int64)
        expected = words * 64 * 63 / 2 * p**2
        assert abs((kept * (kept - 1) // 2).sum() - expected) < 5 * np.sqrt(expected)


def test_the_extremes_of_beta_keep_no_bond_and_every_bond():
    assert sw.threshold(0.0) == 0
    assert sw.threshold(1e6) == 2**64 - 1
    lattice = Lattice((50, 100))
    layout = sw.layout(lattice, 3)
    state = sw.from_labels(layout, np.zeros(lattice.shape, dtype=np.uint8))
    assert np.all(sw.sweeps(layout, state, 1e6, stream(), 0, 5) == lattice.edges)
    statistic = sw.sweeps(layout, state, 0.0, stream(), 5, 1)[0]
    assert abs(statistic - lattice.edges / 3) < 5 * np.sqrt(lattice.edges * 2 / 9)


@cache
def all_statistics(lattice, k):
    """S(z) of every labelling."""
    statistics = []
    for values in product(range(k), repeat=lattice.sites):
        labels = np.zeros(lattice.shape, dtype=np.uint8)
        labels[lattice.exists] = values
        statistics.append(lattice.statistic(labels))
    return np.array(statistics)


def exact_moments(lattice, k, beta):
    """Mean and sd of S(z) by adding over all labellings."""
    statistics = all_statistics(lattice, k)
    weight = np.exp(beta * statistics)
    weight /= weight.sum()
    mean = weight @ statistics
    return mean, np.sqrt(weight @ (statistics - mean) ** 2)


RING = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.88, 1.0, 1.6])
@pytest.mark.parametrize(
    "lattice, k",
    [
        (Lattice((2, 3)), 2),
        (Lattice((2, 3)), 3),
        (Lattice((3, 3)), 2),
        (Lattice((1, 5)), 4),
        (Lattice((5, 1)), 4),
        (Lattice((2, 2)), 6),
        (Lattice((3, 3), mask=RING), 3),
    ],
)
def test_moments_agree_with_enumeration(lattice, k, beta):
    mean, sd = exact_moments(lattice, k, beta)
    layout, state, _ = random_state(lattice, k)
    chain = sw.sweeps(layout, state, beta, stream(rng.float_bits(beta)), 0, 100_100)[100:]
    # Standard errors from 100 batches, much longer than the autocorrelation; 70 comparisons with Student's t
    # on 99 degrees of freedom: beyond 5 with probability 70 * 2.5e-6.
    for values, exact in ((chain, mean), ((chain - mean) ** 2, sd**2)):
        batches = values.reshape(100, -1).mean(axis=1)
        assert abs(batches.mean() - exact) <= 5 * batches.std(ddof=1) / 10 + 1e-12


@pytest.mark.parametrize("k", [2, 3, 6, 200])
def test_labels_are_independent_at_beta_zero(k):
    """S of independent labels has mean |E|/k and variance |E| (1/k) (1 - 1/k): the pairs are uncorrelated."""
    lattice = Lattice((125, 125))
    layout, state, _ = random_state(lattice, k)
    chain = sw.sweeps(layout, state, 0.0, stream(k), 0, 2000)
    variance = lattice.edges / k * (1 - 1 / k)
    assert abs(chain.mean() - lattice.edges / k) < 4.5 * np.sqrt(variance / chain.size)
    assert abs(chain.var(ddof=1) / variance - 1) < 4.5 * np.sqrt(2 / chain.size)


@pytest.mark.parametrize("k", [2, 3, 5, 6, 129, 200, 255])
def test_new_labels_are_uniform(k):
    lattice = Lattice((125, 125))
    layout, state, _ = random_state(lattice, k)
    counts = np.zeros(k)
    for sweep in range(20):
        sw.sweeps(layout, state, 0.0, stream(), sweep, 1)
        counts += np.bincount(sw.to_labels(layout, state).ravel(), minlength=k)
    expected = counts.sum() / k
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-5, k - 1)
