"""Gibbs sweeps of p(z | y, noise, beta) on any lattice, colour by colour (paper, equation 10).

The conditional distribution of a site, and how it is drawn from, is in `conditional`; what the observations
say, and what is summed for the draw of the noise, in `noise`; where labels are, in `gibbs_layout`.  S(z) is
the sum over all sites of their neighbours in earlier colours that have the same label: every edge once, when
its second end has been drawn.

Each site draws from the counter (its number in the colour, the colour), and sums are in integers: a block
gives the same bits whoever computes it.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, njit, uint8

from .conditional import LOG_2, BlockWork, draw_labels, workspace
from .gibbs_blocks import MORE, PITCH, collect, count_label, count_pairs, erase, store
from .gibbs_layout import BLOCK
from .leaf import leaf
from .noise import add_block, log_weights, no_sums


class Sites(NamedTuple):
    """The labels of an image, where they are, and its observations, as the noise model has them."""

    state: np.ndarray  # uint8
    pieces: Any  # `gibbs_layout.Pieces`, or for `graph_gibbs` its `Graph`
    data: Any


class SweepWork(NamedTuple):
    """What a sweep works in."""

    block: BlockWork
    near: np.ndarray  # the neighbours of a block, a row of PITCH bytes for each step


@njit(cache=True)
def sweep_work(steps, k):
    """Room for sweeps with k labels and so many steps to neighbours."""
    return SweepWork(workspace(k), np.zeros(steps * PITCH, np.uint8))


@leaf
def weigh(terms, near, degree, y, slope, work):
    """The logarithms of all weights of a block, and their maxima, for `draw_labels`."""
    k, space = work.candidates, work.weights
    before = space[k + 3]
    for j in range(k):
        # The maxima alternate between two rows.
        largest = space[k + (j & 1)]
        count_label(uint8(j), near, degree, work.octets[0])
        log_weights(terms, j, work.octets[0], y, slope, before, space[j], largest)
        before = largest


@leaf
def update_blocks(sites, terms, slope, key, colour, first, last, work, sums):
    """What `update` does, with arrays to work in."""
    pieces, data, near = sites.pieces, sites.data, work.near
    start, apart, absent, place, length, rows = pieces[1:7]
    slot, shift, earlier = pieces.slot[colour], pieces.shift[colour], pieces.earlier[colour]
    new, like = work.block.octets[1], work.block.octets[2]
    degree, before = slot.size, pieces.first[colour]
    statistic = 0
    for block in range(before + first, before + last):
        values, index = data.values[block * BLOCK : (block + 1) * BLOCK], (block - before) * BLOCK
        here, end = start[block], start[block + 1]
        collect(sites.state, here, end, place, length, pieces.half, rows, slot, shift, near)
        weigh(terms, near, degree, values, slope, work.block)
        draw_labels(work.block, index, colour, MORE + colour, key)
        erase(new, absent[block * BLOCK : (block + 1) * BLOCK])
        store(sites.state, here, apart[block], end, place, length, new)
        if earlier > 0:
            statistic += count_pairs(new, near, earlier, like)
        add_block(terms, data, block, new, sums)
    return statistic


@njit(cache=True, nogil=True)
def update(sites, terms, beta, key, colour, first, last):
    """Draw blocks first..last-1 of a colour, numbered from its first; what they add to S(z), and their sums.

    terms : of the noise model.  The sums are those of `noise.add_block`.  S(z) is the sum over all blocks of
    all colours, in turn.
    """
    sums = no_sums(terms)
    work, slope = sweep_work(sites.pieces.slot.shape[1], sums.shape[0]), float32(beta / LOG_2)
    return update_blocks(sites, terms, slope, key, colour, first, last, work, sums), sums


@njit(cache=True)
def sweep(sites, terms, beta, key, sums):
    """One sweep of all colours; S(z).  The sums become those of all sites."""
    sums[:] = 0
    work, slope = sweep_work(sites.pieces.slot.shape[1], sums.shape[0]), float32(beta / LOG_2)
    statistic, first = 0, sites.pieces.first
    for colour in range(sites.pieces.earlier.size):
        last = first[colour + 1] - first[colour]
        statistic += update_blocks(sites, terms, slope, key, colour, 0, last, work, sums)
    return statistic
