"""Posterior predictive checks of the noise: what residuals would look like if the noise model were right.

A draw (z, noise) of the posterior leaves of every observation a residual e_i.  If the model is right,
(z, noise, y) has the joint distribution of the model, in which the residuals are independent standard normals
and know nothing of z.  So, over images of the model, these moments are exact given the numbers of pixels and
pairs, and no data need to be replicated:

- skewness of n residuals about their own mean: mean 0, variance 6 (n - 2) / ((n + 1) (n + 3));
- their excess kurtosis: mean -6 / (n + 1), which is taken off here, and variance
  24 n (n - 2) (n - 3) / ((n + 1)^2 (n + 3) (n + 5));
- the mean of e_i e_j over m pairs of neighbours: mean 0, variance 1 / m, since the products of different
  pairs are uncorrelated.

Labels with few pixels are left out: these distributions are then far from normal, and beta hardly depends on
such a label.
"""

from dataclasses import dataclass

import numpy as np

# The fewest pixels of a label, or pairs of neighbours, that are looked at.
FEWEST = 300
# The least variance of residuals that are told from equal ones.
LEAST = 1e-100


@dataclass(frozen=True, eq=False)
class Predictive:
    """What the residuals of every chain's last state are like: rows (value, its sd if the model is right),
    nan where there are too few.

    pixels              : (chains, k) of every label
    skewness, kurtosis  : (chains, k, 2) of the residuals of every label
    correlation         : (chains, k, 2) of neighbours that both have the label
    neighbours          : (chains, 2) of all neighbours
    """

    pixels: np.ndarray
    skewness: np.ndarray
    kurtosis: np.ndarray
    correlation: np.ndarray
    neighbours: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them by name."""
        return dict(vars(self))


def predictive(sums: np.ndarray) -> Predictive:
    """The checks from sums (chains, k + 1, 7) over residuals: see `kernels.residuals`."""
    number, pairs, products = sums[:, :-1, 0], sums[:, :-1, 5], sums[:, :-1, 6]
    skewness, kurtosis = _shape(np.maximum(number, FEWEST), sums[:, :-1, 1:5])
    enough = number >= FEWEST
    between = _correlation(sums[:, :, 5].sum(axis=1), sums[:, :, 6].sum(axis=1))
    return Predictive(
        number.astype(np.int64),
        np.where(enough[..., None], skewness, np.nan),
        np.where(enough[..., None], kurtosis, np.nan),
        _correlation(pairs, products),
        between,
    )


def _shape(n: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Skewness and excess kurtosis from the sums (..., 4) of the powers of n residuals, each with its sd."""
    first, second, third, fourth = np.moveaxis(sums / n[..., None], -1, 0)
    square = first * first
    # A label without pixels or of equal ones, as in an image of few different values, has no shape; the
    # powers of the least variance are no zero.
    variance = np.maximum(second - square, LEAST)
    cube = third - 3.0 * first * second + 2.0 * first * square
    fourth = fourth - 4.0 * first * third + 6.0 * square * second - 3.0 * square * square
    skewness = cube / (variance * np.sqrt(variance))
    kurtosis = fourth / (variance * variance) - 3.0 + 6.0 / (n + 1.0)
    of_skewness = np.sqrt(6.0 * (n - 2.0) / ((n + 1.0) * (n + 3.0)))
    of_kurtosis = 24.0 * n * (n - 2.0) * (n - 3.0) / ((n + 1.0) * (n + 1.0) * (n + 3.0) * (n + 5.0))
    return np.stack([skewness, of_skewness], -1), np.stack([kurtosis, np.sqrt(of_kurtosis)], -1)


def _correlation(pairs: np.ndarray, products: np.ndarray) -> np.ndarray:
    """The mean product over so many pairs, with its sd."""
    many = np.maximum(pairs, FEWEST)
    rows = np.stack([products / many, 1.0 / np.sqrt(many)], -1)
    return np.where(pairs[..., None] >= FEWEST, rows, np.nan)
