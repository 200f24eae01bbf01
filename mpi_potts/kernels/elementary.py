"""Elementary functions whose operations are written down, so that their bits are the same on every CPU.

The C library and numpy choose among several versions of exp, log and cos by what the CPU has (FMA, AVX2,
AVX-512), and the last bit differs between them.  These here consist of additions, multiplications, divisions
and square roots in float64, each rounded once as IEEE 754 prescribes, in the order in which they stand; a
compiler without leave to reorder may put them into vectors of any width and changes nothing.

Reductions are the usual ones, and the polynomials are the series themselves, cut where the rest is below
half a unit of the last place.  Measured against 60 digits the errors are below 1.2 units of the last place
for exp, log, log1p, the sine and the cosine, and below 4 for expm1 (near 0.4; below 1.2 near 0) and Mills'
ratio.
"""

import math

import numpy as np
from numba import int64, njit, uint64

from .bits import from_bits, to_bits

# log 2 in two parts; the first has 32 bits, so that its products with exponents are exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_LOG2_E = 1.4426950408889634

# Adding it to |x| < 2**51 leaves the nearest integer in the low bits of the sum.
_ROUND = 1.5 * 2.0**52
_ROUND_BITS = np.uint64(0x4338000000000000)

ONE_BITS = np.uint64(0x3FF0000000000000)  # of 1.0
HALF_ROOT_BITS = np.uint64(0x3FE6A09E667F3BCD)  # of sqrt(1/2)
FRACTION_BITS = np.uint64(0x000FFFFFFFFFFFFF)  # where a float64 has its fraction
INTEGER_BITS = np.uint64(0x4330000000000000)  # of 2**52: with the bits of an integer below it, their sum
_SMALLEST_NORMAL = 2.0**-1022

# Where exp is 0 and where it is infinite.
_EXP_LOWEST, _EXP_HIGHEST = -746.0, 710.0


@njit(cache=True)
def _two_to(n):
    """2**n for -1022 <= n <= 1023."""
    return from_bits(uint64(n + int64(1023)) << uint64(52))


@njit(cache=True)
def _exp_rest(r):
    """(exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2."""
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    return p * r + 0.5


@njit(cache=True)
def exp(x):
    """e**x."""
    bounded = _EXP_LOWEST if x < _EXP_LOWEST else (_EXP_HIGHEST if x > _EXP_HIGHEST else x)
    shifted = bounded * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (bounded - n * _LN2_HIGH) - n * _LN2_LOW
    value = 1.0 + (r + r * r * _exp_rest(r))
    # In two steps: 2**n itself may be outside the range of normal numbers.
    power = int64(to_bits(shifted) - _ROUND_BITS) if x == x else int64(0)
    half = power >> int64(1)
    return value * _two_to(half) * _two_to(power - half)


@njit(cache=True)
def expm1(x):
    """e**x - 1, without cancellation."""
    near = x * (1.0 + x * _exp_rest(x))
    return near if abs(x) < 0.34 else exp(x) - 1.0


@njit(error_model="numpy", cache=True)
def log(x):
    """The natural logarithm: -inf at 0, nan below."""
    tiny = x < _SMALLEST_NORMAL
    scaled = x * 2.0**54 if tiny else x
    bits = to_bits(scaled) + (ONE_BITS - HALF_ROOT_BITS)
    # The exponent, by bits: no vector unit before AVX-512 makes a float64 of a 64-bit integer.
    e = from_bits((bits >> uint64(52)) | INTEGER_BITS) - (2.0**52 + (1077.0 if tiny else 1023.0))
    f = from_bits((bits & FRACTION_BITS) + HALF_ROOT_BITS) - 1.0
    # log(1 + f) = 2 artanh(s) = f - s (f - z (2/3 + 2/5 z + ...)), z = s**2 <= 0.0295.
    s = f / (2.0 + f)
    z = s * s
    p = 2.0 / 23.0
    p = p * z + 2.0 / 21.0
    p = p * z + 2.0 / 19.0
    p = p * z + 2.0 / 17.0
    p = p * z + 2.0 / 15.0
    p = p * z + 2.0 / 13.0
    p = p * z + 2.0 / 11.0
    p = p * z + 2.0 / 9.0
    p = p * z + 2.0 / 7.0
    p = p * z + 2.0 / 5.0
    p = p * z + 2.0 / 3.0
    # f**2 / 2 taken out, so that what is rounded is small against f.
    half = 0.5 * f * f
    value = e * _LN2_HIGH - ((half - (s * (half + z * p) + e * _LN2_LOW)) - f)
    value = value if x < np.inf else x
    outside = -np.inf if x == 0.0 else np.nan
    return value if x > 0.0 else outside


@njit(error_model="numpy", cache=True)
def log1p(x):
    """log(1 + x), without cancellation."""
    u = 1.0 + x
    if u == 1.0:
        return x
    # What the sum lost, divided by u, is the derivative times the loss.
    lost = (x - (u - 1.0)) if x < 1.0 else (1.0 - (u - x))
    return log(u) + (lost / u if 0.0 < u < np.inf else 0.0)


