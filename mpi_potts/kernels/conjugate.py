"""Draws of the noise given the labels, in kernels: the formulas are those of `model/noise.py`, with the sums
of a sweep.

The sums of label j are taken about a reference c_j near the mean that the sweep used: n, a = sum(y - c_j) and
b = sum((y - c_j)**2).  With the priors mu_j ~ N(m, s**2) and sigma_j**2 ~ inverse gamma(shape, scale),

    1 / v = n / sigma_j**2 + 1 / s**2,    d = mu_j - c_j
    mu_j | sigma_j, z     ~  N(c_j + v (a / sigma_j**2 + (m - c_j) / s**2), v)
    sigma_j**2 | mu_j, z  ~  inverse gamma(shape + n / 2, scale + (b - 2 d a + n d**2) / 2)

An empty label has n = a = b = 0: these are then its priors.

Every draw is addressed by (sweep, label, word): the normal is word 0, the gamma begins at word 2.
"""

import math

import numpy as np
from numba import njit

from .variates import gamma, normal

# Variances in units of the image's own.  Outside these bounds float64 would lose the sums (a vague prior can
# give an empty label any variance at all); no posterior with data gets near them.
SMALLEST_VARIANCE = 1e-24
LARGEST_VARIANCE = 1e24


@njit(cache=True)
def draw_noise(totals, centre, prior, mean, sd, k0, k1):
    """Draw mean and sd (k,), in place, given the sums of a sweep.

    totals : (k, 3) number, sum of y - centre_j, sum of squares, about centre (k,).
    prior : (4, k) m, s, shape, scale.
    """
    for j in range(mean.size):
        n, first, second = totals[j, 0], totals[j, 1], totals[j, 2]
        variance, spread = sd[j] * sd[j], prior[1, j] * prior[1, j]
        reference = centre[j]
        v = 1.0 / (n / variance + 1.0 / spread)
        shift = v * (first / variance + (prior[0, j] - reference) / spread)
        shift += math.sqrt(v) * normal(j, 0, k0, k1)
        mean[j] = reference + shift
        # Rounding may leave a sum of squares a little below 0.
        square = max(0.0, second - 2.0 * shift * first + n * shift * shift)
        g = gamma(prior[2, j] + 0.5 * n, j, 2, k0, k1)
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
