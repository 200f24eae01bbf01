"""When chains have been swept enough: a target for their draws, and what they have reached of it.

The target is met where, of every quantity, R-hat over the halves of all chains is small enough and the draws
are worth enough both in bulk and in tail, and where the pixels' probabilities are known well enough.  How
many more draws are needed follows from what n draws have reached: effective draws grow with n, R-hat**2 - 1
falls with 1 / n, and so does the square of a standard error.

Chains that have not forgotten their start are told by their own draws: where the first quarter of a chain
lies more than DRIFT standard errors from its second half, or its second half is worth fewer than FEW draws,
what there is so far is burn-in.  And chains of which each has settled, but elsewhere than the others, are
apart: more draws of them change nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from . import autocorrelation
from .diagnostics import FEWEST, of_draws, split_rhat
from .verdicts import LARGEST_RHAT

# In 84 comparisons (six looks at fourteen quantities) of settled chains one in 190 is beyond this.
DRIFT = 4.0
FEW = 5.0
MAP = "the label map"
# While the error of the map is not known: at least as many draws again.
UNKNOWN = 2.0


@dataclass(frozen=True)
class Target:
    """The largest R-hat, the least effective draws, and the largest mean standard error of a pixel's
    probability."""

    rhat: float
    ess: float
    map_error: float


@dataclass(frozen=True)
class Reached:
    """What n draws of every chain have reached, and how far that is from the target.

    target : what was asked for
    worst : the quantity that is farthest from it; factor : how many times as many draws it needs, about
    rhat, ess, map_error : the largest, the least, and the mean standard error of a pixel's probability
    apart : chains disagree of which each for itself has settled
    """

    target: Target
    draws: int
    rhat: float
    ess: float
    map_error: float
    worst: str
    factor: float
    apart: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.factor <= 1.0

    @property
    def more(self) -> float:
        """Draws of every chain that are missing, about."""
        return self.draws * max(0.0, self.factor - 1.0)

    @property
    def words(self) -> str:
        """What is reached beside what is asked for."""
        target = self.target
        map_error = "not known" if math.isnan(self.map_error) else f"{self.map_error:.2g}"
        return (
            f"ESS {self.ess:.0f} of {target.ess:g}, R-hat {self.rhat:.3f} of {target.rhat:g}, map error "
            f"{map_error} of {target.map_error:g}; {self.worst} is farthest"
        )


def reached(series: Mapping[str, np.ndarray], map_error: float, target: Target) -> Reached:
    """What draws (chains, n) of every quantity have reached; map_error : nan while it is not known."""
    found = {name: of_draws(draws) for name, draws in series.items()}
    factors = {name: _factor(numbers, target) for name, numbers in found.items()}
    known = not math.isnan(map_error)
    factors[MAP] = _times(map_error * map_error, target.map_error * target.map_error) if known else UNKNOWN
    worst = max(factors, key=lambda name: factors[name])
    rhat, bulk, tail = (np.array(column) for column in zip(*found.values()))
    draws = next(iter(series.values())).shape[1]
    largest, least = float(rhat.max()), float(min(bulk.min(), tail.min()))
    return Reached(target, draws, largest, least, map_error, worst, factors[worst])


def _factor(numbers, target):
    rhat, bulk, tail = numbers
    return max(
        _times(rhat * rhat - 1.0, target.rhat * target.rhat - 1.0), _times(target.ess, min(bulk, tail))
    )


def _times(asked: float, found: float) -> float:
    """How many times the draws bring one number to the other; infinite where one of them is not known."""
    if math.isnan(asked) or math.isnan(found) or math.isinf(asked):
        return math.inf
    return asked / found if found > 0.0 else math.inf


def apart(series: Mapping[str, np.ndarray], target: Target) -> bool:
    """Whether chains disagree, every one of which meets its part of the target by itself."""
    chains = len(next(iter(series.values())))
    part = Target(target.rhat, target.ess / chains, target.map_error)
    disagree = chains > 1 and any(split_rhat(draws) > LARGEST_RHAT for draws in series.values())
    return disagree and all(
        _factor(of_draws(draws[c : c + 1]), part) <= 1.0 for draws in series.values() for c in range(chains)
    )


def drifts(series: Mapping[str, np.ndarray]) -> bool:
    """Whether draws (chains, n) of some quantity have not forgotten their start."""
    return any(_drifts(row) for draws in series.values() for row in np.asarray(draws, dtype=np.float64))


def _drifts(row):
    first, last = row[: row.size // 4], row[row.size // 2 :]
    if first.size < FEWEST:
        return True
    step, variance = float(first.mean() - last.mean()), float(last.var())
    if variance == 0.0:
        return step != 0.0
    tau = autocorrelation.integrated_time(last)
    error = variance * tau * (1.0 / first.size + 1.0 / last.size)
    return last.size < FEW * tau or step * step > DRIFT * DRIFT * error
