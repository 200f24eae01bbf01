"""Random numbers that are addressed, never carried.

Every draw is a pure function of (seed, purpose, address, iteration, index): the generator is the block cipher
Threefry-2x64 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11), which
turns a 128-bit counter and a 128-bit key into 128 random bits.  It has 13 rounds, with which its authors
found no failure in BigCrush; 20, their margin of safety, cost the kernels a tenth more.  There is no state to
save, and no draw depends on which rank, thread or restart made it.

The keys form a tree.  Each step encrypts an address with the key above it, so that two different paths never
share a key by construction of the arguments:

    seed --(purpose, address)--> stream --(iteration, 0)--> key --(index, word)--> 128 random bits

`kernels.threefry` is the one definition of the generator: kernels inline it, numpy code calls it through
`words`.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from .kernels import variates
from .kernels.threefry import PARITY, encrypt, fill
from .slabs import slabs

# Global indices of draws: these, or a count n for 0..n-1.
Index = int | Sequence[int] | np.ndarray


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
    FLIPS = 30
    SWAPS = 31
    BINDING_SHIFT = 40


def stream(seed: int, purpose: Purpose, address: int = 0) -> np.ndarray:
    """The key of one stream of draws: (2,) uint64.

    `address` tells apart the streams of one purpose: a chain's number, or `float_bits(beta)` for a simulation
    at beta, so that the draws belong to the value itself and not to its place in some grid.
    """
    k0, k1 = encrypt(np.uint64(purpose), np.uint64(address), np.uint64(seed), PARITY)
    return np.array([k0, k1], dtype=np.uint64)


def key(stream: np.ndarray, iteration: int) -> np.ndarray:
    """The key of one iteration of a stream: (2,) uint64."""
    return np.array(encrypt(np.uint64(iteration), np.uint64(0), stream[0], stream[1]), dtype=np.uint64)


def float_bits(value: float) -> int:
    """The 64 bits of a float as an integer; the two zeros are the same address."""
    return int(np.float64(value + 0.0).view(np.uint64))


def words(stream: np.ndarray, iteration: int, index: Index, word: int = 0) -> np.ndarray:
    """(n, 2) random uint64 words for the n global indices in `index` (an array, or a count for 0..n-1)."""
    indices = np.asarray(np.arange(index) if isinstance(index, int | np.integer) else index).astype(np.uint64)
    k0, k1 = key(stream, iteration)
    out = np.empty((indices.size, 2), dtype=np.uint64)
    fill(out, indices, np.uint64(word), k0, k1)
    return out


def to_uniform(words: np.ndarray) -> np.ndarray:
    """Words to float64 in the open interval (0, 1), 52 bits: never 0, never 1."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def uniforms(stream: np.ndarray, iteration: int, index: Index, word: int = 0) -> np.ndarray:
    """(n,) uniforms on (0, 1), one for each of the n global indices."""
    return to_uniform(words(stream, iteration, index, word)[:, 0])


def normals(stream: np.ndarray, iteration: int, index: Index, word: int = 0) -> np.ndarray:
    """(n,) standard normals (Box and Muller: both words of a draw make one normal)."""
    indices = None if isinstance(index, int | np.integer) else np.asarray(index).reshape(-1)
    out = np.empty(index if indices is None else indices.size)
    # By slabs: the words of all would be three times the memory of the normals.
    for part in slabs(out.size):
        here = np.arange(part.start, part.stop) if indices is None else indices[part]
        variates.fill_normals(words(stream, iteration, here, word), out[part])
    return out


def gammas(stream: np.ndarray, iteration: int, shape: np.ndarray, word: int = 0) -> np.ndarray:
    """(n,) gamma variates of the given shapes and scale 1, for the indices 0..n-1."""
    shape = np.asarray(shape, dtype=np.float64)
    out = np.empty(shape.size)
    variates.fill_gammas(shape, np.uint64(word), *key(stream, iteration), out)
    return out
