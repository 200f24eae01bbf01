"""Whether draws from several chains may be pooled, and how many independent draws they are worth.

Split R-hat (Gelman and others 2013, section 11.4): every chain is cut in two halves, so that a drift within
a chain counts like a difference between chains.  With W the mean variance within the m halves of n draws and
B/n the variance between their means,

    R-hat = sqrt(((n - 1) / n W + B / n) / W),

close to 1 where all halves sample one distribution.  It is taken of normal scores of the ranks (Vehtari and
others 2021), so that a long tail or a single outlier cannot hide a disagreement.
"""

import numpy as np

from .. import arithmetic
from . import autocorrelation


def split_rhat(draws: np.ndarray) -> float:
    """Rank-normalised split R-hat of draws (m, n): 1 where nothing moves, infinite where halves never do."""
    draws = np.asarray(draws, dtype=np.float64)
    half = draws.shape[1] // 2
    if half < 2:
        return np.nan
    halves = np.concatenate([draws[:, :half], draws[:, -half:]])
    if np.ptp(halves) == 0.0:
        return 1.0
    scores = _normal_scores(halves)
    within = scores.var(axis=1, ddof=1).mean()
    if within == 0.0:
        return np.inf
    between = scores.mean(axis=1).var(ddof=1)
    return float(np.sqrt((half - 1) / half + between / within))


def effective_size(draws: np.ndarray) -> float:
    """Independent draws that the (m, n) draws of all chains are worth: m n / tau about the common mean."""
    draws = np.atleast_2d(draws)
    return float(draws.size / autocorrelation.integrated_time(draws))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks; equal values share the mean of their ranks."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    scores = arithmetic.normal_quantile((rank - 0.375) / (values.size + 0.25))
    return scores[inverse].reshape(values.shape)
