"""Chequerboard Gibbs sweeps of the Potts prior on a first-order plane.

Given its neighbours a site has label j with probability proportional to exp(beta n_j), where n_j is the
number of neighbours of label j; the sites of one colour are independent given the other.  S(z) is the sum of
n_{z_i} over the second colour, since every edge has one end there.

Few labels (k <= 3).  (n_0, n_1, n_2) is one of at most 125 codes.  For every code and every byte a table
holds the label that the uniforms beginning with that byte select, or UNDECIDED where they cross a threshold
(k - 1 of 256 bytes at most); those sites take another 52 bits.  So a sweep needs 8 random bits a site, and is
exact to 2**-52.

More labels.  With q = exp(beta) - 1 the weights are 1 + ((1 + q)**n_j - 1): one for every label, and the rest
for those among the neighbours.  So the label is uniform with probability k / T, or that of neighbour x with
probability g(n_x) / T, where n_x is the number of neighbours like x, x itself included, g(n) = ((1 + q)**n -
1) / n, and T is the sum: the cost does not depend on k.  By the binomial theorem, with no cancellation,

    g(n) = q + (n - 1) (q**2 / 2 + (n - 2) (q**3 / 6 + (n - 3) q**4 / 24)).

Uniforms have 31 bits and weights are float32: a probability is wrong by less than 4e-7 (five roundings of
2**-24).

Each place draws from the counter (its number in the sublattice, the sublattice), so a block gives the same
bits whoever computes it.
"""

import numpy as np
from numba import float32, int32, njit, uint8, uint64

from ..lattice import MASKED
from .chequerboard_layout import BLOCK, ChequerboardLayout, from_labels, layout, to_labels
from .elementary import exp, expm1
from .gibbs_blocks import FROZEN_BETA, sum_bytes
from .words import draw_words, fill_words

__all__ = ["ChequerboardLayout", "from_labels", "layout", "sweeps", "to_labels"]

FEW = 3
# A bit that no label of the few has, so that eight labels are tested at once.
UNDECIDED = 128
UNDECIDED_WORD = 0x8080808080808080


@njit(cache=True)
def count_like(label, a, b, c, d):
    """How many of four labels equal `label`, as a byte."""
    return uint8(uint8(label == a) + uint8(label == b) + uint8(label == c) + uint8(label == d))


@njit(cache=True)
def store(new, z, absent):
    """Store the new labels of a block where a pixel exists."""
    for i in range(BLOCK):
        z[i] = new[i] | absent[i]


@njit(cache=True)
def count_pairs(z, absent, a, b, c, d, like, like_words):
    """The number of like neighbours of a block's sites."""
    for i in range(BLOCK):
        like[i] = count_like(z[i], a[i], b[i], c[i], d[i]) & ~absent[i]
    return sum_bytes(like_words)


