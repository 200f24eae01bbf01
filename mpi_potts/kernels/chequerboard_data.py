"""Chequerboard Gibbs sweeps of p(z | y, mu, sigma, beta) on a first-order plane (paper, equation 10).

Given its neighbours and its observation, a site has label j with probability proportional to

    exp(beta n_j - (y_i - mu_j)**2 / (2 sigma_j**2) - log sigma_j).

The weights are powers of two in float32, relative to the largest: `slope` n_j - `curvature`_j (y_i - mu_j)**2
+ `level`_j is the logarithm to base 2.  The square is of the difference, so nothing is lost where |mu_j| is
large against sigma_j; y should have mean 0 and variance 1.  Relative errors of the weights are below 5e-7, so
a probability is wrong by less than 3e-7 where some label is within a few sigma of the pixel; the error grows
with the logarithm of the largest weight, to about 3e-5 where the nearest label is 26 sigma away.

A uniform has 16 bits first.  With T the sum of the weights it lies in a cell of width T / 2**16; a cell that
holds a threshold (about one in 2**15) is refined by another 52 bits.

The number of sites of every label, and the sums of y and y**2 over them, are taken in integers: see
`label_sums`.
"""

import numpy as np
from numba import float32, int32, njit, uint8, uint64

from .chequerboard import count_like, count_pairs, store
from .chequerboard_layout import BLOCK, Layout
from .elementary import log
from .float32 import exp2, fma, larger
from .label_sums import add_block, block_totals, quantise
from .words import draw_words, fill_words

# Beyond this the product with a squared distance might overflow; an sd of 1e-15 is as good as 0.
LARGEST_CURVATURE = 1e30

CELL = float32(2.0**-16)
LOG_2 = 0.6931471805599453


@njit(cache=True)
def parameters(mean, sd):
    """mu_j, the factor of (y - mu_j)**2, and -log2(sigma_j), as float32: (3, k)."""
    k = mean.size
    result = np.empty((3, k), np.float32)
    for j in range(k):
        result[0, j] = mean[j]
        result[1, j] = min(0.5 / (LOG_2 * sd[j] * sd[j]), LARGEST_CURVATURE)
        result[2, j] = -log(sd[j]) / LOG_2
    return result


@njit(cache=True)
def count_label(label, a, b, c, d, count):
    """n_j of every site of the block."""
    for i in range(BLOCK):
        count[i] = count_like(label, a[i], b[i], c[i], d[i])


@njit(cache=True)
def log_weights(count, y, slope, mean, curvature, level, before, weight, largest):
    """The logarithms of one label's weights, and the largest of these and `before`.

    `before` and `largest` are different arrays: a maximum in place becomes a masked store, which is slow.
    """
    for i in range(BLOCK):
        distance = y[i] - mean
        likelihood = fma(-(distance * curvature), distance, level)
        w = fma(float32(int32(count[i])), slope, likelihood)
        weight[i] = w
        largest[i] = larger(before[i], w)


@njit(cache=True)
def accumulate(before, weight, largest):
    """From logarithms to weights, added to those of the labels before."""
    for i in range(BLOCK):
        weight[i] = before[i] + exp2(weight[i] - largest[i])


@njit(cache=True)
def draw_cells(random, total, low, high):
    """The cell of every site's uniform, in units of the weights."""
    for i in range(BLOCK):
        width = total[i] * CELL
        u = float32(int32(random[i]))
        low[i] = u * width
        high[i] = fma(u, width, width)


@njit(cache=True)
def rank_pair(low, high, first, second, rank):
    """Count the thresholds below the ends of the cell: the low end in the low byte, the high end above."""
    for i in range(BLOCK):
        under, over = low[i], high[i]
        below = int32(int32(under >= first[i]) + int32(under >= second[i]))
        rank[i] = int32(below + int32(int32(int32(over > first[i]) + int32(over > second[i])) << 8))


@njit(cache=True)
def rank_next(low, high, threshold, rank):
    """The same for one more threshold."""
    for i in range(BLOCK):
        more = int32(int32(low[i] >= threshold[i]) + int32(int32(high[i] > threshold[i]) << 8))
        rank[i] = int32(rank[i] + more)


@njit(cache=True)
def close(rank, new):
    """The labels of the low ends; how many cells hold a threshold."""
    undecided = int32(0)
    for i in range(BLOCK):
        label = int32(rank[i] & 255)
        new[i] = uint8(label)
        undecided = int32(undecided + int32(int32(rank[i] >> 8) != label))
    return undecided


@njit(cache=True)
def choose_of_three(random, first, second, total, new):
    """For at most two thresholds, in one pass: the labels of the low ends; how many cells hold one."""
    undecided = int32(0)
    for i in range(BLOCK):
        width = total[i] * CELL
        u = float32(int32(random[i]))
        low, high = u * width, fma(u, width, width)
        below = int32(int32(low >= first[i]) + int32(low >= second[i]))
        above = int32(int32(high > first[i]) + int32(high > second[i]))
        new[i] = uint8(below)
        undecided = int32(undecided + int32(above != below))
    return undecided


@njit(cache=True)
def refine(random, weights, new, place, word, k0, k1):
    """Labels of the sites whose cell holds a threshold: 52 bits more."""
    last = weights.shape[0] - 1
    for i in range(BLOCK):
        width = weights[last, i] * CELL
        high = fma(float32(random[i]), width, width)
        above = 0
        for j in range(last):
            above += high > weights[j, i]
        if above != new[i]:
            more, _ = draw_words(uint64(place + i), word, k0, k1)
            x = (random[i] + float(more >> uint64(12)) * 2.0**-52) * 2.0**-16 * weights[last, i]
            label = 0
            for j in range(last):
                label += x >= weights[j, i]
            new[i] = label


@njit(cache=True)
def workspace(k):
    """The arrays that a block needs: weights (k + 5, BLOCK) float32, ranks, bytes, random words.

    After the rows of the k labels come two to work in, and constants: 0, the smallest and the largest number.
    """
    space = np.zeros((k + 5, BLOCK), np.float32)
    space[k + 3] = -np.inf
    space[k + 4] = np.inf
    return (
        space,
        np.empty(BLOCK, np.int32),
        np.empty((3, BLOCK), np.uint8),
        np.empty(BLOCK // 4, np.uint64),
    )


@njit(cache=True)
def choose(a, b, c, d, y, slope, noise, work, index, s, k0, k1):
    """New labels of a block, in the workspace."""
    space, rank, small, words = work
    k = noise.shape[1]
    low, high = space[k], space[k + 1]
    zero, smallest, infinite = space[k + 2], space[k + 3], space[k + 4]
    count, new = small[0], small[1]
    random = words.view(np.uint16)
    fill_words(words, index // 8, uint64(s), k0, k1)
    before = smallest
    for j in range(k):
        # The maxima alternate between two rows.
        largest = high if j & 1 else low
        count_label(uint8(j), a, b, c, d, count)
        log_weights(count, y, slope, noise[0, j], noise[1, j], noise[2, j], before, space[j], largest)
        before = largest
    accumulate(zero, space[0], before)
    for j in range(1, k):
        accumulate(space[j - 1], space[j], before)
    if k <= 3:
        undecided = choose_of_three(random, space[0], space[1] if k > 2 else infinite, space[k - 1], new)
    else:
        draw_cells(random, space[k - 1], low, high)
        rank_pair(low, high, space[0], space[1], rank)
        for j in range(2, k - 1):
            rank_next(low, high, space[j], rank)
        undecided = close(rank, new)
    if undecided > 0:
        refine(random, space[:k], new, index, uint64(4 + s), k0, k1)


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
