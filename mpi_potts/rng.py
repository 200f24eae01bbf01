"""Random numbers that are addressed, never carried.

Every draw is a pure function of (seed, purpose, address, iteration, index): the generator is the block cipher
Threefry-2x64 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11), which
turns a 128-bit counter and a 128-bit key into 128 random bits.  It has 13 rounds, with which its authors
found no failure in BigCrush; 20, their margin of safety, cost the kernels a tenth more.  There is no state to
save, and no draw depends on which rank, thread or restart made it.

The keys form a tree.  Each step encrypts an address with the key above it, so that two different paths never
share a key by construction of the arguments:

    seed --(purpose, address)--> stream --(iteration, 0)--> key --(index, word)--> 128 random bits

`threefry2x64` is the one definition of the generator: kernels inline it, numpy code calls it through `words`.
"""

from enum import IntEnum

import numpy as np
from numba import njit, uint64

# The parity constant of the Threefish key schedule (SC11, section 4.1).
PARITY = np.uint64(0x1BD11BDAA9FC1A22)


class Purpose(IntEnum):
    """What a draw is for: streams of different purposes never meet.  The numbers are part of the results."""

    GRID = 1
    START = 2
    PRIOR_SWEEP = 3
    SIMULATE = 4
    PARTICLE = 5
    PSEUDO_STATISTIC = 6
    PROPOSAL = 7
    ACCEPT = 8
    RESAMPLE = 9
    CHAIN_BETA = 10
    LABEL_SWEEP = 11
    NOISE = 12
    FINAL_BETA = 13
    SIMULATE_START = 14
    SIMULATE_TRUTH = 15
    SIMULATE_NOISE = 16
    ORDERED_SWEEP = 20
    POSTERIOR = 21
    AUXILIARY_START = 22
    AUXILIARY_SWEEP = 23
    EXCHANGE = 24
    PSEUDO_START = 25
    PSEUDO_SWEEP = 26
    REJECTION = 27
    STUDY = 28
    CHAIN_START = 29


@njit(inline="always")
def _mix(x0, x1, rotation):
    """One round: add, rotate, exclusive or."""
    x0 = x0 + x1
    x1 = (x1 << uint64(rotation)) | (x1 >> uint64(64 - rotation))
    return x0, x1 ^ x0


@njit(inline="always")
def threefry2x64(c0, c1, k0, k1):
    """Encrypt the counter (c0, c1) with the key (k0, k1): two uint64 words, Threefry-2x64-13."""
    k2 = k0 ^ k1 ^ PARITY
    x0 = c0 + k0
    x1 = c1 + k1
    x0, x1 = _mix(x0, x1, 16)
    x0, x1 = _mix(x0, x1, 42)
    x0, x1 = _mix(x0, x1, 12)
    x0, x1 = _mix(x0, x1, 31)
    x0 = x0 + k1
    x1 = x1 + k2 + uint64(1)
    x0, x1 = _mix(x0, x1, 16)
    x0, x1 = _mix(x0, x1, 32)
    x0, x1 = _mix(x0, x1, 24)
    x0, x1 = _mix(x0, x1, 21)
    x0 = x0 + k2
    x1 = x1 + k0 + uint64(2)
    x0, x1 = _mix(x0, x1, 16)
    x0, x1 = _mix(x0, x1, 42)
    x0, x1 = _mix(x0, x1, 12)
    x0, x1 = _mix(x0, x1, 31)
    x0 = x0 + k0
    x1 = x1 + k1 + uint64(3)
    return _mix(x0, x1, 16)


@njit(cache=True)
def _encrypt(c0, c1, k0, k1):
    return threefry2x64(c0, c1, k0, k1)


@njit(cache=True)
def _fill(out, index, word, k0, k1):
    for i in range(index.size):
        out[i, 0], out[i, 1] = threefry2x64(index[i], word, k0, k1)


def stream(seed: int, purpose: Purpose, address: int = 0) -> np.ndarray:
    """The key of one stream of draws: (2,) uint64.

    `address` tells apart the streams of one purpose: a chain's number, or `float_bits(beta)` for a simulation
    at beta, so that the draws belong to the value itself and not to its place in some grid.
    """
    k0, k1 = _encrypt(np.uint64(purpose), np.uint64(address), np.uint64(seed), PARITY)
    return np.array([k0, k1], dtype=np.uint64)


def key(stream: np.ndarray, iteration: int) -> np.ndarray:
    """The key of one iteration of a stream: (2,) uint64."""
    return np.array(_encrypt(np.uint64(iteration), np.uint64(0), stream[0], stream[1]), dtype=np.uint64)


def float_bits(value: float) -> int:
    """The 64 bits of a float as an integer; the two zeros are the same address."""
    return int(np.float64(value + 0.0).view(np.uint64))


def words(stream: np.ndarray, iteration: int, index, word: int = 0) -> np.ndarray:
    """(n, 2) random uint64 words for the n global indices in `index` (an array, or a count for 0..n-1)."""
    index = np.arange(index, dtype=np.uint64) if np.isscalar(index) else np.asarray(index).astype(np.uint64)
    k0, k1 = key(stream, iteration)
    out = np.empty((index.size, 2), dtype=np.uint64)
    _fill(out, index, np.uint64(word), k0, k1)
    return out


def to_uniform(words: np.ndarray) -> np.ndarray:
    """Words to float64 in the open interval (0, 1), 52 bits: never 0, never 1."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def uniforms(stream: np.ndarray, iteration: int, index, word: int = 0) -> np.ndarray:
    """(n,) uniforms on (0, 1)."""
    return to_uniform(words(stream, iteration, index, word)[:, 0])


def normals(stream: np.ndarray, iteration: int, index, word: int = 0) -> np.ndarray:
    """(n,) standard normals (Box and Muller: both words of a draw make one normal)."""
    u = to_uniform(words(stream, iteration, index, word))
    return np.sqrt(-2.0 * np.log(u[:, 0])) * np.cos(2.0 * np.pi * u[:, 1])


def gammas(stream: np.ndarray, iteration: int, shape: np.ndarray, word: int = 0) -> np.ndarray:
    """(n,) gamma variates of the given shapes and scale 1, for the indices 0..n-1 (Marsaglia and Tsang 2000).

    Attempt a uses the words `word` + 2a and `word` + 2a + 1, the boost of shapes below 1 `word` + 2**32.
    """
    shape = np.asarray(shape, dtype=np.float64)
    d = np.where(shape < 1.0, shape + 1.0, shape) - 1.0 / 3.0
    cube = np.zeros(shape.size)
    left = np.arange(shape.size)
    attempt = word
    while left.size:
        x = normals(stream, iteration, left, attempt)
        u = uniforms(stream, iteration, left, attempt + 1)
        v = np.maximum(1.0 + x / np.sqrt(9.0 * d[left]), 0.0) ** 3
        # A v of zero is never accepted: its logarithm is taken as that of the smallest number.
        log_v = np.log(np.maximum(v, np.finfo(np.float64).tiny))
        accepted = (v > 0.0) & (np.log(u) < 0.5 * x * x + d[left] * (1.0 - v + log_v))
        cube[left[accepted]] = v[accepted]
        left = left[~accepted]
        attempt += 2
    boost = uniforms(stream, iteration, shape.size, word + 2**32) ** (1.0 / shape)
    return d * cube * np.where(shape < 1.0, boost, 1.0)
