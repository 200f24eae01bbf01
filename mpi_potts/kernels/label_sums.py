"""Sums of the observations by label, in integers: exact, so in any order, any split and any vector width.

The observations y are multiples of a power of two, the grain: y = q grain with |q| <= LARGEST, which a
float32 holds exactly.  Within a block of BLOCK sites n, sum q and sum q**2 are taken in 64 bits; the last
label has what the others leave of the block's totals, which never change.  They are then taken about a
reference c_j near the mean of the label, as sum (q - c_j) and sum (q - c_j)**2, so that a mean that is large
against its label's sd costs no digits; and added up, the squares in two halves, which 2**31 blocks do not
overflow.
"""

import numpy as np
from numba import int32, int64, njit, uint8

from .gibbs_layout import BLOCK
from .leaf import leaf

LARGEST = 2**23

# A count and a sum in one word: the sums of a block are below 2**33.
_COUNT = 40
_LOW = int64(2**32 - 1)

# The columns of the sums of a label: number, sum, and the sum of squares as 2**32 high + low.
COLUMNS = 4


@leaf
def _one_label(z, y, scale, label):
    """Number and sum, packed, and sum of squares of the sites of a label in a block."""
    s, t = int64(0), int64(0)
    for i in range(BLOCK):
        v = int64(int32(y[i] * scale))
        w = v * v
        v += int64(1) << int64(_COUNT)
        mine = z[i] == label
        s += v if mine else int64(0)
        t += w if mine else int64(0)
    return s, t


@leaf
def _two_labels(z, y, scale, first, second):
    """The same of two labels."""
    s0, t0, s1, t1 = int64(0), int64(0), int64(0), int64(0)
    for i in range(BLOCK):
        v = int64(int32(y[i] * scale))
        w = v * v
        v += int64(1) << int64(_COUNT)
        one, two = z[i] == first, z[i] == second
        s0 += v if one else int64(0)
        t0 += w if one else int64(0)
        s1 += v if two else int64(0)
        t1 += w if two else int64(0)
    return s0, t0, s1, t1


@leaf
def _unpack(s):
    """The number and the sum in one word."""
    number = (s + (int64(1) << int64(_COUNT - 1))) >> int64(_COUNT)
    return number, s - (number << int64(_COUNT))


@leaf
def block_totals(exists, y, scale, totals):
    """totals (3,) = number, sum and sum of squares of q over the sites of a block that exist."""
    totals[:] = 0
    for i in range(y.size):
        if exists[i]:
            q = int64(int32(y[i] * scale))
            totals[0] += 1
            totals[1] += q
            totals[2] += q * q


@leaf
def _add_about(number, total, square, reference, sums):
    """Add the sums of a label in a block, taken about its reference."""
    square -= reference * (int64(2) * total - reference * number)
    sums[0] += number
    sums[1] += total - reference * number
    sums[2] += square >> int64(32)
    sums[3] += square & _LOW


@leaf
def add_block(z, y, scale, totals, reference, sums):
    """Add a block to sums (k, 4) int64.

    z, y : (BLOCK,) labels and observations.  scale : 1 / grain.  totals : (3,) from `block_totals`.
    reference : (k,) int64, of size LARGEST at most.
    """
    last = reference.size - 1
    number, total, square = totals[0], totals[1], totals[2]
    for j in range(0, last, 2):
        if j + 1 < last:
            s0, t0, s1, t1 = _two_labels(z, y, scale, uint8(j), uint8(j + 1))
            n, s = _unpack(s1)
            _add_about(n, s, t1, reference[j + 1], sums[j + 1])
            number, total, square = number - n, total - s, square - t1
        else:
            s0, t0 = _one_label(z, y, scale, uint8(j))
        n, s = _unpack(s0)
        _add_about(n, s, t0, reference[j], sums[j])
        number, total, square = number - n, total - s, square - t0
    _add_about(number, total, square, reference[last], sums[last])


@njit(cache=True)
def references(mean, scale):
    """(k,) int64: the means in grains, rounded, no further than the observations go."""
    result = np.empty(mean.size, np.int64)
    for j in range(mean.size):
        result[j] = int64(np.floor(min(max(mean[j] * scale, -float(LARGEST)), float(LARGEST)) + 0.5))
    return result


def quantise(y: np.ndarray) -> tuple[np.ndarray, float]:
    """Observations as float32 multiples of a grain, the nearest ones, and the scale 1 / grain.

    The grain is the smallest power of two for which |q| <= LARGEST: at most 2**-22 of the largest |y|.
    """
    scale = scale_of(float(np.abs(y).max(initial=0.0)))
    return (np.rint(y * scale) / scale).astype(np.float32), scale


def scale_of(largest: float) -> float:
    """1 / grain of observations of which none is larger than this."""
    # largest < 2**exponent, so that rounding stays within LARGEST.
    _, exponent = np.frexp(largest)
    return float(np.ldexp(1.0, LARGEST.bit_length() - 1 - int(exponent)))
