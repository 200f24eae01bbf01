"""From which sweep on a chain of S(z) has forgotten its start.

A chain that starts far from its distribution moves towards the mean of its later half.  It is taken to have
arrived where it first crosses that mean, and to have forgotten its start `FORGOTTEN` autocorrelation times
after: what is left of a deviation of one sd is then below a hundredth of it.  Where that is not within the
first half of the chain, the chain is too short to tell.

The rule is a function of the statistic alone, so that whoever holds a chain, of any length, cuts it in the
same place."""

import math

import numpy as np

from . import autocorrelation

# Autocorrelation times 1 + 2 sum rho: twice the time in which a deviation falls by a factor e.
FORGOTTEN = 3.0
# Fewer sweeps than this tell nothing.
FEWEST = 16


def settled_from(statistic: np.ndarray) -> tuple[int, bool]:
    """The first sweep to count of a chain (n,), at most n // 2, and whether the chain had settled there."""
    n = statistic.size
    half = n // 2
    if n < FEWEST:
        return half, False
    late = statistic[half:]
    mean = float(late.mean())
    side = np.sign(statistic[:half] - mean)
    crossed = np.flatnonzero(side != side[0])
    if side[0] == 0.0:
        arrived = 0
    elif crossed.size:
        arrived = int(crossed[0])
    else:
        return half, False
    first = arrived + math.ceil(FORGOTTEN * autocorrelation.integrated_time(late))
    return (first, True) if first <= half else (half, False)
