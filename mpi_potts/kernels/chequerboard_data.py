"""Chequerboard Gibbs sweeps of p(z | y, mu, sigma, beta) on a first-order plane (paper, equation 10).

The conditional distribution of a site, and how it is drawn from, is in `conditional.py`.

The number of sites of every label, and the sums of y and y**2 over them, are taken in integers: see
`label_sums`.
"""

import numpy as np
from numba import float32, njit, uint8

from .chequerboard import count_like, count_pairs, store
from .chequerboard_layout import BLOCK, Layout
from .conditional import LOG_2, draw_labels, log_weights, parameters, workspace
from .label_sums import add_block, block_totals, quantise

__all__ = ["half_sweep", "parameters", "prepare", "sweep"]


@njit(cache=True)
def count_label(label, a, b, c, d, count):
    """n_j of every site of the block."""
    for i in range(BLOCK):
        count[i] = count_like(label, a[i], b[i], c[i], d[i])


@njit(cache=True)
def choose(a, b, c, d, y, slope, noise, work, index, s, k0, k1):
    """New labels of a block, in the workspace."""
    space, _, small, _ = work
    k = noise.shape[1]
    count, before = small[0], space[k + 3]
    for j in range(k):
        # The maxima alternate between two rows.
        largest = space[k + (j & 1)]
        count_label(uint8(j), a, b, c, d, count)
        log_weights(count, y, slope, noise[0, j], noise[1, j], noise[2, j], before, space[j], largest)
        before = largest
    draw_labels(work, k, index, s, 4 + s, k0, k1)


@njit(cache=True)
def half_sweep(planes, place, data, beta, noise, reference, k0, k1, colour, first, last, sums):
    """Update blocks first..last-1 of a colour, numbered through its two sublattices.

    place : absent, width, guard, blocks.  data : the observations (4, places), their scale and the totals of
    their blocks.  noise : from `parameters`.  sums (k, 4) grow by those of the blocks about `reference`, see
    `label_sums`.  Returns the number of like neighbours of the sites in the second colour: over all its
    blocks, S(z).
    """
    absent, width, guard, blocks = place
    y, scale, totals = data
    work = workspace(noise.shape[1])
    small = work[2]
    new, like = small[1], small[2]
    like_words = like.view(np.uint64)
    slope = float32(beta / LOG_2)
    statistic = 0
    for block in range(first, last):
        s = 2 * colour + block // blocks
        index = block % blocks * BLOCK
        p = guard + index
        vertical, horizontal = planes[3 - s], planes[s ^ 2]
        up = p + (width if s & 1 else -width)
        side = p + (1 if s == 1 or s == 2 else -1)
        a, b = vertical[p : p + BLOCK], vertical[up : up + BLOCK]
        c, d = horizontal[p : p + BLOCK], horizontal[side : side + BLOCK]
        z, values = planes[s, p : p + BLOCK], y[s, p : p + BLOCK]
        choose(a, b, c, d, values, slope, noise, work, index, s, k0, k1)
        hole = absent[s, p : p + BLOCK]
        store(new, z, hole)
        if colour == 1:
            statistic += count_pairs(z, hole, a, b, c, d, like, like_words)
        add_block(z, values, scale, totals[2 * colour * blocks + block], reference, sums)
    return statistic


@njit(cache=True)
def sweep(planes, place, data, beta, noise, reference, k0, k1, sums):
    """One sweep of both colours; S(z).  sums (k, 4) become those of all sites about `reference`."""
    sums[:] = 0
    half_sweep(planes, place, data, beta, noise, reference, k0, k1, 0, 0, 2 * place[3], sums)
    return half_sweep(planes, place, data, beta, noise, reference, k0, k1, 1, 0, 2 * place[3], sums)


@njit(cache=True)
def sum_blocks(absent, y, scale, guard, blocks):
    """(4 blocks, 3) int64: the totals of every block, sublattice by sublattice."""
    totals = np.empty((4 * blocks, 3), np.int64)
    for block in range(4 * blocks):
        s, p = block // blocks, guard + block % blocks * BLOCK
        block_totals(absent[s, p : p + BLOCK] == 0, y[s, p : p + BLOCK], scale, totals[block])
    return totals


def prepare(layout: Layout, y: np.ndarray) -> tuple[np.ndarray, np.float32, np.ndarray]:
    """The data of `half_sweep`, of an image with values of about mean 0 and variance 1."""
    grains, scale = quantise(np.where(layout.lattice.exists, y, 0.0))
    values = layout.scatter(grains, 0.0)
    totals = sum_blocks(layout.absent, values, np.float32(scale), layout.guard, layout.blocks)
    return values, np.float32(scale), totals
