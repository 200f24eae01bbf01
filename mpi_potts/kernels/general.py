"""Samplers for any lattice: two or three dimensions, first- or second-order neighbours, any mask.

The prior is p(z | beta) = exp(beta S(z)) / C(beta), with S(z) the number of like neighbour pairs (paper,
equations 7 and 8), every edge counted once.

Swendsen-Wang: every like pair is bonded with probability 1 - exp(-beta), and every cluster takes a new label,
uniform on 0..k-1, drawn at its first site in raster order.  Gibbs: the sites of one colour are independent
given the others, and take their labels from the conditional distribution, colour by colour.

A state is a flat array of uint8 labels, padded by one layer on every side; padding and masked sites hold
255, so that they never equal a label, and every neighbour is at a constant offset.  Places and offsets are
unsigned (an offset backwards wraps around): a signed index would be tested for its sign at every access.

All draws of a sweep are addressed by (site, word), the site by its place in the padded array.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..errors import InputError
from ..lattice import Lattice
from .elementary import exp, expm1, log
from .threefry import encrypt, threefry2x64
from .variates import uniform

ABSENT = np.uint8(255)

# Random words are drawn for this many sites at once: the loop vectorises, and the buffer stays in the cache.
BLOCK = 512


class Layout(NamedTuple):
    """Where the sites of a lattice are in a padded flat array, and the arrays that a sweep works in."""

    labels: int  # k
    shape: tuple  # of the padded array
    sites: np.ndarray  # (n,) uint32 places of the sites that exist, in raster order
    by_colour: np.ndarray  # (n,) the same, colour by colour
    colour_ends: np.ndarray  # (colours,) where each colour ends in by_colour
    before: np.ndarray  # (h,) uint64 offsets of the neighbours before a site in raster order: each edge once
    around: np.ndarray  # (2h,) offsets of all neighbours
    parent: np.ndarray  # uint32, as long as the padded array: the forest of clusters


def layout(lattice: Lattice, labels: int) -> Layout:
    """The layout of a lattice with labels 0..k-1."""
    shape = tuple(n + 2 for n in lattice.shape)
    if math.prod(shape) >= 2**32:
        raise InputError(f"image.shape = {list(lattice.shape)}: fewer than 2**32 pixels are accepted")
    sites = np.flatnonzero(np.pad(lattice.exists, 1)).astype(np.uint32)
    colours = lattice.colours[lattice.exists]
    strides = np.array([math.prod(shape[d + 1 :]) for d in range(len(shape))])
    after = (lattice.half_offsets * strides).sum(axis=1)
    return Layout(
        labels=labels,
        shape=shape,
        sites=sites,
        by_colour=sites[np.argsort(colours, kind="stable")],
        colour_ends=np.cumsum(np.bincount(colours)),
        before=(-after).view(np.uint64),
        around=np.concatenate([-after, after]).view(np.uint64),
        parent=np.empty(math.prod(shape), dtype=np.uint32),
    )


def from_labels(layout: Layout, labels: np.ndarray) -> np.ndarray:
    """The state of uint8 labels in the lattice's shape; what stands at masked pixels is ignored."""
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


@njit(cache=True)
def like_weights(beta, most):
    """exp(beta n) for n = 0..most like neighbours."""
    weights = np.empty(most + 1)
    for n in range(most + 1):
        weights[n] = exp(beta * n)
    return weights


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
        s = uint64(sites[i])
        for h in range(before.size):
            total += state[s] == state[s + before[h]]
    return total


@njit(inline="always")
def _bonded(state, s, t, word, threshold):
    """Whether two neighbours are alike and 53 random bits are below the threshold."""
    return (state[s] == state[t]) & ((word >> uint64(11)) < threshold)


@njit(inline="always")
def _unite(parent, a, b):
    """Join two clusters (Rem's algorithm with splicing): a parent is never after its child."""
    while parent[a] != parent[b]:
        if parent[a] < parent[b]:
            a, b = b, a
        up = uint64(parent[a])
        parent[a] = parent[b]
        if up == a:
            break
        a = up


@njit(cache=True)
def _bond(state, parent, sites, before, words, threshold):
    """Bond the sites of a block to their neighbours before them."""
    for i in range(sites.size):
        s = uint64(sites[i])
        t = s + before[0]
        # The first bond of a site needs no search, and as a choice of values it is never mispredicted.
        parent[s] = parent[t] if _bonded(state, s, t, words[0, i], threshold) else sites[i]
        for h in range(1, before.size):
            t = s + before[h]
            if _bonded(state, s, t, words[h, i], threshold):
                _unite(parent, s, t)


@njit(cache=True)
def _relabel(state, parent, sites, roots, words, word, k, k0, k1):
    """New labels for the clusters that begin in a block; other sites copy a parent, which comes before."""
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
    roots = np.empty(BLOCK, dtype=np.uint32)
    threshold = uint64(-expm1(-beta) * 2.0**53)
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
    layout: Layout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    sites, before, parent = layout.sites, layout.before, layout.parent
    _swendsen_wang(state, sites, before, parent, layout.labels, float(beta), stream, first, statistics)
    return statistics


