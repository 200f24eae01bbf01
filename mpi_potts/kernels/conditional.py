"""Labels of a block of sites, drawn from the logarithms of their weights.

Given its neighbours and its observation, a site has label j with probability proportional to

    exp(beta n_j) p(y_i | z_i = j),

n_j the number of neighbours of label j.  The weights are powers of two in float32, relative to the largest;
what the observation adds to their logarithms is a matter of the noise model (`noise.log_weights`).  Relative
errors of the weights are below 5e-7, so a probability is wrong by less than 3e-7 where some label is within a
few sigma of the pixel; the error grows with the logarithm of the largest weight, to about 3e-5 where the
nearest label is 26 sigma away.

A uniform has 16 bits first.  With T the sum of the weights it lies in a cell of width T / 2**16; a cell that
holds a threshold (about one in 2**15) is refined by another 52 bits.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, int32, njit, uint8, uint64

from .float32 import exp2, fma
from .gibbs_layout import BLOCK
from .leaf import leaf
from .words import draw_words, fill_words

CELL = float32(2.0**-16)
LOG_2 = 0.6931471805599453


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
def refine(random, weights, new, place, word, key):
    """Labels of the sites whose cell holds a threshold: 52 bits more."""
    last = weights.shape[0] - 1
    for i in range(BLOCK):
        width = weights[last, i] * CELL
        high = fma(float32(random[i]), width, width)
        above = 0
        for j in range(last):
            above += high > weights[j, i]
        if above != new[i]:
            more, _ = draw_words(uint64(place + i), word, key[0], key[1])
            x = (random[i] + float(more >> uint64(12)) * 2.0**-52) * 2.0**-16 * weights[last, i]
            label = 0
            for j in range(last):
                label += x >= weights[j, i]
            new[i] = label


class BlockWork(NamedTuple):
    """What the labels of a block are drawn in, from k candidates."""

    candidates: int  # k
    # (k + 5, BLOCK) float32: the weights of the candidates, two rows to work in, and constants: 0, the
    # smallest and the largest number.
    weights: np.ndarray
    ranks: np.ndarray  # (BLOCK,) int32
    # (3, BLOCK) uint8: for counts, new labels (pieces of which are read beyond the end) and others.
    octets: np.ndarray
    words: np.ndarray  # (BLOCK // 4,) uint64 random words


@njit(cache=True)
def workspace(k):
    """Room to draw the labels of a block from k candidates."""
    weights = np.zeros((k + 5, BLOCK), np.float32)
    weights[k + 3] = -np.inf
    weights[k + 4] = np.inf
    octets = np.empty((3, BLOCK), np.uint8)
    return BlockWork(k, weights, np.empty(BLOCK, np.int32), octets, np.empty(BLOCK // 4, np.uint64))


@leaf
def pick(work, index, word, more, key):
    """New labels of a block, in octets[1] of the workspace, given their weights added up: weights[:k].

    The sites of the block are numbered from `index`: word `word` of their counters gives the first bits, word
    `more` the others.
    """
    k, space, rank, new = work.candidates, work.weights, work.ranks, work.octets[1]
    low, high, infinite = space[k], space[k + 1], space[k + 4]
    random = work.words.view(np.uint16)
    fill_words(work.words, index // 8, uint64(word), key[0], key[1])
    if k <= 3:
        undecided = choose_of_three(random, space[0], space[1] if k > 2 else infinite, space[k - 1], new)
    else:
        draw_cells(random, space[k - 1], low, high)
        rank_pair(low, high, space[0], space[1], rank)
        for j in range(2, k - 1):
            rank_next(low, high, space[j], rank)
        undecided = close(rank, new)
    if undecided > 0:
        refine(random, space[:k], new, index, uint64(more), key)


@leaf
def draw_labels(work, index, word, more, key):
    """The same, given the logarithms of the weights: weights[:k].

    The rows k and k + 1 hold their maxima in turn, so that where the last one is depends on k.
    """
    k, space = work.candidates, work.weights
    largest = space[k + (k - 1 & 1)]
    accumulate(space[k + 2], space[0], largest)
    for j in range(1, k):
        accumulate(space[j - 1], space[j], largest)
    pick(work, index, word, more, key)
