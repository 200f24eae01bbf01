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
from .conditional import LOG_2, draw_labels, workspace
from .gibbs_blocks import erase
from .gibbs_data import Sites
from .gibbs_layout import BLOCK, BlockLayout
from .leaf import leaf
from .noise import NoData, add_block, log_weights, no_sums
from .words import draw_words


class Adjacency(NamedTuple):
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
    return BlockLayout(
        lattice, labels, position, Adjacency(first, absent, start, later, there.astype(np.int32))
    )


def from_labels(layout: BlockLayout, labels: np.ndarray) -> np.ndarray:
    """The state, uint8, of labels in the shape of the graph; masked sites may hold anything."""
    return layout.scatter(np.asarray(labels, dtype=np.uint8), MASKED)


def places(layout: BlockLayout) -> np.ndarray:
    """(n,) int32 where in a state the sites that exist are, in the order of the graph."""
    return layout.position.astype(np.int32)


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
def update_blocks(sites, terms, slope, key, colour, first, last, work, counts, sums):
    """What `update` does, with arrays to work in."""
    state, graph, data = sites.state, sites.pieces, sites.data
    k, space, new = work.candidates, work.weights, work.octets[1]
    before, statistic = graph.first[colour], 0
    for block in range(before + first, before + last):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        count_labels(state, graph, part.start, counts)
        top = space[k + 3]
        for j in range(k):
            # The maxima alternate between two rows.
            largest = space[k + (j & 1)]
            log_weights(terms, j, counts[j], data.values[part], slope, top, space[j], largest)
            top = largest
        draw_labels(work, (block - before) * BLOCK, 2 * colour, 2 * colour + 1, key)
        erase(new, graph.absent[part])
        for i in range(BLOCK):
            state[part.start + i] = new[i]
        statistic += count_pairs(state, graph, part.start, new)
        add_block(terms, data, block, new, sums)
    return statistic


@njit(cache=True, nogil=True)
def update(sites, terms, beta, key, colour, first, last):
    """Draw blocks first..last-1 of a colour, numbered from its first; what they add to S(z), and their sums.

    All as in `gibbs_data.update`.
    """
    sums, slope = no_sums(terms), float32(beta / LOG_2)
    work, counts = workspace(sums.shape[0]), np.empty((sums.shape[0], BLOCK), np.int32)
    return update_blocks(sites, terms, slope, key, colour, first, last, work, counts, sums), sums


@njit(cache=True)
def sweep(sites, terms, beta, key, sums):
    """One sweep of all colours; S(z).  The sums become those of all sites."""
    k, slope, statistic, first = sums.shape[0], float32(beta / LOG_2), 0, sites.pieces.first
    work, counts = workspace(k), np.empty((k, BLOCK), np.int32)
    sums[:] = 0
    for colour in range(first.size - 1):
        last = first[colour + 1] - first[colour]
        statistic += update_blocks(sites, terms, slope, key, colour, 0, last, work, counts, sums)
    return statistic


@njit(cache=True, nogil=True)
def tally(state, graph, counts, first, last):
    """Count the labels of blocks first..last-1, numbered through all colours, as `gibbs_blocks.tally`."""
    for i in range(first * BLOCK, last * BLOCK):
        if graph.absent[i] == 0:
            counts[state[i], i] += 1


@njit(cache=True)
def run(state, graph, k, beta, stream, first, statistic):
    """Sweeps of the prior from number `first` on, and S(z) after each."""
    terms = NoData(k, np.zeros(state.size, np.float32))
    sites, sums, key = Sites(state, graph, terms), no_sums(terms), np.empty(2, np.uint64)
    for t in range(statistic.size):
        key[0], key[1] = draw_words(uint64(first + t), uint64(0), stream[0], stream[1])
        statistic[t] = sweep(sites, terms, beta, key, sums)


def sweeps(
    layout: BlockLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Sweeps of the prior first..first+count-1, `state` in place; (count,) int64, S(z) after each."""
    statistic = np.empty(count, dtype=np.int64)
    run(state, layout.pieces, layout.labels, float(beta), stream, first, statistic)
    return statistic