@njit(cache=True)
def _gibbs_colour(state, sites, around, words, gain, k):
    """New labels for sites that are not neighbours of each other.

    The weight of a label with c like neighbours is exp(beta c), which is 1 plus what each of them gains: so u
    walks through the k ones and then the gains of the neighbours, and the cost does not depend on k.
    """
    counts = np.zeros(256, dtype=np.int64)
    near = np.empty(around.size, dtype=np.uint8)
    gains = np.empty(around.size)
    for i in range(sites.size):
        s = uint64(sites[i])
        total = float(k)
        for m in range(around.size):
            label = state[s + around[m]]
            near[m] = label
            gains[m] = gain[counts[label]] if label != ABSENT else 0.0
            counts[label] += 1
            total += gains[m]
        u = uniform(words[i]) * total
        chosen = np.uint8(min(u, k - 1.0))
        u -= k
        for m in range(around.size):
            chosen = near[m] if (u >= 0.0) & (gains[m] > 0.0) else chosen
            u -= gains[m]
            counts[near[m]] = 0
        state[s] = chosen


@njit(cache=True)
def _gibbs(state, sites, by_colour, colour_ends, before, around, k, beta, stream, first, statistics):
    words = np.empty((2, BLOCK), dtype=np.uint64)
    gain = like_weights(beta, around.size - 1) * expm1(beta)
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
    layout: Layout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    sites = layout.sites, layout.by_colour, layout.colour_ends, layout.before, layout.around
    _gibbs(state, *sites, layout.labels, float(beta), stream, first, statistics)
    return statistics


@njit(cache=True)
def _likelihoods(weight, sites, y, mean, sd):
    """weight[j, i]: the density of y at site i under label j, over that of the site's likeliest label."""
    largest = weight[mean.size]
    largest[:] = -np.inf
    for j in range(mean.size):
        row, centre, precision, log_sd = weight[j], mean[j], 0.5 / (sd[j] * sd[j]), log(sd[j])
        for i in range(sites.size):
            distance = np.float64(y[uint64(sites[i])]) - centre
            row[i] = -precision * distance * distance - log_sd
            largest[i] = max(largest[i], row[i])
    for j in range(mean.size):
        row = weight[j]
        for i in range(sites.size):
            row[i] = exp(row[i] - largest[i])


@njit(cache=True)
def _data_colour(state, sites, around, words, y, weight, power, n, sum_y, sum_y2):
    """New labels given the data for sites that are not neighbours of each other, and their sums by label."""
    counts = np.zeros(256, dtype=np.int64)
    cumulative = np.empty(n.size)
    for i in range(sites.size):
        s = uint64(sites[i])
        for m in range(around.size):
            counts[state[s + around[m]]] += 1
        total = 0.0
        for j in range(n.size):
            total += weight[j, i] * power[counts[j]]
            cumulative[j] = total
        u = uniform(words[i]) * total
        chosen = 0
        for j in range(n.size - 1):
            chosen += u >= cumulative[j]
        for m in range(around.size):
            counts[state[s + around[m]]] = 0
        state[s] = chosen
        n[chosen] += 1
        value = np.float64(y[s])
        sum_y[chosen] += value
        sum_y2[chosen] += value * value


@njit(cache=True)
def _gibbs_with_data(state, by_colour, colour_ends, around, y, beta, mean, sd, k0, k1, n, sum_y, sum_y2):
    words = np.empty((2, BLOCK), dtype=np.uint64)
    weight = np.empty((mean.size + 1, BLOCK))
    power = like_weights(beta, around.size)
    begin = 0
    for end in colour_ends:
        for start in range(begin, end, BLOCK):
            block = by_colour[start : min(start + BLOCK, end)]
            _draw_words(words[0], words[1], block, 0, k0, k1)
            _likelihoods(weight, block, y, mean, sd)
            _data_colour(state, block, around, words[0], y, weight, power, n, sum_y, sum_y2)
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
    """One sweep of p(z | y, mean, sd, beta) (paper, equation 10), in place; mean and sd are (k,) float64.

    `y` is laid out by `pad_values`.  Returns S(z), and for every label the number of its sites, the sum of y
    and the sum of y**2 over them: (k,) int64, float64, float64, added up in the order of the sites by colour.
    Centre y beforehand, or the last sum loses digits.
    """
    n = np.zeros(layout.labels, dtype=np.int64)
    sum_y, sum_y2 = np.zeros((2, layout.labels))
    sites = layout.by_colour, layout.colour_ends, layout.around
    k0, k1 = map(np.uint64, encrypt(np.uint64(sweep), np.uint64(0), stream[0], stream[1]))
    _gibbs_with_data(state, *sites, y, float(beta), mean, sd, k0, k1, n, sum_y, sum_y2)
    return statistic(state, layout.sites, layout.before), n, sum_y, sum_y2
