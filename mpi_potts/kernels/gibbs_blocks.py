"""Blocks of sites on any lattice: their neighbours, their labels, and counts of both.

The neighbours of a block are copied from their pieces into one row for each step, so that all other loops are
over whole blocks, whatever the lattice and its mask.  Copies are of `PIECE` bytes: each overwrites what the
piece before it left beyond its end.
"""

import numpy as np
from numba import int64, njit, uint8, uint64

from ..lattice import MASKED
from .gibbs_layout import BLOCK, PIECE
from .leaf import leaf
from .vectors import add_equal, either, fill, load, mix, save, where_equal

# Words of a counter, after those of the colours, for the bits that few sites need.
MORE = 16

# From one row of neighbours to the next; the last piece of a block may reach beyond its end.
PITCH = BLOCK + 2 * PIECE

# exp(-20) is below the resolution of weights and uniforms: beyond this beta no probability changes, and
# powers of exp(beta) in float32 might overflow.  `lattice.LARGEST_BETA` is what an input may ask for.
FROZEN_BETA = 20.0

# Bytes that are compared at once.
WIDE = 64

# From place n * PIECE on: n bytes of 255, then 0.
KEEP = np.where(np.arange(PIECE) < np.arange(PIECE + 1)[:, None], 255, 0).astype(np.uint8).reshape(-1)


@leaf
def collect(state, first, last, place, length, half, rows, slot, shift, near):
    """The neighbours of the pieces first..last-1, a block, in one row of `near` for each step."""
    d, degree, width = 0, slot.size, uint64(rows.shape[1])
    flat = rows.reshape(-1)
    for s in range(uint64(first), uint64(last)):
        odd = uint64(place[s] >= half)
        for m in range(degree):
            there = flat[s * width + uint64(slot[m])] + shift[odd, m]
            save(near, m * PITCH + d, load(state, there, PIECE))
        d += length[s]


@leaf
def erase(new, absent):
    """Make absent what is no pixel."""
    for i in range(0, BLOCK, WIDE):
        save(new, i, either(load(new, i, WIDE), load(absent, i, WIDE)))


@leaf
def store(state, first, apart, last, place, length, new):
    """Put the new labels of the pieces first..last-1, a block, into the state."""
    d = 0
    for s in range(uint64(first), uint64(apart)):
        n, p = length[s], place[s]
        old = load(state, p, PIECE)
        save(state, p, mix(old, load(new, d, PIECE), load(KEEP, PIECE * n, PIECE)))
        d += n
    # What follows here belongs to the next block, which another thread may be writing.
    for s in range(uint64(apart), uint64(last)):
        n, p = length[s], place[s]
        for i in range(n):
            state[p + i] = new[d + i]
        d += n


@leaf
def count_label(label, near, degree, count):
    """n_j of every site of the block."""
    mine = fill(label, WIDE)
    for i in range(0, BLOCK, 2 * WIDE):
        a = b = fill(uint8(0), WIDE)
        for m in range(degree):
            a = add_equal(a, load(near, m * PITCH + i, WIDE), mine)
            b = add_equal(b, load(near, m * PITCH + i + WIDE, WIDE), mine)
        save(count, i, a)
        save(count, i + WIDE, b)


@leaf
def count_pairs(z, near, degree, like):
    """The number of neighbours at the first `degree` steps that have their site's label."""
    zero, absent = fill(uint8(0), WIDE), fill(uint8(MASKED), WIDE)
    for i in range(0, BLOCK, WIDE):
        mine, a = load(z, i, WIDE), zero
        for m in range(degree):
            a = add_equal(a, load(near, m * PITCH + i, WIDE), mine)
        save(like, i, where_equal(mine, absent, zero, a))
    return sum_bytes(like.view(np.uint64))


@leaf
def sum_bytes(words):
    """Sum of the bytes of BLOCK // 8 words, in columns of 16 bits that cannot overflow (bytes up to 127)."""
    columns = uint64(0)
    for i in range(BLOCK // 8):
        word = words[i]
        columns += (word & uint64(0x00FF00FF00FF00FF)) + ((word >> uint64(8)) & uint64(0x00FF00FF00FF00FF))
    return int64((columns * uint64(0x0001000100010001)) >> uint64(48))


@leaf
def tally_blocks(state, pieces, z, counts, first, last):
    """What `tally` does, with an array z to copy the labels of a block into."""
    start, place, length = pieces.start, pieces.place, pieces.length
    for block in range(first, last):
        d = 0
        for s in range(uint64(start[block]), uint64(start[block + 1])):
            save(z, d, load(state, place[s], PIECE))
            d += length[s]
        z[d:BLOCK] = MASKED
        for j in range(counts.shape[0]):
            count, mine = counts[j, block * BLOCK : (block + 1) * BLOCK], fill(uint8(j), WIDE)
            for i in range(0, BLOCK, WIDE):
                save(count, i, add_equal(load(count, i, WIDE), load(z, i, WIDE), mine))


@njit(cache=True, nogil=True)
def tally(state, pieces, counts, first, last):
    """Count the labels of blocks first..last-1, numbered through all colours, once more.

    counts : (k, blocks * BLOCK) uint8; see `flush`.
    """
    tally_blocks(state, pieces, np.empty(PITCH, np.uint8), counts, first, last)


@njit(cache=True)
def flush(small, large):
    """Add counts (uint8) to counts (uint32) of the same shape, and empty them."""
    one, other = small.reshape(-1), large.reshape(-1)
    for i in range(one.size):
        other[i] += one[i]
        one[i] = 0