@njit(cache=True)
def power(x, y):
    """x**y for x > 0, with a relative error of about |y log x| units of the last place."""
    return exp(y * log(x))


@njit(cache=True)
def _sine(a):
    """sin(a) for |a| <= pi / 4."""
    z = a * a
    p = 1.0 / 355687428096000.0
    p = p * z - 1.0 / 1307674368000.0
    p = p * z + 1.0 / 6227020800.0
    p = p * z - 1.0 / 39916800.0
    p = p * z + 1.0 / 362880.0
    p = p * z - 1.0 / 5040.0
    p = p * z + 1.0 / 120.0
    p = p * z - 1.0 / 6.0
    return a + a * z * p


@njit(cache=True)
def _cosine(a):
    """cos(a) for |a| <= pi / 4."""
    z = a * a
    p = 1.0 / 20922789888000.0
    p = p * z - 1.0 / 87178291200.0
    p = p * z + 1.0 / 479001600.0
    p = p * z - 1.0 / 3628800.0
    p = p * z + 1.0 / 40320.0
    p = p * z - 1.0 / 720.0
    p = p * z + 1.0 / 24.0
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + z * z * p)


@njit(cache=True)
def turn(u):
    """cos(2 pi u) and sin(2 pi u) for 0 <= u <= 1."""
    quarter = math.floor(4.0 * u + 0.5)
    a = (4.0 * u - quarter) * (0.5 * math.pi)
    c, s = _cosine(a), _sine(a)
    q = int64(quarter) & int64(3)
    if q == 0:
        return c, s
    if q == 1:
        return -s, c
    if q == 2:
        return -c, -s
    return s, -c


@njit(cache=True)
def box_muller(u, v):
    """A standard normal from two uniforms on (0, 1)."""
    return math.sqrt(-2.0 * log(u)) * turn(v)[0]


# Chebyshev coefficients of (x + 4) R(x) in t = (x - 4) / (x + 4), from 50 digits; the rest is below 3e-18.
_MILLS = (
    2.4325604285150404, -1.8842545745794834, 0.5569566490963817, -0.12161597214420457, 0.017360708143727772,
    -0.0008036212007299657, -0.0002520349348054353, 4.7383719270581175e-05, 2.5325891365988257e-06,
    -1.5404069839913e-06, -8.474960630061696e-09, 5.185338601094672e-08, -2.8281293276602497e-10,
    -1.9486566378891076e-09, -2.491945496827567e-11, 7.957248719448846e-11, 4.618414179155219e-12,
    -3.290856124224385e-12, -4.36538404380973e-13, 1.2300711839232774e-13, 3.2414173582086784e-14,
    -3.0532395587325663e-15, -2.0183740275707353e-15, -7.170195501422588e-17, 1.0169552398038542e-16,
    1.756244228053356e-17,
)  # fmt: skip
_MILLS_TERMS = len(_MILLS)


@njit(error_model="numpy", cache=True)
def mills(x):
    """Mills' ratio (1 - Phi(x)) / phi(x) of the normal distribution, for x >= 0; 0 at infinity."""
    shifted = x + 4.0
    t = (x - 4.0) / shifted if x < 1e300 else 1.0
    # Clenshaw's recurrence.
    twice, b1, b2 = 2.0 * t, 0.0, 0.0
    for j in range(_MILLS_TERMS - 1, 0, -1):
        b1, b2 = twice * b1 - b2 + _MILLS[j], b1
    return (t * b1 - b2 + _MILLS[0]) / shifted


# Of Stirling's series for the logarithm of the gamma function, in odd powers of 1 / x.
_STIRLING = (1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0)


@njit(error_model="numpy", cache=True)
def log_gamma(x):
    """The logarithm of the gamma function, for x > 0."""
    # Gamma(x + 1) = x Gamma(x), up to where the series is exact.
    below = 1.0
    while x < 12.0:
        below *= x
        x += 1.0
    inverse = 1.0 / x
    square, series = inverse * inverse, 0.0
    for coefficient in _STIRLING:
        series = series * square + coefficient
    return (x - 0.5) * log(x) - x + 0.9189385332046727 + series * inverse - log(below)


@njit(cache=True)
def fill_exp(x, out):
    """e**x of every element of a flat array, into `out`."""
    for i in range(x.size):
        out[i] = exp(x[i])


@njit(cache=True)
def fill_expm1(x, out):
    """e**x - 1 of every element of a flat array, into `out`."""
    for i in range(x.size):
        out[i] = expm1(x[i])


@njit(cache=True)
def fill_log(x, out):
    """The logarithm of every element of a flat array, into `out`."""
    for i in range(x.size):
        out[i] = log(x[i])


@njit(cache=True)
def fill_log1p(x, out):
    """log(1 + x) of every element of a flat array, into `out`."""
    for i in range(x.size):
        out[i] = log1p(x[i])


@njit(cache=True)
def fill_log_gamma(x, out):
    """The logarithm of the gamma function of every element of a flat array, into `out`."""
    for i in range(x.size):
        out[i] = log_gamma(x[i])
