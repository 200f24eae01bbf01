"""Sweeps of the Potts prior by turns: Swendsen-Wang, then Gibbs.

Swendsen-Wang moves what is large, and single sites only with the label of a whole cluster; Gibbs the other
way round.  One after the other leave S(z) with a third to a half of the autocorrelation time of the first,
near the transition a quarter, at twice the time of a sweep.

A state is that of Swendsen-Wang, 64 sites to a word (`cluster_layout`).  For the Gibbs sweep its bits become
bytes, which go to their places in the layout of the Gibbs kernel, and come back.  In both layouts of Gibbs
kernels, `chequerboard_layout` and `gibbs_layout`, the even pixels of a row lie side by side, and so do the
odd ones: a stretch of sites in a row is two runs of places.  On a graph, and where sites are so scattered
that Swendsen-Wang goes from edge to edge (`swendsen_wang`), labels go over by way of an image.

Sweep t is number 2 t of the one kernel and number 2 t + 1 of the other: they share no draws.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint8, uint64

from ..lattice import GRAPH, Lattice
from . import chequerboard, clusters, gibbs, graph_gibbs, swendsen_wang
from .gibbs_blocks import FROZEN_BETA
from .words import draw_words

ONES = np.uint64(0x0101010101010101)
SINGLE = np.uint64(0x8040201008040201)
SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)


class AlternatingLayout(NamedTuple):
    """The layouts of both kernels, and the way between them."""

    clusters: swendsen_wang.ClusterLayout
    kernel: Any  # the Gibbs kernel
    gibbs: Any  # its layout
    empty: np.ndarray  # the state of a Gibbs kernel without labels
    stretches: np.ndarray  # (., 4) int64: first byte, place of it and of the one after it, sites


def layout(lattice: Lattice, labels: int) -> AlternatingLayout:
    """The layout of a lattice for labels 0..k-1."""
    words = swendsen_wang.layout(lattice, labels)
    if lattice.neighbourhood == GRAPH:
        kernel = graph_gibbs
    else:
        kernel = chequerboard if lattice.first_order_plane else gibbs
    places = kernel.layout(lattice, labels)
    empty = np.zeros(0, dtype=np.uint8)
    stretches = np.zeros((0, 4), dtype=np.int64)
    if isinstance(words, clusters.WordLayout):
        empty = kernel.from_labels(places, np.zeros(lattice.shape, dtype=np.uint8))
        stretches = _stretches(lattice, words, places)
    return AlternatingLayout(words, kernel, places, empty, stretches)


def fast(lattice: Lattice, labels: int) -> bool:
    """Whether labels go from kernel to kernel without an image."""
    if lattice.mask is None:
        return lattice.neighbourhood != GRAPH
    return isinstance(swendsen_wang.layout(lattice, labels), clusters.WordLayout)


def _stretches(lattice, words, places):
    """Sites that follow each other in a row: see `AlternatingLayout`."""
    exists, columns = lattice.exists.reshape(-1), lattice.shape[-1]
    before = np.append(False, exists[:-1])
    before[::columns] = False
    first = np.flatnonzero(exists & ~before)
    after = np.append(exists[1:], False)
    after[columns - 1 :: columns] = False
    length = np.flatnonzero(exists & ~after) - first + 1
    at = np.unravel_index(first, lattice.shape)
    box = [part.stop - part.start for part in words.box]
    bit = np.ravel_multi_index([i - part.start for i, part in zip(at, words.box)], box)
    byte = 64 * words.slots[np.searchsorted(words.kept, bit // 64)] + bit % 64
    if lattice.first_order_plane:
        even, odd = (places.place_of(at[0], at[1] + step) for step in (0, 1))
    else:
        number = np.cumsum(length) - length
        even = places.place[number]
        odd = places.place[np.minimum(number + 1, places.place.size - 1)]
    return np.stack([byte, even, odd, length], axis=1).astype(np.int64)


def from_labels(layout: AlternatingLayout, labels: np.ndarray) -> np.ndarray:
    """The state of uint8 labels in the lattice's shape; masked pixels may hold anything."""
    return swendsen_wang.from_labels(layout.clusters, labels)


def to_labels(layout: AlternatingLayout, state: np.ndarray) -> np.ndarray:
    """The labels of a state: uint8 of the lattice's shape, 255 where masked."""
    return swendsen_wang.to_labels(layout.clusters, state)


