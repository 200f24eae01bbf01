"""What estimates say of themselves: the flags of a chain, R-hat in words, and whether a fit has converged.

Nothing is computed here, so that who reads a file needs no more than this to say what its numbers mean.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

# Bits of the flag that a row of a binding function carries: two starts disagree, the chain is short against
# its autocorrelation time, or it was not simulated on this lattice but composed of others.
FLAG_DISAGREE = 1
FLAG_SHORT = 2
FLAG_COMPOSED = 4

# What is asked for (Vehtari and others 2021), and above which there is a warning.  Halves of n effective
# draws each that sample one distribution have R-hat near 1 + 1 / (2 n): with a few hundred draws in all
# chance alone passes 1.01, while 1.05 is a difference of a third of an sd between halves, which a reader
# would see.
ASKED_RHAT = 1.01
LARGEST_RHAT = 1.05


class Ended(StrEnum):
    """Why a phase of label chains that has a target ended."""

    MET = "fit.target is met"
    LIMIT = "fit.max_sweeps reached"
    APART = "chains have settled apart"


def settled(rhat: float, chains: int) -> str:
    """What an R-hat means, in words, where it was taken of so many chains."""
    if math.isnan(rhat):
        return "too few draws to tell"
    if rhat <= LARGEST_RHAT:
        return "converged" if rhat <= ASKED_RHAT else "nearly converged"
    return "chains disagree" if chains > 1 else "has not settled"


CONVERGED = "Converged: all diagnostics are in order."


def verdict(warnings: Sequence[str], rhats: Iterable[float]) -> str:
    """What may be said of a whole fit, in the one place that decides it; "" where warnings say it.

    Whatever a check looks at, what it does not pass is a warning of the fit; `posterior.outcome` has all.

    rhats : of everything that has one
    """
    if warnings:
        return ""
    found = list(rhats)
    return CONVERGED if found and all(rhat <= LARGEST_RHAT for rhat in found) else "No warnings."
