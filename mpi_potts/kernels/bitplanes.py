"""Labels of a plane as bit planes, 64 sites to a word, and the word operations that the kernels share.

Site (row, column) is bit `column % 64` of word `row * width + column // 64`, where `width` words hold a row;
plane p holds bit p of the labels.  A row of zero words precedes the lattice, so that the word above and the
word before always exist.  Sites that do not exist (masked, or right of the last column) are zero everywhere.

A bond belongs to the later of its two sites: bit x of a `left` mask joins x and x - 1, bit x of an `up` mask
joins x and the site above.  S(z) is then the number of ones in the two masks of like neighbours.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

from ..lattice import Lattice, pairs

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
HALVES = (1, 2, 4, 8, 16, 32)


class Layout(NamedTuple):
    """How a first-order plane with k labels lies in words; the masks are (rows * width,) uint64."""

    rows: int
    columns: int
    width: int  # words to a row
    labels: int  # k
    planes: int  # ceil(log2 k)
    exists: np.ndarray  # the sites
    left: np.ndarray  # the possible bonds to the left
    up: np.ndarray  # the possible bonds upwards


def layout(lattice: Lattice, labels: int) -> Layout:
    """The layout of a two-dimensional first-order lattice, with or without a mask, for labels 0..k-1."""
    if not lattice.first_order_plane or not 2 <= labels <= 255:
        raise ValueError("bit planes hold 2 to 255 labels on a two-dimensional first-order lattice")
    rows, columns = lattice.shape
    left, up = np.zeros((2, rows, columns), dtype=bool)
    left[:, 1:] = np.logical_and(*pairs(lattice.exists, (0, 1)))
    up[1:] = np.logical_and(*pairs(lattice.exists, (1, 0)))
    masks = (_words(bits).ravel() for bits in (lattice.exists, left, up))
    return Layout(rows, columns, -(-columns // 64), labels, (labels - 1).bit_length(), *masks)


def from_labels(layout: Layout, labels: np.ndarray) -> np.ndarray:
    """(planes, (rows + 1) * width) uint64 from (rows, columns) labels; masked pixels may hold anything."""
    state = np.zeros((layout.planes, (layout.rows + 1) * layout.width), dtype=np.uint64)
    for p, plane in enumerate(state):
        plane[layout.width :] = _words((labels >> p) & 1 == 1).ravel() & layout.exists
    return state


def to_labels(layout: Layout, state: np.ndarray, masked: int = 255) -> np.ndarray:
    """(rows, columns) uint8 labels of the planes, `masked` where there is no pixel."""
    labels = np.where(_bits(layout, layout.exists), 0, masked).astype(np.uint8)
    for p, plane in enumerate(state):
        labels |= _bits(layout, plane[layout.width :]) << p
    return labels


def _words(bits):
    """(rows, width) words of (rows, columns) bool."""
    rows, columns = bits.shape
    padded = np.zeros((rows, -(-columns // 64) * 64), dtype=bool)
    padded[:, :columns] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _bits(layout, words):
    """(rows, columns) uint8 zeros and ones of (rows * width,) words."""
    octets = words.astype("<u8").view(np.uint8).reshape(layout.rows, -1)
    return np.unpackbits(octets, axis=1, count=layout.columns, bitorder="little")


@intrinsic
def popcount(typingctx, word):
    """The number of ones in a uint64 (one machine instruction, which Python cannot name)."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def lowest(typingctx, word):
    """The position of the lowest one in a uint64 that is not zero."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@njit(inline="always")
def flood(seeds, along):
    """The bits of `along` that seeds reach when they spread upwards through consecutive ones of `along`.

    Adding a seed to a block of ones carries through it: all bits from the seed to the block's end change.
    """
    return along & (((along + seeds) ^ along) | seeds)


@njit(inline="always")
def parity_below(word):
    """Bit x of the result is the parity of the bits 0..x of `word`."""
    for s in HALVES:
        word = word ^ (word << uint64(s))
    return word


@njit(cache=True)
def deposit_steps(masks, steps):
    """The masks by which `deposit` moves bits up, step s by 2**s (Warren, Hacker's Delight, section 7-5)."""
    s0, s1, s2, s3, s4, s5 = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    for j in range(masks.size):
        rest, holes = masks[j], ~masks[j] << ONE
        s0[j], rest, holes = _step(rest, holes, 1)
        s1[j], rest, holes = _step(rest, holes, 2)
        s2[j], rest, holes = _step(rest, holes, 4)
        s3[j], rest, holes = _step(rest, holes, 8)
        s4[j], rest, holes = _step(rest, holes, 16)
        s5[j], rest, holes = _step(rest, holes, 32)


@njit(inline="always")
def _step(mask, holes, distance):
    """The bits of the mask with an odd number of holes below, and what remains when they have moved down."""
    odd = parity_below(holes)
    moved = odd & mask
    return moved, (mask ^ moved) | (moved >> uint64(distance)), holes & ~odd


@njit(cache=True)
def deposit(words, masks, steps):
    """Move the lowest bits of every word, in order, to the places where its mask has ones."""
    s0, s1, s2, s3, s4, s5 = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    for j in range(masks.size):
        word = words[j]
        word = (word & ~s5[j]) | ((word << uint64(32)) & s5[j])
        word = (word & ~s4[j]) | ((word << uint64(16)) & s4[j])
        word = (word & ~s3[j]) | ((word << uint64(8)) & s3[j])
        word = (word & ~s2[j]) | ((word << uint64(4)) & s2[j])
        word = (word & ~s1[j]) | ((word << uint64(2)) & s1[j])
        word = (word & ~s0[j]) | ((word << uint64(1)) & s0[j])
        words[j] = word & masks[j]


@njit(cache=True)
def like_neighbours(state, possible_left, possible_up, width, like_left, like_up):
    """Fill the masks of neighbours with the same label; returns S(z), the number of them."""
    words = like_left.size
    for w in range(words):
        like_left[w], like_up[w] = possible_left[w], possible_up[w]
    for p in range(state.shape[0]):
        here = state[p, width : width + words]
        before = state[p, width - 1 : width - 1 + words]
        above = state[p, :words]
        for w in range(words):
            like_left[w] &= ~(here[w] ^ ((here[w] << ONE) | (before[w] >> uint64(63))))
            like_up[w] &= ~(here[w] ^ above[w])
    total = uint64(0)
    for w in range(words):
        total += popcount(like_left[w]) + popcount(like_up[w])
    return total
