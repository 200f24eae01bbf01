"""Importance weights of the particles: update, effective sample size, tolerance, resampling, summary.

All arrays are whole, in global particle order, and only sums, products and quotients decide anything, so
that every rank that calls these functions comes to the same bits.

**Incremental weight** (paper, equation 1).  With c_i(S, eps) the number of particle i's pseudo-statistics
closer than eps to S,

    w_i,t  is proportional to  w_i,t-1  c_i(S_t, eps_t) / c_i(S_t-1, eps_t-1).

S(z) moves.  The denominator is the count under which the particle was last accepted, with the statistic and
the tolerance of that time, so it is never zero for a particle that has weight.  As printed in the paper it is
c_i(S_t, eps_t-1), which can be zero, and the ratio 0/0: that is taken as 0, the particle is lost.

Infinitely many replicates have an expected count, never zero but often tiny, so it is kept as a logarithm: a
`CountScale` says which of the two a count is.

**Tolerance** (equation 3).  eps_t solves ESS(eps) = alpha ESS_t-1, the first solution on the way down from
eps_t-1, not passed: ESS(eps_t) >= alpha ESS_t-1.  ESS(eps) is a step function that changes only where eps
passes one of the N M distances.  A bracket is narrowed by a few trial tolerances at a time until few
distances are left in it; these are sorted, and ESS is updated from one to the next: the root is found
exactly, as a bisection would after enough halvings.  With infinitely many replicates ESS(eps) is continuous,
and a regula falsi comes as close to the target as one likes.

Where S(z) has moved so far that eps_t-1 itself misses the target, the tolerance is held, and resampling and
mutation bring the particles after S(z).  It rises only where ESS(eps_t-1) is below a small part of N, to the
smallest value that gives it.  Rising at once to alpha ESS_t-1 instead was tried: on images with overlapping
labels a wide population makes S(z) move, and each move widened the population again, for ever.
"""

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Protocol

import numpy as np

# The first trial tolerances as parts of eps_t-1: an iteration usually keeps 0.9 to 0.97 of it.  Where there
# are few distances, or ESS is continuous, fewer will do.
FRACTIONS = np.array([0.5, 0.8, 0.9, 0.94, 0.97, 1.0])
FEW_FRACTIONS, ONE_FRACTION = np.array([0.8, 1.0]), np.ones(1)
# Trial tolerances at once when the bracket is narrowed further.
TRIALS = 7
# Narrow until at most this many distances are left: sorting them then costs less than another round.
FEW_PAIRS = 4096
# A uniform may round to 1 on its way here.
BELOW_ONE = 1.0 - 2.0**-53
TINY = np.finfo(np.float64).tiny
# Solved when ESS is this close to its target, relatively.
CLOSE = 0.01
# Of a continuous ESS: how close the regula falsi comes, and the steps after which it is content with less.
EXACT, MOST_STEPS = 1e-9, 60


class Reason(IntEnum):
    """Why a tolerance is what it is: the numbers are in the trace of a result."""

    SOLVED = 0  # ESS is within CLOSE of its target
    STEP = 1  # ESS jumps over the target: too few particles and replicates for smaller steps
    FLOOR = 2  # the smallest tolerance allowed still reaches the target
    RISEN = 3  # S(z) moved so far that the tolerance had to rise to leave enough particles
    BEST = 4  # S(z) moved so far that no tolerance leaves enough: the one with the largest ESS
    HELD = 5  # S(z) moved, and the tolerance of before misses the target: kept
    LOST = 6  # S(z) moved beyond every pseudo-statistic, and the tolerance may not rise: the end


