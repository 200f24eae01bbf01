"""Kernels of the SMC sampler: pseudo-statistics and their distances to S(z), a block of particles at a time.

A pseudo-statistic is x = mean(beta) + sd(beta) * n, with n a standard normal addressed by the particle's
birth: the key comes from (stream, birth iteration), the counter is (birth index, q) with q = 0..Q-1, Q =
ceil(M / 4), and each of a counter's two words gives two normals by the method of Box and Muller,

    r = sqrt(-2 log u),    n = r cos a  and  r sin a.

40 bits of the word make u, so that |n| reaches 7.5; 22 make the angle a in the quarter circle around zero,
and two turn it to one of the four quarters.  A row of M replicates is the Q first words' cosines, the Q
second words' cosines, then the sines in the same order, so that no loop has to interleave.  Logarithm, sine
and cosine are polynomials with a relative error below 2e-11, without a branch, so that the loops become
vector code.  That is why they are not those of `elementary`, which are right to the last place, by
longer series and with a branch for the quarter circle: here N M normals are drawn at a time.
"""

import numpy as np
from numba import njit, uint64

from .bits import from_bits, to_bits
from .elementary import FRACTION_BITS, HALF_ROOT_BITS, INTEGER_BITS, ONE_BITS
from .threefry import threefry2x64

# Rows whose words are made into normals together: the buffers stay in the first-level cache.
TILE = 8

_SIGN = np.uint64(0x8000000000000000)
_ANGLE = np.uint64(0x3FFFFF)  # bits 0 to 21 of a word
_SWAP = np.uint64(0x400000)  # bit 22
_LN2 = 0.6931471805599453

# Chebyshev interpolants of the power series in z, each on its reduced interval.
_LOG = (0.6666666655449709, 0.4000012183980781, 0.28550820815899636, 0.23330467216338788)
_SINE = (-0.1666666666385529, 0.008333331874710278, -0.00019840086735415703, 2.7249925806595667e-06)
_COSINE = (0.0416666666643212, -0.0013888887672017262, 2.4800600377352918e-05, -2.7300959222475303e-07)


@njit(inline="always")
def _horner(c, z):
    return c[0] + z * (c[1] + z * (c[2] + z * c[3]))


@njit(inline="always")
def _log(u):
    """log(u) for normal u > 0: u = 2**e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), log(1 + f) = 2 artanh(s)."""
    bits = to_bits(u) + (ONE_BITS - HALF_ROOT_BITS)
    e = from_bits((bits >> uint64(52)) | INTEGER_BITS) - (2.0**52 + 1023.0)
    f = from_bits((bits & FRACTION_BITS) + HALF_ROOT_BITS) - 1.0
    s = f / (2.0 + f)
    z = s * s
    return e * _LN2 + (f - s * (f - z * _horner(_LOG, z)))


@njit(inline="always")
def _sine(a):
    """sin(a) for |a| <= pi / 4."""
    z = a * a
    return a + a * z * _horner(_SINE, z)


@njit(inline="always")
def _cosine(a):
    """cos(a) for |a| <= pi / 4."""
    z = a * a
    return 1.0 - z * (0.5 - z * _horner(_COSINE, z))


@njit(inline="always")
def _normal_pair(word):
    """Two independent standard normals from 64 random bits."""
    u = from_bits(((word >> uint64(24)) << uint64(12)) | ONE_BITS) - (1.0 - 2.0**-41)
    r = np.sqrt(-2.0 * _log(u))
    v = from_bits(((word & _ANGLE) << uint64(30)) | ONE_BITS) - (1.5 - 2.0**-23)
    a = v * (0.5 * np.pi)
    c = r * _cosine(a)
    s = r * _sine(a)
    # One bit reflects in the diagonal, the next turns by half a circle: the four quarters.
    swap = (word & _SWAP) != uint64(0)
    turn = (word << uint64(40)) & _SIGN
    return from_bits(to_bits(s if swap else c) ^ turn), from_bits(to_bits(c if swap else s) ^ turn)


@njit(error_model="numpy", cache=True)
def _row_words(words, iteration, index, stream):
    """The 2 Q words of a particle: all first words, then all second words."""
    k0, k1 = threefry2x64(uint64(iteration), uint64(0), stream[0], stream[1])
    birth = uint64(index)
    quarter = words.size // 2
    w0, w1 = words[:quarter], words[quarter:]
    for q in range(quarter):
        w0[q], w1[q] = threefry2x64(birth, uint64(q), k0, k1)


