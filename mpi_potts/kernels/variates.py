"""Uniform, normal and gamma variates from addressed words: the one definition of each.

Normals are by Box and Muller, gammas by Marsaglia and Tsang (2000), shapes below 1 through shape + 1.
"""

import math

import numpy as np
from numba import njit, uint64

from .elementary import box_muller, log, power
from .threefry import threefry2x64
from .words import draw_words

# The word of a gamma's boost is so far after its attempts that they never meet.
BOOST = uint64(2**32)


@njit(cache=True)
def uniform(word):
    """A word as float64 in the open interval (0, 1), 52 bits: never 0, never 1."""
    return (float(word >> uint64(12)) + 0.5) * 2.0**-52


@njit(cache=True)
def normal(index, word, k0, k1):
    """The standard normal addressed by (index, word)."""
    w0, w1 = draw_words(uint64(index), uint64(word), k0, k1)
    return box_muller(uniform(w0), uniform(w1))


@njit(cache=True)
def gamma(shape, index, word, k0, k1):
    """The gamma variate of this shape and scale 1 addressed by (index, word).

    Attempt t takes the words `word` + 2 t and `word` + 2 t + 1, the boost of shapes below 1 `word` + BOOST.
    """
    boost = 1.0
    if shape < 1.0:
        w0, _ = draw_words(uint64(index), uint64(word) + BOOST, k0, k1)
        boost = power(uniform(w0), 1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = uint64(word)
    while True:
        x = normal(index, attempt, k0, k1)
        w0, _ = draw_words(uint64(index), attempt + uint64(1), k0, k1)
        root = 1.0 + c * x
        v = root * root * root
        if v > 0.0 and log(uniform(w0)) < 0.5 * x * x + d - d * v + d * log(v):
            return d * v * boost
        attempt += uint64(2)


@njit(cache=True)
def fill_normals(words, out):
    """Normals out (n,) of the pairs of words (n, 2)."""
    for i in range(out.size):
        out[i] = box_muller(uniform(words[i, 0]), uniform(words[i, 1]))


@njit(cache=True)
def fill_gammas(shape, word, k0, k1, out):
    """Gamma variates out (n,) of these shapes, addressed by (i, word)."""
    for i in range(out.size):
        out[i] = gamma(shape[i], i, word, k0, k1)


@njit(inline="always")
def high(word, k):
    """The upper 64 of the 96 bits of word * k, for k below 2**32: a number in 0..k-1."""
    return ((word >> uint64(32)) * k + (((word & uint64(0xFFFFFFFF)) * k) >> uint64(32))) >> uint64(32)


@njit(inline="always")
def uniform_label(word, k, site, attempt, k0, k1):
    """A label exactly uniform on 0..k-1: multiply-high, drawing again in the 2**64 mod k surplus cases."""
    surplus = (uint64(0) - k) % k
    while word * k < surplus:
        attempt += uint64(1)
        word, _ = threefry2x64(site, attempt, k0, k1)
    return np.uint8(high(word, k))


@njit(cache=True)
def uniform_labels(out, k, k0, k1):
    """Fill `out` with independent labels, uniform on 0..k-1, addressed by their index."""
    for i in range(out.size):
        word, _ = threefry2x64(uint64(i), uint64(0), k0, k1)
        out[i] = uniform_label(word, uint64(k), uint64(i), uint64(0), k0, k1)
