"""Gaussian noise (paper, section 4.2): priors of the mean and variance of every label, and their updates.

    y_i | z_i = j  ~  N(mu_j, sigma_j**2)
    mu_j ~ N(m_j, s_j**2),    sigma_j**2 ~ inverse gamma(shape_j, scale_j)

The two priors are independent, so each parameter is drawn given the other.  With n_j pixels of label j,

    1 / v = n_j / sigma_j**2 + 1 / s_j**2
    mu_j | sigma_j, z     ~  N(v (sum y / sigma_j**2 + m_j / s_j**2), v)
    sigma_j**2 | mu_j, z  ~  inverse gamma(shape_j + n_j / 2, scale_j + sum (y - mu_j)**2 / 2),

the sums over the pixels of label j.  A label without pixels draws from its priors: the same formulas with n_j
= 0. `kernels/conjugate.py` makes the draws, after every sweep.
"""

from dataclasses import dataclass

import numpy as np

from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Priors:
    """m, s, shape and scale of every label: (k,) float64 each."""

    mean: np.ndarray
    mean_sd: np.ndarray
    shape: np.ndarray
    scale: np.ndarray

    @property
    def labels(self) -> int:
        return self.mean.size

    @property
    def exchangeable(self) -> bool:
        """Whether the priors are the same for all labels, so that only their order tells them apart."""
        return all(np.ptp(row) == 0.0 for row in self.rows())

    def rows(self) -> np.ndarray:
        """(4, k): m, s, shape, scale."""
        return np.stack([self.mean, self.mean_sd, self.shape, self.scale])

    def standardised(self, centre: float, unit: float) -> "Priors":
        """The priors of the parameters of (y - centre) / unit."""
        return Priors(
            (self.mean - centre) / unit, self.mean_sd / unit, self.shape, self.scale / (unit * unit)
        )


def priors(labels: int, mean=0.0, mean_sd=100.0, shape=1.0, scale=0.01) -> Priors:
    """Priors of k labels, each number one for all labels or one for each; the defaults are the paper's."""
    rows = {"mean.mean": mean, "mean.sd": mean_sd, "variance.shape": shape, "variance.scale": scale}
    return Priors(*(_row(labels, name, value) for name, value in rows.items()))


def _row(labels, name, value):
    value = np.asarray(value, dtype=np.float64)
    if value.shape not in ((), (labels,)):
        raise InputError(f"prior.{name} has {value.size} values: one, or one for each of {labels} labels")
    if not np.isfinite(value).all() or (name != "mean.mean" and value.min() <= 0.0):
        raise InputError(
            f"prior.{name} = {value.tolist()}: finite, and except for the mean positive, is accepted"
        )
    return np.broadcast_to(value, (labels,)).copy()


def mean_posterior(priors: Priors, number, total, variance) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of mu_j given sigma_j**2 = `variance`, n_j = `number` and the sum of y = `total`."""
    spread = priors.mean_sd * priors.mean_sd
    v = 1.0 / (number / variance + 1.0 / spread)
    return v * (total / variance + priors.mean / spread), v


def variance_posterior(priors: Priors, number, square) -> tuple[np.ndarray, np.ndarray]:
    """Shape and scale of sigma_j**2 given mu_j, with `square` the sum of (y - mu_j)**2."""
    return priors.shape + 0.5 * np.asarray(number), priors.scale + 0.5 * np.asarray(square)
