"""Swendsen and Wang's move of labels given data: a cluster changes its label as a whole, or not at all.

Like neighbours are bound with probability 1 - exp(-beta).  Given the bonds, a cluster has label j with a
probability in proportion to the likelihood of its observations under j: another label is proposed to each,
and accepted by Metropolis' rule, all clusters on their own.  The target p(z | y, noise, beta) does not
change.

Sweeps of single sites move the wall between two labels of nearly the same noise a step at a time, or never;
here the region of the one becomes the other's at once.

**With the noise.** A region that does not touch others of its label may have another just as well, for S(z)
the same; but a label of few pixels has noise that is not quite the region's, which for a thousand pixels at
once is too much.  So large clusters may change the label together with the noise of the old and the new one:
(z, noise) becomes (z', noise'), with the noise of both labels drawn anew from a density q near its posterior
given their new pixels, and is accepted by Metropolis' and Hastings' rule,

    p(y, noise' | z') q(noise | z) / (p(y, noise | z) q(noise' | z')),

which is nearly the ratio of the marginal likelihoods, and keeps p(z, noise | y, beta).
"""

import numpy as np
from numba import int64, njit, uint8, uint64

from .elementary import exp, log
from .neighbours import offsets_at
from .noise import add_observation, log_density, log_excess, no_moments, redraw
from .variates import uniform
from .words import draw_words

# Second counter words: bonds from 0 on, two to a word pair; then those of the clusters.
CLUSTER = np.uint64(2**32)
TRANSFER = np.uint64(2**33)
# Noise is drawn under numbers that no site has.
REDRAWN = 2**40

# Changes of label together with the noise that are proposed at a time.
TRIES = 32


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
    parent, room = np.empty(state.size, np.int32), np.empty(state.size)
    bind(state, neighbours, beta, k0, k1, parent)
    flip_clusters(state, y, neighbours, parent, k, density, power, k0, k1, room)
    return statistic_of(state, neighbours)


@njit(cache=True)
def flip_with_noise(state, y, neighbours, beta, k, density, noise, least, k0, k1):
    """The same, and then clusters of at least so many pixels with the noise (the state of a noise model),
    both in place."""
    parent, room = np.empty(state.size, np.int32), np.empty(state.size)
    bind(state, neighbours, beta, k0, k1, parent)
    flip_clusters(state, y, neighbours, parent, k, density, 1.0, k0, k1, room)
    transfer(state, y, neighbours, parent, k, noise, least, k0, k1, room)
    return statistic_of(state, neighbours)


@njit(cache=True)
def flip_clusters(state, y, neighbours, parent, k, density, power, k0, k1, gain):
    """Let every cluster change its label, or not, with the noise as it is.  gain : (places,) room."""
    proposed = np.empty(state.size, np.uint8)
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
        if root == place:  # the first of its cluster, which decides
            _, word = draw_words(uint64(root), CLUSTER, k0, k1)
            if log(uniform(word)) >= power * gain[root]:
                proposed[root] = state[root]
        state[place] = proposed[root]


@njit(cache=True)
def transfer(state, y, neighbours, parent, k, noise, least, k0, k1, number):
    """Let large clusters change their label together with the noise.  number : (places,) room."""
    large = number_large(neighbours, parent, least, number)
    if large == 0:
        return
    of_label, of_cluster = no_moments(noise, k), no_moments(noise, large)
    label = np.empty(large, np.int64)
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        add_observation(noise, y[place], of_label[state[place]])
        c = int64(number[root_of(parent, place)])
        if c >= 0:
            add_observation(noise, y[place], of_cluster[c])
            label[c] = state[place]
    changed = False
    for t in range(TRIES):
        word, other = draw_words(uint64(t), TRANSFER, k0, k1)
        c = min(int64(uniform(word) * large), large - 1)
        new = (label[c] + 1 + min(int64(uniform(other) * (k - 1)), k - 2)) % k
        if try_transfer(of_label, of_cluster[c], label[c], new, noise, t, k0, k1):
            label[c], changed = new, True
    if changed:
        for i in range(neighbours.sites.size):
            place = int64(neighbours.sites[i])
            c = int64(number[root_of(parent, place)])
            if c >= 0:
                state[place] = label[c]


@njit(cache=True)
def number_large(neighbours, parent, least, number):
    """How many clusters are large; number (places,) their numbers at their roots, and -1 at all others."""
    sites = neighbours.sites
    for i in range(sites.size):
        place = int64(sites[i])
        root = root_of(parent, place)  # its first place
        number[root] = 1.0 if root == place else number[root] + 1.0
    large = 0
    for i in range(sites.size):
        place = int64(sites[i])
        if parent[place] == place:
            number[place], large = (large, large + 1) if number[place] >= least else (-1, large)
    return large


@njit(cache=True)
def try_transfer(of_label, moments, old, new, noise, t, k0, k1):
    """Whether a cluster of these moments changes its label: then the moments of labels and the noise do."""
    left, joined = of_label[old] - moments, of_label[new] + moments
    if left[0] == 0.0:
        left[:] = 0.0  # exactly
    one, two = np.empty(noise.values.shape[0]), np.empty(noise.values.shape[0])
    redraw(noise, old, left, REDRAWN + 2 * t, k0, k1, one)
    redraw(noise, new, joined, REDRAWN + 2 * t + 1, k0, k1, two)
    gain = log_excess(noise, old, left, one) + log_excess(noise, new, joined, two)
    gain -= log_excess(noise, old, of_label[old], noise.values[:, old])
    gain -= log_excess(noise, new, of_label[new], noise.values[:, new])
    word, _ = draw_words(uint64(t), TRANSFER + uint64(1), k0, k1)
    if log(uniform(word)) >= gain:
        return False
    of_label[old], of_label[new] = left, joined
    noise.values[:, old], noise.values[:, new] = one, two
    return True


@njit(cache=True)
def statistic_of(state, neighbours):
    """S(z)."""
    statistic = 0
    for i in range(neighbours.sites.size):
        place = int64(neighbours.sites[i])
        for offset in offsets_at(neighbours, uint64(place)):
            near = int64(uint64(place) + offset)
            statistic += near < place and state[near] == state[place]
    return statistic
