"""The generator: the block cipher Threefry-2x64 with 13 rounds.  `rng.py` says how it is keyed."""

import numpy as np
from numba import njit, uint64

# The parity constant of the Threefish key schedule (SC11, section 4.1).
PARITY = np.uint64(0x1BD11BDAA9FC1A22)


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
def encrypt(c0, c1, k0, k1):
    return threefry2x64(c0, c1, k0, k1)


@njit(cache=True)
def fill(out, index, word, k0, k1):
    for i in range(index.size):
        out[i, 0], out[i, 1] = threefry2x64(index[i], word, k0, k1)
