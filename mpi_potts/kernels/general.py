"""Samplers for any lattice: two or three dimensions, first- or second-order neighbours, any mask.

A state is a flat array of uint8 labels, padded by one layer on every side; padding and masked sites hold 255, so
that they never equal a label and every neighbour is at a constant offset.  The target is the Potts model (paper,
equation 6), p(z | beta) = exp(beta S(z)) / C(beta), with S(z) the number of like neighbour pairs, every edge
counted once.

Swendsen-Wang: every like pair is bonded with probability 1 - exp(-beta), and every cluster takes a new label,
uniform on 0..k-1, drawn at its first site in raster order.  Gibbs: the sites of one colour are independent given
the others, and take their labels from the conditional distribution, colour by colour.

All draws of a sweep are addressed by (site, word), the site by its place in the padded array.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..errors import InputError
from ..lattice import Lattice
from ..rng import threefry2x64

ABSENT = np.uint8(255)

# Random words are drawn for this many sites at once: the loop vectorises, and the buffer stays in the cache.
BLOCK = 512


class Layout(NamedTuple):
    """Where the sites of a lattice are in a padded flat array, and the arrays that a sweep works in."""

    shape: tuple  # of the padded array
    sites: np.ndarray  # (n,) int32 places of the sites that exist, in raster order
    by_colour: np.ndarray  # (n,) the same, colour by colour
    colour_ends: np.ndarray  # (colours,) where each colour ends in by_colour
    before: np.ndarray  # (h,) offsets of the neighbours that come first in raster order: every edge once
    around: np.ndarray  # (2h,) offsets of all neighbours
    parent: np.ndarray  # int32, as long as the padded array: the forest of clusters


def layout(lattice: Lattice) -> Layout:
    """The layout of a lattice."""
    shape = tuple(n + 2 for n in lattice.shape)
    if math.prod(shape) >= 2**31:
        raise InputError(f"image.shape = {list(lattice.shape)}: fewer than 2**31 pixels are accepted")
    sites = np.flatnonzero(np.pad(lattice.exists, 1)).astype(np.int32)
    colours = lattice.colours[lattice.exists]
    strides = np.array([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    after = lattice.half_offsets @ strides
    return Layout(
        shape=shape,
        sites=sites,
        by_colour=sites[np.argsort(colours, kind="stable")],
        colour_ends=np.cumsum(np.bincount(colours)),
        before=-after,
        around=np.concatenate([-after, after]),
        parent=np.empty(math.prod(shape), dtype=np.int32),
    )


def from_labels(layout: Layout, labels: np.ndarray) -> np.ndarray:
    """The state that holds `labels` (uint8 of the lattice's shape; masked sites become 255 whatever they hold)."""
    state = np.full(math.prod(layout.shape), ABSENT)
    state[layout.sites] = np.pad(labels, 1).ravel()[layout.sites]
    return state


def to_labels(layout: Layout, state: np.ndarray) -> np.ndarray:
    """The labels of a state: uint8 of the lattice's shape, 255 where masked."""
    return state.reshape(layout.shape)[(slice(1, -1),) * len(layout.shape)].copy()


def pad_values(layout: Layout, values: np.ndarray) -> np.ndarray:
    """Observations laid out as the labels of a state, 0 where there are none."""
    flat = np.zeros(math.prod(layout.shape), dtype=values.dtype)
    flat[layout.sites] = np.pad(values, 1).ravel()[layout.sites]
    return flat


@njit(inline="always")
def _uniform(word):
    """A word to the open interval (0, 1), as `rng.to_uniform`."""
    return (np.float64(word >> uint64(12)) + 0.5) * 2.0**-52


@njit(inline="always")
def _high(word, k):
    """The upper 64 of the 96 bits of word * k, for k below 2**32: a number in 0..k-1."""
    return ((word >> uint64(32)) * k + (((word & uint64(0xFFFFFFFF)) * k) >> uint64(32))) >> uint64(32)


@njit(inline="always")
def _uniform_label(word, k, site, attempt, k0, k1):
    """A label exactly uniform on 0..k-1: multiply-high, drawing again in the 2**64 mod k surplus cases."""
    surplus = (uint64(0) - k) % k
    while word * k < surplus:
        attempt += uint64(1)
        word, _ = threefry2x64(site, attempt, k0, k1)
    return np.uint8(_high(word, k))


@njit(cache=True)
def uniform_labels(out, k, k0, k1):
    """Fill `out` with independent labels, uniform on 0..k-1, addressed by their index."""
    for i in range(out.size):
        word, _ = threefry2x64(uint64(i), uint64(0), k0, k1)
        out[i] = _uniform_label(word, uint64(k), uint64(i), uint64(0), k0, k1)


@njit(cache=True)
def _draw_words(even, odd, sites, word, k0, k1):
    """Both random words number `word` of every site."""
    for i in range(sites.size):
        even[i], odd[i] = threefry2x64(uint64(sites[i]), uint64(word), k0, k1)


@njit(cache=True)
def statistic(state, sites, before):
    """S(z): like neighbour pairs, every edge once."""
    total = 0
    for i in range(sites.size):
        s = sites[i]
        for h in range(before.size):
            total += state[s] == state[s + before[h]]
    return total


@njit(inline="always")
def _unite(parent, a, b):
    """Join two clusters (Rem's algorithm with splicing): a parent is never after its child."""
    while parent[a] != parent[b]:
        if parent[a] < parent[b]:
            a, b = b, a
        up = parent[a]
        parent[a] = parent[b]
        if up == a:
            break
        a = up


@njit(cache=True)
def _bond(state, parent, sites, before, words, threshold):
    """Bond the sites of a block to like neighbours before them, where 53 random bits are below the threshold."""
    for i in range(sites.size):
        s = sites[i]
        parent[s] = s
        for h in range(before.size):
            t = s + before[h]
            if (state[s] == state[t]) & ((words[h, i] >> uint64(11)) < threshold):
                _unite(parent, s, t)


@njit(cache=True)
def _relabel(state, parent, sites, roots, words, word, k, k0, k1):
    """New labels for the clusters that begin in a block; the other sites copy a parent, which has its label."""
    n = 0
    for i in range(sites.size):
        roots[n] = sites[i]
        n += parent[sites[i]] == sites[i]
    _draw_words(words[0], words[1], roots[:n], word, k0, k1)
    for i in range(n):
        state[roots[i]] = _uniform_label(words[0, i], k, uint64(roots[i]), word, k0, k1)
    for i in range(sites.size):
        state[sites[i]] = state[parent[sites[i]]]


@njit(cache=True)
def _swendsen_wang(state, sites, before, parent, k, beta, stream, first, statistics):
    words = np.empty((before.size + 1, BLOCK), dtype=np.uint64)
    roots = np.empty(BLOCK, dtype=np.int32)
    threshold = uint64(-math.expm1(-beta) * 2.0**53)
    pairs = (before.size + 1) // 2
    for sweep in range(statistics.size):
        k0, k1 = threefry2x64(uint64(first + sweep), uint64(0), stream[0], stream[1])
        for start in range(0, sites.size, BLOCK):
            block = sites[start : start + BLOCK]
            for pair in range(pairs):
                _draw_words(words[2 * pair], words[2 * pair + 1], block, pair, k0, k1)
            _bond(state, parent, block, before, words, threshold)
        for start in range(0, sites.size, BLOCK):
            block = sites[start : start + BLOCK]
            _relabel(state, parent, block, roots, words, uint64(pairs), uint64(k), k0, k1)
        statistics[sweep] = statistic(state, sites, before)


def swendsen_wang(
    layout: Layout, state: np.ndarray, labels: int, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; returns (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    _swendsen_wang(
        state, layout.sites, layout.before, layout.parent, labels, float(beta), stream, first, statistics
    )
    return statistics


@njit(cache=True)
def _gibbs_colour(state, sites, around, words, gain, k):
    """New labels for sites that are not neighbours of each other.

    The weight of a label with c like neighbours is exp(beta c), which is 1 plus what each of them gained: walk
    through the k ones and then the gains of the neighbours.  So the cost does not depend on k.
    """
    counts = np.zeros(256, dtype=np.int64)
    gains = np.empty(around.size)
    for i in range(sites.size):
        s = sites[i]
        total = float(k)
        for m in range(around.size):
            label = state[s + around[m]]
            gains[m] = gain[counts[label]] if label != ABSENT else 0.0
            counts[label] += 1
            total += gains[m]
        for m in range(around.size):
            counts[state[s + around[m]]] = 0
        u = _uniform(words[i]) * total
        if u < k:
            state[s] = np.uint8(u)
        else:
            state[s] = _walk(state, s, around, gains, u - k)


@njit(inline="always")
def _walk(state, s, around, gains, u):
    """The label of the neighbour in whose gain u falls (the last one with a gain, should rounding pass the end)."""
    chosen = state[s]
    for m in range(around.size):
        if gains[m] > 0.0:
            chosen = state[s + around[m]]
            u -= gains[m]
            if u < 0.0:
                break
    return chosen


@njit(cache=True)
def _gibbs(state, sites, by_colour, colour_ends, before, around, k, beta, stream, first, statistics):
    words = np.empty((2, BLOCK), dtype=np.uint64)
    gain = np.exp(beta * np.arange(around.size)) * math.expm1(beta)
    for sweep in range(statistics.size):
        k0, k1 = threefry2x64(uint64(first + sweep), uint64(0), stream[0], stream[1])
        begin = 0
        for end in colour_ends:
            for start in range(begin, end, BLOCK):
                block = by_colour[start : min(start + BLOCK, end)]
                _draw_words(words[0], words[1], block, 0, k0, k1)
                _gibbs_colour(state, block, around, words[0], gain, k)
            begin = end
        statistics[sweep] = statistic(state, sites, before)


def gibbs(
    layout: Layout, state: np.ndarray, labels: int, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; returns (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    _gibbs(
        state,
        layout.sites,
        layout.by_colour,
        layout.colour_ends,
        layout.before,
        layout.around,
        labels,
        float(beta),
        stream,
        first,
        statistics,
    )
    return statistics


@njit(cache=True)
def _choose(log_weight, u):
    """The index drawn by u in (0, 1) from weights given by their logarithms, which are overwritten."""
    largest = log_weight.max()
    total = 0.0
    for j in range(log_weight.size):
        total += math.exp(log_weight[j] - largest)
        log_weight[j] = total
    u *= total
    chosen = 0
    for j in range(log_weight.size - 1):
        chosen += u >= log_weight[j]
    return chosen


@njit(cache=True)
def _data_colour(state, sites, around, words, y, beta, mean, sd, n, sum_y, sum_y2):
    """New labels given the data for sites that are not neighbours of each other, and their sums by label."""
    k = mean.size
    log_weight = np.empty(k)
    precision = 0.5 / sd**2
    log_sd = np.log(sd)
    for i in range(sites.size):
        s = sites[i]
        value = np.float64(y[s])
        for j in range(k):
            log_weight[j] = -precision[j] * (value - mean[j]) ** 2 - log_sd[j]
        for m in range(around.size):
            label = state[s + around[m]]
            if label != ABSENT:
                log_weight[label] += beta
        j = _choose(log_weight, _uniform(words[i]))
        state[s] = np.uint8(j)
        n[j] += 1
        sum_y[j] += value
        sum_y2[j] += value * value


@njit(cache=True)
def _gibbs_with_data(state, by_colour, colour_ends, around, y, beta, mean, sd, stream, sweep, n, sum_y, sum_y2):
    words = np.empty((2, BLOCK), dtype=np.uint64)
    k0, k1 = threefry2x64(uint64(sweep), uint64(0), stream[0], stream[1])
    begin = 0
    for end in colour_ends:
        for start in range(begin, end, BLOCK):
            block = by_colour[start : min(start + BLOCK, end)]
            _draw_words(words[0], words[1], block, 0, k0, k1)
            _data_colour(state, block, around, words[0], y, beta, mean, sd, n, sum_y, sum_y2)
        begin = end


def gibbs_with_data(
    layout: Layout,
    state: np.ndarray,
    y: np.ndarray,
    beta: float,
    mean: np.ndarray,
    sd: np.ndarray,
    stream: np.ndarray,
    sweep: int,
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """One sweep of p(z | y, mean, sd, beta) (paper, equation 11), in place; the number of labels is mean.size.

    `y` is laid out by `pad_values`.  Returns S(z), and for every label the number of its sites, the sum of y and
    the sum of y**2 over them: (k,) int64, float64, float64, added up in the order of the sites by colour.  Centre
    y beforehand, or the last sum loses digits.
    """
    n = np.zeros(mean.size, dtype=np.int64)
    sum_y = np.zeros(mean.size)
    sum_y2 = np.zeros(mean.size)
    by_colour, ends, around = layout.by_colour, layout.colour_ends, layout.around
    _gibbs_with_data(
        state, by_colour, ends, around, y, float(beta), mean, sd, stream, sweep, n, sum_y, sum_y2
    )
    return statistic(state, layout.sites, layout.before), n, sum_y, sum_y2
