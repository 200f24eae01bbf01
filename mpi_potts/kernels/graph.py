"""Swendsen-Wang sweeps of the Potts prior on any graph: a list of edges, and a plain search of clusters.

What `clusters` does for lattices, one edge at a time: a lattice need only give its shape, the sites that
exist, and the two ends of all its edges, `lattice.pairs(array)`.  A state is the labels of the sites that
exist, uint8, in raster order; the sites are numbered from 1, as runs are in `run_labels`.

Draws are addressed by (stream, number of the sweep, edge or site): how sweeps are split over calls changes no
bit.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..lattice import MASKED, Lattice
from .clusters import threshold, unite
from .run_labels import Room, draw_labels, room, spread_labels
from .words import draw_words, fill_words

# Edges whose random words are drawn together.
BLOCK = 512


class EdgeLayout(NamedTuple):
    """The edges of a graph with k labels."""

    labels: int  # k
    exists: np.ndarray  # bool, in the lattice's shape
    ends: np.ndarray  # (edges, 2) uint32 numbers of the two sites, the later one first; ascending


class GraphScratch(NamedTuple):
    """What a sweep works in."""

    like: np.ndarray  # (edges,) uint8: whether the ends have the same label
    words: np.ndarray  # (BLOCK,) uint64
    queue: np.ndarray  # (BLOCK, 2) uint32: bonds of a block
    parent: np.ndarray  # (sites + 1,) uint32
    room: Room


def layout(lattice: Lattice, labels: int) -> EdgeLayout:
    """The layout of a graph or lattice for labels 0..k-1."""
    if not 2 <= labels <= 255:
        raise ValueError("2 to 255 labels are accepted")
    number = np.zeros(lattice.shape, dtype=np.uint32)
    number[lattice.exists] = np.arange(1, np.count_nonzero(lattice.exists) + 1)
    ends = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in lattice.pairs(number)])
    ends = np.sort(ends[ends.all(axis=1)], axis=1)[:, ::-1]
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return EdgeLayout(labels, lattice.exists, np.ascontiguousarray(ends[order]))


def from_labels(layout: EdgeLayout, labels: np.ndarray) -> np.ndarray:
    """(sites,) uint8 from labels in the lattice's shape; masked pixels may hold anything."""
    return labels[layout.exists]


def to_labels(layout: EdgeLayout, state: np.ndarray) -> np.ndarray:
    """uint8 labels in the lattice's shape, 255 where there is no pixel."""
    labels = np.full(layout.exists.shape, MASKED, dtype=np.uint8)
    labels[layout.exists] = state
    return labels


def swendsen_wang(
    layout: EdgeLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    scratch = GraphScratch(
        like=np.empty(len(layout.ends), dtype=np.uint8),
        words=np.empty(BLOCK, dtype=np.uint64),
        queue=np.empty((BLOCK, 2), dtype=np.uint32),
        parent=np.empty(state.size + 1, dtype=np.uint32),
        room=room(state.size, (layout.labels - 1).bit_length()),
    )
    k, s0, s1 = np.uint64(layout.labels), *stream
    _sweeps(layout.ends, scratch, state, k, threshold(beta), s0, s1, np.uint64(first), statistics)
    return statistics


@njit(cache=True)
def _sweeps(ends, scratch, state, k, threshold, s0, s1, first, statistics):
    octets, sites = scratch.room.octets, uint64(state.size)
    like_ends(state, ends, scratch.like)
    for t in range(statistics.size):
        k0, k1 = draw_words(first + uint64(t), uint64(0), s0, s1)
        join_sites(ends, scratch.like, scratch.words, scratch.queue, scratch.parent, threshold, k0, k1)
        draw_labels(scratch.room.labels, octets, scratch.room.rejected, sites, k, k0, k1)
        spread_labels(scratch.parent, octets, sites)
        for i in range(state.size):
            state[i] = octets[i + 1]
        statistics[t] = like_ends(state, ends, scratch.like)


@njit(cache=True)
def like_ends(state, ends, like):
    """Mark the edges whose ends have the same label; returns S(z), the number of them."""
    total = 0
    for e in range(like.size):
        like[e] = state[uint64(ends[e, 0]) - uint64(1)] == state[uint64(ends[e, 1]) - uint64(1)]
        total += like[e]
    return total


@njit(cache=True)
def join_sites(ends, like, words, queue, parent, threshold, k0, k1):
    """Keep each like edge as a bond with probability threshold / 2**64; `parent` then has the clusters."""
    for i in range(parent.size):
        parent[i] = i
    for start in range(0, like.size, BLOCK):
        fill_words(words, start // 2, uint64(0), k0, k1)
        waiting = uint64(0)
        for e in range(start, min(start + BLOCK, like.size)):
            queue[waiting, 0], queue[waiting, 1] = ends[e, 0], ends[e, 1]
            waiting += uint64((like[e] != 0) & (words[e - start] < threshold))
        for i in range(waiting):
            unite(parent, queue[i, 0], queue[i, 1])
