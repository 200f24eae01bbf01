"""Gaussian noise in kernels: everything that a sweep of the labels and the draw after it know of it.

    y_i | z_i = j  ~  N(mu_j, sigma_j**2)                                  (paper, equation 9)

What the functions are for is in `noise`; the model's other side is `model/gaussian.py`.

**Weights.** The logarithm to base 2 of the likelihood of label j, but for a constant, is -`curvature`_j (y_i
- mu_j)**2 + `level`_j, in float32.  The square is of the difference, so nothing is lost where |mu_j| is large
against sigma_j; y should have mean 0 and variance 1.

**Sums.** Sums by label are in integers: exact, so in any order, any split and any vector width.  The
observations y are multiples of a power of two, the grain: y = q grain with |q| <= LARGEST, which a float32
holds exactly.  Within a block of BLOCK sites n, sum q and sum q**2 are taken in 64 bits; the last label has
what the others leave of the block's totals, which never change.  They are then taken about a reference c_j
near the mean of the label, as sum (q - c_j) and sum (q - c_j)**2, so that a mean that is large against its
label's sd costs no digits; and added up, the squares in two halves, which 2**31 blocks do not overflow.

**Draws.** In the units of y the sums of label j are n, a = sum(y - c_j) and b = sum((y - c_j)**2).  With the
priors mu_j ~ N(m, s**2) and sigma_j**2 ~ inverse gamma(shape, scale),

    1 / v = n / sigma_j**2 + 1 / s**2,    d = mu_j - c_j
    mu_j | sigma_j, z     ~  N(c_j + v (a / sigma_j**2 + (m - c_j) / s**2), v)
    sigma_j**2 | mu_j, z  ~  inverse gamma(shape + n / 2, scale + (b - 2 d a + n d**2) / 2)

An empty label has n = a = b = 0: these are then its priors.  Every draw is addressed by (sweep, label, word):
the normal is word 0, the gamma begins at word 2.

**Draws from nothing.** Where both parameters are drawn at once, whatever they were, sigma_j**2 is drawn as if
any mean were as probable as any other, and mu_j given it as above.  With n > 0 observations of mean y and sum
of squares q about it,

    sigma_j**2  ~  inverse gamma(shape', scale'),    shape' = shape + (n - 1) / 2,    scale' = scale + q / 2

and prior times likelihood over the density of this draw depends on sigma_j hardly at all: with w = sigma_j**2
+ n s**2 it is, but for (2 pi)**(-n / 2),

    scale**shape / Gamma(shape) * Gamma(shape') / scale'**shape' * w**(-1/2) exp(-n (y - m)**2 / 2 w).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import float32, int32, int64, njit, uint8

from ..slabs import slabs
from . import noise
from .conditional import LOG_2
from .elementary import log, log_gamma
from .float32 import fma, larger
from .gibbs_layout import BLOCK, BlockLayout
from .leaf import leaf
from .variates import gamma, normal

# Beyond this the product with a squared distance might overflow; an sd of 1e-15 is as good as 0.
LARGEST_CURVATURE = 1e30

# The largest number of grains of an observation.
LARGEST = 2**23

# A count and a sum in one word: the sums of a block are below 2**33.
_COUNT = 40
_LOW = int64(2**32 - 1)

# The columns of the sums of a label: number, sum, and the sum of squares as 2**32 high + low.
COLUMNS = 4

# Variances in units of the image's own.  Outside these bounds float64 would lose the sums (a vague prior can
# give an empty label any variance at all); no posterior with data gets near them.
SMALLEST_VARIANCE = 1e-24
LARGEST_VARIANCE = 1e24


class GaussianState(NamedTuple):
    """mu and sigma as they are now, and what is known of them a priori."""

    values: np.ndarray  # (2, k) mu, sigma
    prior: np.ndarray  # (4, k) m, s, shape, scale
    power: float  # to which the likelihood of the observations counts; 1 but in tempered chains


class GaussianData(NamedTuple):
    """The observations of an image, in the order of the blocks."""

    values: np.ndarray  # (blocks * BLOCK,) float32 multiples of the grain
    scale: np.float32  # 1 / grain
    totals: np.ndarray  # (blocks, 3) int64 number, sum and sum of squares, in grains, of every block


class GaussianTerms(NamedTuple):
    """What one sweep needs of the noise."""

    weights: np.ndarray  # (3, k) float32 mu, curvature, level: see `parameters`
    reference: np.ndarray  # (k,) int64 c_j, in grains
    scale: float  # 1 / grain


class GaussianDensity(NamedTuple):
    """The density of an observation under every label: (k,) float64 each."""

    mean: np.ndarray
    precision: np.ndarray  # 1 / (2 sigma_j**2)
    log_factor: np.ndarray  # of the normalising constant


@njit(cache=True)
def parameters(mean, sd, power):
    """mu_j, the factor of (y - mu_j)**2, and -log2(sigma_j), as float32: (3, k); both to the power."""
    k = mean.size
    result = np.empty((3, k), np.float32)
    for j in range(k):
        result[0, j] = mean[j]
        result[1, j] = power * min(0.5 / (LOG_2 * sd[j] * sd[j]), LARGEST_CURVATURE)
        result[2, j] = power * (-log(sd[j]) / LOG_2)
    return result


@njit(cache=True)
def terms_of(mean, sd, data, power=1.0):
    """The terms of a sweep with these means and standard deviations (k,)."""
    scale = float(data.scale)
    return GaussianTerms(parameters(mean, sd, power), references(mean, scale), scale)


@noise.implements(noise.terms, GaussianState)
def _terms(state, data):
    return terms_of(state.values[0], state.values[1], data, state.power)


@leaf
def label_weights(count, y, slope, mean, curvature, level, before, weight, largest):
    """What `noise.log_weights` is for, of one label."""
    for i in range(BLOCK):
        distance = y[i] - mean
        likelihood = fma(-(distance * curvature), distance, level)
        w = fma(float32(int32(count[i])), slope, likelihood)
        weight[i] = w
        largest[i] = larger(before[i], w)


@noise.implements(noise.log_weights, GaussianTerms, leaf=True)
def _log_weights(terms, label, count, y, slope, before, weight, largest):
    mean, curvature, level = terms.weights[0, label], terms.weights[1, label], terms.weights[2, label]
    label_weights(count, y, slope, mean, curvature, level, before, weight, largest)


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


@noise.implements(noise.no_sums, GaussianTerms)
def _no_sums(terms):
    return np.zeros((terms.reference.size, COLUMNS), np.int64)


@leaf
def add_sums(z, y, scale, totals, reference, sums):
    """Add a block to sums (k, 4): z and y its labels and observations, totals (3,) from `block_totals`."""
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


@noise.implements(noise.add_block, GaussianTerms, leaf=True)
def _add_block(terms, data, block, z, sums):
    y = data.values[block * BLOCK : (block + 1) * BLOCK]
    add_sums(z, y, data.scale, data.totals[block], terms.reference, sums)


@njit(cache=True)
def references(mean, scale):
    """(k,) int64: the means in grains, rounded, no further than the observations go."""
    result = np.empty(mean.size, np.int64)
    for j in range(mean.size):
        result[j] = int64(np.floor(min(max(mean[j] * scale, -float(LARGEST)), float(LARGEST)) + 0.5))
    return result


@njit(cache=True)
def in_units(sums, reference, scale):
    """From grains to the units of the observations: sums (k, 3) in float64, and what they are about (k,)."""
    grain = 1.0 / scale
    totals, centre = np.empty((reference.size, 3)), np.empty(reference.size)
    for j in range(reference.size):
        totals[j, 0], totals[j, 1] = sums[j, 0], sums[j, 1] * grain
        totals[j, 2] = (sums[j, 2] * 2.0**32 + sums[j, 3]) * grain * grain
        centre[j] = reference[j] * grain
    return totals, centre


@njit(cache=True)
def mean_posterior(m, s, number, total, variance):
    """Mean and variance of mu_j given sigma_j**2 = `variance`, n_j = `number` and the sum of y = `total`."""
    spread = s * s
    v = 1.0 / (number / variance + 1.0 / spread)
    return v * (total / variance + m / spread), v


@njit(cache=True)
def variance_posterior(shape, scale, number, square):
    """Shape and scale of sigma_j**2 given mu_j, with `square` the sum of (y - mu_j)**2."""
    return shape + 0.5 * number, scale + 0.5 * square


@njit(cache=True)
def draw_noise(totals, centre, prior, mean, sd, k0, k1):
    """Draw mean and sd (k,), in place, given the sums of a sweep.

    totals : (k, 3) number, sum of y - centre_j, sum of squares, about centre (k,).
    prior : (4, k) m, s, shape, scale.
    """
    for j in range(mean.size):
        n, first, second = totals[j, 0], totals[j, 1], totals[j, 2]
        # All about the centre, from which mu_j is `shift` away.
        shift, v = mean_posterior(prior[0, j] - centre[j], prior[1, j], n, first, sd[j] * sd[j])
        shift += math.sqrt(v) * normal(j, 0, k0, k1)
        mean[j] = centre[j] + shift
        # Rounding may leave a sum of squares a little below 0.
        square = max(0.0, second - 2.0 * shift * first + n * shift * shift)
        shape, scale = variance_posterior(prior[2, j], prior[3, j], n, square)
        drawn = scale / max(gamma(shape, j, 2, k0, k1), 1e-300)
        sd[j] = math.sqrt(min(max(drawn, SMALLEST_VARIANCE), LARGEST_VARIANCE))


@noise.implements(noise.draw, GaussianState)
def _draw(state, terms, sums, key):
    totals, centre = in_units(sums, terms.reference, terms.scale)
    draw_noise(totals * state.power, centre, state.prior, state.values[0], state.values[1], key[0], key[1])


@noise.implements(noise.tempered, GaussianState)
def _tempered(state, values, power):
    return GaussianState(values, state.prior, power)


@noise.implements(noise.log_likelihood, GaussianState)
def _log_likelihood(state, terms, sums):
    totals, centre = in_units(sums, terms.reference, terms.scale)
    total = 0.0
    for j in range(centre.size):
        sd, shift = state.values[1, j], state.values[0, j] - centre[j]
        square = totals[j, 2] - 2.0 * shift * totals[j, 1] + totals[j, 0] * shift * shift
        total -= totals[j, 0] * log(sd) + 0.5 * square / (sd * sd)
    return total


@njit(cache=True)
def wide_posterior(shape, scale, moments):
    """Shape and scale of sigma_j**2 given observations, with any mean as probable as any other: from their
    number, sum and sum of squares (3,).  Without any, the prior's."""
    n = moments[0]
    if n == 0.0:
        return shape, scale
    # Rounding may leave a sum of squares a little below 0.
    return shape + 0.5 * (n - 1.0), scale + 0.5 * max(0.0, moments[2] - moments[1] * moments[1] / n)


