"""ABC rejection: which draws are near enough, and their local-linear regression adjustment.

Beaumont, Zhang and Balding (2002): the accepted draws, at distances d_i up to the tolerance, have the
Epanechnikov weights 1 - (d_i / tolerance)^2; a line is fitted to them by weighted least squares,

    f(beta_i) = a + b (x_i - S) + error,   and   f(beta_i*) = f(beta_i) - b (x_i - S)

moves every draw to where it would be with x_i = S.  f is the logit over the interval of the prior, so that no
draw leaves it (Hamilton and others 2005).
"""

import numpy as np

from .. import arithmetic


def tolerance_of(distance: np.ndarray, quantile: float) -> float:
    """The distance within which at least this part of the draws lies."""
    number = max(1, int(np.ceil(quantile * distance.size)))
    return float(np.partition(distance, number - 1)[number - 1])


def epanechnikov(distance: np.ndarray, tolerance: float) -> np.ndarray:
    """Weights (n,), not normalised; all 1 where none could have a weight."""
    part = distance / tolerance if tolerance > 0.0 else np.zeros(distance.size)
    weight = np.maximum(1.0 - part * part, 0.0)
    return weight if weight.any() else np.ones(distance.size)


def adjust(
    beta: np.ndarray, offset: np.ndarray, weight: np.ndarray, interval: tuple[float, float]
) -> np.ndarray:
    """beta (n,) moved along the weighted regression line to offset = x - S = 0."""
    low, high = interval
    # A draw may round to an end of the interval, where the logit is infinite.
    part = np.clip((beta - low) / (high - low), 2.0**-53, 1.0 - 2.0**-53)
    logit = arithmetic.log(part) - arithmetic.log1p(-part)
    total = weight.sum()
    x = offset - (weight * offset).sum() / total
    spread = (weight * x * x).sum()
    slope = (weight * x * logit).sum() / spread if spread > 0.0 else 0.0
    return low + (high - low) / (1.0 + arithmetic.exp(slope * offset - logit))