@njit(cache=True)
def few_tables(k, beta):
    """Thresholds (125, 2) of the uniform from which the label is at least 1, 2; the table of first bytes."""
    thresholds = np.ones((125, 2))
    first_byte = np.empty((125, 256), np.uint8)
    for code in range(125):
        n = (code % 5, code // 5 % 5, code // 25)
        if n[0] + n[1] + n[2] > 4:
            continue
        weight = np.zeros(3)
        for j in range(k):
            # Relative to four neighbours, the largest weight, so that no beta overflows.
            weight[j] = exp(beta * (n[j] - 4))
        thresholds[code, 0] = weight[0] / weight.sum()
        if k > 2:
            thresholds[code, 1] = (weight[0] + weight[1]) / weight.sum()
        for byte in range(256):
            label = 0
            for j in range(2):
                if byte / 256 >= thresholds[code, j]:
                    label += 1
                elif (byte + 1) / 256 > thresholds[code, j]:
                    label = UNDECIDED
                    break
            first_byte[code, byte] = label
    return thresholds, first_byte.reshape(-1)


@njit(cache=True)
def code_few(a, b, c, d, code):
    """n_0 + 5 n_1 + 25 n_2 of every site of the block."""
    for i in range(BLOCK):
        n0 = count_like(uint8(0), a[i], b[i], c[i], d[i])
        n1 = count_like(uint8(1), a[i], b[i], c[i], d[i])
        n2 = count_like(uint8(2), a[i], b[i], c[i], d[i])
        code[i] = uint8(n0 + uint8(uint8(5) * n1) + uint8(uint8(25) * n2))


@njit(cache=True)
def choose_few(random, code, first_byte, z):
    """Labels of the block by their first random byte."""
    for i in range(BLOCK):
        z[i] = first_byte[(uint64(code[i]) << uint64(8)) | uint64(random[i])]


@njit(cache=True)
def decide_few(random, code, thresholds, z, z_words, place, word, k0, k1):
    """Labels of the undecided sites: 52 bits more."""
    for w in range(BLOCK // 8):
        if z_words[w] & uint64(UNDECIDED_WORD) == 0:
            continue
        for i in range(8 * w, 8 * w + 8):
            if z[i] == UNDECIDED:
                more, _ = draw_words(uint64(place + i), word, k0, k1)
                u = (random[i] + float(more >> uint64(12)) * 2.0**-52) / 256
                z[i] = uint8(u >= thresholds[code[i], 0]) + uint8(u >= thresholds[code[i], 1])


@njit(cache=True)
def count_neighbours(a, b, c, d, na, nb, nc, nd):
    """For each of the four neighbours the number of those like it, itself included; 0 for an absent one."""
    for i in range(BLOCK):
        la, lb, lc, ld = a[i], b[i], c[i], d[i]
        ab, ac, ad = uint8(la == lb), uint8(la == lc), uint8(la == ld)
        bc, bd, cd = uint8(lb == lc), uint8(lb == ld), uint8(lc == ld)
        na[i] = uint8(1 + ab + ac + ad) if la != MASKED else uint8(0)
        nb[i] = uint8(1 + ab + bc + bd) if lb != MASKED else uint8(0)
        nc[i] = uint8(1 + ac + bc + cd) if lc != MASKED else uint8(0)
        nd[i] = uint8(1 + ad + bd + cd) if ld != MASKED else uint8(0)


@njit(cache=True)
def share(n, q1, q2, q3, q4):
    """g(n), and 0 for an absent neighbour (n = 0)."""
    x = float32(int32(n))
    g = q1 + (x - float32(1)) * (q2 + (x - float32(2)) * (q3 + (x - float32(3)) * q4))
    return g if n > 0 else float32(0)


@njit(cache=True)
def choose_many(random, a, b, c, d, na, nb, nc, nd, z, k, q1, q2, q3, q4):
    """Labels of the block: uniform, or that of a neighbour.

    The uniform part comes first, where uniforms are finest: it is the rare one when beta is large.
    """
    uniform = float32(k)
    for i in range(BLOCK):
        la, lb, lc, ld = a[i], b[i], c[i], d[i]
        to_a = uniform + share(na[i], q1, q2, q3, q4)
        to_b = to_a + share(nb[i], q1, q2, q3, q4)
        to_c = to_b + share(nc[i], q1, q2, q3, q4)
        total = to_c + share(nd[i], q1, q2, q3, q4)
        # Strictly below 1, so that x < total and a neighbour without weight is never chosen.
        u = min(float32(int32(random[i] >> 1)) * float32(2.0**-31), float32(1 - 2.0**-24))
        x = u * total
        label = lc if x < to_c else ld
        label = lb if x < to_b else label
        label = la if x < to_a else label
        z[i] = uint8(int32(x)) if x < uniform else label


@njit(cache=True)
def half_sweep(planes, absent, width, guard, blocks, k, beta, tables, k0, k1, colour, first, last):
    """Update blocks first..last-1 of a colour, numbered through its two sublattices.

    Returns the number of like neighbours of their sites in the second colour: over all its blocks, S(z).
    """
    thresholds, first_byte = tables
    words = np.empty(BLOCK // 2, np.uint64)
    few_words = words[: BLOCK // 8]
    random8, random32 = few_words.view(np.uint8), words.view(np.uint32)
    counts = np.empty((4, BLOCK), np.uint8)
    na, nb, nc, nd = counts[0], counts[1], counts[2], counts[3]
    like = np.empty(BLOCK, np.uint8)
    new = np.empty(BLOCK, np.uint8)
    new_words = new.view(np.uint64)
    like_words = like.view(np.uint64)
    q = expm1(beta)
    q1, q2, q3, q4 = float32(q), float32(q * q / 2), float32(q * q * q / 6), float32(q * q * q * q / 24)
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
        if k <= FEW:
            fill_words(few_words, index // 16, uint64(s), k0, k1)
            code_few(a, b, c, d, na)
            choose_few(random8, na, first_byte, new)
            decide_few(random8, na, thresholds, new, new_words, index, uint64(4 + s), k0, k1)
        else:
            fill_words(words, index // 4, uint64(s), k0, k1)
            count_neighbours(a, b, c, d, na, nb, nc, nd)
            choose_many(random32, a, b, c, d, na, nb, nc, nd, new, k, q1, q2, q3, q4)
        z, hole = planes[s, p : p + BLOCK], absent[s, p : p + BLOCK]
        store(new, z, hole)
        if colour == 1:
            statistic += count_pairs(z, hole, a, b, c, d, like, like_words)
    return statistic


@njit(cache=True)
def sweep(planes, absent, geometry, k, beta, tables, k0, k1):
    """One sweep, `planes` in place; S(z) after it."""
    width, guard, blocks = geometry
    half_sweep(planes, absent, width, guard, blocks, k, beta, tables, k0, k1, 0, 0, 2 * blocks)
    # The second colour is last: its sum is S(z) of the finished sweep.
    return half_sweep(planes, absent, width, guard, blocks, k, beta, tables, k0, k1, 1, 0, 2 * blocks)


@njit(cache=True)
def run(planes, absent, geometry, k, beta, stream, first, statistic):
    """Sweeps from number `first` on, `planes` in place, and S(z) after each, into `statistic`."""
    tables = few_tables(min(k, FEW), beta)
    for t in range(statistic.size):
        k0, k1 = draw_words(uint64(first + t), uint64(0), stream[0], stream[1])
        statistic[t] = sweep(planes, absent, geometry, k, beta, tables, k0, k1)


def sweeps(
    layout: ChequerboardLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistic = np.empty(count, dtype=np.int64)
    beta = min(float(beta), FROZEN_BETA)
    run(state, layout.absent, layout.geometry, layout.labels, beta, stream, first, statistic)
    return statistic
