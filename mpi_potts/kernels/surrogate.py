"""Draws of beta from its posterior given S(z), by a table of the binding function.

    path         log p(beta | S) = beta S - log C(beta)
    synthetic    log p(beta | S) = -log sd(beta) - (S - mean(beta))**2 / (2 sd(beta)**2)

plus a constant, with a uniform prior on [low, high].  Between the nodes of the table log C is the cubic
through its values with the means as slopes, the mean likewise with the variances as slopes, and the variance
is linear; so the posterior is resolved also where its standard deviation is far below the distance of two
nodes.

The density falls to both sides of the beta whose mean is S. The ends of a window are sought from there,
where it has dropped by exp(-DROP); the window has CELLS cells, in each of which the log density is taken as
linear, and the draw inverts the distribution function.  A cell is about a sixth of a standard deviation;
the chords lie below a Gaussian's logarithm by the same amount in every cell, so their masses stay in
proportion.
"""

import math

import numpy as np
from numba import njit

from .elementary import exp, expm1, log, log1p

DROP = 30.0
CELLS = 96
HALVINGS = 4


@njit(cache=True)
def find(nodes, beta):
    """The index i of the interval with nodes[i] <= beta <= nodes[i + 1]."""
    low, high = 0, nodes.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if nodes[middle] <= beta:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def hermite(t, h, left, right, left_slope, right_slope):
    """The cubic on an interval of length h with these values and slopes at its ends, at the fraction t."""
    s = 1.0 - t
    ends = left * s * s * (1.0 + 2.0 * t) + right * t * t * (1.0 + 2.0 * s)
    return ends + h * t * s * (left_slope * s - right_slope * t)


@njit(cache=True)
def log_density(table, i, beta, statistic, path):
    """log p(beta | S) up to a constant, in interval i of the table (rows beta, log C, mean, variance)."""
    h = table[0, i + 1] - table[0, i]
    t = (beta - table[0, i]) / h
    if path:
        # Relative to the node's own line, so that no digits are lost where log C is large.
        left, right = 0.0, table[1, i + 1] - table[1, i] - h * table[2, i]
        rise = hermite(t, h, left, right, 0.0, table[2, i + 1] - table[2, i])
        start = table[0, i] * statistic - table[1, i]
        return start + (beta - table[0, i]) * (statistic - table[2, i]) - rise
    mean = hermite(t, h, table[2, i], table[2, i + 1], table[3, i], table[3, i + 1])
    variance = table[3, i] + t * (table[3, i + 1] - table[3, i])
    variance = max(variance, 1e-12)
    return -0.5 * log(variance) - 0.5 * (statistic - mean) * (statistic - mean) / variance


@njit(cache=True)
def mode(table, low, high, statistic):
    """The beta in [low, high] whose mean is S, or the nearer end."""
    i = find(table[2], statistic)
    rise = table[2, i + 1] - table[2, i]
    t = min(max((statistic - table[2, i]) / rise, 0.0), 1.0) if rise > 0.0 else 0.5
    return min(max(table[0, i] + t * (table[0, i + 1] - table[0, i]), low), high)


@njit(cache=True)
def density_at(table, beta, statistic, path):
    """`log_density` at any beta of the table, whose interval is looked for."""
    return log_density(table, find(table[0], beta), beta, statistic, path)


@njit(cache=True)
def window_end(table, centre, end, reach, statistic, path):
    """A point between centre and end beyond which the density is below exp(-DROP) of that at the centre.

    `reach` is a first guess of the scale; it is doubled until it is outside, and then halved to and fro.
    """
    floor = density_at(table, centre, statistic, path) - DROP
    side = 1.0 if end > centre else -1.0
    inside, outside = 0.0, abs(end - centre)
    while reach < outside and density_at(table, centre + side * reach, statistic, path) >= floor:
        inside = reach
        reach *= 2.0
    if reach >= outside and density_at(table, end, statistic, path) >= floor:
        return end
    outside = min(reach, outside)
    halvings = 0
    while halvings < HALVINGS or (inside == 0.0 and halvings < 50):
        middle = 0.5 * (inside + outside)
        if density_at(table, centre + side * middle, statistic, path) >= floor:
            inside = middle
        else:
            outside = middle
        halvings += 1
    return centre + side * outside


@njit(cache=True)
def cell_mass(left, right, at_left, at_right):
    """The integral over the unit interval of exp of the line from left to right, given exp of its ends."""
    difference = right - left
    if abs(difference) > 0.1:
        return (at_right - at_left) / difference
    # The same without cancellation: the mean of the ends, times tanh(x) / x of half the difference.
    square = difference * difference
    return 0.5 * (at_left + at_right) * (1.0 - square * (1.0 / 12.0 - square / 120.0))


@njit(cache=True)
def cell_quantile(left, right, fraction):
    """The point of the unit interval below which this fraction of the cell's mass lies."""
    difference = right - left
    if abs(difference) < 1e-6:
        return fraction
    if difference < 0.0:
        return log1p(fraction * expm1(difference)) / difference
    return 1.0 + log1p((1.0 - fraction) * expm1(-difference)) / difference


@njit(cache=True)
def densities(table, start, stop, statistic, path):
    """The log density at the ends of the cells, relative to the largest."""
    density = np.empty(CELLS + 1)
    nodes, i, largest = table[0], find(table[0], start), -np.inf
    for cell in range(CELLS + 1):
        beta = min(start + cell * ((stop - start) / CELLS), stop)
        while i < nodes.size - 2 and nodes[i + 1] < beta:
            i += 1
        density[cell] = log_density(table, i, beta, statistic, path)
        largest = max(largest, density[cell])
    for cell in range(CELLS + 1):
        density[cell] -= largest
    return density


@njit(cache=True)
def draw_beta(table, low, high, statistic, path, u):
    """A draw from p(beta | S) on [low, high], by inversion of the uniform u."""
    centre = mode(table, low, high, statistic)
    i = find(table[0], centre)
    reach = 1.0 / max(math.sqrt(max(table[3, i], 1e-12)), abs(statistic - table[2, i]))
    start = window_end(table, centre, low, reach, statistic, path)
    stop = window_end(table, centre, high, reach, statistic, path)
    if not stop > start:
        return centre
    density = densities(table, start, stop, statistic, path)
    cumulative = np.zeros(CELLS + 1)
    left = exp(density[0])
    for cell in range(CELLS):
        right = exp(density[cell + 1])
        mass = cell_mass(density[cell], density[cell + 1], left, right)
        cumulative[cell + 1] = cumulative[cell] + mass
        left = right
    target = u * cumulative[CELLS]
    cell = find(cumulative, target)
    fraction = min((target - cumulative[cell]) / (cumulative[cell + 1] - cumulative[cell]), 1.0)
    within = cell_quantile(density[cell], density[cell + 1], fraction)
    return min(max(start + (cell + within) * ((stop - start) / CELLS), low), high)
