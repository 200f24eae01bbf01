"""The Fourier transform of a power of two numbers, in an order that is written down.

The recursion of Cooley and Tukey, in place, on real and imaginary parts: libraries take their factors from
the C library's sine and cosine, whose last bits depend on the CPU.
"""

import numpy as np
from numba import njit

from .elementary import turn


@njit(cache=True)
def _reverse_bits(real, imaginary):
    j = 0
    for i in range(1, real.size):
        bit = real.size >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            real[i], real[j] = real[j], real[i]
            imaginary[i], imaginary[j] = imaginary[j], imaginary[i]


@njit(cache=True)
def _butterflies(real, imaginary, cosine, sine, stride):
    """Combine the transforms of two halves into that of the whole."""
    half = real.size // 2
    for i in range(half):
        c, s = cosine[i * stride], sine[i * stride]
        a, b = real[half + i], imaginary[half + i]
        x, y = a * c + b * s, b * c - a * s
        real[half + i], imaginary[half + i] = real[i] - x, imaginary[i] - y
        real[i], imaginary[i] = real[i] + x, imaginary[i] + y


@njit(cache=True)
def factors(size):
    """cos and sin of 2 pi i / size for i < size / 2."""
    cosine, sine = np.empty(size // 2), np.empty(size // 2)
    for i in range(size // 2):
        cosine[i], sine[i] = turn(i / size)
    return cosine, sine


@njit(cache=True)
def transform(real, imaginary, cosine, sine):
    """sum_j x_j exp(-2 pi i j l / n) for all l, in place."""
    _reverse_bits(real, imaginary)
    size = 2
    while size <= real.size:
        for start in range(0, real.size, size):
            part = slice(start, start + size)
            _butterflies(real[part], imaginary[part], cosine, sine, real.size // size)
        size *= 2


@njit(cache=True)
def correlations(rows, out):
    """out[l] = the sum over rows (m, n) and places i of x_i x_(i + l), for l = 0..n-1."""
    m, n = rows.shape
    size = 2
    while size < 2 * n:
        size *= 2
    cosine, sine = factors(size)
    power = np.zeros(size)
    for row in range(m):
        real, imaginary = np.zeros(size), np.zeros(size)
        real[:n] = rows[row]
        transform(real, imaginary, cosine, sine)
        for l in range(size):
            power[l] += real[l] * real[l] + imaginary[l] * imaginary[l]
    # The power is symmetric, so its transform is its inverse's, but for the factor.
    imaginary = np.zeros(size)
    transform(power, imaginary, cosine, sine)
    for l in range(n):
        out[l] = power[l] / size
