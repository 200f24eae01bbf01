"""What estimates say of themselves: the flags of a chain, and R-hat in words.

Nothing is computed here, so that who reads a file needs no more than this to say what its numbers mean.
"""

import math

# Bits of the flag that a chain of S(z) carries in a binding function: two starts disagree, or the chain is
# short against its autocorrelation time.
FLAG_DISAGREE = 1
FLAG_SHORT = 2

# Chains disagree above this R-hat (Vehtari and others 2021 recommend 1.01 for publication; at the few hundred
# effective draws of a short final phase chance alone passes that, so the flag is raised at the older 1.05).
LARGEST_RHAT = 1.05


def settled(rhat: float, chains: int) -> str:
    """What an R-hat means, in words, where it was taken of so many chains."""
    if math.isnan(rhat):
        return "too few draws to tell"
    if rhat <= LARGEST_RHAT:
        return "converged"
    return "chains disagree" if chains > 1 else "has not settled"
