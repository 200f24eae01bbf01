"""New labels for the runs of a Swendsen-Wang sweep: drawn, spread over the clusters, written to the sites.

A run is a stretch of sites joined by bonds along a row; runs are numbered from 1, and `parent` makes those of
a cluster a tree, in which every run comes after its parent.  Each run draws a label of its own, addressed by
its number, and takes over that of its root: all steps are loops over bytes or words, without a search.
"""

import numpy as np
from numba import int64, njit, uint8, uint32, uint64

from .bits import ALL, ONE, lowest
from .threefry import threefry2x64
from .words import draw_words

# Second counter words of a sweep's draws; those below are for bonds.
RUN_LABELS = np.uint64(128)
SINGLE_LABEL = np.uint64(129)

# Eight labels share a word, a byte each (the first lowest): every second byte, the lowest bit of every byte.
EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
LOW_BITS = np.uint64(0x0101010101010101)


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
