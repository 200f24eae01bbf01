"""What the data say of a state of the label chain, pixel by pixel given its neighbours."""

import numpy as np
from numba import njit, uint64

from .elementary import exp, log
from .neighbours import offsets_at
from .noise import log_density


@njit(cache=True)
def like_weights(beta, most):
    """exp(beta n) for n = 0..most like neighbours."""
    weights = np.empty(most + 1)
    for n in range(most + 1):
        weights[n] = exp(beta * n)
    return weights


@njit(cache=True)
def evidence(state, y, neighbours, beta, k, density):
    """(pixels, sum of log p(y_i | neighbours of i), and of log p(z_i | neighbours of i) the slope and the
    curvature in beta), over the sites of `neighbours`.

    state : flat, padded, as `neighbours` has it.  y : of its sites.  density : of the noise model, with k
    labels.
    """
    most = neighbours.most
    # Relative to the label that most neighbours have: exp(beta n) itself may overflow on a graph.
    power = like_weights(-beta, most)
    counts, logs = np.zeros(256, np.int64), np.empty(k)
    pixels, data, slope, curvature = 0, 0.0, 0.0, 0.0
    for i in range(neighbours.sites.size):
        place = uint64(neighbours.sites[i])
        around = offsets_at(neighbours, place)
        for offset in around:
            counts[state[place + offset]] += 1
        top = 0
        for j in range(k):
            top = max(top, counts[j])
        largest = -np.inf
        total = like = square = 0.0
        for j in range(k):
            logs[j] = log_density(density, j, y[i])
            largest = max(largest, logs[j])
            weight = power[top - counts[j]]
            total += weight
            like += weight * counts[j]
            square += weight * counts[j] * counts[j]
        mixture = 0.0
        for j in range(k):
            mixture += power[top - counts[j]] * exp(logs[j] - largest)
        data += largest + log(mixture / total)
        like /= total
        slope += counts[state[place]] - like
        curvature += square / total - like * like
        pixels += 1
        for offset in around:
            counts[state[place + offset]] = 0
    return pixels, data, slope, curvature


@njit(cache=True)
def mixture(y, shares, density):
    """sum_i log sum_j share_j p(y_i | z_i = j): pixels without neighbours."""
    logs, total = np.empty(shares.size), 0.0
    for i in range(y.size):
        largest = -np.inf
        for j in range(shares.size):
            logs[j] = log_density(density, j, y[i])
            if shares[j] > 0.0:
                largest = max(largest, logs[j])
        likelihood = 0.0
        for j in range(shares.size):
            if shares[j] > 0.0:
                likelihood += shares[j] * exp(logs[j] - largest)
        total += largest + log(likelihood)
    return total


@njit(cache=True)
def labelled(state, y, neighbours, density):
    """sum_i log p(y_i | z_i), over all pixels."""
    total = 0.0
    for i in range(neighbours.sites.size):
        place = uint64(neighbours.sites[i])
        total += log_density(density, state[place], y[place])
    return total
