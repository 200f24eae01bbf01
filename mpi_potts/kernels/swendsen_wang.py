"""Swendsen-Wang sweeps of the Potts prior on a two-dimensional first-order lattice, 64 sites to a word.

The prior is p(z | beta) = exp(beta S(z)) / C(beta), paper equations 7 and 8.  A sweep joins each pair of like
neighbours by a bond with probability 1 - exp(-beta), finds the clusters that the bonds connect, and gives
every cluster a new label, uniform on 0..k-1.

What makes it fast is that a site is hardly ever touched on its own:

- like neighbours and bonds are masks (see `bitplanes`), decided 64 at a time;
- the nodes of the cluster search are *runs*, sites of a row joined by bonds to the left, numbered from 1 in
  raster order: site x of a word belongs to run `before[word]` + (number of run starts at or before x);
- of the vertical bonds between the same two runs only the first is looked at, and the first that a run has
  to the row above becomes its parent without any search;
- the new labels of the runs go back into the planes 64 sites at a time.

Contract.  A state is the array of planes, `from_labels(layout, labels)`; `sweeps` advances it in place.
Draws are addressed by (stream, number of the sweep, index): how sweeps are split over calls changes no bit.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint32, uint64

from .bitplanes import Layout, from_labels, layout, like_neighbours, to_labels
from .bits import ALL, ONE, deposit, deposit_steps, flood, lowest, parity_below, popcount
from .elementary import expm1
from .run_labels import changes_of_runs, draw_labels, pack_labels, spread_labels
from .threefry import threefry2x64
from .words import draw_words

__all__ = ["Layout", "from_labels", "layout", "sweeps", "to_labels"]

# Bits of the threshold that are compared 64 bonds at a time; the bonds then undecided are drawn one by one.
SLICED = 8

# Words that loops over bits or planes take together: enough to fill vectors, few enough to stay in cache.
CHUNK = 32

# Second counter words of a sweep's draws: 0..7 bits of bonds, 64..127 single bonds, then labels of runs.
SINGLE_BOND = np.uint64(64)


class Scratch(NamedTuple):
    """What a sweep works in.  Each array is allocated alone: rows of one keep LLVM from using vectors."""

    like_left: np.ndarray  # (words,) uint64: neighbours with the same label, then bonds not yet decided
    like_up: np.ndarray
    left: np.ndarray  # (words,) uint64: bonds
    up: np.ndarray
    starts: np.ndarray  # (words,) uint64: first sites of runs
    before: np.ndarray  # (words + 1,) uint32: number of runs before each word
    parent: np.ndarray  # (runs + 1,) uint32
    queue: np.ndarray  # (sites of a row, 2) uint32: trees to unite
    labels: np.ndarray  # uint64: labels of the runs, a byte each
    rejected: np.ndarray  # as labels
    octets: np.ndarray  # uint8: the bytes of labels
    packed: np.ndarray  # (planes, .) uint64: labels of the runs, a bit in each plane
    packed_octets: np.ndarray  # uint8: the bytes of packed
    entering: np.ndarray  # (CHUNK,) uint64
    steps: np.ndarray  # (6, CHUNK) uint64


def scratch(layout: Layout) -> Scratch:
    """Room for sweeps in this layout, where each site may be a run of its own."""
    words, runs = layout.exists.size, int(np.bitwise_count(layout.exists).sum())
    masks = (np.empty(words, dtype=np.uint64) for _ in range(5))
    # Labels are packed 64 at a time, and read as the 65 bits from any place.
    labels = np.zeros((runs // 64 + 2) * 8, dtype=np.uint64)
    packed = np.zeros((layout.planes, runs // 64 + 3), dtype=np.uint64)
    return Scratch(
        *masks,
        before=np.empty(words + 1, dtype=np.uint32),
        parent=np.empty(runs + 1, dtype=np.uint32),
        queue=np.empty((64 * layout.width + 1, 2), dtype=np.uint32),
        labels=labels,
        rejected=np.empty_like(labels),
        octets=labels.view(np.uint8),
        packed=packed,
        packed_octets=packed.view(np.uint8),
        entering=np.empty(CHUNK, dtype=np.uint64),
        steps=np.empty((6, CHUNK), dtype=np.uint64),
    )


def threshold(beta: float) -> np.uint64:
    """1 - exp(-beta) in 64-bit fixed point; a probability that rounds to one becomes 1 - 2**-64."""
    return np.uint64(min(int(-expm1(-float(beta)) * 2.0**64), 2**64 - 1))


def sweeps(
    layout: Layout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    _sweeps(
        layout, scratch(layout), state, threshold(beta), stream[0], stream[1], np.uint64(first), statistics
    )
    return statistics


@njit(cache=True)
def _sweeps(layout, scratch, state, threshold, s0, s1, first, statistics):
    exists, width, k = layout.exists, layout.width, uint64(layout.labels)
    like_left, like_up, left, up, starts, before, parent, queue = scratch[:8]
    labels, rejected, octets, packed, packed_octets, entering, steps = scratch[8:]
    like_neighbours(state, layout.left, layout.up, width, like_left, like_up)
    for t in range(statistics.size):
        k0, k1 = draw_words(first + uint64(t), uint64(0), s0, s1)
        draw_bonds(like_left, like_up, left, up, threshold, k0, k1)
        runs = number_runs(exists, left, starts, before)
        join_runs(left, up, starts, before, width, parent, queue)
        draw_labels(labels, octets, rejected, runs, k, k0, k1)
        spread_labels(parent, octets, runs)
        pack_labels(labels, packed_octets, runs)
        fill_planes(state, packed, exists, starts, before, width, entering, steps)
        statistics[t] = like_neighbours(state, layout.left, layout.up, width, like_left, like_up)


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
            r0, r1 = draw_words(uint64(w), SINGLE_BOND + x, k0, k1)
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
def run_at(mask, starts, before):
    """The number of the run at the highest site of a mask of consecutive sites from the word's first."""
    return uint32(before + popcount(starts & mask))


