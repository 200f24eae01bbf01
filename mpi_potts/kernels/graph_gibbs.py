"""Gibbs sweeps on any graph, with and without data: lists of neighbours, coloured in the order of the sites.

A site takes the first colour that none of its neighbours before it has.  The sites of a colour are kept
together, in blocks of `BLOCK`, the last one filled up; a state is the labels in this order, 255 where there
is no site.  The neighbours of a site are places in it, those of earlier colours first.  But for the counting
of like neighbours, which goes from site to site here, all is as in `gibbs_data.py`: draws are addressed by
(the number of a site in its colour, the colour), sums are exact, blocks may be divided between threads.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, njit, uint64

from ..lattice import MASKED, Lattice
from .conditional import LOG_2, draw_labels, log_weights, workspace
from .gibbs_blocks import erase
from .gibbs_data import prepare
from .gibbs_layout import BLOCK, BlockLayout
from .label_sums import COLUMNS, add_block
from .leaf import leaf
from .words import draw_words

__all__ = [
    "BlockLayout",
    "Graph",
    "from_labels",
    "layout",
    "prepare",
    "sweep",
    "sweeps",
    "to_labels",
    "update",
]


class Graph(NamedTuple):
    """Where the neighbours of sites are; for kernels.  Blocks of colour c: first[c]..first[c + 1] - 1."""

    first: np.ndarray  # (colours + 1,) int64
    absent: np.ndarray  # (blocks * BLOCK,) uint8 255 where there is no site, else 0
    start: np.ndarray  # (blocks * BLOCK + 1,) int64 where the neighbours of each place begin
    later: np.ndarray  # (blocks * BLOCK,) int64 where those of later colours begin
    near: np.ndarray  # (2 edges,) int32 places


@njit(cache=True)
def colour_greedily(start, near):
    """(n,) int32 the first colour that no neighbour before has; near : neighbours, from start[i] on."""
    colour = np.empty(start.size - 1, np.int32)
    taken = np.full(start.size, -1)
    for i in range(colour.size):
        for e in range(start[i], start[i + 1]):
            if near[e] < i:
                taken[colour[near[e]]] = i
        c = 0
        while taken[c] == i:
            c += 1
        colour[i] = c
    return colour


def _edges(lattice):
    """(2 edges, 2) both directions of every edge, by the numbers of the sites in raster order."""
    number = np.full(lattice.shape, -1)
    number[lattice.exists] = np.arange(np.count_nonzero(lattice.exists))
    ends = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in lattice.pairs(number)])
    ends = ends[(ends >= 0).all(axis=1)]
    return np.concatenate([ends, ends[:, ::-1]])


def layout(lattice: Lattice, labels: int) -> BlockLayout:
    """The layout of a graph, or a lattice, for labels 0..k-1: its shape, what exists, and `pairs`."""
    ends = _edges(lattice)
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    n = np.count_nonzero(lattice.exists)
    colour = colour_greedily(np.searchsorted(ends[:, 0], np.arange(n + 1)), ends[:, 1])
    sizes = np.bincount(colour)
    first = np.concatenate([[0], np.cumsum(-(-sizes // BLOCK))])
    order = np.argsort(colour, kind="stable")
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n) + np.repeat(first[:-1] * BLOCK - (np.cumsum(sizes) - sizes), sizes)
    absent = np.full(first[-1] * BLOCK, MASKED, dtype=np.uint8)
    absent[position] = 0
    # A place's neighbours in the order of places, which is that of colours.
    here, there = position[ends].T
    ranked = np.lexsort((there, here))
    here, there = here[ranked], there[ranked]
    start = np.searchsorted(here, np.arange(absent.size + 1))
    block_colour = np.repeat(np.arange(sizes.size), np.diff(first) * BLOCK)
    later = start[:-1] + np.bincount(here[block_colour[there] < block_colour[here]], minlength=absent.size)
    return BlockLayout(lattice, labels, position, Graph(first, absent, start, later, there.astype(np.int32)))


def from_labels(layout: BlockLayout, labels: np.ndarray) -> np.ndarray:
    """The state, uint8, of labels in the shape of the graph; masked sites may hold anything."""
    return layout.scatter(np.asarray(labels, dtype=np.uint8), MASKED)


def to_labels(layout: BlockLayout, state: np.ndarray) -> np.ndarray:
    """The labels, uint8, in the shape of the graph, 255 where masked."""
    return layout.gather(state, MASKED)


@leaf
def count_labels(state, graph, place, counts):
    """counts (k, BLOCK): n_j of every site of the block that begins at `place`."""
    counts[:] = 0
    for i in range(BLOCK):
        for e in range(graph.start[place + i], graph.start[place + i + 1]):
            counts[state[uint64(graph.near[e])], i] += 1


@leaf
def count_pairs(state, graph, place, new):
    """The number of like neighbours in earlier colours of the sites of a block."""
    total = 0
    for i in range(BLOCK):
        for e in range(graph.start[place + i], graph.later[place + i]):
            total += state[uint64(graph.near[e])] == new[i]
    return total


@leaf
def update_blocks(state, graph, data, slope, noise, reference, key, colour, first, last, work, counts, sums):
    """What `update` does, with arrays to work in; no sums where there is no room for them."""
    y, scale, totals = data
    space, _, small, _ = work
    k, new, before, statistic = noise.shape[1], small[1], graph.first[colour], 0
    for block in range(before + first, before + last):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        values = y[part]
        count_labels(state, graph, part.start, counts)
        top = space[k + 3]
        for j in range(k):
            # The maxima alternate between two rows.
            largest = space[k + (j & 1)]
            mean, curvature, level = noise[0, j], noise[1, j], noise[2, j]
            log_weights(counts[j], values, slope, mean, curvature, level, top, space[j], largest)
            top = largest
        draw_labels(work, k, (block - before) * BLOCK, 2 * colour, 2 * colour + 1, key[0], key[1])
        erase(new, graph.absent[part])
        for i in range(BLOCK):
            state[part.start + i] = new[i]
        statistic += count_pairs(state, graph, part.start, new)
        if sums.size > 0:
            add_block(new, values, scale, totals[block], reference, sums)
    return statistic


@njit(cache=True, nogil=True)
def update(state, graph, data, beta, noise, reference, key, colour, first, last):
    """Draw blocks first..last-1 of a colour, numbered from its first; what they add to S(z), and their sums.

    data : from `prepare`, and the rest as in `gibbs_data.update`.
    """
    k, slope = noise.shape[1], float32(beta / LOG_2)
    counts, sums = np.empty((k, BLOCK), np.int32), np.zeros((reference.size, COLUMNS), np.int64)
    like = update_blocks(
        state, graph, data, slope, noise, reference, key, colour, first, last, workspace(k), counts, sums
    )
    return like, sums


@njit(cache=True)
def sweep(state, graph, data, beta, noise, reference, key, sums):
    """One sweep of all colours; S(z).  sums (k, 4) become those of all sites about `reference`."""
    k, slope, statistic = noise.shape[1], float32(beta / LOG_2), 0
    work, counts = workspace(k), np.empty((k, BLOCK), np.int32)
    sums[:] = 0
    for colour in range(graph.first.size - 1):
        last = graph.first[colour + 1] - graph.first[colour]
        statistic += update_blocks(
            state, graph, data, slope, noise, reference, key, colour, 0, last, work, counts, sums
        )
    return statistic


@njit(cache=True)
def run(state, graph, k, beta, stream, first, statistic):
    # Without data all weights of the observations are 1, and nothing is summed.
    data = np.zeros(state.size, np.float32), float32(1), np.zeros((0, 3), np.int64)
    noise, reference = np.zeros((3, k), np.float32), np.zeros(k, np.int64)
    key, sums = np.empty(2, np.uint64), np.zeros((0, COLUMNS), np.int64)
    for t in range(statistic.size):
        key[0], key[1] = draw_words(uint64(first + t), uint64(0), stream[0], stream[1])
        statistic[t] = sweep(state, graph, data, beta, noise, reference, key, sums)


def sweeps(
    layout: BlockLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Sweeps of the prior first..first+count-1, `state` in place; (count,) int64, S(z) after each."""
    statistic = np.empty(count, dtype=np.int64)
    run(state, layout.pieces, layout.labels, float(beta), stream, first, statistic)
    return statistic
