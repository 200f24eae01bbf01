"""Labels of a block of sites, drawn from the logarithms of their weights.

Given its neighbours and its observation, a site has label j with probability proportional to

    exp(beta n_j - (y_i - mu_j)**2 / (2 sigma_j**2) - log sigma_j).

The weights are powers of two in float32, relative to the largest: `slope` n_j - `curvature`_j (y_i - mu_j)**2
+ `level`_j is the logarithm to base 2.  The square is of the difference, so nothing is lost where |mu_j| is
large against sigma_j; y should have mean 0 and variance 1.  Relative errors of the weights are below 5e-7, so
a probability is wrong by less than 3e-7 where some label is within a few sigma of the pixel; the error grows
with the logarithm of the largest weight, to about 3e-5 where the nearest label is 26 sigma away.

A uniform has 16 bits first.  With T the sum of the weights it lies in a cell of width T / 2**16; a cell that
holds a threshold (about one in 2**15) is refined by another 52 bits.
"""

import numpy as np
from numba import float32, int32, njit, uint8, uint64

from .elementary import log
from .float32 import exp2, fma, larger
from .gibbs_layout import BLOCK
from .leaf import leaf
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


@leaf
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


@leaf
def accumulate(before, weight, largest):
    """From logarithms to weights, added to those of the labels before."""
    for i in range(BLOCK):
        weight[i] = before[i] + exp2(weight[i] - largest[i])


@leaf
def draw_cells(random, total, low, high):
    """The cell of every site's uniform, in units of the weights."""
    for i in range(BLOCK):
        width = total[i] * CELL
        u = float32(int32(random[i]))
        low[i] = u * width
        high[i] = fma(u, width, width)


@leaf
def rank_pair(low, high, first, second, rank):
    """Count the thresholds below the ends of the cell: the low end in the low byte, the high end above."""
    for i in range(BLOCK):
        under, over = low[i], high[i]
        below = int32(int32(under >= first[i]) + int32(under >= second[i]))
        rank[i] = int32(below + int32(int32(int32(over > first[i]) + int32(over > second[i])) << 8))


@leaf
def rank_next(low, high, threshold, rank):
    """The same for one more threshold."""
    for i in range(BLOCK):
        more = int32(int32(low[i] >= threshold[i]) + int32(int32(high[i] > threshold[i]) << 8))
        rank[i] = int32(rank[i] + more)


@leaf
def close(rank, new):
    """The labels of the low ends; how many cells hold a threshold."""
    undecided = int32(0)
    for i in range(BLOCK):
        label = int32(rank[i] & 255)
        new[i] = uint8(label)
        undecided = int32(undecided + int32(int32(rank[i] >> 8) != label))
    return undecided


@leaf
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


@leaf
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
    The three rows of bytes are for counts, new labels (pieces of which are read beyond the end) and others.
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


@leaf
def pick(work, k, index, word, more, k0, k1):
    """New labels of a block, in the workspace (small[1]), given their weights added up: space[:k].

    The sites of the block are numbered from `index`: word `word` of their counters gives the first bits, word
    `more` the others.
    """
    space, rank, small, words = work
    low, high, infinite, new = space[k], space[k + 1], space[k + 4], small[1]
    random = words.view(np.uint16)
    fill_words(words, index // 8, uint64(word), k0, k1)
    if k <= 3:
        undecided = choose_of_three(random, space[0], space[1] if k > 2 else infinite, space[k - 1], new)
    else:
        draw_cells(random, space[k - 1], low, high)
        rank_pair(low, high, space[0], space[1], rank)
        for j in range(2, k - 1):
            rank_next(low, high, space[j], rank)
        undecided = close(rank, new)
    if undecided > 0:
        refine(random, space[:k], new, index, uint64(more), k0, k1)


@leaf
def draw_labels(work, k, index, word, more, k0, k1):
    """The same, given the logarithms of the weights: space[:k].

    The rows k and k + 1 hold their maxima in turn, so that where the last one is depends on k.
    """
    space = work[0]
    largest = space[k + (k - 1 & 1)]
    accumulate(space[k + 2], space[0], largest)
    for j in range(1, k):
        accumulate(space[j - 1], space[j], largest)
    pick(work, k, index, word, more, k0, k1)