@noise.implements(noise.no_moments, GaussianState)
def _no_moments(state, sets):
    return np.zeros((sets, 3))


@noise.implements(noise.add_observation, GaussianState)
def _add_observation(state, y, moments):
    value = float(y)
    moments[0] += 1.0
    moments[1] += value
    moments[2] += value * value


@noise.implements(noise.redraw, GaussianState)
def _redraw(state, label, moments, index, k0, k1, values):
    m, s = state.prior[0, label], state.prior[1, label]
    shape, scale = wide_posterior(state.prior[2, label], state.prior[3, label], moments)
    drawn = scale / max(gamma(shape, index, 2, k0, k1), 1e-300)
    variance = min(max(drawn, SMALLEST_VARIANCE), LARGEST_VARIANCE)
    mean, v = mean_posterior(m, s, moments[0], moments[1], variance)
    values[0] = mean + math.sqrt(v) * normal(index, 0, k0, k1)
    values[1] = math.sqrt(variance)


@noise.implements(noise.log_excess, GaussianState)
def _log_excess(state, label, moments, values):
    n = moments[0]
    if n == 0.0:
        return 0.0
    m, s = state.prior[0, label], state.prior[1, label]
    before, least = state.prior[2, label], state.prior[3, label]
    shape, scale = wide_posterior(before, least, moments)
    off, wide = moments[1] / n - m, values[1] * values[1] + n * s * s
    of_variance = before * log(least) - log_gamma(before) + log_gamma(shape) - shape * log(scale)
    return of_variance - 0.5 * (log(wide) + n * off * off / wide)


