"""Labels keep their names: inside a chain, between chains, and in what a fit says of them."""

from itertools import permutations

import numpy as np
import pytest

import mpi_potts as mp
from mpi_potts.kernels import names
from mpi_potts.labels import matching
from mpi_potts.labels.chain import LabelChain, witnesses
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.posterior.spare import holdings, spare


def identity(k):
    return np.arange(max(k, 256)).astype(np.uint8)


def best_by_trial(gain):
    k = len(gain)
    return max(sum(int(gain[a, b]) for a, b in enumerate(p)) for p in permutations(range(k)))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_an_assignment_is_the_best_of_all(k):
    draw = np.random.default_rng(k)
    for case in range(60):
        gain = draw.integers(0, (3, 1000, 2**40)[case % 3], (k, k))
        if case % 4 == 0:
            gain[draw.integers(k)] = 0  # a label without pixels
        table = identity(k)
        moved = names.assign(gain, table)
        assert sorted(table[:k]) == list(range(k)) and moved == (table[:k] != np.arange(k)).any()
        assert sum(int(gain[a, table[a]]) for a in range(k)) == best_by_trial(gain)


def test_labels_that_need_not_move_do_not():
    table = identity(4)
    gain = np.zeros((4, 4), np.int64)
    assert not names.assign(gain, table)
    gain[0, 1] = gain[1, 0] = 5
    assert names.assign(gain, table) and table[:4].tolist() == [1, 0, 2, 3]


def test_a_permutation_of_255_labels_is_found():
    k = 255
    wanted = np.random.default_rng(0).permutation(k)
    gain = np.random.default_rng(1).integers(0, 50, (k, k))
    gain[np.arange(k), wanted] += 1000
    table = identity(k)
    assert names.assign(gain, table) and np.array_equal(table[:k], wanted)


def test_sorting_by_the_first_parameter_renames_consistently():
    values, table = np.array([[3.0, -1.0, 2.0], [0.3, 0.1, 0.2]]), identity(3)
    z = np.array([0, 1, 2, 0, 255], dtype=np.uint8)
    assert names.order(values[0], table)
    names.rename(z, values, table)
    assert values.tolist() == [[-1.0, 2.0, 3.0], [0.1, 0.2, 0.3]] and z.tolist() == [2, 0, 1, 2, 255]
    assert not names.order(values[0], table)


def test_chains_are_matched_by_the_pixels_they_agree_on():
    draw, k = np.random.default_rng(3), 4
    p = draw.dirichlet([0.3] * k, 500)
    one = (1000 * p).astype(np.uint32)
    tables = [draw.permutation(k) for _ in range(3)]
    others = []
    for table in tables:
        noisy = (700 * (0.8 * p + 0.2 * draw.dirichlet([1.0] * k, 500))).astype(np.uint32)
        others.append(noisy[:, table])  # label j of the other chain is label table[j] here
    found = matching.matched([one, *others])
    assert found[0].tolist() == list(range(k))
    for table, name in zip(tables, found[1:]):
        assert name.tolist() == table.tolist()
    values = np.stack([draw.normal(size=(6, k)) for _ in found])
    moved = matching.renamed(values, found)
    assert np.array_equal(moved[1][:, tables[0]], values[1])


