"""Gibbs sweeps of the Potts prior p(z | beta) on any lattice, colour by colour.

Given its neighbours a site has label j with probability proportional to exp(beta n_j), where n_j is the
number of neighbours of label j.  What is drawn is one of several candidates, in one of two ways.

Few labels: the candidates are the labels, with those weights.

Many labels, more than there are neighbours: with q = exp(beta) - 1 the weight exp(beta n) is 1 plus
q exp(beta c) for each of the n neighbours, where c = 0..n-1 counts those before it with the same label.  So
the first candidate is a label uniform on 0..k-1, with weight k, and the others are the neighbours: the cost
does not depend on k.

Weights are float32, relative to the largest, and uniforms have 16 bits, or 68 where they are needed (see
`conditional.py`): a probability is wrong by less than 5e-7.  Uniform labels are drawn by 32 bits.  S(z), and
how draws are addressed, are as in `gibbs_data.py`.
"""

import numpy as np
from numba import float32, int32, njit, uint8, uint64

from ..lattice import MASKED
from .conditional import LOG_2, pick, workspace
from .elementary import expm1, log
from .float32 import exp2, fma, larger
from .gibbs_blocks import FROZEN_BETA, MORE, PITCH, WIDE, collect, count_label, count_pairs, erase, store
from .gibbs_layout import BLOCK, PieceLayout, from_labels, layout, to_labels
from .leaf import leaf
from .vectors import add_equal, fill, larger_bytes, load, save, where_equal
from .words import draw_words, fill_words

__all__ = ["PieceLayout", "from_labels", "layout", "sweeps", "to_labels", "update"]

# Words of a counter for the uniform labels.
UNIFORM = 2 * MORE

# The logarithm of a weight that is as good as none.
NONE = -1e9


@leaf
def largest_label(counts, k, top):
    """The largest n_j of every site."""
    for i in range(0, BLOCK, WIDE):
        a = load(counts, i, WIDE)
        for j in range(1, k):
            a = larger_bytes(a, load(counts, j * BLOCK + i, WIDE))
        save(top, i, a)


@leaf
def count_before(near, degree, counts, top):
    """For each neighbour the number of those before it with the same label, 255 if absent; the largest."""
    zero, absent = fill(uint8(0), WIDE), fill(uint8(MASKED), WIDE)
    for i in range(0, BLOCK, WIDE):
        largest = zero
        for m in range(degree):
            mine, a = load(near, m * PITCH + i, WIDE), zero
            for before in range(m):
                a = add_equal(a, load(near, before * PITCH + i, WIDE), mine)
            save(counts, m * BLOCK + i, where_equal(mine, absent, absent, a))
            largest = larger_bytes(largest, where_equal(mine, absent, zero, a))
        save(top, i, largest)


@leaf
def accumulate(count, slope, shift, before, weight):
    """The weights 2**(slope count + shift), added to those before; none where absent."""
    for i in range(BLOCK):
        w = exp2(fma(float32(int32(count[i])), slope, shift[i]))
        weight[i] = before[i] + (w if count[i] != MASKED else float32(0))


@leaf
def weigh_labels(near, degree, k, slope, work, counts):
    """The weights of the labels, added up."""
    space, top = work.weights, work.octets[0]
    shift, before = space[k], space[k + 2]
    for j in range(k):
        count_label(uint8(j), near, degree, counts[j * BLOCK : (j + 1) * BLOCK])
    largest_label(counts, k, top)
    for i in range(BLOCK):
        shift[i] = -slope * float32(int32(top[i]))
    for j in range(k):
        accumulate(counts[j * BLOCK : (j + 1) * BLOCK], slope, shift, before, space[j])
        before = space[j]


@leaf
def weigh_neighbours(near, degree, slope, uniform, gain, work, counts):
    """The weights of a uniform label, 2**uniform, and of the neighbours, 2**(slope c + gain), added up."""
    space, top = work.weights, work.octets[0]
    shift, first = space[degree + 1], space[0]
    count_before(near, degree, counts, top)
    for i in range(BLOCK):
        largest = larger(fma(float32(int32(top[i])), slope, gain), uniform)
        first[i] = exp2(uniform - largest)
        shift[i] = gain - largest
    for m in range(degree):
        accumulate(counts[m * BLOCK : (m + 1) * BLOCK], slope, shift, space[m], space[m + 1])


