"""Gibbs sweeps of p(z | y, mu, sigma, beta) on any lattice, colour by colour (paper, equation 10).

The conditional distribution of a site, and how it is drawn from, is in `conditional.py`; where labels are, in
`gibbs_layout.py`.  S(z) is the sum over all sites of their neighbours in earlier colours that have the same
label: every edge once, when its second end has been drawn.

Each site draws from the counter (its number in the colour, the colour), and sums are in integers (see
`label_sums`): a block gives the same bits whoever computes it.
"""

import numpy as np
from numba import float32, njit, uint8

from .conditional import LOG_2, draw_labels, log_weights, workspace
from .gibbs_blocks import MORE, PITCH, collect, count_label, count_pairs, erase, store
from .gibbs_layout import BLOCK, PieceLayout
from .label_sums import COLUMNS, add_block, block_totals, quantise
from .leaf import leaf


@leaf
def weigh(near, degree, y, slope, noise, work):
    """The logarithms of all weights of a block, and their maxima, for `draw_labels`."""
    space, _, small, _ = work
    k = noise.shape[1]
    before = space[k + 3]
    for j in range(k):
        # The maxima alternate between two rows.
        largest = space[k + (j & 1)]
        count_label(uint8(j), near, degree, small[0])
        log_weights(small[0], y, slope, noise[0, j], noise[1, j], noise[2, j], before, space[j], largest)
        before = largest


@leaf
def update_blocks(state, pieces, data, slope, noise, reference, key, colour, first, last, work, near, sums):
    """What `update` does, with arrays to work in."""
    y, scale, totals = data
    start, apart, absent, place, length, rows = pieces[1:7]
    slot, shift, earlier = pieces.slot[colour], pieces.shift[colour], pieces.earlier[colour]
    new, like = work[2][1], work[2][2]
    k, degree, before = noise.shape[1], slot.size, pieces.first[colour]
    statistic = 0
    for block in range(before + first, before + last):
        values, index = y[block * BLOCK : (block + 1) * BLOCK], (block - before) * BLOCK
        here, end = start[block], start[block + 1]
        collect(state, here, end, place, length, pieces.half, rows, slot, shift, near)
        weigh(near, degree, values, slope, noise, work)
        draw_labels(work, k, index, colour, MORE + colour, key[0], key[1])
        erase(new, absent[block * BLOCK : (block + 1) * BLOCK])
        store(state, here, apart[block], end, place, length, new)
        if earlier > 0:
            statistic += count_pairs(new, near, earlier, like)
        add_block(new, values, scale, totals[block], reference, sums)
    return statistic


@njit(cache=True, nogil=True)
def update(state, pieces, data, beta, noise, reference, key, colour, first, last):
    """Draw blocks first..last-1 of a colour, numbered from its first; what they add to S(z), and their sums.

    data : from `prepare`.  noise : (3, k) from `parameters`.  reference : (k,) from `references`.  The sums
    are (k, 4) int64, see `label_sums`.  S(z) is the sum over all blocks of all colours, in turn.
    """
    sums = np.zeros((reference.size, COLUMNS), np.int64)
    near = np.zeros(pieces.slot.shape[1] * PITCH, np.uint8)
    work, slope = workspace(reference.size), float32(beta / LOG_2)
    like = update_blocks(
        state, pieces, data, slope, noise, reference, key, colour, first, last, work, near, sums
    )
    return like, sums


@njit(cache=True)
def sweep(state, pieces, data, beta, noise, reference, key, sums):
    """One sweep of all colours; S(z).  sums (k, 4) become those of all sites about `reference`."""
    sums[:] = 0
    near = np.zeros(pieces.slot.shape[1] * PITCH, np.uint8)
    work, slope = workspace(reference.size), float32(beta / LOG_2)
    statistic = 0
    for colour in range(pieces.earlier.size):
        last = pieces.first[colour + 1] - pieces.first[colour]
        statistic += update_blocks(
            state, pieces, data, slope, noise, reference, key, colour, 0, last, work, near, sums
        )
    return statistic


@njit(cache=True)
def sum_blocks(y, scale, absent):
    """(blocks, 3) int64: the totals of every block."""
    totals = np.empty((y.size // BLOCK, 3), np.int64)
    for block in range(len(totals)):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        block_totals(absent[part] == 0, y[part], scale, totals[block])
    return totals


def prepare(layout: PieceLayout, y: np.ndarray) -> tuple[np.ndarray, np.float32, np.ndarray]:
    """The data of `update`, of an image with values of about mean 0 and variance 1."""
    grains, scale = quantise(np.where(layout.lattice.exists, y, 0.0))
    values = layout.scatter(grains, 0.0)
    return values, np.float32(scale), sum_blocks(values, np.float32(scale), layout.pieces.absent)