@njit(cache=True)
def density(mean, sd):
    """What `noise.log_density` needs of mean and sd (k,)."""
    precision, log_factor = 0.5 / (sd * sd), np.empty(mean.size)
    for j in range(mean.size):
        log_factor[j] = log(sd[j]) + 0.5 * log(2.0 * math.pi)
    return GaussianDensity(mean, precision, log_factor)


@noise.implements(noise.log_density, GaussianDensity)
def _log_density(density, label, y):
    distance = y - density.mean[label]
    return -density.precision[label] * distance * distance - density.log_factor[label]


@noise.implements(noise.residual, GaussianDensity)
def _residual(density, label, y):
    return (y - density.mean[label]) * math.sqrt(2.0 * density.precision[label])


@njit(cache=True)
def sum_blocks(y, scale, absent):
    """(blocks, 3) int64: the totals of every block."""
    totals = np.empty((y.size // BLOCK, 3), np.int64)
    for block in range(len(totals)):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        block_totals(absent[part] == 0, y[part], scale, totals[block])
    return totals


def prepare(layout: BlockLayout, y: np.ndarray) -> GaussianData:
    """The data of an image with values of about mean 0 and variance 1."""
    grains, exact = quantise(y if layout.lattice.mask is None else np.where(layout.lattice.exists, y, 0.0))
    values, scale = layout.scatter(grains, 0.0), np.float32(exact)
    return GaussianData(values, scale, sum_blocks(values, scale, layout.pieces.absent))


def quantise(y: np.ndarray) -> tuple[np.ndarray, float]:
    """Observations as float32 multiples of a grain, the nearest ones, and the scale 1 / grain.

    The grain is the smallest power of two for which |q| <= LARGEST: at most 2**-22 of the largest |y|.
    """
    scale = scale_of(max(float(y.max(initial=0.0)), -float(y.min(initial=0.0))))
    grains = np.empty(y.shape, dtype=np.float32)
    for rows in slabs(len(y), math.prod(y.shape[1:])):
        grains[rows] = np.rint(y[rows] * scale) / scale
    return grains, scale


def scale_of(largest: float) -> float:
    """1 / grain of observations of which none is larger than this."""
    # largest < 2**exponent, so that rounding stays within LARGEST.
    _, exponent = np.frexp(largest)
    return float(np.ldexp(1.0, LARGEST.bit_length() - 1 - int(exponent)))
