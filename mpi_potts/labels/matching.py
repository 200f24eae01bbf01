"""Names for the labels of all chains together, once they are done.

Where the priors are the same for all labels, every chain has names of its own.  Those of the others are
matched to the first's by the pixels they agree on: with p(a) and q(b) the parts of the draws in which a pixel
had label a in one chain and b in the other, the naming is the one of the largest sum of p(a) q(b) over
pixels, in integers.  Then all are named in the order of the posterior means of their first parameter, mu.
"""

import numpy as np

from ..kernels import names

# The pixels that are compared have about so many counts in all, and parts of the draws are of so many.
ENTRIES = 2**22
PARTS = 2**15


def stride(sites: int, labels: int) -> int:
    """Every how many pixels are compared; odd, so that they are of both colours."""
    return sites * labels // ENTRIES | 1


def matched(counts: list[np.ndarray]) -> np.ndarray:
    """(C, k) the names table[c, label] of the labels of every chain, in those of the first.

    counts : of each chain (m, k), how often every one of some pixels had every label
    """
    k = counts[0].shape[1]
    table = np.tile(np.arange(k, dtype=np.uint8), (len(counts), 1))
    total = counts[0].astype(np.int64)
    for own, each in zip(table[1:], counts[1:]):
        names.assign(names.agreement(each, total, PARTS), own)
        total[:, own] += each
    return table


def overlap(counts: np.ndarray) -> np.ndarray:
    """(k, k) the sum over pixels of p(a) p(b), p the parts of the draws; counts (m, k) as above."""
    return names.agreement(counts, counts, PARTS) / float(PARTS * PARTS)


def renamed(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Arrays (C, ..., k), a row for each chain, with label j of chain c at place table[c, j]."""
    new = np.empty_like(values)
    for c, own in enumerate(table):
        new[c][..., own] = values[c]
    return new


def ascending(first: np.ndarray) -> np.ndarray:
    """(k,) the place of every label in the order of the means of its draws (C, n, k)."""
    place = np.empty(first.shape[2], dtype=np.uint8)
    place[np.argsort(first.mean(axis=(0, 1)), kind="stable")] = np.arange(place.size)
    return place
