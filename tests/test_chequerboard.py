"""The chequerboard sweeps of the prior: definitions, independence of the split, distribution."""

from itertools import product

import numpy as np
import pytest

from mpi_potts.kernels import chequerboard
from mpi_potts.kernels.words import fill_words
from mpi_potts.lattice import Lattice
from mpi_potts.rng import Purpose, key, stream, words

SWEEPS = stream(3, Purpose.PRIOR_SWEEP)
HOLES = np.random.default_rng(5).random((21, 34)) < 0.6
HOLES[0, 0], HOLES[0, 1], HOLES[1, 0] = True, False, False


def start(lattice, k, seed=1):
    layout = chequerboard.layout(lattice, k)
    labels = np.random.default_rng(seed).integers(0, k, lattice.shape).astype(np.uint8)
    return layout, chequerboard.from_labels(layout, labels)


def exact_moments(lattice, k, beta):
    """Mean and standard deviation of S by enumeration."""
    labellings = np.array(list(product(range(k), repeat=lattice.sites)), dtype=np.uint8)
    images = labellings.reshape(-1, *lattice.shape)
    s = np.array([lattice.statistic(z) for z in images])
    p = np.exp(beta * s)
    p /= p.sum()
    mean = p @ s
    return mean, np.sqrt(p @ (s - mean) ** 2)


def batch_error(x, batches=64):
    means = x[: x.size // batches * batches].reshape(batches, -1).mean(axis=1)
    return means.std(ddof=1) / np.sqrt(batches)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 63), (65, 1), (5, 64), (7, 65), (40, 33), (3, 1030)])
def test_labels_survive_the_layout(shape):
    lattice = Lattice(shape)
    labels = np.random.default_rng(0).integers(0, 7, shape).astype(np.uint8)
    layout = chequerboard.layout(lattice, 7)
    assert np.array_equal(chequerboard.to_labels(layout, chequerboard.from_labels(layout, labels)), labels)


@pytest.mark.parametrize("k", [2, 3, 4, 6, 8, 9, 40, 255])
@pytest.mark.parametrize("shape", [(2, 1), (9, 63), (8, 64), (33, 65), (1, 700)])
def test_the_statistic_is_that_of_the_labels(k, shape):
    lattice = Lattice(shape)
    layout, state = start(lattice, k)
    for first in range(3):
        s = chequerboard.sweeps(layout, state, 0.7, SWEEPS, first, 1)
        labels = chequerboard.to_labels(layout, state)
        assert labels.max() < k
        assert s[0] == lattice.statistic(labels)


@pytest.mark.parametrize("k", [2, 3, 6, 40])
def test_masked_pixels_stay_out(k):
    lattice = Lattice(HOLES.shape, mask=HOLES)
    layout, state = start(lattice, k)
    s = chequerboard.sweeps(layout, state, 1.1, SWEEPS, 0, 20)
    labels = chequerboard.to_labels(layout, state)
    assert np.all(labels[~HOLES] == 255) and labels[HOLES].max() < k
    assert s[-1] == lattice.statistic(labels)
    assert np.array_equal(state == 255, layout.absent == 255)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_an_island_is_uniform(k):
    lattice = Lattice(HOLES.shape, mask=HOLES)
    layout, state = start(lattice, k)
    seen = np.zeros(k)
    for first in range(2000):
        chequerboard.sweeps(layout, state, 2.0, SWEEPS, first, 1)
        seen[chequerboard.to_labels(layout, state)[0, 0]] += 1
    assert np.all(np.abs(seen - 2000 / k) < 4.5 * np.sqrt(2000 * (1 / k) * (1 - 1 / k)))


@pytest.mark.parametrize("k", [3, 6])
def test_the_split_of_sweeps_and_blocks_changes_no_bit(k):
    lattice = Lattice((65, 64))
    layout, whole = start(lattice, k)
    _, split = start(lattice, k)
    s = chequerboard.sweeps(layout, whole, 0.9, SWEEPS, 5, 4)
    tables = chequerboard.few_tables(min(k, 3), 0.9)
    total = []
    for sweep in range(5, 9):
        k0, k1 = key(SWEEPS, sweep)
        for colour in range(2):
            # The parts of a colour in another order.
            parts = [
                chequerboard.half_sweep(
                    split, layout.absent, *layout.geometry, k, 0.9, tables, k0, k1, colour, first, last
                )
                for first, last in ((3, 2 * layout.blocks), (0, 1), (1, 3))
            ]
        total.append(sum(parts))
    assert np.array_equal(whole, split)
    assert np.array_equal(s, total)


