"""Labels of a plane as bit planes, 64 sites to a word.

Site (row, column) is bit `column % 64` of word `row * width + column // 64`, where `width` words hold a row;
plane p holds bit p of the labels.  A row of zero words precedes the lattice, so that the word above and the
word before always exist.  Sites that do not exist (masked, or right of the last column) are zero everywhere.

A bond belongs to the later of its two sites: bit x of a `left` mask joins x and x - 1, bit x of an `up` mask
joins x and the site above.  S(z) is then the number of ones in the two masks of like neighbours.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..lattice import Lattice, pairs
from .bits import ONE, popcount


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
