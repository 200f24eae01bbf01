"""Swendsen-Wang sweeps of the Potts prior on a two-dimensional first-order lattice, 64 sites to a word.

The prior is p(z | beta) = exp(beta S(z)) / C(beta), paper equations 7 and 8.  A sweep joins each pair of like
neighbours by a bond with probability 1 - exp(-beta), finds the clusters that the bonds connect, and gives every
cluster a new label, uniform on 0..k-1.

What makes it fast is that a site is hardly ever touched on its own:

- like neighbours and bonds are masks (see `bitplanes`), decided 64 at a time;
- the nodes of the cluster search are *runs*, sites of a row joined by bonds to the left, numbered from 1 in raster
  order: site x of a word belongs to run `before[word] + (number of run starts at or before x in the word)`;
- of the vertical bonds between the same two runs only the first is looked at, and the first that a run has to
  the row above becomes its parent without any search;
- the new labels of the runs go back into the planes 64 sites at a time.

Contract.  A state is the array of planes, `from_labels(layout, labels)`; `sweeps` advances it in place.  Draws are
addressed by (stream, number of the sweep, index), so the bits do not depend on how sweeps are split over calls.
"""

import numpy as np
from numba import njit, uint8, uint32, uint64

from ..rng import threefry2x64
from .bitplanes import (
    ALL,
    HALVES,
    ONE,
    Layout,
    flood,
    from_labels,
    layout,
    like_neighbours,
    lowest,
    ordered_start,
    parity_below,
    popcount,
    to_labels,
)

__all__ = ["Layout", "from_labels", "layout", "ordered_start", "sweeps", "to_labels"]

# Bits of the threshold that are compared 64 bonds at a time; the few bonds then undecided are drawn one by one.
SLICED = 8
CHUNK = 32

# Second counter words of a sweep's draws: 0..7 bits of bonds, 64..127 single bonds, then labels of runs.
SINGLE_BOND = np.uint64(64)
RUN_LABELS = np.uint64(128)
SINGLE_LABEL = np.uint64(129)

# Eight labels are drawn in one word, a byte each: masks of every second byte, and of the lowest bit of every byte.
EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)
LOW_BITS = np.uint64(0x0101010101010101)


def threshold(beta: float) -> np.uint64:
    """1 - exp(-beta) in 64-bit fixed point; a probability that rounds to one becomes 1 - 2**-64."""
    return np.uint64(min(int(-np.expm1(-beta) * 2.0**64), 2**64 - 1))


