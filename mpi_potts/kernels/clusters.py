"""Swendsen-Wang sweeps of the Potts prior on any lattice, 64 sites to a word.

The prior is p(z | beta) = exp(beta S(z)) / C(beta), paper equations 7 and 8.  A sweep joins each pair of like
neighbours by a bond with probability 1 - exp(-beta), finds the clusters that the bonds connect, and gives
every cluster a new label, uniform on 0..k-1.

What makes it fast is that a site is hardly ever touched on its own:

- like neighbours and bonds are masks, one for each direction (see `cluster_layout`), decided 64 at a time; a
  bond belongs to the later of its two sites;
- the nodes of the cluster search are *runs*, sites joined by bonds in the first direction, to the site before
  them, and numbered from 1 in raster order: site x of a word belongs to run `before[word]` + (number of run
  starts at or before x);
- of the bonds in the other directions that join the same two runs hardly more than one is looked at, and the
  first that a run has becomes its parent without any search;
- the new labels of the runs go back into the planes 64 sites at a time (see `run_labels`).

Contract.  A state is the array of planes, `from_labels(layout, labels)`; `swendsen_wang` advances it in
place.  Draws are addressed by (stream, number of the sweep, index): how sweeps are split over calls changes
no bit.  All is integers: neither does the compiler's choice of instructions.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint32, uint64

from .bits import ALL, ONE, flood, lowest, popcount
from .cluster_layout import WordLayout, from_labels, layout, to_labels
from .elementary import expm1
from .run_labels import Room, new_labels, room
from .threefry import threefry2x64
from .words import draw_words

__all__ = ["WordLayout", "from_labels", "layout", "swendsen_wang", "to_labels"]

# Bits of the threshold that are compared 64 bonds at a time; the bonds then undecided are drawn one by one.
SLICED = 8

# Pairs of words whose bonds are drawn together: enough to fill vectors, few enough to stay in cache.
CHUNK = 32

# Second counter words of a sweep's draws: 0..7 bits of bonds, 64..127 single bonds, then labels of runs.
SINGLE_BOND = np.uint64(64)

# Trees to unite wait until there are so many: reading and writing `parent` in turn would stall.
QUEUE = 16


class Scratch(NamedTuple):
    """What a sweep works in."""

    like: np.ndarray  # (D * words, rounded up) uint64: neighbours with the same label, then bonds undecided
    bonds: np.ndarray  # as like
    starts: np.ndarray  # (words,) uint64: first sites of runs
    before: np.ndarray  # (words + 1,) uint32: number of runs before each word
    parent: np.ndarray  # (runs + 1,) uint32
    queue: np.ndarray  # (., 2) uint32: trees to unite
    new: np.ndarray  # (D,) uint64: bonds of a word that join new pairs of runs
    carry: np.ndarray  # (D,) uint64: whether the last site of the word before and its neighbour are joined
    room: Room


def scratch(layout: WordLayout) -> Scratch:
    """Room for sweeps in this layout, where each site may be a run of its own."""
    directions, words = layout.words.possible.shape
    runs = int(np.bitwise_count(layout.words.exists).sum())
    masks = -(-directions * words // (2 * CHUNK)) * 2 * CHUNK
    return Scratch(
        like=np.zeros(masks, dtype=np.uint64),
        bonds=np.zeros(masks, dtype=np.uint64),
        starts=np.empty(words, dtype=np.uint64),
        before=np.empty(words + 1, dtype=np.uint32),
        parent=np.empty(runs + 1, dtype=np.uint32),
        queue=np.empty((QUEUE + 64 * directions, 2), dtype=np.uint32),
        new=np.zeros(directions, dtype=np.uint64),
        carry=np.zeros(directions, dtype=np.uint64),
        room=room(runs, layout.planes),
    )


def threshold(beta: float) -> np.uint64:
    """1 - exp(-beta) in 64-bit fixed point; a probability that rounds to one becomes 1 - 2**-64."""
    return np.uint64(min(int(-expm1(-float(beta)) * 2.0**64), 2**64 - 1))


def swendsen_wang(
    layout: WordLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    statistics = np.empty(count, dtype=np.int64)
    k, s0, s1 = np.uint64(layout.labels), *stream
    _sweeps(layout.words, scratch(layout), state, k, threshold(beta), s0, s1, np.uint64(first), statistics)
    return statistics


@njit(cache=True)
def _sweeps(words, scratch, state, k, threshold, s0, s1, first, statistics):
    like_neighbours(state, words, masks(words, scratch.like))
    for t in range(statistics.size):
        k0, k1 = draw_words(first + uint64(t), uint64(0), s0, s1)
        recolour(words, scratch, state, k, threshold, k0, k1)
        statistics[t] = like_neighbours(state, words, masks(words, scratch.like))


@njit(inline="always")
def masks(words, flat):
    """(D, words) of masks that are one array where they are drawn, and a row for each direction here."""
    return flat[: words.possible.size].reshape(words.possible.shape)


@njit(cache=True)
def recolour(words, scratch, state, k, threshold, k0, k1):
    """Give every cluster of a state a new label, in place; the masks of like neighbours are used up."""
    bonds = masks(words, scratch.bonds)
    starts, before, parent = scratch.starts, scratch.before, scratch.parent
    draw_bonds(scratch.like, scratch.bonds, threshold, k0, k1)
    number_runs(words.exists, bonds[0], starts, before)
    join_runs(words, bonds, starts, before, parent, scratch.queue, scratch.new, scratch.carry)
    new_labels(state, words.exists, starts, before, parent, scratch.room, k, k0, k1)


@njit(cache=True)
def like_neighbours(state, words, like):
    """Fill the masks of neighbours with the same label; returns S(z), the number of them."""
    total = uint64(0)
    for i in range(words.pieces.shape[0]):
        d, begin, end, u = words.pieces[i]
        s, possible, masks = words.shift[d], words.possible[d, begin:end], like[d, begin:end]
        for j in range(masks.size):
            masks[j] = possible[j]
        for p in range(state.shape[0]):
            here, low, high = state[p, begin:end], state[p, u:], state[p, u - 1 :]
            for j in range(masks.size):
                masks[j] &= ~(here[j] ^ meet(low[j], high[j], s))
        for j in range(masks.size):
            total += popcount(masks[j])
    return total


@njit(inline="always")
def meet(low, high, s):
    """The 64 bits from bit 64 - s of the word `high` on, where the word `low` follows it; 0 <= s < 64."""
    return (low << s) | ((high >> ONE) >> (uint64(63) - s))


@njit(inline="always")
def aligned(words, u, s):
    """The bits that lie 64 q + s places before those of a word, where word u lies q words before it."""
    return meet(words[u], words[u - ONE], s)


@njit(cache=True)
def draw_bonds(like, bonds, threshold, k0, k1):
    """Keep each like pair as a bond with probability threshold / 2**64; the masks of like pairs are used up.

    A bond is kept when a uniform 64-bit number is below the threshold.  The numbers are compared from their
    highest bit downwards, for the bonds of a word together, and only where they still equal the threshold.
    """
    bonds[:] = uint64(0)
    for start in range(0, bonds.size, 2 * CHUNK):
        middle, stop = start + CHUNK, start + 2 * CHUNK
        undecided_low, undecided_high = like[start:middle], like[middle:stop]
        kept_low, kept_high = bonds[start:middle], bonds[middle:stop]
        for b in range(SLICED):
            bit = ALL if (threshold >> uint64(63 - b)) & ONE else uint64(0)
            for j in range(CHUNK):
                r0, r1 = threefry2x64(uint64(start + j), uint64(b), k0, k1)
                u, v = undecided_low[j], undecided_high[j]
                kept_low[j] |= u & ~r0 & bit
                kept_high[j] |= v & ~r1 & bit
                undecided_low[j] = u & ~(r0 ^ bit)
                undecided_high[j] = v & ~(r1 ^ bit)
    rest = threshold << uint64(SLICED)
    for w in range(bonds.size):
        undecided = like[w]
        while undecided:
            x = lowest(undecided)
            undecided &= undecided - ONE
            r0, _ = draw_words(uint64(w), SINGLE_BOND + x, k0, k1)
            bonds[w] |= uint64(r0 < rest) << x


@njit(cache=True)
def number_runs(exists, along, starts, before):
    """Mark the first site of every run and count the runs before every word, all of them in the end."""
    runs = uint64(0)
    for w in range(starts.size):
        starts[w] = exists[w] & ~along[w]
        before[w] = runs
        runs += popcount(starts[w])
    before[starts.size] = runs


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
def join_pairs(bonds, along, there, known, carry):
    """What the bonds of a word in one direction join, where `known` pairs of a site and its neighbour are.

    `along` are the word's bonds in the first direction, `there` those of the neighbours.  Where a site and
    its neighbour are both joined to those before them, the pair is joined if that before it is: a bond then
    joins the same two runs again.  Returns the bonds that do not, all pairs joined, and the pairs thereby
    joined in the direction that leads one place further back: over the neighbour, or over the site before.
    """
    both = along & there
    again = known | flood((((bonds | known) << ONE) | carry) & both, both)
    joined = bonds | again
    return bonds & ~again, joined, (joined & there) | (((joined << ONE) | carry) & along)


@njit(inline="always")
def new_pairs(words, bonds, w, new, carry):
    """Fill `new` with the bonds of a word that join new pairs of runs; returns the sites that have any."""
    along, known, some = bonds[0, w], uint64(0), uint64(0)
    for d in range(1, new.size):
        there = aligned(bonds[0], uint64(words.source[d, w]), words.shift[d])
        known = known if words.follows[d] else uint64(0)
        new[d], joined, known = join_pairs(bonds[d, w], along, there, known, carry[d])
        carry[d] = joined >> uint64(63)
        some |= new[d]
    return some


@njit(cache=True)
def join_runs(words, bonds, starts, before, parent, queue, new, carry):
    """Fill `parent` so that runs joined by bonds have the same root, the first run of the cluster.

    A parent comes before its children, parent[i] <= i.  The first bond of a run makes it a child of a tree
    that is there already, nearly always one step from the root.  Where a further bond leads to another tree,
    the two wait to be united.  A run is in no tree before its first bond: only sites after it lead to it.
    """
    for i in range(before[starts.size] + 1):
        parent[i] = i
    carry[:] = uint64(0)
    has_bond = waiting = uint64(0)
    for w in range(starts.size):
        here, runs_here = starts[w], before[w]
        some = new_pairs(words, bonds, w, new, carry)
        # Sites that come after a bond of their run.
        along = bonds[0, w]
        taken = flood(((some << ONE) | has_bond) & along, along)
        has_bond = (some | taken) >> uint64(63)
        for d in range(1, new.size):
            firsts, others = new[d] & ~taken, new[d] & taken
            taken |= new[d]
            u, s = uint64(words.source[d, w]), words.shift[d]
            there = aligned(starts, u, s)
            runs_there = uint32(before[u] - popcount((starts[u - ONE] >> ONE) >> (uint64(63) - s)))
            while firsts:
                below = firsts ^ (firsts - ONE)
                firsts &= ~below
                child, tree = run_at(below, here, runs_here), parent[run_at(below, there, runs_there)]
                parent[child] = parent[tree]
            while others:
                below = others ^ (others - ONE)
                others &= ~below
                a = parent[parent[run_at(below, there, runs_there)]]
                b = parent[run_at(below, here, runs_here)]
                queue[waiting, 0], queue[waiting, 1] = a, b
                waiting += uint64(a != b)
        if waiting >= QUEUE or w == starts.size - 1:
            for i in range(waiting):
                unite(parent, queue[i, 0], queue[i, 1])
            waiting = uint64(0)