class CountScale:
    """What a count is: a number, or the logarithm of one."""

    def per_count(self, weight: np.ndarray, count: np.ndarray) -> np.ndarray:
        """w_i / c_i: times a new count it is the new weight.  No weight, or 0/0, leaves none."""
        raise NotImplementedError

    def times(self, value: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Weights of any sum, from what `per_count` gave and new counts."""
        raise NotImplementedError


class Counted(CountScale):
    """Counts are numbers."""

    def per_count(self, weight: np.ndarray, count: np.ndarray) -> np.ndarray:
        """As `CountScale.per_count`."""
        return np.divide(weight, count, out=np.zeros(weight.size), where=(weight > 0.0) & (count > 0))

    def times(self, value: np.ndarray, count: np.ndarray) -> np.ndarray:
        """As `CountScale.times`."""
        return value * count


class Windows(Protocol):
    """The counts of all particles in windows around S, wherever they are; rows are in global particle order.

    Particles without weight count as having none.
    """

    scale: CountScale
    fractions: np.ndarray  # the first trial tolerances, as ascending parts of eps_t-1 up to 1

    def counts(self, tolerances: np.ndarray) -> np.ndarray:
        """(N, K): the count of each particle within each of K ascending tolerances."""

    def farthest(self) -> float:
        """A tolerance within which every particle has all there is."""

    def refine(self, value: np.ndarray, target: float, bracket: "Bracket", held: int) -> "Tolerance":
        """The solution inside a bracket: `refine` or `interpolate`, whichever these windows are for."""


class Distances(Windows, Protocol):
    """The N M distances |x_im - S|: counts are of those below a tolerance."""

    size: int  # N M

    def narrow(self, bracket: "Bracket") -> None:
        """From now on only tolerances inside the bracket are asked for."""

    def pairs(self, bracket: "Bracket") -> tuple[np.ndarray, np.ndarray]:
        """The distances in [lower, upper) and their particles, sorted by distance, then particle."""


@dataclass(frozen=True)
class Bracket:
    """Two tolerances (2,), the lower misses the target and the upper reaches it, and their counts (N, 2)."""

    ends: np.ndarray
    counts: np.ndarray
    rising: bool

    @cached_property
    def inside(self) -> np.ndarray:
        """(N,) how many distances of each particle lie between."""
        return self.counts[:, 1] - self.counts[:, 0]

    @cached_property
    def pairs(self) -> int:
        """How many distances of all particles lie between."""
        return int(self.inside.sum())


@dataclass(frozen=True)
class Tolerance:
    """eps_t, the counts c_i(S_t, eps_t) (N,), the ESS they give, its target, and why."""

    epsilon: float
    count: np.ndarray
    ess: float
    target: float
    reason: Reason


def normalise(weight: np.ndarray) -> np.ndarray:
    """The weights divided by their sum; a population without weight is an error, never NaN."""
    total = weight.sum()
    if not (total > 0.0 and np.isfinite(total)):
        raise RuntimeError(
            f"the weights of all {weight.size} particles sum to {total}: no particle can go on"
        )
    return weight / total


def ess(weight: np.ndarray) -> float:
    """Effective sample size (sum w)^2 / sum w^2 (paper, equation 2), weights of any sum; 0 if all are 0."""
    largest = weight.max()
    if not largest > 0.0:
        return 0.0
    scaled = weight / largest
    total = scaled.sum()
    return float(total * total / (scaled * scaled).sum())


def solve(
    windows: Windows, value: np.ndarray, target: float, previous: float, floor: float, least: float
) -> Tolerance:
    """The next tolerance: the first solution of ESS(value * counts) = target below eps_t-1, down to `floor`.

    value : (N,) from `CountScale.per_count`.  previous : eps_t-1, infinite at the first iteration.
    least : where eps_t-1 misses the target it is held if its ESS is at least this, else it rises until it is.
    """
    least = min(least, target)
    top = max(within(windows, previous), floor)
    trials = top * windows.fractions
    trials = np.append(floor, trials[trials > floor])
    counts = windows.counts(trials)
    reached = _ess_columns(windows, value, counts)
    if reached[-1] < least:
        return replace(_rise(windows, value, least, trials[-1]), target=target)
    if reached[-1] < target:
        return Tolerance(float(trials[-1]), counts[:, -1], reached[-1], target, Reason.HELD)
    if (reached >= target).all():
        return Tolerance(float(floor), counts[:, 0], reached[0], target, Reason.FLOOR)
    k = _nearest(reached >= target, rising=False)
    bracket = Bracket(trials[k - 1 : k + 1], counts[:, k - 1 : k + 1], rising=False)
    return windows.refine(value, target, bracket, held=counts[:, -1].sum())


def within(windows: Windows, previous: float) -> float:
    """eps_t-1, or at the first iteration, where it is infinite, a tolerance that is as good."""
    return windows.farthest() if np.isinf(previous) else previous


def _ess_columns(windows: Windows, value: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.array([ess(windows.scale.times(value, column)) for column in counts.T])


def _nearest(reached: np.ndarray, rising: bool) -> int:
    """Of ascending tolerances, the first that reaches on the way up, or the last before a miss going down."""
    if rising:
        return int(np.argmax(reached))
    missed = np.flatnonzero(~reached)
    return int(missed[-1]) + 1 if missed.size else 0


def _rise(windows: Windows, value: np.ndarray, target: float, low: float) -> Tolerance:
    """The first tolerance above `low` that reaches this target, or the best of those tried if none does."""
    _, doublings = math.frexp(max(windows.farthest() / low, 1.0))
    trials = np.ldexp(low, np.arange(doublings + 1))
    counts = windows.counts(trials)
    reached = _ess_columns(windows, value, counts)
    if reached.max() < target:
        k = int(np.argmax(reached))
        return Tolerance(float(trials[k]), counts[:, k], reached[k], target, Reason.BEST)
    k = _nearest(reached >= target, rising=True)
    bracket = Bracket(trials[k - 1 : k + 1], counts[:, k - 1 : k + 1], rising=True)
    return replace(windows.refine(value, target, bracket, held=-1), reason=Reason.RISEN)


def interpolate(windows: Windows, value: np.ndarray, target: float, bracket: Bracket) -> Tolerance:
    """Inside a bracket, where ESS(eps) is continuous, by regula falsi (Illinois).

    Only sums, products and quotients of what all particles gave decide, so that any number of ranks comes to
    the same bits.
    """
    (low, high), (missed, reached) = bracket.ends, _ess_columns(windows, value, bracket.counts) - target
    found, count, excess, side = float(high), bracket.counts[:, 1], reached, 0
    for _ in range(MOST_STEPS):
        if 0.0 <= excess <= EXACT * target:
            break
        middle = (low * reached - high * missed) / (reached - missed)
        if not low < middle < high:
            break
        column = windows.counts(np.array([middle]))
        (at,) = _ess_columns(windows, value, column) - target
        if at >= 0.0:
            high, reached, missed = middle, at, missed * (0.5 if side > 0 else 1.0)
            found, count, excess, side = float(middle), column[:, 0], at, 1
        else:
            low, missed, reached = middle, at, reached * (0.5 if side < 0 else 1.0)
            side = -1
    exact = float(excess + target)
    reason = Reason.SOLVED if excess <= CLOSE * target else Reason.STEP
    return Tolerance(found, count, exact, target, reason)


def refine(distances: Distances, value: np.ndarray, target: float, bracket: Bracket, held: int) -> Tolerance:
    """Narrow the bracket, then walk through its distances.  held : the number of distances below eps_t-1."""
    while bracket.pairs > FEW_PAIRS:
        # A list of the distances in the bracket pays once it is much shorter than the distances.
        if bracket.pairs <= distances.size // 8:
            distances.narrow(bracket)
        inner = np.unique(np.linspace(bracket.ends[0], bracket.ends[1], TRIALS + 2))[1:-1]
        if inner.size == 0:  # nothing between two neighbouring floats: equal distances
            break
        counts = distances.counts(inner)
        k = _nearest(np.append(_ess_columns(distances, value, counts) >= target, True), bracket.rising)
        trials = np.concatenate([bracket.ends[:1], inner, bracket.ends[1:]])
        counts = np.concatenate([bracket.counts[:, :1], counts, bracket.counts[:, 1:]], axis=1)
        bracket = Bracket(trials[k : k + 2], counts[:, k : k + 2], bracket.rising)
    return _walk(value, target, bracket, *distances.pairs(bracket), held)


def _walk(
    value: np.ndarray, target: float, bracket: Bracket, distance: np.ndarray, particle: np.ndarray, held: int
) -> Tolerance:
    """The tolerance just above that one of the bracket's sorted distances which solves for the target."""
    below = bracket.counts[:, 0]
    # Equal distances are passed together.
    last = np.flatnonzero(np.append(distance[1:] > distance[:-1], True))
    reached = _ess_along(value, below, particle)[last] >= target
    reached[-1] = True
    j = last[_nearest(reached, bracket.rising)]
    epsilon = float(np.nextafter(distance[j], np.inf))
    count = below + np.bincount(particle[: j + 1], minlength=value.size)
    if count.sum() == held:
        # All that was counted is needed: staying would leave the tolerance where it is for ever, so one step
        # is taken if it leaves anything.
        fewer = below + np.bincount(particle[distance < distance[j]], minlength=value.size)
        if fewer.any():
            epsilon, count = float(distance[j]), fewer
    exact = ess(value * count)
    reason = Reason.SOLVED if abs(exact - target) <= CLOSE * target else Reason.STEP
    return Tolerance(epsilon, count, exact, target, reason)


def _ess_along(value: np.ndarray, below: np.ndarray, particle: np.ndarray) -> np.ndarray:
    """(p,) ESS after each of p pairs is added to the counts `below`.

    A count of c with v = value has weight v c: the next pair of its particle adds v to the sum of weights and
    v^2 (2 c + 1) to the sum of their squares.
    """
    v = value[particle] / value.max()
    weight = value * below / value.max()
    count = below[particle] + _occurrence(particle)
    total = weight.sum() + np.cumsum(v)
    square = (weight * weight).sum() + np.cumsum(v * v * (2 * count + 1))
    return total * total / np.maximum(square, TINY)


def _occurrence(particle: np.ndarray) -> np.ndarray:
    """How often each entry's value has occurred before it."""
    order = np.argsort(particle, kind="stable")
    ordered = particle[order]
    position = np.arange(particle.size)
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: particle.size]
    occurrence = np.empty(particle.size, dtype=np.int64)
    occurrence[order] = position - np.maximum.accumulate(np.where(first, position, 0))
    return occurrence