def sweeps(
    layout: Layout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each of them."""
    statistics = np.empty(count, dtype=np.int64)
    _sweeps(
        state,
        layout.exists,
        layout.left,
        layout.up,
        layout.width,
        np.uint64(layout.labels),
        threshold(beta),
        stream[0],
        stream[1],
        np.uint64(first),
        statistics,
    )
    return statistics


@njit(cache=True)
def _sweeps(state, exists, possible_left, possible_up, width, k, threshold, s0, s1, first, statistics):
    words = exists.size
    like_left, like_up, left, up, starts = np.empty((5, words), dtype=np.uint64)
    before = np.empty(words + 1, dtype=np.uint32)
    most_runs = 0
    for w in range(words):
        most_runs += popcount(exists[w])
    parent = np.empty(most_runs + 1, dtype=np.uint32)
    # Room for a last, partly used block of 64 labels, and a word more because pairs of words are read.
    labels = np.zeros((most_runs // 64 + 2) * 8, dtype=np.uint64)
    packed = np.zeros((state.shape[0], most_runs // 64 + 3), dtype=np.uint64)
    rejected = np.empty(labels.size, dtype=np.uint64)

    like_neighbours(state, possible_left, possible_up, width, like_left, like_up)
    for t in range(statistics.size):
        k0, k1 = threefry2x64(first + uint64(t), uint64(0), s0, s1)
        draw_bonds(like_left, like_up, left, up, threshold, k0, k1)
        runs = number_runs(exists, left, starts, before)
        join_runs(left, up, starts, before, width, parent)
        draw_labels(labels, rejected, runs, k, k0, k1)
        spread_labels(parent, labels.view(np.uint8), runs)
        pack_labels(labels, packed, runs)
        fill_planes(state, packed, exists, starts, before, width)
        statistics[t] = like_neighbours(state, possible_left, possible_up, width, like_left, like_up)


@njit(cache=True)
def draw_bonds(like_left, like_up, left, up, threshold, k0, k1):
    """Keep each like pair as a bond with probability threshold / 2**64; the masks of like pairs are used up.

    A bond is kept when a uniform 64-bit number is below the threshold.  The numbers are compared from their
    highest bit downwards, for the bonds of a word together, and only where they still equal the threshold.
    """
    left[:] = uint64(0)
    up[:] = uint64(0)
    for start in range(0, left.size, CHUNK):
        stop = min(start + CHUNK, left.size)
        undecided_left, undecided_up = like_left[start:stop], like_up[start:stop]
        kept_left, kept_up = left[start:stop], up[start:stop]
        for b in range(SLICED):
            bit = ALL if (threshold >> uint64(63 - b)) & ONE else uint64(0)
            for j in range(stop - start):
                r0, r1 = threefry2x64(uint64(start + j), uint64(b), k0, k1)
                u, v = undecided_left[j], undecided_up[j]
                kept_left[j] |= u & ~r0 & bit
                kept_up[j] |= v & ~r1 & bit
                undecided_left[j] = u & ~(r0 ^ bit)
                undecided_up[j] = v & ~(r1 ^ bit)
    rest = threshold << uint64(SLICED)
    for w in range(left.size):
        undecided = like_left[w] | like_up[w]
        while undecided:
            x = lowest(undecided)
            undecided &= undecided - ONE
            r0, r1 = threefry2x64(uint64(w), SINGLE_BOND + x, k0, k1)
            left[w] |= like_left[w] & (uint64(r0 < rest) << x)
            up[w] |= like_up[w] & (uint64(r1 < rest) << x)


@njit(cache=True)
def number_runs(exists, left, starts, before):
    """Mark the first site of every run, count the runs before every word; returns the number of runs."""
    runs = uint64(0)
    for w in range(left.size):
        starts[w] = exists[w] & ~left[w]
        before[w] = runs
        runs += popcount(starts[w])
    before[left.size] = runs
    return runs


@njit(inline="always")
def run_at(x, starts, before):
    """The number of the run at site x of a word."""
    return uint32(before + popcount(starts & ((uint64(2) << x) - ONE)))


@njit(inline="always")
def unite(parent, a, b):
    """Rem's union: climb from a and b at once, hanging what is passed below the smaller parent (root <= child)."""
    p, q = parent[a], parent[b]
    while p != q:
        if p > q:
            a, b = b, a
            p, q = q, p
        parent[b] = p
        b = q
        q = parent[b]


@njit(cache=True)
def join_runs(left, up, starts, before, width, parent):
    """Fill `parent` so that runs joined by vertical bonds have the same root, the smallest run of the cluster."""
    for i in range(before[left.size] + 1):
        parent[i] = i
    for row in range(width, left.size, width):
        carry_pair = carry_run = uint64(0)
        for w in range(row, row + width):
            above = w - width
            # A bond that is reached from an earlier one along bonds in both rows joins the same two runs again.
            both = left[w] & left[above]
            again = flood(((up[w] << ONE) | carry_pair) & both, both)
            carry_pair = (up[w] | again) >> uint64(63)
            bonds = up[w] & ~again
            # The first bond of the lower run makes a parent; later ones join trees that may differ.
            later = flood(((bonds << ONE) | carry_run) & left[w], left[w])
            carry_run = (bonds | later) >> uint64(63)
            parents = bonds & ~later
            unions = bonds & later
            while parents:
                x = lowest(parents)
                parents &= parents - ONE
                upper = run_at(x, starts[above], before[above])
                parent[run_at(x, starts[w], before[w])] = parent[upper]
            while unions:
                x = lowest(unions)
                unions &= unions - ONE
                unite(parent, run_at(x, starts[above], before[above]), run_at(x, starts[w], before[w]))


@njit(cache=True)
def draw_labels(labels, rejected, runs, k, k0, k1):
    """A uniform label 0..k-1 for each run, eight to a word.

    A random byte r gives the label r k / 256, exactly uniform when the r with (r k mod 256) < (256 mod k) are
    rejected; these few are drawn again, one by one.
    """
    excess = uint64(256) % k
    shortfall = (uint64(256) - excess) * (EVEN_BYTES & LOW_BITS)
    words = (runs // uint64(16) + uint64(1)) * uint64(2)
    for j in range(words // uint64(2)):
        labels[2 * j], labels[2 * j + 1] = threefry2x64(uint64(j), RUN_LABELS, k0, k1)
    for j in range(words):
        even = (labels[j] & EVEN_BYTES) * k
        odd = ((labels[j] >> uint64(8)) & EVEN_BYTES) * k
        labels[j] = ((even >> uint64(8)) & EVEN_BYTES) | (odd & ~EVEN_BYTES)
        # The ninth bit of a sum is set where the remainder is not below the excess.
        accept_even = ((even & EVEN_BYTES) + shortfall) & ~EVEN_BYTES
        accept_odd = ((odd & EVEN_BYTES) + shortfall) & ~EVEN_BYTES
        rejected[j] = ~((accept_even >> uint64(8)) | accept_odd) & LOW_BITS
    octets = labels.view(np.uint8)
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
        r0, r1 = threefry2x64(i, attempt, k0, k1)
        if r0 < limit:
            return uint8(r0 % k)
        if r1 < limit:
            return uint8(r1 % k)
        attempt += ONE


@njit(cache=True)
def spread_labels(parent, labels, runs):
    """Give every run the label of its root: a parent comes before its children and is right by then."""
    for i in range(runs + ONE):
        labels[i] = labels[parent[i]]


@njit(cache=True)
def pack_labels(labels, packed, runs):
    """Bit i of packed[p] is bit p of the label of run i."""
    words = (runs // uint64(64) + uint64(1)) * uint64(8)
    for p in range(packed.shape[0]):
        octets = packed[p].view(np.uint8)
        for j in range(words):
            bits = (labels[j] >> uint64(p)) & LOW_BITS
            bits |= bits >> uint64(7)
            bits |= bits >> uint64(14)
            bits |= bits >> uint64(28)
            octets[j] = uint8(bits & uint64(0xFF))


@njit(inline="always")
def deposit_steps(mask):
    """The six masks by which `deposit` moves bits up: step s moves by 2**s (Warren, Hacker's Delight, 7-5)."""
    holes = ~mask << ONE
    odd = parity_below(holes)
    m0 = odd & mask
    mask = (mask ^ m0) | (m0 >> uint64(1))
    holes &= ~odd
    odd = parity_below(holes)
    m1 = odd & mask
    mask = (mask ^ m1) | (m1 >> uint64(2))
    holes &= ~odd
    odd = parity_below(holes)
    m2 = odd & mask
    mask = (mask ^ m2) | (m2 >> uint64(4))
    holes &= ~odd
    odd = parity_below(holes)
    m3 = odd & mask
    mask = (mask ^ m3) | (m3 >> uint64(8))
    holes &= ~odd
    odd = parity_below(holes)
    m4 = odd & mask
    mask = (mask ^ m4) | (m4 >> uint64(16))
    holes &= ~odd
    m5 = parity_below(holes) & mask
    return m0, m1, m2, m3, m4, m5


@njit(inline="always")
def deposit(bits, mask, steps):
    """The lowest bits of `bits`, in order, at the places where `mask` has ones."""
    m0, m1, m2, m3, m4, m5 = steps
    bits = (bits & ~m5) | ((bits << uint64(32)) & m5)
    bits = (bits & ~m4) | ((bits << uint64(16)) & m4)
    bits = (bits & ~m3) | ((bits << uint64(8)) & m3)
    bits = (bits & ~m2) | ((bits << uint64(4)) & m2)
    bits = (bits & ~m1) | ((bits << uint64(2)) & m1)
    bits = (bits & ~m0) | ((bits << uint64(1)) & m0)
    return bits & mask


@njit(cache=True)
def fill_planes(state, packed, exists, starts, before, width):
    """Write the labels of the runs to all their sites.

    Along a row a plane changes only where a run starts.  The changes from run to run are deposited at the starts,
    and the parity of the changes so far, from the run that enters the word, is the plane.
    """
    for p in range(state.shape[0]):
        plane = state[p, width:]
        bits = packed[p]
        for w in range(starts.size):
            entering = before[w] >> uint32(6)
            shift = uint64(before[w] & uint32(63))
            low, high = bits[entering], bits[entering + uint32(1)]
            runs = (low >> shift) | ((high << ONE) << (uint64(63) - shift))
            following = ((low >> ONE) >> shift) | (high << (uint64(63) - shift))
            changes = deposit(runs ^ following, starts[w], deposit_steps(starts[w]))
            plane[w] = (parity_below(changes) ^ (uint64(0) - (runs & ONE))) & exists[w]