def two_halves(seed, sd=0.15, shape=(32, 32)):
    z = np.zeros(shape, dtype=int)
    z[:, shape[1] * 5 // 9 :] = 1
    return z, np.array([-1.0, 1.0])[z] + sd * np.random.default_rng(seed).normal(size=shape)


def test_labels_that_exchange_their_pixels_are_renamed():
    """The labels of a chain are exchanged behind its back: its counts and its trace go on under old names."""
    z, values = two_halves(0)
    chain = LabelChain(Lattice(values.shape), values, 2, gaussian_noise(2), seed=1)
    before = chain.sweep(np.full(4 * names.PERIOD, 0.8)).noise[0, -1]
    packed = chain.pack()
    packed["labels"], packed["noise"] = 1 - packed["labels"], packed["noise"][:, ::-1]
    chain.unpack(packed)
    after = chain.sweep(np.full(names.PERIOD, 0.8)).noise[0, -1]
    assert chain.switches == 1 and np.allclose(before, after, atol=0.1)
    assert np.array_equal(chain.labels, z if before[0] < before[1] else 1 - z)


def test_names_are_kept_where_nothing_else_gives_them():
    lattice = Lattice((40, 37))
    assert witnesses(lattice, gaussian_noise(3)) == lattice.sites
    assert witnesses(lattice, gaussian_noise(3), sort_labels=True) == 0
    assert witnesses(lattice, gaussian_noise(2, mean=[0.0, 1.0])) == 0
    assert 0 < witnesses(Lattice((1000, 999)), gaussian_noise(3)) <= 2 * 4096


def entropy(probability):
    p = np.where(probability > 0.0, probability, 1.0)
    return float(-(probability * np.log2(p)).sum(axis=-1).mean())


PRIORS = {"mean": {"mean": 0.0, "sd": 2.236}, "method": "path", "beta": [0.0, 1.5], "quiet": True}
QUICK = {"precompute": {"points": 60, "iterations": 400, "burn_in": 100}}


@pytest.mark.parametrize("k, sd, scale, most", [(3, 0.15, 0.11, 0.05), (4, 0.4, 0.8, 0.1)])
def test_two_regions_are_two_labels_whatever_k(k, sd, scale, most):
    z, values = two_halves(2, sd, (64, 64))
    variance = {"shape": 5.0, "scale": scale}
    result = mp.fit(values, labels=k, variance=variance, seed=3, chains=2, **PRIORS, **QUICK)
    assert entropy(result.probability) < most
    assert np.all(np.diff(result.mu.mean(axis=0)) >= 0.0)
    shares = np.sort(result.probability.mean(axis=(0, 1)))[::-1]
    assert np.allclose(shares[:2], np.sort(np.bincount(z.ravel()) / z.size)[::-1], atol=0.01)
    said = [text for text in result.warnings if "of the pixels: k = 2 may do" in text]
    assert len(said) == k - 2


def test_every_chain_has_the_names_of_the_result():
    _, values = two_halves(2)
    result = mp.fit(values, labels=2, variance={"shape": 5.0, "scale": 0.11}, chains=3, **PRIORS, **QUICK)
    for chain in result.by_chain("noise/mean"):
        assert np.allclose(chain.mean(axis=0), [-1.0, 1.0], atol=0.1)


def test_a_small_class_that_is_there_is_not_called_spare():
    counts = np.zeros((10_000, 3), np.uint32)
    counts[:5000, 0] = counts[5000:9940, 1] = counts[9940:, 2] = 100
    apart = np.full((3, 3), 5.0)
    assert list(spare(holdings(counts.T, 10_000, 100), apart)) == []
    counts[9940:] = 0
    counts[9940:, 1], counts[:6000, 2], counts[:6000, 0] = 100, 1, 99
    assert list(spare(holdings(counts.T, 10_000, 100), apart)) == [
        "label 3 holds 0.6 % of the pixels: k = 2 may do"
    ]


def test_labels_that_share_their_pixels_at_random_are_named():
    counts = np.zeros((1000, 3), np.uint32)
    counts[:500, 0], counts[500:, 1], counts[500:, 2] = 100, 50, 50
    apart = np.array([[0.0, 4.0, 4.0], [4.0, 0.0, 0.1], [4.0, 0.1, 0.0]])
    (said,) = spare(holdings(counts.T, 1000, 100), apart)
    assert said.startswith("labels 2 and 3 cannot be told apart") and said.endswith("k = 2 may do")
    assert list(spare(holdings(counts.T, 1000, 100), np.full((3, 3), 4.0))) == []
