"""Whether draws from several chains may be pooled, and how many independent draws they are worth.

Vehtari, Gelman, Simpson, Carpenter and Buerkner 2021, in the details as ArviZ has it.  Every chain is cut in
two halves, so that a drift within a chain counts like a difference between chains.  With W the mean variance
within the m halves of n draws and B/n the variance between their means,

    R-hat = sqrt(((n - 1) / n W + B / n) / W),

close to 1 where all halves sample one distribution.  It is taken of normal scores of the ranks, so that a
long tail or a single outlier cannot hide a disagreement, and of those of the distances from the median, where
halves that differ in scale and not in place show; the larger of the two counts.

The effective size of the halves is m n / tau, where the correlation at lag t is 1 - (W - C_t) / V, with C_t
the mean autocovariance within the halves and V = (n - 1) / n W + B / n, so that halves that disagree are
worth little; the sum is cut by Geyer's initial monotone sequence.  `bulk_size` is that of the normal scores,
for means and medians; `tail_size` the smaller of those of the indicators of the lowest 5 % and 95 %, for
interval ends.
"""

import numpy as np

from .. import arithmetic

# The quantiles whose indicators `tail_size` is of.
TAILS = (0.05, 0.95)
# Fewer draws of a chain than this have no halves to speak of.
FEWEST = 4


def of_draws(draws: np.ndarray) -> tuple[float, float, float]:
    """(R-hat, bulk size, tail size) of draws (m, n)."""
    return split_rhat(draws), bulk_size(draws), tail_size(draws)


def split_rhat(draws: np.ndarray) -> float:
    """Rank-normalised split R-hat of draws (m, n): 1 where nothing moves, infinite where halves never do."""
    if (halves := _halves(draws)) is None:
        return np.nan
    if np.ptp(halves) == 0.0:
        return 1.0
    plain, folded = _rhat(_normal_scores(halves)), np.abs(halves - np.median(halves))
    return plain if np.ptp(folded) == 0.0 else max(plain, _rhat(_normal_scores(folded)))


def bulk_size(draws: np.ndarray) -> float:
    """Independent draws that the (m, n) draws of all chains are worth for their mean or median."""
    halves = _halves(draws)
    return np.nan if halves is None else _size(_normal_scores(halves))


def tail_size(draws: np.ndarray) -> float:
    """Independent draws that the (m, n) draws of all chains are worth for the ends of an interval."""
    halves = _halves(draws)
    if halves is None:
        return np.nan
    ascending = np.sort(np.asarray(draws, dtype=np.float64), axis=None)
    return min(_size((halves <= _quantile(ascending, p)).astype(np.float64)) for p in TAILS)


def _halves(draws):
    """(2 m, n // 2) the halves of the chains; of an odd number the middle draw is left out."""
    draws = np.atleast_2d(np.asarray(draws, dtype=np.float64))
    half = draws.shape[1] // 2
    return None if draws.shape[1] < FEWEST else np.concatenate([draws[:, :half], draws[:, -half:]])


def _rhat(values):
    within, n = values.var(axis=1, ddof=1).mean(), values.shape[1]
    if within == 0.0:
        return np.inf
    between = values.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))


def _size(values):
    """m n / tau of values (m, n); all of them where nothing moves, and never more than m n log10(m n)."""
    m, n = values.shape
    if np.ptp(values) < 1e-15:
        return float(values.size)
    means = values.mean(axis=1)
    covariance = arithmetic.correlations(values - means[:, None]) / (m * n)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + (means.var(ddof=1) if m > 1 else 0.0)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    # The first pair that is not positive is noise, and so are those of the last few lags.
    stop = min(int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else pairs.size, max(0, (n - 3) // 2))
    last = correlation[2 * stop]
    last = last if last > 0.0 or pairs[stop] >= 0.0 else 0.0
    tau = -1.0 + 2.0 * float(np.minimum.accumulate(pairs[:stop]).sum()) + float(last)
    return values.size / max(tau, arithmetic.log(10.0) / arithmetic.log(float(values.size)))


def _quantile(ascending, p):
    """The sample quantile between two order statistics (type 7 of Hyndman and Fan)."""
    place = ascending.size * p + (1.0 - p)
    k = int(min(max(place, 1.0), ascending.size - 1.0))
    fraction = min(max(place - k, 0.0), 1.0)
    return (1.0 - fraction) * ascending[k - 1] + fraction * ascending[k]


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks; equal values share the mean of their ranks."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    scores = arithmetic.normal_quantile((rank - 0.375) / (values.size + 0.25))
    return scores[inverse].reshape(values.shape)
