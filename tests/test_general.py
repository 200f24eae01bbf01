"""The general kernels against the definition of S(z) and against enumeration of every labelling."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mpi_potts import rng
from mpi_potts.kernels import general
from mpi_potts.lattice import Lattice
from mpi_potts.rng import Purpose

SAMPLERS = [general.swendsen_wang, general.gibbs]

# The chance that a correct sampler fails any of the comparisons of one test, were the seeds not fixed.
RARE = 1e-4


def holes(shape):
    """A mask with a hole inside and a single-pixel island in the first corner."""
    mask = np.ones(shape, dtype=bool)
    mask[tuple(slice(0, 2) for _ in shape)] = False
    mask[(0,) * len(shape)] = True
    mask[tuple(n // 2 + 1 for n in shape)] = False
    return mask


LARGE = [
    Lattice((17, 23)),
    Lattice((17, 23), "second"),
    Lattice((5, 7, 6)),
    Lattice((5, 7, 6), "second"),
    Lattice((17, 23), "first", holes((17, 23))),
    Lattice((17, 23), "second", holes((17, 23))),
    Lattice((5, 7, 6), "first", holes((5, 7, 6))),
    Lattice((5, 7, 6), "second", holes((5, 7, 6))),
    Lattice((1, 40)),
    Lattice((40, 1), "second"),
]

RING = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
SMALL = [
    Lattice((2, 3)),
    Lattice((3, 3), "second"),
    Lattice((2, 2, 2)),
    Lattice((2, 2, 2), "second"),
    Lattice((4, 4), "first", RING),
    Lattice((3, 4), "second", RING[1:]),
]


def name(lattice):
    masked = "" if lattice.mask is None else "-masked"
    return "x".join(map(str, lattice.shape)) + "-" + lattice.neighbourhood + masked


def streams(seed):
    return rng.stream(seed, Purpose.START), rng.stream(seed, Purpose.PRIOR_SWEEP)


def start(lattice, k, seed=1):
    """A layout and a state of independent uniform labels."""
    layout = general.layout(lattice, k)
    labels = np.empty(lattice.shape, dtype=np.uint8)
    general.uniform_labels(labels.reshape(-1), k, *streams(seed)[0])
    return layout, general.from_labels(layout, labels)


@pytest.mark.parametrize("lattice", LARGE, ids=name)
def test_state_holds_the_labels_and_255_elsewhere(lattice):
    layout = general.layout(lattice, 5)
    labels = np.random.default_rng(1).integers(0, 5, lattice.shape).astype(np.uint8)
    back = general.to_labels(layout, general.from_labels(layout, labels))
    assert np.array_equal(back, np.where(lattice.exists, labels, 255))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("lattice", LARGE, ids=name)
def test_statistic_after_every_sweep_is_that_of_the_labels(lattice, sampler):
    for k, beta in ((2, 0.3), (6, 0.9), (255, 0.5), (3, 25.0)):
        layout, state = start(lattice, k)
        for sweep in range(5):
            statistic = sampler(layout, state, beta, streams(1)[1], sweep, 1)
            labels = general.to_labels(layout, state)
            assert statistic[0] == lattice.statistic(labels)
            assert labels[lattice.exists].max() < k
            assert np.all(labels[~lattice.exists] == 255)


@pytest.mark.parametrize("lattice", LARGE, ids=name)
def test_a_frozen_lattice_counts_all_edges(lattice):
    # Half of the edges of a second-order lattice, as the authors' R package counts, would show here.
    layout = general.layout(lattice, 3)
    state = general.from_labels(layout, np.ones(lattice.shape, dtype=np.uint8))
    assert general.statistic(state, layout.sites, layout.before) == lattice.edges
    assert general.gibbs(layout, state, 25.0, streams(1)[1], 0, 1)[0] == lattice.edges


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sweeps_in_any_number_of_calls_give_the_same_bits(sampler):
    for lattice in LARGE[:4]:
        layout, whole = start(lattice, 3)
        _, split = start(lattice, 3)
        statistics = sampler(layout, whole, 0.4, streams(1)[1], 10, 9)
        parts = [
            sampler(layout, split, 0.4, streams(1)[1], 10 + a, b - a) for a, b in ((0, 1), (1, 6), (6, 9))
        ]
        assert np.array_equal(statistics, np.concatenate(parts))
        assert np.array_equal(whole, split)


def enumerate_labellings(lattice, k):
    """Every labelling of the sites that exist: (k**n, n) labels and (k**n,) values of S."""
    sites = np.argwhere(lattice.exists)
    labels = np.array(list(itertools.product(range(k), repeat=len(sites))), dtype=np.uint8)
    statistic = np.zeros(len(labels), dtype=np.int64)
    for a, b in itertools.combinations(range(len(sites)), 2):
        steps = np.abs(sites[a] - sites[b])
        if steps.sum() == 1 if lattice.neighbourhood == "first" else steps.max() == 1:
            statistic += labels[:, a] == labels[:, b]
    return labels, statistic


def batch_scores(draws, expected, batches=50):
    """z-scores of column means of correlated draws (t, m) against their expectations, by batch means."""
    means = draws[: len(draws) // batches * batches].reshape(batches, -1, draws.shape[1]).mean(axis=1)
    return (means.mean(axis=0) - expected) / means.std(axis=0, ddof=1) * math.sqrt(batches)


def threshold(scores, batches=50):
    """The bound that `scores` of Student's distribution pass together with chance RARE."""
    return stats.t.isf(RARE / (2 * scores.size), batches - 1)


