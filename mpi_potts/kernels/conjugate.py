"""Draws of the noise given the labels, in kernels: the formulas are those of `noise.py`, with the sums of a
sweep.

The sums of label j are taken about a reference c_j, the mean that the sweep used: n, a = sum(y - c_j) and
b = sum((y - c_j)**2).  With the priors mu_j ~ N(m, s**2) and sigma_j**2 ~ inverse gamma(shape, scale),

    1 / v = n / sigma_j**2 + 1 / s**2,    d = mu_j - c_j
    mu_j | sigma_j, z     ~  N(c_j + v (a / sigma_j**2 + (m - c_j) / s**2), v)
    sigma_j**2 | mu_j, z  ~  inverse gamma(shape + n / 2, scale + (b - 2 d a + n d**2) / 2)

An empty label has n = a = b = 0: these are then its priors.

Normals are by Box and Muller, gammas by Marsaglia and Tsang (2000), shapes below 1 through shape + 1.  Every
draw is addressed by (sweep, label, word); attempt t of a gamma takes the words 2 t + 2 and 2 t + 3.
"""

import math

import numpy as np
from numba import njit, uint64

from .words import draw_words

# Variances in units of the image's own.  Outside these bounds float64 would lose the sums (a vague prior can
# give an empty label any variance at all); no posterior with data gets near them.
SMALLEST_VARIANCE = 1e-24
LARGEST_VARIANCE = 1e24


@njit(cache=True)
def uniform(word):
    """A word as float64 in the open interval (0, 1): never 0, never 1."""
    return (float(word >> uint64(12)) + 0.5) * 2.0**-52


@njit(cache=True)
def normal(label, word, k0, k1):
    """A standard normal."""
    w0, w1 = draw_words(uint64(label), uint64(word), k0, k1)
    return math.sqrt(-2.0 * math.log(uniform(w0))) * math.cos(2.0 * math.pi * uniform(w1))


@njit(cache=True)
def gamma(shape, label, k0, k1):
    """A draw from the gamma distribution of this shape and scale 1."""
    boost = 1.0
    if shape < 1.0:
        w0, _ = draw_words(uint64(label), uint64(1), k0, k1)
        boost = uniform(w0) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = 0
    while True:
        x = normal(label, 2 * attempt + 2, k0, k1)
        w0, _ = draw_words(uint64(label), uint64(2 * attempt + 3), k0, k1)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(w0)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * boost
        attempt += 1


@njit(cache=True)
def draw_noise(totals, centre, prior, mean, sd, k0, k1):
    """Draw mean and sd (k,), in place, given the sums of a sweep.

    totals : (k, 3) number, sum of y - centre_j, sum of squares, with centre (k,) float32.
    prior : (4, k) m, s, shape, scale.
    """
    for j in range(mean.size):
        n, first, second = totals[j, 0], totals[j, 1], totals[j, 2]
        variance, spread = sd[j] * sd[j], prior[1, j] * prior[1, j]
        reference = float(centre[j])
        v = 1.0 / (n / variance + 1.0 / spread)
        shift = v * (first / variance + (prior[0, j] - reference) / spread)
        shift += math.sqrt(v) * normal(j, 0, k0, k1)
        mean[j] = reference + shift
        # Rounding may leave a sum of squares a little below 0.
        square = max(0.0, second - 2.0 * shift * first + n * shift * shift)
        g = gamma(prior[2, j] + 0.5 * n, j, k0, k1)
        drawn = (prior[3, j] + 0.5 * square) / max(g, 1e-300)
        sd[j] = math.sqrt(min(max(drawn, SMALLEST_VARIANCE), LARGEST_VARIANCE))


@njit(cache=True)
def sort_by_mean(mean, sd, table):
    """Sort the labels by mean, in place; table[old label] = new label.  Whether anything moved."""
    k = mean.size
    order = np.empty(k, np.uint8)
    moved = False
    # By insertion: the labels are nearly always in order already.
    for j in range(k):
        order[j] = j
        this_mean, this_sd = mean[j], sd[j]
        i = j
        while i > 0 and mean[i - 1] > this_mean:
            mean[i], sd[i], order[i] = mean[i - 1], sd[i - 1], order[i - 1]
            i -= 1
            moved = True
        mean[i], sd[i], order[i] = this_mean, this_sd, j
    for new in range(k):
        table[order[new]] = new
    return moved


@njit(cache=True)
def relabel(z, table):
    """Rename the labels of a flat array by a table of 256 bytes."""
    for i in range(z.size):
        z[i] = table[z[i]]
