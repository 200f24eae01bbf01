"""Random words for kernels: the generator of `kernels/threefry.py`, many counters at a time.

A round of the cipher waits for the one before it: a loop over single counters leaves the processor half idle.
`fill_words` encrypts two counters side by side in every lane, with the words of `threefry2x64`.
"""

from numba import njit, uint64

from .leaf import leaf
from .threefry import PARITY, threefry2x64


@njit(cache=True)
def draw_words(index, word, k0, k1):
    """The two words of one counter, where few are drawn: a call, which compiles sooner than a copy."""
    return threefry2x64(index, word, k0, k1)


@njit(inline="always")
def _mix(a0, a1, b0, b1, rotation):
    """One round of two counters."""
    a0 = a0 + a1
    b0 = b0 + b1
    left, right = a1 << uint64(rotation), b1 << uint64(rotation)
    a1 = a1 >> uint64(64 - rotation)
    b1 = b1 >> uint64(64 - rotation)
    a1 = a1 | left
    b1 = b1 | right
    return a0, a1 ^ a0, b0, b1 ^ b0


@njit(inline="always")
def _first_four(a0, a1, b0, b1, key0, key1):
    """The even groups of four rounds, and the key after them."""
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 16)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 42)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 12)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 31)
    return a0 + key0, a1 + key1, b0 + key0, b1 + key1


@njit(inline="always")
def _second_four(a0, a1, b0, b1, key0, key1):
    """The odd groups of four rounds, and the key after them."""
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 16)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 32)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 24)
    a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 21)
    return a0 + key0, a1 + key1, b0 + key0, b1 + key1


@leaf
def fill_words(words, first, word, k0, k1):
    """Random words of the counters (first + i, word), into places i and half + i of `words` (2 half,)."""
    quarter = words.size // 4
    low, middle = words[:quarter], words[quarter : 2 * quarter]
    high, top = words[2 * quarter : 3 * quarter], words[3 * quarter :]
    k2 = k0 ^ k1 ^ PARITY
    for i in range(quarter):
        a0, b0 = uint64(first + i) + k0, uint64(first + quarter + i) + k0
        a1 = b1 = word + k1
        a0, a1, b0, b1 = _first_four(a0, a1, b0, b1, k1, k2 + uint64(1))
        a0, a1, b0, b1 = _second_four(a0, a1, b0, b1, k2, k0 + uint64(2))
        a0, a1, b0, b1 = _first_four(a0, a1, b0, b1, k0, k1 + uint64(3))
        a0, a1, b0, b1 = _mix(a0, a1, b0, b1, 16)
        low[i], high[i], middle[i], top[i] = a0, a1, b0, b1