@njit(error_model="numpy", cache=True)
def _normals(first, second, words):
    for i in range(words.size):
        first[i], second[i] = _normal_pair(words[i])


@njit(error_model="numpy", cache=True)
def _scale(row, normals, mean, sd):
    for m in range(row.size):
        row[m] = mean + sd * normals[m]


@njit(error_model="numpy", cache=True)
def draw(out, mean, sd, iteration, index, stream):
    """Fill out[i, m], (n, M) float64: the pseudo-statistics of the particle born at (iteration, index)[i]."""
    half = 2 * ((out.shape[1] + 3) // 4)
    words = np.empty(TILE * half, dtype=np.uint64)
    first = np.empty(TILE * half)
    second = np.empty(TILE * half)
    for start in range(0, out.shape[0], TILE):
        rows = min(TILE, out.shape[0] - start)
        for i in range(rows):
            _row_words(words[i * half : (i + 1) * half], iteration[start + i], index[start + i], stream)
        _normals(first[: rows * half], second[: rows * half], words[: rows * half])
        for i in range(rows):
            row, centre, scale = out[start + i], mean[start + i], sd[start + i]
            _scale(row[:half], first[i * half : (i + 1) * half], centre, scale)
            _scale(row[half:], second[i * half : (i + 1) * half], centre, scale)


@njit(error_model="numpy", cache=True)
def count(out, x, statistic, tolerances):
    """out[i, k] = the number of m with |x[i, m] - statistic| < tolerances[k]; out is (n, K) int64."""
    distance = np.empty(x.shape[1])
    for i in range(x.shape[0]):
        row = x[i]
        for m in range(row.size):
            distance[m] = abs(row[m] - statistic)
        for k in range(tolerances.size):
            tolerance = tolerances[k]
            total = 0
            for m in range(distance.size):
                total += distance[m] < tolerance
            out[i, k] = total


@njit(error_model="numpy", cache=True)
def collect(x, inside, statistic, lower, upper):
    """The pairs (i, m) with lower <= |x[i, m] - statistic| < upper: distance and row, in order of (i, m).

    inside : (n,) int64, how many of them row i has; rows with none are not looked at.
    """
    pairs = inside.sum()
    # One more place than pairs: an entry is written before it is known whether it stays.
    distance = np.empty(pairs + 1)
    row = np.empty(pairs + 1, dtype=np.int64)
    p = 0
    for i in range(x.shape[0]):
        if inside[i] > 0:
            for m in range(x.shape[1]):
                d = abs(x[i, m] - statistic)
                distance[p] = d
                row[p] = i
                p += (d >= lower) & (d < upper)
    return distance[:pairs], row[:pairs]


@njit(error_model="numpy", cache=True)
def count_pairs(out, distance, row, tolerances):
    """Add to out[i, k], (n, K) int64, the number of pairs of row i with a distance below tolerances[k]."""
    for p in range(distance.size):
        for k in range(tolerances.size):
            out[row[p], k] += distance[p] < tolerances[k]


@njit(error_model="numpy", cache=True)
def accept(x, held, accepted, rows, new, uniform, statistic, tolerance):
    """Metropolis steps: row rows[j] of x takes over new[j] if uniform[rows[j]] < its count / the count held.

    x : (n, M).  held : (n,) int64, counts of x.  accepted : (n,) bool, set where a proposal is taken.
    """
    for j in range(rows.size):
        i = rows[j]
        proposed = new[j]
        total = 0
        for m in range(proposed.size):
            total += abs(proposed[m] - statistic) < tolerance
        if uniform[i] * held[i] < total:
            x[i] = proposed
            held[i] = total
            accepted[i] = True


def compile_all() -> None:
    """Call every kernel once, on one particle, with the types that the sampler uses."""
    x, one, first = np.zeros((1, 1)), np.ones(1), np.zeros(1, dtype=np.int64)
    yes, counts = np.ones(1, dtype=bool), np.zeros((1, 1), dtype=np.int64)
    draw(x, one, one, first, first, np.zeros(2, dtype=np.uint64))
    count(counts, x, 0.0, one)
    distance, row = collect(x, first + 1, 0.0, 0.0, np.inf)
    count_pairs(counts, distance, row, one)
    accept(x, counts[:, 0].copy(), yes, first, x, one, 0.0, 1.0)
