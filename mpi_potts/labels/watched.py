"""A few pixels whose labels are watched in batches, to know how well label probabilities are known.

How often a chain's pixels had every label is counted for the maps; here the counts of some pixels are read at
the ends of batches of steps, and the scatter of the batches gives the standard errors of the probabilities:
nothing is added to a sweep, and little to memory.  There are EVEN to 2 EVEN - 1 batches, once there are as
many steps as that: where there would be more, two become one.
"""

import numpy as np

# Pixels that are watched, at most; the steps of the first batches, and the least number of batches.
PIXELS = 2048
SHORTEST = 16
EVEN = 8
GOLDEN = 0.6180339887498949


def pixels(sites: int) -> np.ndarray:
    """(p,) which of the pixels that exist are watched: evenly spread, and in step with no row or column."""
    if sites <= PIXELS:
        return np.arange(sites)
    turn = np.arange(PIXELS) * GOLDEN
    return np.unique(((turn - np.floor(turn)) * sites).astype(np.int64))


def stride(steps: int) -> int:
    """The steps of a batch where so many have been counted."""
    length = SHORTEST
    while steps >= 2 * EVEN * length:
        length *= 2
    return length


def merged(batches: np.ndarray, steps: int) -> np.ndarray:
    """Counts (chains, n, k, p) at the ends of batches, as they are to be after so many steps."""
    whole = steps // stride(steps)
    return batches if batches.shape[1] <= whole else batches[:, 1::2]


def fractions(batches: np.ndarray, steps: int) -> np.ndarray:
    """(chains, n, k, p) the part of the steps of every batch in which a pixel had a label."""
    before = np.concatenate([np.zeros_like(batches[:, :1]), batches[:, :-1]], axis=1)
    return (batches - before) / float(stride(steps))


def mean_error(parts: np.ndarray) -> float:
    """The mean over pixels of the standard error of the probability of the most probable label.

    parts : (chains, n, k, p) of `fractions`, labels of all chains under the same names
    """
    chains, batches, _, p = parts.shape
    n = chains * batches
    if n < EVEN:
        return np.nan
    most = parts.mean(axis=(0, 1)).argmax(axis=0)
    of_most = parts.reshape(n, -1, p)[:, most, np.arange(p)]
    return float(np.sqrt(of_most.var(axis=0, ddof=1) / n).mean())
