"""Moments of S(z) from chains of correlated draws, with their standard errors.

For a stationary chain x_1..x_n with autocorrelations rho_j, the integrated autocorrelation time is

    tau = 1 + 2 sum_{j >= 1} rho_j,

and n draws are worth n / tau independent ones: Var(mean) = sigma^2 tau / n.  The sum is cut by Geyer's
initial monotone sequence (Geyer 1992, "Practical Markov chain Monte Carlo"): the sums of adjacent pairs of
autocovariances of a reversible chain are positive and decreasing, so the first pair that is not positive is
noise.

Deviations from the sample's own mean are too small by the error of that mean.  Three corrections follow:
every autocovariance is raised by Var(mean), the sum of squares is divided by n - tau and not n - 1, and
the standard error of the variance uses the autocorrelation time of the squared deviations.

Three things make the errors of short chains too small, most of all in the ordered phase, where S stays close
to its largest value but for rare excursions:

- Excursions that were not seen.  What happens less than about once in n sweeps and goes one `step` (4 like
  pairs, one pixel inside the plane) further than the largest deviation d that was seen changes the variance
  by x^2 tau / n and the mean by x tau / n, where x^2 = (d + step)^2 - 2 log(2n) sigma^2 is what exceeds the
  largest of n normal deviations, and at least step^2.  Both are added to the errors in quadrature; where S
  follows the normal distribution they do not show.
- A variance that came out too small makes its own error and that of the mean too small: both errors are those
  of a variance larger by its standard error.
- The error of the variance from squared deviations is noisy: see `_variance_error`.
"""

import math
from dataclasses import dataclass

import numpy as np

from .. import arithmetic
from ..arithmetic import hypot
from .verdicts import FLAG_DISAGREE, FLAG_SHORT

# Two starts disagree when their means differ by more than this many standard errors: among a thousand grid
# points a false alarm is then expected once in sixteen grids.
DISAGREE = 4.0

# A chain shorter than this many autocorrelation times is flagged: the relative error of the estimate of tau
# is about sqrt(12 tau / n) (Sokal 1997), one half at n = 50 tau, so shorter chains do not know their own
# errors.
SHORT = 50.0


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of S(z) at one beta, their standard errors, tau, and flag bits."""

    mean: float
    sd: float
    mean_se: float
    sd_se: float
    tau: float
    flag: int


def integrated_time(x: np.ndarray) -> float:
    """tau = 1 + 2 sum rho, at least 1, of one chain (n,) or of several chains (m, n) of one distribution."""
    rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
    return _time_of_deviations(rows - rows.mean())


def moments(chains: np.ndarray, step: float = 4.0) -> Moments:
    """Moments of S from chains (n,) or (m, n) of integers: m starts at the same beta, n sweeps each."""
    chains = np.atleast_2d(np.asarray(chains)).astype(np.int64)
    if len(chains) > 1 and (gap := _disagreement(chains, step)) is not None:
        return _disagreeing(chains, step, gap)
    return _pooled(chains, step)


def _pooled(chains, step):
    """The moments of chains that agree: deviations from the common mean."""
    n = chains.size
    mean, squares, deviations = _deviations(chains)
    tau = _time_of_deviations(deviations)
    # n - tau can be small or negative where the chain is hopelessly short.
    variance = squares / max(n - tau, n / 2)
    mean_se, variance_se = _errors(deviations, variance, tau, step)
    # d(sd) = d(variance) / (2 sd), and sqrt(d(variance)) where the variance is zero.
    sd = math.sqrt(variance)
    sd_se = variance_se / (sd + max(sd, math.sqrt(variance_se)))
    return Moments(mean, sd, mean_se, sd_se, tau, FLAG_SHORT if n < SHORT * tau else 0)


def _deviations(chains):
    """Mean, sum of squared deviations (both from exact integer sums), and the deviations (m, n)."""
    origin = int(chains.flat[0])
    shifted = chains - origin
    # In Python's integers: the squares of two phases of a large volume are beyond 64 bits.
    n, total, squares = chains.size, int(shifted.sum()), sum(v * v for v in shifted.ravel().tolist())
    deviations = shifted - total / n
    return (origin * n + total) / n, (n * squares - total * total) / n, deviations


def _errors(deviations, variance, tau, step):
    """Standard errors of the mean and of the variance, with what the chain may have missed."""
    n = deviations.size
    normal_maximum = 2.0 * arithmetic.log(2 * n) * variance
    beyond = float(np.abs(deviations).max()) + step
    excess = max(step * step, beyond * beyond - normal_maximum)
    unseen = excess * tau / n
    seen = _variance_error(deviations, variance, tau)
    upper = variance + float(hypot(seen, unseen))
    mean_se = float(hypot(math.sqrt(upper * tau / n), math.sqrt(excess) * tau / n))
    return mean_se, float(hypot(seen * upper / variance if variance > 0.0 else 0.0, unseen))


def _variance_error(deviations, variance, tau):
    """Standard error of the sample variance, the larger of two estimates.

    Var(d^2) tau(d^2) / n from the squared deviations d^2 holds for any distribution but is noisy, and small
    just where the variance came out too small; 2 sigma^4 sum rho_j^2 / n holds for a normal chain and is
    steadier.
    """
    squared = deviations * deviations
    spread = float(np.mean((squared - variance) * (squared - variance)))
    time = _time_of_deviations(squared - squared.mean())
    # The sum of rho_j^2 of a chain whose rho_j decay geometrically with the same tau.
    normal = 2.0 * variance * variance * (tau + 1.0 / tau) / 2.0
    return math.sqrt(max(spread * time, normal) / deviations.size)


def _autocovariance(deviations):
    """(n,) autocovariances, averaged over rows; each lag by its number of pairs."""
    rows, n = deviations.shape
    return arithmetic.correlations(deviations) / (rows * np.arange(n, 0, -1))


def _time_of_deviations(deviations):
    covariance = _autocovariance(deviations)
    if covariance[0] <= 0.0 or covariance.size < 4:
        return 1.0
    n = deviations.size
    tau = _initial_monotone(covariance)
    for _ in range(2):
        tau = _initial_monotone(covariance + covariance[0] * min(tau / n, 0.5))
    return max(1.0, tau)


def _initial_monotone(covariance):
    """2 sum P_j / gamma_0 - 1 over the pairs P_j = gamma_2j + gamma_2j+1 before the first not positive."""
    pairs = covariance[: covariance.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else pairs.size
    return 2.0 * float(np.minimum.accumulate(pairs[:stop]).sum()) / float(covariance[0]) - 1.0


def _disagreement(chains, step):
    """None where the means of all starts agree within DISAGREE standard errors, else the moments of each."""
    each = [_pooled(row[None], step) for row in chains]
    for i, a in enumerate(each):
        for b in each[:i]:
            if abs(a.mean - b.mean) > DISAGREE * hypot(a.mean_se, b.mean_se):
                return each
    return None


def _disagreeing(chains, step, each):
    """Pooled moments, and standard errors that reach from the middle to every start.

    The truth may be either phase or any mixture of the two: the mean lies between theirs, the standard
    deviation between the smaller of theirs and that of the equal mixture.
    """
    mean, squares, _ = _deviations(chains)
    sd = math.sqrt(squares / chains.size)
    mean_se = max(abs(m.mean - mean) + m.mean_se for m in each)
    sd_se = max(abs(m.sd - sd) + m.sd_se for m in each)
    tau = max(m.tau for m in each)
    short = FLAG_SHORT if chains.size < SHORT * tau else 0
    return Moments(mean, sd, mean_se, sd_se, tau, FLAG_DISAGREE | short)
