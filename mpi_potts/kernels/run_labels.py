"""New labels for the runs of a Swendsen-Wang sweep: drawn, spread over the clusters, written to the sites.

A run is a stretch of sites joined by bonds along a row; runs are numbered from 1, and `parent` makes those of
a cluster a tree, in which every run comes after its parent.  Each run draws a label of its own, addressed by
its number, and takes over that of its root: all steps are loops over bytes or words, without a search.
"""

from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint8, uint32, uint64

from .bits import ALL, ONE, deposit, deposit_steps, lowest, parity_below
from .threefry import threefry2x64
from .words import draw_words

# Second counter words of a sweep's draws; those below are for bonds.
RUN_LABELS = np.uint64(128)
SINGLE_LABEL = np.uint64(129)

# Eight labels share a word, a byte each (the first lowest): every second byte, the lowest bit of every byte.
EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
LOW_BITS = np.uint64(0x0101010101010101)


# Words that loops over planes take together: enough to fill vectors, few enough to stay in cache.
CHUNK = 32


class Room(NamedTuple):
    """What the labels of runs are worked out in.  Each array is allocated alone: rows of one keep LLVM from
    using vectors."""

    labels: np.ndarray  # uint64: labels of the runs, a byte each
    rejected: np.ndarray  # as labels
    octets: np.ndarray  # uint8: the bytes of labels
    packed: np.ndarray  # (planes, .) uint64: labels of the runs, a bit in each plane
    packed_octets: np.ndarray  # uint8: the bytes of packed
    entering: np.ndarray  # (CHUNK,) uint64
    steps: np.ndarray  # (6, CHUNK) uint64


def room(runs: int, planes: int) -> Room:
    """Room for the labels of so many runs."""
    # Labels are packed 64 at a time, and read as the 65 bits from any place.
    labels = np.zeros((runs // 64 + 2) * 8, dtype=np.uint64)
    packed = np.zeros((planes, runs // 64 + 3), dtype=np.uint64)
    return Room(
        labels=labels,
        rejected=np.empty_like(labels),
        octets=labels.view(np.uint8),
        packed=packed,
        packed_octets=packed.view(np.uint8),
        entering=np.empty(CHUNK, dtype=np.uint64),
        steps=np.empty((6, CHUNK), dtype=np.uint64),
    )


@njit(cache=True)
def new_labels(state, exists, starts, before, parent, room, k, k0, k1):
    """Give every cluster a label, uniform on 0..k-1, and write it to all its sites.

    `starts` (words,) has the first sites of runs, `before` (words + 1,) the number of runs before each word.
    """
    runs = uint64(before[starts.size])
    draw_labels(room.labels, room.octets, room.rejected, runs, k, k0, k1)
    spread_labels(parent, room.octets, runs)
    pack_labels(room.labels, room.packed_octets, runs)
    fill_planes(state, room.packed, exists, starts, before, room.entering, room.steps)


@njit(cache=True)
def draw_labels(labels, octets, rejected, runs, k, k0, k1):
    """A uniform label 0..k-1 for each run, eight to a word.

    A random byte r gives the label r k / 256, exactly uniform when the r with (r k mod 256) < (256 mod k) are
    rejected; these few are drawn again, one by one.
    """
    excess = uint64(256) % k
    shortfall = (uint64(256) - excess) * (EVEN_BYTES & LOW_BITS)
    words = 2 * (int64(runs) // 16 + 1)
    for j in range(words // 2):
        labels[2 * j], labels[2 * j + 1] = threefry2x64(uint64(j), RUN_LABELS, k0, k1)
    for j in range(words):
        even = (labels[j] & EVEN_BYTES) * k
        odd = ((labels[j] >> uint64(8)) & EVEN_BYTES) * k
        labels[j] = ((even >> uint64(8)) & EVEN_BYTES) | (odd & ~EVEN_BYTES)
        # The ninth bit of a sum is set where the remainder is not below the excess.
        accept_even = ((even & EVEN_BYTES) + shortfall) & ~EVEN_BYTES
        accept_odd = ((odd & EVEN_BYTES) + shortfall) & ~EVEN_BYTES
        rejected[j] = ~((accept_even >> uint64(8)) | accept_odd) & LOW_BITS
    for j in range(words):
        again = rejected[j]
        while again:
            i = uint64(8 * j) + (lowest(again) >> uint64(3))
            again &= again - ONE
            octets[i] = single_label(i, k, k0, k1)
    octets[0] = 0


@njit(cache=True)
def single_label(i, k, k0, k1):
    """The label of run i where its byte was rejected: 64-bit words, again with rejection."""
    limit = ALL - ALL % k
    attempt = SINGLE_LABEL
    while True:
        r0, r1 = draw_words(i, attempt, k0, k1)
        if r0 < limit:
            return uint8(r0 % k)
        if r1 < limit:
            return uint8(r1 % k)
        attempt += ONE


@njit(cache=True)
def spread_labels(parent, octets, runs):
    """Give every run the label of its root: a parent comes before its children and is right by then."""
    for i in range(int64(runs) + 1):
        octets[i] = octets[parent[i]]


@njit(cache=True)
def pack_labels(labels, packed_octets, runs):
    """Bit i of packed plane p is bit p of the label of run i."""
    words = 8 * (int64(runs) // 64 + 1)
    for p in range(packed_octets.shape[0]):
        octets = packed_octets[p]
        for j in range(words):
            bits = (labels[j] >> uint64(p)) & LOW_BITS
            bits |= bits >> uint64(7)
            bits |= bits >> uint64(14)
            bits |= bits >> uint64(28)
            octets[j] = uint8(bits & uint64(0xFF))


@njit(cache=True)
def fill_planes(state, packed, exists, starts, before, entering, steps):
    """Write the labels of the runs to all their sites.

    From site to site a plane changes only where a run starts.  The changes from run to run are deposited at
    the starts; the parity of the changes so far, counted from the run that enters the word, is the plane.
    """
    for begin in range(0, starts.size, CHUNK):
        end = min(begin + CHUNK, starts.size)
        marks, sites, counts = starts[begin:end], exists[begin:end], before[begin:end]
        deposit_steps(marks, steps)
        for p in range(state.shape[0]):
            plane = state[p, begin:end]
            changes_of_runs(packed[p], counts, plane, entering)
            deposit(plane, marks, steps)
            for j in range(plane.size):
                plane[j] = (parity_below(plane[j]) ^ entering[j]) & sites[j]


@njit(cache=True)
def changes_of_runs(bits, counts, changes, entering):
    """Bit i of a word's changes: whether run i that starts in it differs from the one before; `entering`, all
    zeros or ones: the bit of the run that enters it."""
    for j in range(changes.size):
        word = counts[j] >> uint32(6)
        shift = uint64(counts[j] & uint32(63))
        low, high = bits[word], bits[word + uint32(1)]
        runs = (low >> shift) | ((high << ONE) << (uint64(63) - shift))
        following = ((low >> ONE) >> shift) | (high << (uint64(63) - shift))
        changes[j] = runs ^ following
        entering[j] = uint64(0) - (runs & ONE)
