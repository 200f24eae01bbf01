"""What the data say of a state of the label chain, pixel by pixel given its neighbours.

Of a padded state as in `general`: every pixel that exists is surrounded by places, 255 where there is none.
"""

import math

import numpy as np
from numba import njit, uint64

from .elementary import exp, log
from .general import like_weights

ABSENT = np.uint8(255)


@njit(cache=True)
def evidence(state, y, around, first, step, beta, mean, sd):
    """(pixels, sum of log p(y_i | neighbours of i), and of log p(z_i | neighbours of i) the slope and the
    curvature in beta), over every `step`-th place from `first`.

    state, y : flat, padded.  around : (d,) uint64 offsets of the neighbours.  mean, sd : (k,).
    """
    k, most = mean.size, around.size
    power = like_weights(beta, most)
    precision, log_sd = 0.5 / (sd * sd), np.empty(k)
    for j in range(k):
        log_sd[j] = log(sd[j]) + 0.5 * log(2.0 * math.pi)
    counts, logs = np.zeros(256, np.int64), np.empty(k)
    pixels, data, slope, curvature = 0, 0.0, 0.0, 0.0
    for place in range(first, state.size, step):
        label = state[place]
        if label == ABSENT:
            continue
        for m in range(most):
            counts[state[uint64(place) + around[m]]] += 1
        largest = -np.inf
        total = like = square = 0.0
        for j in range(k):
            distance = y[place] - mean[j]
            logs[j] = -precision[j] * distance * distance - log_sd[j]
            largest = max(largest, logs[j])
            weight = power[counts[j]]
            total += weight
            like += weight * counts[j]
            square += weight * counts[j] * counts[j]
        mixture = 0.0
        for j in range(k):
            mixture += power[counts[j]] * exp(logs[j] - largest)
        data += largest + log(mixture / total)
        like /= total
        slope += counts[label] - like
        curvature += square / total - like * like
        pixels += 1
        for m in range(most):
            counts[state[uint64(place) + around[m]]] = 0
    return pixels, data, slope, curvature