def test_words_in_bulk_are_those_of_the_generator():
    buffer = np.empty(64, dtype=np.uint64)
    fill_words(buffer, 2**33, np.uint64(7), *key(SWEEPS, 4))
    expected = words(SWEEPS, 4, 2**33 + np.arange(32), 7)
    assert np.array_equal(buffer.reshape(2, 32).T, expected)


@pytest.mark.parametrize("k", [2, 3, 4, 9])
def test_no_interaction_gives_independent_labels(k):
    lattice = Lattice((125, 125))
    layout, state = start(lattice, k)
    s = chequerboard.sweeps(layout, state, 0.0, SWEEPS, 0, 400)
    mean, variance = lattice.edges / k, lattice.edges / k * (1 - 1 / k)
    assert abs(s.mean() - mean) < 4 * np.sqrt(variance / s.size)
    assert abs(s.var(ddof=1) / variance - 1) < 4 * np.sqrt(2 / s.size)
    counts = np.bincount(chequerboard.to_labels(layout, state).ravel(), minlength=k)
    assert np.all(np.abs(counts - lattice.sites / k) < 5 * np.sqrt(lattice.sites / k))


@pytest.mark.parametrize(
    "shape, k", [((2, 3), 2), ((2, 3), 3), ((3, 3), 2), ((3, 3), 3), ((2, 3), 5), ((2, 2), 12)]
)
@pytest.mark.parametrize("beta", [0.4, 1.1])
def test_small_lattices_match_enumeration(shape, k, beta):
    lattice = Lattice(shape)
    layout, state = start(lattice, k)
    mean, sd = exact_moments(lattice, k, beta)
    s = chequerboard.sweeps(layout, state, beta, SWEEPS, 0, 30_000)[500:].astype(float)
    assert abs(s.mean() - mean) < 4.5 * batch_error(s)
    square = (s - mean) ** 2
    assert abs(square.mean() - sd**2) < 4.5 * batch_error(square)


@pytest.mark.parametrize("k", [3, 7])
def test_every_neighbourhood_has_its_probabilities(k):
    """Frequencies of all labels given the neighbours, among the sites with the same counts."""
    beta, shape = 0.8, (500, 500)
    lattice = Lattice(shape)
    layout, state = start(lattice, k)
    chequerboard.sweeps(layout, state, beta, SWEEPS, 0, 10)
    z = chequerboard.to_labels(layout, state).astype(int)
    # After a sweep the second colour has just been drawn given the first.
    n = np.zeros((*shape, k))
    for j in range(k):
        like = np.pad(z == j, 1).astype(int)
        n[..., j] = like[:-2, 1:-1] + like[2:, 1:-1] + like[1:-1, :-2] + like[1:-1, 2:]
    p = np.exp(beta * n)
    p /= p.sum(axis=-1, keepdims=True)
    second = lattice.colours == 1
    drawn = (z[..., None] == np.arange(k))[second]
    p, n = p[second], n[second]
    for count in range(5):
        for j in range(k):
            chosen = n[:, j] == count
            expected, variance = p[chosen, j].sum(), (p[chosen, j] * (1 - p[chosen, j])).sum()
            assert abs(drawn[chosen, j].sum() - expected) <= 4.5 * np.sqrt(variance) + 3


@pytest.mark.parametrize("k", [2, 3, 6])
def test_strong_interaction_keeps_order(k):
    lattice = Lattice((30, 30))
    layout = chequerboard.layout(lattice, k)
    state = chequerboard.from_labels(layout, np.zeros(lattice.shape, np.uint8))
    s = chequerboard.sweeps(layout, state, 25.0, SWEEPS, 0, 50)
    assert np.all(s == lattice.edges)