def choose(weight: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Indices with P(index = i) = weight[i], by inversion: never one without weight, never past the end."""
    total = np.cumsum(weight)
    return np.searchsorted(total / total[-1], np.minimum(uniform, BELOW_ONE), side="right")


def residual(weight: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """floor(N w_i) copies of each particle; the rest by chance from what the floors leave over."""
    n = weight.size
    # N * (1 / N) may be one bit below 1: equal weights must keep every particle.
    copies = np.floor(n * weight + 1e-12).astype(np.int64)
    kept = np.repeat(np.arange(n), copies)
    left = n - kept.size
    if left == 0:
        return kept
    return np.concatenate([kept, choose(np.maximum(n * weight - copies, 0.0), uniform[:left])])


def systematic(weight: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One uniform for all (Kitagawa 1996): a comb of N equal teeth, shifted at random."""
    return choose(weight, (np.arange(weight.size) + uniform[0]) / weight.size)


RESAMPLING = {"residual": residual, "systematic": systematic, "multinomial": choose}


def ancestors(weight: np.ndarray, uniform: np.ndarray, scheme: str) -> np.ndarray:
    """(N,) the particle that each slot takes over.  weight : (N,) of sum 1.  uniform : (N,) on (0, 1).

    A particle that survives stays in its slot, and its further copies fill the slots of those that do not:
    as few rows as possible move.
    """
    n = weight.size
    copies = np.bincount(RESAMPLING[scheme](weight, uniform), minlength=n)
    slots = np.arange(n)
    slots[copies == 0] = np.repeat(np.arange(n), np.maximum(copies - 1, 0))
    return slots


def moments(value: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean and standard deviation; weights of sum 1."""
    mean = (weight * value).sum()
    deviation = value - mean
    return float(mean), float(np.sqrt((weight * deviation * deviation).sum()))


def quantiles(value: np.ndarray, weight: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The smallest values whose weighted distribution function reaches each probability."""
    order = np.argsort(value, kind="stable")
    total = np.cumsum(weight[order])
    place = np.searchsorted(total / total[-1], probabilities, side="left")
    return value[order][np.minimum(place, value.size - 1)]
