"""Swendsen and Wang's move of labels given data: a cluster changes its label as a whole, or not at all.

Like neighbours are bound with probability 1 - exp(-beta).  Given the bonds, a cluster has label j with a
probability in proportion to the likelihood of its observations under j: another label is proposed to each,
and accepted by Metropolis' rule, all clusters on their own.  The target p(z | y, noise, beta) does not
change.

Sweeps of single sites move the wall between two labels of nearly the same noise a step at a time, or never;
here the region of the one becomes the other's at once.
"""

import numpy as np
from numba import int64, njit, uint8, uint64

from .elementary import exp, log
from .neighbours import offsets_at
from .noise import log_density
from .variates import uniform
from .words import draw_words

# Second counter words: bonds from 0 on, two to a word pair; then those of the clusters.
CLUSTER = np.uint64(2**32)


@njit(cache=True)
def root_of(parent, place):
    """The root of a place, with the way there shortened."""
    while parent[place] != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place


@njit(cache=True)
def bind(state, neighbours, beta, k0, k1, parent):
    """parent (places,) int32: every cluster a tree whose root is its first place."""
    free = exp(-beta)
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        parent[place] = place
        m = uint64(0)
        for offset in offsets_at(neighbours, uint64(place)):
            near = int64(uint64(place) + offset)
            if near < place and state[near] == state[place]:
                word, other = draw_words(uint64(i), m >> uint64(1), k0, k1)
                if uniform(other if m & uint64(1) else word) > free:
                    one, two = root_of(parent, place), root_of(parent, near)
                    parent[max(one, two)] = min(one, two)
            m += uint64(1)


@njit(cache=True)
def flip(state, y, neighbours, beta, k, density, power, k0, k1):
    """One move of all clusters, in place; S(z) after it.

    state, y : flat, padded, as `neighbours` has them.  density : of the noise model, whose likelihood counts
    to the given power.
    """
    parent = np.empty(state.size, np.int32)
    bind(state, neighbours, beta, k0, k1, parent)
    proposed, gain = np.empty(state.size, np.uint8), np.empty(state.size)
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        root = root_of(parent, place)
        if root == place:
            word, _ = draw_words(uint64(place), CLUSTER, k0, k1)
            step = 1 + min(int64(uniform(word) * (k - 1)), k - 2)
            proposed[root], gain[root] = uint8((int64(state[root]) + step) % k), 0.0
        old, new = int64(state[place]), int64(proposed[root])
        gain[root] += log_density(density, new, y[place]) - log_density(density, old, y[place])
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        root = root_of(parent, place)
        _, word = draw_words(uint64(root), CLUSTER, k0, k1)
        if log(uniform(word)) < power * gain[root]:
            state[place] = proposed[root]
    statistic = 0
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        for offset in offsets_at(neighbours, uint64(place)):
            near = int64(uint64(place) + offset)
            statistic += near < place and state[near] == state[place]
    return statistic