def chain(lattice, k, beta, sampler, count, seed):
    """S after every sweep (count,), and the labels after every fiftieth (count / 50, n)."""
    layout, state = start(lattice, k, seed)
    stream = streams(seed)[1]
    sampler(layout, state, beta, stream, 0, 100)
    statistics, labels = [], []
    for t in range(count // 50):
        statistics.append(sampler(layout, state, beta, stream, 100 + 50 * t, 50))
        labels.append(state[layout.sites])
    return np.concatenate(statistics), np.array(labels)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("lattice", SMALL, ids=name)
def test_samplers_have_the_distribution_found_by_enumeration(lattice, sampler):
    scores = []
    for k, beta in itertools.product((2, 3), (0.0, 0.35, 0.8)):
        labellings, statistic = enumerate_labellings(lattice, k)
        weight = np.exp(beta * statistic)
        weight /= weight.sum()
        drawn, labels = chain(lattice, k, beta, sampler, 100_000, seed=k)

        # S and its square, the chance of every common value of S, and of every label at every site.
        exact = np.bincount(statistic, weight, lattice.edges + 1)
        common = np.flatnonzero(exact > 1e-2)
        values = np.column_stack([drawn, drawn**2, drawn[:, None] == common])
        scores.append(
            batch_scores(values, np.array([weight @ statistic, weight @ statistic**2, *exact[common]]))
        )
        scores.append(batch_scores(labels == 0, np.full(labels.shape[1], 1 / k)))
        pair = labels[:, :-1] == labels[:, 1:]
        scores.append(batch_scores(pair, weight @ (labellings[:, :-1] == labellings[:, 1:])))
    scores = np.concatenate(scores)
    assert np.abs(scores).max() < threshold(scores)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("lattice", LARGE[:8], ids=name)
def test_without_interaction_like_pairs_are_binomial(lattice, sampler):
    k, n = 3, 2000
    layout, state = start(lattice, k)
    drawn = sampler(layout, state, 0.0, streams(1)[1], 0, n)
    # At beta = 0 pairs of edges are uncorrelated, and sweeps are independent.
    mean, variance = lattice.edges / k, lattice.edges / k * (1 - 1 / k)
    assert abs(drawn.mean() - mean) < 5 * math.sqrt(variance / n)
    kurtosis = np.mean((drawn - mean) ** 4) / variance**2
    assert abs(drawn.var() / variance - 1) < 5 * math.sqrt((kurtosis - 1) / n)


def test_uniform_labels_are_uniform_for_every_k():
    n = 200_000
    chances = []
    for k in (2, 3, 7, 200, 255):
        out = np.empty(n, dtype=np.uint8)
        general.uniform_labels(out, k, *streams(k)[0])
        assert out.max() < k
        chances.append(stats.chisquare(np.bincount(out, minlength=k)).pvalue)
    assert min(chances) > RARE / len(chances)


def test_multiply_high_is_the_upper_part_of_the_product():
    words = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
    for word, k in itertools.product(words, (2, 3, 200, 255)):
        assert general._high(np.uint64(word), np.uint64(k)) == word * k >> 64


def data_case(lattice, k, seed=3):
    draw = np.random.default_rng(seed)
    mean, sd = np.linspace(-1.0, 1.0, k), np.linspace(0.6, 1.1, k)
    return draw.normal(size=lattice.shape), mean, sd


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lattice", LARGE, ids=name)
def test_sums_of_a_sweep_with_data_are_those_of_its_labels(lattice, dtype):
    k = 4
    y, mean, sd = data_case(lattice, k)
    y = y.astype(dtype)
    layout, state = start(lattice, k)
    padded = general.pad_values(layout, np.where(lattice.exists, y, np.nan).astype(dtype))
    for sweep in range(3):
        s, n, total, squares = general.gibbs_with_data(
            layout, state, padded, 0.4, mean, sd, streams(1)[1], sweep
        )
        labels = general.to_labels(layout, state)
        values, z = y[lattice.exists].astype(np.float64), labels[lattice.exists]
        assert s == lattice.statistic(labels)
        assert np.array_equal(n, np.bincount(z, minlength=k))
        assert np.allclose(total, np.bincount(z, values, k), rtol=1e-12, atol=1e-12)
        assert np.allclose(squares, np.bincount(z, values**2, k), rtol=1e-12)


@pytest.mark.parametrize("lattice", SMALL, ids=name)
def test_sweeps_with_data_have_the_posterior_found_by_enumeration(lattice):
    k, beta, count = 3, 0.5, 10_000
    y, mean, sd = data_case(lattice, k)
    labellings, statistic = enumerate_labellings(lattice, k)
    values = y[lattice.exists][:, None]
    log_density = -0.5 * ((values - mean) / sd) ** 2 - np.log(sd)
    log_weight = beta * statistic + sum(log_density[i, labellings[:, i]] for i in range(lattice.sites))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()

    layout, state = start(lattice, k)
    padded = general.pad_values(layout, y)
    drawn = np.empty((count, lattice.sites), dtype=np.uint8)
    like = np.empty(count)
    for t in range(count):
        like[t], *_ = general.gibbs_with_data(layout, state, padded, beta, mean, sd, streams(1)[1], t)
        drawn[t] = state[layout.sites]
    scores = [batch_scores(like[:, None], np.array([weight @ statistic]))]
    for j in range(k):
        exact = weight @ (labellings == j)
        # Batch means of rarer events are far from normal.
        common = np.minimum(exact, 1 - exact) > 1e-2
        scores.append(batch_scores(drawn[:, common] == j, exact[common]))
    scores = np.concatenate(scores)
    assert np.abs(scores).max() < threshold(scores)


def test_a_sweep_with_data_survives_values_far_from_every_mean():
    lattice = Lattice((6, 6), "second")
    layout, state = start(lattice, 3)
    y = np.full(lattice.shape, 1e6)
    mean, sd = np.array([-1.0, 0.0, 1.0]), np.full(3, 0.01)
    _, n, _, _ = general.gibbs_with_data(
        layout, state, general.pad_values(layout, y), 1.0, mean, sd, streams(1)[1], 0
    )
    assert n.tolist() == [0, 0, 36]