@leaf
def name(new, near, degree, words, other, k, index, colour, k0, k1):
    """From candidates to labels: a uniform one, or that of a neighbour."""
    random = words.view(np.uint32)
    fill_words(words, index // 4, uint64(UNIFORM + colour), k0, k1)
    for i in range(BLOCK):
        other[i] = uint8((uint64(random[i]) * uint64(k)) >> uint64(32))
    absent = fill(uint8(MASKED), WIDE)
    for i in range(0, BLOCK, WIDE):
        chosen, label = load(new, i, WIDE), load(other, i, WIDE)
        for m in range(degree):
            near_by = load(near, m * PITCH + i, WIDE)
            # An absent one has no weight, but the last uniform of all may be rounded up to it.
            near_by = where_equal(near_by, absent, label, near_by)
            label = where_equal(chosen, fill(uint8(m + 1), WIDE), near_by, label)
        save(new, i, label)


@leaf
def update_blocks(state, pieces, k, terms, key, colour, first, last, work, near, counts, words):
    """What `update` does, with arrays to work in."""
    slope, uniform, gain = terms
    start, apart, absent, place, length, rows = pieces[1:7]
    slot, shift, earlier = pieces.slot[colour], pieces.shift[colour], pieces.earlier[colour]
    new, like = work.octets[1], work.octets[2]
    degree, before = slot.size, pieces.first[colour]
    statistic = 0
    for block in range(before + first, before + last):
        here, end, index = start[block], start[block + 1], (block - before) * BLOCK
        collect(state, here, end, place, length, pieces.half, rows, slot, shift, near)
        if words.size == 0:
            weigh_labels(near, degree, k, slope, work, counts)
            pick(work, index, colour, MORE + colour, key)
        else:
            weigh_neighbours(near, degree, slope, uniform, gain, work, counts)
            pick(work, index, colour, MORE + colour, key)
            name(new, near, degree, words, like, k, index, colour, key[0], key[1])
        erase(new, absent[block * BLOCK : (block + 1) * BLOCK])
        store(state, here, apart[block], end, place, length, new)
        if earlier > 0:
            statistic += count_pairs(new, near, earlier, like)
    return statistic


@njit(cache=True)
def logarithms(k, beta):
    """To base 2, as float32: of exp(beta), of k, and of exp(beta) - 1."""
    q = expm1(beta)
    gain = log(q) / LOG_2 if q > 0.0 else NONE
    return float32(beta / LOG_2), float32(log(float(k)) / LOG_2), float32(gain)


@njit(cache=True)
def arrays(degree, k):
    """Arrays to work in; there are words for uniform labels where the neighbours are the candidates."""
    many = k > degree + 2
    candidates = degree + 1 if many else k
    near, counts = np.zeros(degree * PITCH, np.uint8), np.empty(candidates * BLOCK, np.uint8)
    return workspace(candidates), near, counts, np.empty(BLOCK // 2 if many else 0, np.uint64)


@njit(cache=True, nogil=True)
def update(state, pieces, k, beta, key, colour, first, last):
    """Draw blocks first..last-1 of a colour, numbered from its first; what they add to S(z)."""
    work, near, counts, words = arrays(pieces.slot.shape[1], k)
    terms = logarithms(k, beta)
    return update_blocks(state, pieces, k, terms, key, colour, first, last, work, near, counts, words)


@njit(cache=True)
def sweep(state, pieces, k, terms, key, room):
    """One sweep, `state` in place, with the `arrays` to work in; S(z) after it."""
    work, near, counts, words = room
    statistic = 0
    for colour in range(pieces.earlier.size):
        last = pieces.first[colour + 1] - pieces.first[colour]
        statistic += update_blocks(state, pieces, k, terms, key, colour, 0, last, work, near, counts, words)
    return statistic


@njit(cache=True)
def run(state, pieces, k, beta, stream, first, statistic):
    """Sweeps from number `first` on, `state` in place, and S(z) after each, into `statistic`."""
    room, terms, key = arrays(pieces.slot.shape[1], k), logarithms(k, beta), np.empty(2, np.uint64)
    for t in range(statistic.size):
        key[0], key[1] = draw_words(uint64(first + t), uint64(0), stream[0], stream[1])
        statistic[t] = sweep(state, pieces, k, terms, key, room)


def sweeps(
    layout: PieceLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistic = np.empty(count, dtype=np.int64)
    run(state, layout.pieces, layout.labels, min(float(beta), FROZEN_BETA), stream, first, statistic)
    return statistic
