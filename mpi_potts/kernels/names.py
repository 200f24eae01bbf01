"""The names of labels whose priors are the same: nothing but what they hold tells them apart.

A chain keeps its own names.  Where its labels exchange their parts all the same, one growing into what
another held, the names follow the pixels (by allocation, as in the equivalence classes representatives of
Papastamoulis and Iliopoulos 2010): every `PERIOD` steps the labels of some pixels are compared with how often
these had each label before, and where another naming agrees with it better, the labels are renamed from there
on.  The target does not depend on names, so that a chain that is renamed is a chain of the same target.

`assign` finds the best naming exactly, by the Hungarian method in integers; where several are the best, no
label moves that need not.
"""

from typing import NamedTuple

import numpy as np
from numba import int64, njit

from ..lattice import MASKED

# Steps from one comparison to the next: a comparison of all pixels of a small image takes about a sweep.
PERIOD = 64


class Names(NamedTuple):
    """How the labels of a chain are named."""

    in_order: bool  # after every step anew, by their first parameter
    places: np.ndarray  # (S,) int32 the places in the state of pixels by which names are kept, or none
    before: np.ndarray  # (S, k) uint32 how often each had every label, one step in PERIOD
    switches: np.ndarray  # (1,) int64 how often labels were renamed


@njit(cache=True)
def identity():
    """The table that renames no label."""
    table = np.empty(MASKED + 1, np.uint8)
    for label in range(table.size):
        table[label] = label
    return table


@njit(cache=True)
def relabel(z, table):
    """Rename the labels of a flat array by a table of 256 bytes."""
    for i in range(z.size):
        z[i] = table[z[i]]


@njit(cache=True)
def rename(z, values, table):
    """Rename labels z and the columns of their parameters (P, k); table[old label] = new label."""
    relabel(z, table)
    for p in range(values.shape[0]):
        old = values[p].copy()
        for j in range(old.size):
            values[p, table[j]] = old[j]


@njit(cache=True)
def order(first, table):
    """table[label] = its place in ascending `first` (k,); whether any is not its own."""
    moved = False
    for j in range(first.size):
        place = 0
        for i in range(first.size):
            place += first[i] < first[j] or (first[i] == first[j] and i < j)
        table[j] = place
        moved = moved or place != j
    return moved


@njit(cache=True)
def own_names_are_best(gain):
    """Whether no label agrees more with another's name, or another with its: then no naming is better."""
    for a in range(len(gain)):
        for b in range(len(gain)):
            if gain[a, b] > gain[a, a] or gain[b, a] > gain[a, a]:
                return False
    return True


@njit(cache=True)
def assign(gain, table):
    """table[a] = the name b of label a, one to one, with the largest sum of gain[a, b] (k, k) int64.

    Whether any label moves.  Gains up to 2**53 / k.
    """
    k = len(gain)
    if own_names_are_best(gain):
        table[:k] = np.arange(k)
        return False
    # Costs from 0 on; among the best namings the one that keeps most names.
    top, factor = gain.max(), k + 1
    row_price, column_price = np.zeros(k + 1, np.int64), np.zeros(k + 1, np.int64)
    owner, way = np.zeros(k + 1, np.int64), np.zeros(k + 1, np.int64)  # of columns; 0 is none
    for row in range(1, k + 1):
        owner[0] = row
        column = 0
        slack, used = np.full(k + 1, np.iinfo(np.int64).max), np.zeros(k + 1, np.bool_)
        while True:
            used[column] = True
            at, step, following = owner[column], np.iinfo(np.int64).max, 0
            for b in range(1, k + 1):
                if used[b]:
                    continue
                cost = (top - gain[at - 1, b - 1]) * factor + (at != b)
                reduced = int64(cost - row_price[at] - column_price[b])
                if reduced < slack[b]:
                    slack[b], way[b] = reduced, column
                if slack[b] < step:
                    step, following = slack[b], b
            for b in range(k + 1):
                if used[b]:
                    row_price[owner[b]] += step
                    column_price[b] -= step
                else:
                    slack[b] -= step
            column = following
            if owner[column] == 0:
                break
        while column != 0:
            owner[column] = owner[way[column]]
            column = way[column]
    moved = False
    for b in range(1, k + 1):
        table[owner[b] - 1] = b - 1
        moved = moved or owner[b] != b
    return moved


@njit(cache=True)
def agreement(one, other, most):
    """(k, k) int64: sum over rows i of one[i, a] other[i, b], every row of counts scaled to sum `most`."""
    k = one.shape[1]
    gain = np.zeros((k, k), np.int64)
    held, part = np.empty(k, np.int64), np.empty(k, np.int64)
    for i in range(len(one)):
        total, whole, n = int64(0), int64(0), 0
        for b in range(k):
            whole += int64(other[i, b])
            total += int64(one[i, b])
        if whole == 0 or total == 0:
            continue
        # Most pixels have few labels.
        for b in range(k):
            if other[i, b] > 0:
                held[n], part[n] = b, int64(other[i, b]) * most // whole
                n += 1
        for a in range(k):
            if one[i, a] > 0:
                scaled = int64(one[i, a]) * most // total
                for m in range(n):
                    gain[a, held[m]] += scaled * part[m]
    return gain


@njit(cache=True)
def compare(z, names):
    """(k, k) int64: how often pixels that have label a now had label b before."""
    k = names.before.shape[1]
    gain = np.zeros((k, k), np.int64)
    for i in range(names.places.size):
        a = z[names.places[i]]
        for b in range(k):
            gain[a, b] += names.before[i, b]
    return gain


@njit(cache=True)
def keep_names(z, values, names, number, table):
    """After step `number`: put the labels in order where that is asked, or keep their names, in place.

    z : the state.  values : (P, k) parameters of the noise.  table : 256 bytes to work in.
    """
    if names.in_order:
        if order(values[0], table):
            rename(z, values, table)
    elif names.places.size > 0 and (number + 1) % PERIOD == 0:
        names.switches[0] += match(z, values, names, table)


@njit(cache=True)
def match(z, values, names, table):
    """Name the labels as they were before, in place, and remember them; whether any was renamed."""
    moved = assign(compare(z, names), table)
    if moved:
        rename(z, values, table)
    for i in range(names.places.size):
        names.before[i, z[names.places[i]]] += 1
    return moved