def sweeps(
    layout: AlternatingLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    if not isinstance(layout.clusters, clusters.WordLayout):
        for t in range(count):
            statistics[t] = _by_image(layout, state, beta, stream, first + t)
        return statistics
    words, places = layout.clusters, layout.gibbs
    octets = np.zeros(8 * words.words.exists.size, dtype=np.uint64)
    way = Way(octets, layout.stretches, layout.empty.copy().reshape(-1))
    joined = clusters.scratch(words), clusters.threshold(beta)
    rest = words.labels, min(float(beta), FROZEN_BETA), stream, np.uint64(first), statistics
    if layout.kernel is chequerboard:
        _on_plane(words.words, *joined, state, way, places.absent, places.geometry, *rest)
    else:
        _on_pieces(words.words, *joined, state, way, places.pieces, *rest)
    return statistics


def _by_image(layout, state, beta, stream, number):
    """One sweep where there is no shorter way between the kernels; S(z)."""
    swendsen_wang.sweeps(layout.clusters, state, beta, stream, 2 * number, 1)
    other = layout.kernel.from_labels(layout.gibbs, swendsen_wang.to_labels(layout.clusters, state))
    statistic = layout.kernel.sweeps(layout.gibbs, other, beta, stream, 2 * number + 1, 1)[0]
    state[...] = swendsen_wang.from_labels(layout.clusters, layout.kernel.to_labels(layout.gibbs, other))
    return statistic


class Way(NamedTuple):
    """What carries labels from one kernel to the other."""

    octets: np.ndarray  # (8 * words,) uint64: a byte for each bit of the words
    stretches: np.ndarray
    places: np.ndarray  # (.,) uint8: the state of the Gibbs kernel


@njit(cache=True)
def _on_plane(words, scratch, threshold, state, way, absent, geometry, k, beta, stream, first, statistics):
    tables = chequerboard.few_tables(min(k, chequerboard.FEW), beta)
    planes = way.places.reshape(absent.shape)
    for t in range(statistics.size):
        number = uint64(2) * (first + uint64(t))
        move_clusters(words, scratch, threshold, state, k, stream, number)
        to_places(state, way)
        k0, k1 = draw_words(number + uint64(1), uint64(0), stream[0], stream[1])
        statistics[t] = chequerboard.sweep(planes, absent, geometry, k, beta, tables, k0, k1)
        from_places(way, state)


@njit(cache=True)
def _on_pieces(words, scratch, threshold, state, way, pieces, k, beta, stream, first, statistics):
    terms, key = gibbs.logarithms(k, beta), np.empty(2, np.uint64)
    room = gibbs.arrays(pieces.slot.shape[1], k)
    for t in range(statistics.size):
        number = uint64(2) * (first + uint64(t))
        move_clusters(words, scratch, threshold, state, k, stream, number)
        to_places(state, way)
        key[0], key[1] = draw_words(number + uint64(1), uint64(0), stream[0], stream[1])
        statistics[t] = gibbs.sweep(way.places, pieces, k, terms, key, room)
        from_places(way, state)


@njit(cache=True)
def move_clusters(words, scratch, threshold, state, k, stream, number):
    """A Swendsen-Wang sweep of this number."""
    k0, k1 = draw_words(number, uint64(0), stream[0], stream[1])
    clusters.like_neighbours(state, words, clusters.masks(words, scratch.like))
    clusters.recolour(words, scratch, state, uint64(k), threshold, k0, k1)


@njit(cache=True)
def to_places(state, way):
    """The labels of bit planes, at the places of the Gibbs kernel."""
    octets, places = way.octets, way.places
    octets[:] = uint64(0)
    for p in range(state.shape[0]):
        bits = state[p].view(np.uint8)
        for i in range(octets.size):
            octets[i] |= spread(uint64(bits[i])) << uint64(p)
    labels = octets.view(np.uint8)
    for s in range(way.stretches.shape[0]):
        byte, even, odd, sites = way.stretches[s]
        here = labels[byte : byte + sites]
        there = places[even : even + (sites + 1) // 2]
        for i in range(there.size):
            there[i] = here[2 * i]
        there = places[odd : odd + sites // 2]
        for i in range(there.size):
            there[i] = here[2 * i + 1]


@njit(cache=True)
def from_places(way, state):
    """The labels at the places of the Gibbs kernel, as bit planes; what is in no stretch stays zero."""
    octets, places = way.octets, way.places
    labels = octets.view(np.uint8)
    for s in range(way.stretches.shape[0]):
        byte, even, odd, sites = way.stretches[s]
        here = labels[byte : byte + sites]
        there = places[even : even + (sites + 1) // 2]
        for i in range(there.size):
            here[2 * i] = there[i]
        there = places[odd : odd + sites // 2]
        for i in range(there.size):
            here[2 * i + 1] = there[i]
    for p in range(state.shape[0]):
        bits = state[p].view(np.uint8)
        for i in range(octets.size):
            bits[i] = gathered((octets[i] >> uint64(p)) & ONES)


@njit(inline="always")
def spread(octet):
    """The eight bits of a number as the lowest bits of eight bytes."""
    octet |= octet << uint64(8)
    octet |= octet << uint64(16)
    octet |= octet << uint64(32)
    return (((octet & SINGLE) + SEVEN) >> uint64(7)) & ONES


@njit(inline="always")
def gathered(octet):
    """The lowest bits of eight bytes, of which the other bits are zero, as one byte."""
    octet |= octet >> uint64(7)
    octet = (octet | (octet >> uint64(14))) & uint64(0x0000000F0000000F)
    return uint8((octet | (octet >> uint64(28))) & uint64(0xFF))
