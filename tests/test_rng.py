"""The generator against its published vectors, and the draws made of it against what they must be."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mpi_potts import rng
from mpi_potts.kernels import variates
from mpi_potts.kernels.threefry import encrypt
from mpi_potts.rng import Purpose

# Known answers of threefry2x64, 13 rounds, from the distribution of Random123: counter, key, result.
VECTORS = [
    ((0, 0), (0, 0), (0xF167B032C3B480BD, 0xE91F9FEE4B7A6FB5)),
    ((2**64 - 1,) * 2, (2**64 - 1,) * 2, (0xCCDEC5C917A874B1, 0x4DF53ABCA26CEB01)),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344),
        (0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0xC3AAC71561042993, 0x3FE7AE8801AFF316),
    ),
]

# A test of this file fails by chance about once in a million runs; the seeds are fixed, so it does not.
RARE = 1e-6


@pytest.fixture
def stream():
    return rng.stream(1, Purpose.SIMULATE, 0)


@pytest.mark.parametrize(("counter", "key", "answer"), VECTORS)
def test_published_vectors_in_compiled_code(counter, key, answer):
    assert encrypt(*map(np.uint64, counter + key)) == answer


@pytest.mark.parametrize(("counter", "key", "answer"), VECTORS)
def test_published_vectors_in_plain_python(counter, key, answer):
    assert python_threefry(counter, key) == answer


def python_threefry(counter, key):
    """An independent reading of the definition, in Python's integers."""
    mask, rotations = 2**64 - 1, (16, 42, 12, 31, 16, 32, 24, 21)
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDAA9FC1A22)
    x, y = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    for r in range(13):
        x = (x + y) & mask
        y = ((y << rotations[r % 8]) | (y >> (64 - rotations[r % 8]))) & mask ^ x
        if r % 4 == 3:
            s = r // 4 + 1
            x, y = (x + keys[s % 3]) & mask, (y + keys[(s + 1) % 3] + s) & mask
    return x, y


def test_compiled_and_plain_generator_agree_on_many_counters(stream):
    words = rng.words(stream, 7, 100, word=5)
    key = tuple(int(k) for k in rng.key(stream, 7))
    assert [tuple(map(int, pair)) for pair in words] == [python_threefry((i, 5), key) for i in range(100)]


def test_every_part_of_the_address_changes_the_stream():
    streams = {
        tuple(rng.stream(seed, purpose, address))
        for seed in (0, 1, 2, 2**64 - 1)
        for purpose in Purpose
        for address in (0, 1, 2, rng.float_bits(0.5), rng.float_bits(1.0))
    }
    assert len(streams) == 4 * len(Purpose) * 5


def test_iterations_indices_and_words_differ(stream):
    draws = np.concatenate([rng.words(stream, t, 50, word).ravel() for t in range(20) for word in range(3)])
    assert np.unique(draws).size == draws.size == 20 * 3 * 50 * 2


def test_the_numbers_of_purposes_are_part_of_the_results():
    names = "GRID START PRIOR_SWEEP SIMULATE PARTICLE PSEUDO_STATISTIC PROPOSAL ACCEPT RESAMPLE CHAIN_BETA"
    names += " LABEL_SWEEP NOISE FINAL_BETA SIMULATE_START SIMULATE_TRUTH SIMULATE_NOISE"
    assert [Purpose[name].value for name in names.split()] == list(range(1, 17))
    assert len(Purpose) == len(Purpose.__members__), "two names share a number"


@pytest.mark.parametrize("draw", [rng.words, rng.uniforms, rng.normals])
def test_any_split_of_the_index_gives_the_same_bits(stream, draw):
    whole = draw(stream, 3, 1000)
    parts = [draw(stream, 3, np.arange(a, b)) for a, b in ((0, 1), (1, 400), (400, 1000))]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole[::-1], draw(stream, 3, np.arange(1000)[::-1]))


def test_float_bits_tells_values_apart_but_not_the_two_zeros():
    assert rng.float_bits(0.0) == rng.float_bits(-0.0) == 0
    assert rng.float_bits(0.1) != rng.float_bits(np.nextafter(0.1, 1.0))


def test_uniforms_are_inside_the_open_interval_at_the_extreme_words():
    low, high = rng.to_uniform(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0.0 < low < 1e-15
    assert 1.0 - 1e-15 < high < 1.0


def test_bits_of_words_are_balanced(stream):
    n = 100_000
    words = rng.words(stream, 0, n).ravel()
    ones = np.array([((words >> np.uint64(b)) & np.uint64(1)).sum() for b in range(64)], dtype=float)
    z = (ones - n) / math.sqrt(n / 2)  # 2n words: mean n, variance 2n / 4
    assert np.abs(z).max() < stats.norm.isf(RARE / 2 / 64)


def test_uniforms_are_uniform(stream):
    assert stats.kstest(rng.uniforms(stream, 0, 100_000), "uniform").pvalue > RARE


def test_normals_are_normal(stream):
    assert stats.kstest(rng.normals(stream, 0, 100_000), "norm").pvalue > RARE


def test_neighbouring_addresses_are_uncorrelated(stream):
    n = 100_000
    base = rng.normals(stream, 0, n)
    others = [
        np.roll(base, 1),
        rng.normals(stream, 1, n),
        rng.normals(stream, 0, n, word=1),
        rng.normals(rng.stream(1, Purpose.SIMULATE, 1), 0, n),
        rng.normals(rng.stream(2, Purpose.SIMULATE, 0), 0, n),
    ]
    z = np.array([base @ other for other in others]) / math.sqrt(n)
    assert np.abs(z).max() < stats.norm.isf(RARE / 2 / len(others))


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 5000.0])
def test_gamma_variates_have_their_distribution(stream, shape):
    draws = rng.gammas(stream, 0, np.full(50_000, shape))
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > RARE


def test_a_gamma_variate_belongs_to_its_index_and_shape(stream):
    shapes = np.array([0.5, 1.0, 3.0, 7.0])
    draws = rng.gammas(stream, 0, shapes)
    assert np.array_equal(draws[:2], rng.gammas(stream, 0, shapes[:2]))
    assert not np.array_equal(draws, rng.gammas(stream, 1, shapes))


def test_uniform_labels_are_uniform_for_every_k():
    n = 200_000
    chances = []
    for k in (2, 3, 7, 200, 255):
        out = np.empty(n, dtype=np.uint8)
        variates.uniform_labels(out, k, *rng.key(rng.stream(k, Purpose.START), 0))
        assert out.max() < k
        chances.append(stats.chisquare(np.bincount(out, minlength=k)).pvalue)
    assert min(chances) > 1e-4 / len(chances)


def test_multiply_high_is_the_upper_part_of_the_product():
    words = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
    for word, k in itertools.product(words, (2, 3, 200, 255)):
        assert variates.high(np.uint64(word), np.uint64(k)) == word * k >> 64