@njit(inline="always")
def unite(parent, a, b):
    """Rem's union: climb from a and b in turn, hanging each node passed below the smaller parent.

    Choices instead of branches, because nothing here can be predicted but the end of the loop.
    """
    p, q = parent[a], parent[b]
    while p != q:
        low, high = min(p, q), max(p, q)
        a, node = (a, b) if p < q else (b, a)
        parent[node] = low
        p, b = low, high
        q = parent[b]


@njit(inline="always")
def sort_bonds(up, left, left_above, carry_pair, carry_run):
    """The vertical bonds of a word that matter: the first of each run, the first to each further run above.

    The carries say that the run, or the pair of runs, that enters the word from the left already has a bond.
    """
    # A bond that is reached from an earlier one along bonds in both rows joins the same two runs again.
    both = left & left_above
    again = flood(((up << ONE) | carry_pair) & both, both)
    bonds = up & ~again
    later = flood(((bonds << ONE) | carry_run) & left, left)
    return bonds & ~later, bonds & later, (up | again) >> uint64(63), (bonds | later) >> uint64(63)


@njit(cache=True)
def join_runs(left, up, starts, before, width, parent, queue):
    """Fill `parent` so that runs joined by vertical bonds have the same root, the first run of the cluster.

    A parent comes before its children, parent[i] <= i.  The first bond of a run makes it a child of a tree in
    the row above, nearly always one step from the root.  Where a further bond leads to another tree, the two
    wait to be united until the row is done: reading and writing `parent` in turn would stall.
    """
    for i in range(before[left.size] + 1):
        parent[i] = i
    for row in range(width, left.size, width):
        waiting = 0
        carry_pair = carry_run = uint64(0)
        for w in range(row, row + width):
            firsts, others, carry_pair, carry_run = sort_bonds(
                up[w], left[w], left[w - width], carry_pair, carry_run
            )
            here, above = starts[w], starts[w - width]
            runs_here, runs_above = before[w], before[w - width]
            while firsts:
                below = firsts ^ (firsts - ONE)
                firsts &= ~below
                child, tree = run_at(below, here, runs_here), parent[run_at(below, above, runs_above)]
                parent[child] = parent[tree]
            while others:
                below = others ^ (others - ONE)
                others &= ~below
                a = parent[parent[run_at(below, above, runs_above)]]
                b = parent[run_at(below, here, runs_here)]
                queue[waiting, 0], queue[waiting, 1] = a, b
                waiting += a != b
        for i in range(waiting):
            unite(parent, queue[i, 0], queue[i, 1])


@njit(cache=True)
def fill_planes(state, packed, exists, starts, before, width, entering, steps):
    """Write the labels of the runs to all their sites.

    Along a row a plane changes only where a run starts.  The changes from run to run are deposited at the
    starts; the parity of the changes so far, counted from the run that enters the word, is the plane.
    """
    for begin in range(0, starts.size, CHUNK):
        end = min(begin + CHUNK, starts.size)
        marks, sites, counts = starts[begin:end], exists[begin:end], before[begin:end]
        deposit_steps(marks, steps)
        for p in range(state.shape[0]):
            plane = state[p, width + begin : width + end]
            changes_of_runs(packed[p], counts, plane, entering)
            deposit(plane, marks, steps)
            for j in range(plane.size):
                plane[j] = (parity_below(plane[j]) ^ entering[j]) & sites[j]
