"""Mean, sd and 95 % interval of beta: one rule for the screen, the result, `inspect`, the report and Python.

Of chains the interval is between the sample quantiles of all draws; of weighted particles it is between the
smallest values whose weighted distribution function reaches its ends.  What a result file says of the
posterior to quote is never computed again (`result`).
"""

from dataclasses import dataclass

import numpy as np

from ..smc import weights

INTERVAL = (0.025, 0.5, 0.975)


@dataclass(frozen=True)
class Summary:
    """Mean, sd, 95 % interval and median of beta, the draws it is worth, and R-hat (nan for particles)."""

    mean: float
    sd: float
    low: float
    median: float
    high: float
    ess: float
    rhat: float

    def __str__(self) -> str:
        # The ESS of an SMC iteration counts the copies that resampling made; this one does not.
        note = "copies counted once" if np.isnan(self.rhat) else f"R-hat {self.rhat:.3f}"
        return (
            f"{self.mean:.5f} sd {self.sd:.5f}, 95 % {self.low:.5f} to {self.high:.5f} "
            f"(ESS {self.ess:.0f}, {note})"
        )


def of_particles(beta: np.ndarray, weight: np.ndarray) -> Summary:
    """The summary of a weighted sample (n,), with weights of sum 1."""
    low, median, high = weights.quantiles(beta, weight, np.array(INTERVAL)).tolist()
    return Summary(*weights.moments(beta, weight), low, median, high, distinct_ess(beta, weight), np.nan)


def of_chains(beta: np.ndarray, rhat: float, ess: float) -> Summary:
    """The summary of draws (chains, n), of which all count the same."""
    low, median, high = np.quantile(beta, INTERVAL).tolist()
    return Summary(float(beta.mean()), float(beta.std()), low, median, high, ess, rhat)


def distinct_ess(beta: np.ndarray, weight: np.ndarray) -> float:
    """ESS of the distinct particles: copies made by resampling are worth no more than one."""
    _, copy = np.unique(beta, return_inverse=True)
    return weights.ess(np.bincount(copy, weights=weight))
