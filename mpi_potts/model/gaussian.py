"""Gaussian noise (paper, section 4.2): priors of the mean and variance of every label, and their updates.

    y_i | z_i = j  ~  N(mu_j, sigma_j**2)                                  (equation 9)
    mu_j ~ N(m_j, s_j**2),    sigma_j**2 ~ inverse gamma(shape_j, scale_j)

The two priors are independent, so each parameter is drawn given the other.  With n_j pixels of label j,

    1 / v = n_j / sigma_j**2 + 1 / s_j**2
    mu_j | sigma_j, z     ~  N(v (sum y / sigma_j**2 + m_j / s_j**2), v)
    sigma_j**2 | mu_j, z  ~  inverse gamma(shape_j + n_j / 2, scale_j + sum (y - mu_j)**2 / 2),

the sums over the pixels of label j.  A label without pixels draws from its priors: the same formulas with n_j
= 0. `kernels/gaussian.py` has these formulas, and makes the draws after every sweep.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import arithmetic, rng
from ..errors import InputError
from ..kernels import gaussian as kernel
from ..kernels.gaussian import GaussianData, GaussianDensity, GaussianState
from ..kernels.gibbs_layout import BlockLayout

# What stands in an input for parameters that are drawn.
PRIOR = "prior"

# One number for all labels, or one for each.
LOG_2_PI = 1.8378770664093453

ByLabel = float | Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False)
class GaussianNoise:
    """m, s, shape and scale of every label: (k,) float64 each.

    What it answers is said in `noise.NoiseModel`.
    """

    mean: np.ndarray
    mean_sd: np.ndarray
    shape: np.ndarray
    scale: np.ndarray

    names: ClassVar[tuple[str, ...]] = ("mean", "sd")
    symbols: ClassVar[tuple[str, ...]] = ("mu", "sigma")
    title: ClassVar[str] = "normal"

    @classmethod
    def of_keys(cls, prior: Any, labels: int) -> "GaussianNoise":
        """The prior of `[prior.mean]` and `[prior.variance]`."""
        mean, variance = prior.mean, prior.variance
        return gaussian_noise(labels, mean.mean, mean.sd, variance.shape, variance.scale)

    @property
    def labels(self) -> int:
        """k."""
        return self.mean.size

    @property
    def exchangeable(self) -> bool:
        """Whether the priors are the same for all labels, so that only their order tells them apart."""
        return all(np.ptp(row) == 0.0 for row in self.rows())

    @property
    def order(self) -> np.ndarray:
        """(k,) the labels by ascending prior mean."""
        return np.argsort(self.mean, kind="stable")

    @property
    def location_prior(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) m and s."""
        return self.mean, self.mean_sd

    def rows(self) -> np.ndarray:
        """(4, k): m, s, shape, scale."""
        return np.stack([self.mean, self.mean_sd, self.shape, self.scale])

    def standardised(self, centre: float, unit: float) -> "GaussianNoise":
        """The priors of the parameters of (y - centre) / unit."""
        return GaussianNoise(
            (self.mean - centre) / unit, self.mean_sd / unit, self.shape, self.scale / (unit * unit)
        )

    def most_probable(self, y: np.ndarray) -> np.ndarray:
        """By the normal density around m_j, of variance s_j**2 and that of the noise where its prior is
        densest."""
        variance = self.mean_sd * self.mean_sd + self.scale / (self.shape + 1.0)
        best, label = np.full(y.size, np.inf), np.zeros(y.size, dtype=np.int64)
        for j, (mean, width) in enumerate(zip(self.mean, variance)):
            distance = (y - mean) * (y - mean) / width + arithmetic.log(width)
            label[distance < best] = j
            best = np.minimum(best, distance)
        return label

    def log_prior(self, values: np.ndarray) -> float:
        """log p(mu, sigma**2) up to a constant."""
        mean, variance = values[0], values[1] * values[1]
        distance = (mean - self.mean) / self.mean_sd
        of_mean = -0.5 * distance * distance
        of_variance = -(self.shape + 1.0) * arithmetic.log(variance) - self.scale / variance
        return float((of_mean + of_variance).sum())

    def log_likelihoods(self, values: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """(..., m, k) log p(pixels of label b | values of a), of values (2, m) and sums (..., k, 3)."""
        number, mean, within = _moments(sums)
        mu, variance = values[0][:, None], (values[1] * values[1])[:, None]
        distance = mean[..., None, :] - mu
        n, q = number[..., None, :], within[..., None, :]
        squares = q + n * distance * distance
        return -0.5 * (n * (LOG_2_PI + arithmetic.log(variance)) + squares / variance)

    def log_marginals(self, sums: np.ndarray) -> np.ndarray:
        """(..., k) log p(pixels of label b), marginal over its prior.

        With n pixels, mean y and sum of squares q about it, mu integrates out in closed form,

            p(pixels | v) = (2 pi v)^(-n/2) sqrt(v / (v + n s^2)) exp(-q / 2v - n (y - m)^2 / 2(v + n s^2)),

        and v = sigma^2 by the trapezoidal rule in log v, which is exact to rounding for such densities.
        """
        number, mean, within = _moments(sums)
        return np.where(number > 0.0, self._log_marginal(number, mean, within), 0.0)

    def _log_marginal(self, number, mean, within):
        """log p(pixels) of every label, from their number, mean and sum of squares about it: (..., k)."""
        shape, scale, spread = self.shape, self.scale, self.mean_sd * self.mean_sd
        off = mean - self.mean
        half, off = shape + 0.5 * number, number * off * off

        def log_density(u):
            v = arithmetic.exp(u)
            wide = v + number * spread
            of_mean = 0.5 * (u - arithmetic.log(wide)) - 0.5 * off / wide
            return -half * u - (scale + 0.5 * within) / v + of_mean

        # Around the largest value on a grid that is drawn together there, wide enough for every tail.
        centre = arithmetic.log((scale + 0.5 * within + 0.5 * off / np.maximum(number, 1.0)) / half)
        width = np.full(centre.shape, 40.0)
        steps = np.linspace(-1.0, 1.0, 65)[(slice(None), *(None,) * centre.ndim)]
        for _ in range(60):
            u = centre + width * steps
            value = log_density(u)
            top = value.max(axis=0)
            inside = value > top - 40.0
            low = np.where(inside, u, np.inf).min(axis=0) - width / 32.0
            high = np.where(inside, u, -np.inf).max(axis=0) + width / 32.0
            centre, width = 0.5 * (low + high), 0.5 * (high - low)
            if (inside.sum(axis=0) >= 24).all():
                break
        steps = np.linspace(-1.0, 1.0, 257)[(slice(None), *(None,) * centre.ndim)]
        value = log_density(centre + width * steps)
        top = value.max(axis=0)
        total = arithmetic.log(arithmetic.exp(value - top).sum(axis=0) * width / 128.0)
        prior = shape * arithmetic.log(scale) - arithmetic.log_gamma(shape)
        return prior + top + total - 0.5 * number * LOG_2_PI

    def state(self, values: np.ndarray, power: float = 1.0) -> GaussianState:
        """mu, sigma and their priors, as kernels have them."""
        return GaussianState(values, self.rows(), power)

    @staticmethod
    def data(layout: BlockLayout, image: np.ndarray) -> GaussianData:
        """The image as kernels have it."""
        return kernel.prepare(layout, image)

    @staticmethod
    def density(values: np.ndarray) -> GaussianDensity:
        """The normal density of every label, as kernels have it."""
        return kernel.density(values[0], values[1])

    @staticmethod
    def of_labels(z: np.ndarray, y: np.ndarray, labels: int, least: float, empty: float) -> np.ndarray:
        """The means and standard deviations that the labels z have, with bounds on their variances."""
        number, total, square = arithmetic.sums_by(z, y, labels)
        many = np.maximum(number, 1)
        mean = total / many
        variance = np.where(number > 0, np.maximum(square / many - mean * mean, least), empty)
        return np.stack([mean, np.sqrt(variance)])

    @staticmethod
    def label_sums(z: np.ndarray, y: np.ndarray, labels: int) -> np.ndarray:
        """(k, 3) number, sum and sum of squares of the observations y (n,) of every label."""
        rows = [np.bincount(z, weights=w, minlength=labels) for w in (None, y, y * y)]
        return np.stack(rows, axis=-1).astype(np.float64)

    @staticmethod
    def in_units(values: np.ndarray, centre: float, unit: float) -> np.ndarray:
        """From mu and sigma of (y - centre) / unit to those of y."""
        return np.stack([centre + unit * values[0], unit * values[1]])

    @staticmethod
    def widths(values: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """sigma."""
        return values[1]

    @staticmethod
    def grain(pixels: np.ndarray) -> float:
        """What the pixels (n,) of an image are rounded to inside, in the image's units."""
        unit = float(pixels.std())
        return unit / kernel.scale_of(float(np.abs(pixels - pixels.mean()).max()) / unit)

    @staticmethod
    def truth(given: Mapping[str, Any], prior: Any, labels: int, stream: np.ndarray) -> np.ndarray:
        """mu and sigma (2, k), each given or drawn.  Drawn means ascend where all priors are the same."""
        mean, sd = given["mean"], given["sd"]
        return np.stack(
            [
                _draw_means(prior, labels, stream) if is_prior(mean) else each("simulate.mean", mean, labels),
                _draw_sds(prior, labels, stream) if is_prior(sd) else each("simulate.sd", sd, labels),
            ]
        )

    @staticmethod
    def simulate(values: np.ndarray, z: np.ndarray, stream: np.ndarray, site: np.ndarray) -> np.ndarray:
        """mu_j + sigma_j times a standard normal."""
        return values[0][z] + values[1][z] * rng.normals(stream, 0, site)

    @staticmethod
    def pdf(values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(n, k) the normal densities."""
        distance = (x[:, None] - values[0]) / values[1]
        return arithmetic.exp(-0.5 * distance * distance) / (values[1] * math.sqrt(2.0 * math.pi))

    @staticmethod
    def apart(values: np.ndarray, label: int) -> np.ndarray:
        """(k,) the difference of the means in sigma of the label, or of log sigma, whichever is larger."""
        mean, sd = values
        of_mean = np.abs(mean - mean[label]) / sd[label]
        return np.maximum(of_mean, np.abs(arithmetic.log(sd / sd[label])))

    @staticmethod
    def describe(prior: Any) -> str:
        """The priors of means and variances in a few words."""
        mean, variance = prior.mean, prior.variance
        return (
            f"label means normal of mean {_once(mean.mean)} and sd {_once(mean.sd)}; variances inverse gamma "
            f"of shape {_once(variance.shape)} and scale {_once(variance.scale)}"
        )


def _moments(sums):
    """Number, mean and sum of squares about it, from number, sum and sum of squares (..., 3)."""
    number, total, square = (sums[..., column] for column in range(3))
    mean = total / np.maximum(number, 1.0)
    return number, mean, np.maximum(square - total * mean, 0.0)


def _once(values):
    """One number for all labels, or all of them; "image" before the image is known."""
    if isinstance(values, str):
        return values
    return f"{values[0]:g}" if len(set(values)) == 1 else ", ".join(f"{value:g}" for value in values)


def gaussian_noise(
    labels: int,
    mean: ByLabel = 0.0,
    mean_sd: ByLabel = 100.0,
    shape: ByLabel = 1.0,
    scale: ByLabel = 0.01,
) -> GaussianNoise:
    """Priors of k labels, each number one for all labels or one for each; the defaults are the paper's."""
    rows = {"mean.mean": mean, "mean.sd": mean_sd, "variance.shape": shape, "variance.scale": scale}
    return GaussianNoise(*(_row(labels, name, value) for name, value in rows.items()))


def _row(labels, name, value):
    value = np.asarray(value, dtype=np.float64)
    if value.shape not in ((), (labels,)):
        raise InputError(f"prior.{name} has {value.size} values: one, or one for each of {labels} labels")
    if not np.isfinite(value).all() or (name != "mean.mean" and value.min() <= 0.0):
        raise InputError(
            f"prior.{name} = {value.tolist()}: finite, and except for the mean positive, is accepted"
        )
    return np.broadcast_to(value, (labels,)).copy()


def is_prior(value: object) -> bool:
    """Whether an input asks for a draw from the prior."""
    return isinstance(value, str) and value == PRIOR


def each(name: str, values: ByLabel, labels: int) -> np.ndarray:
    """One number for each label: a single number counts for all."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim and found.shape != (labels,):
        raise InputError(f"{name} has {found.size} values: {labels}, one for each label, are accepted")
    return np.broadcast_to(found, (labels,)).copy()


def _draw_means(prior, labels, stream):
    centre = each("prior.mean.mean", prior.mean.mean, labels)
    spread = each("prior.mean.sd", prior.mean.sd, labels)
    mean = centre + spread * rng.normals(stream, 1, labels)
    same = all(np.ptp(values) == 0.0 for values in (centre, spread, *_variance(prior, labels)))
    return np.sort(mean) if same else mean


def _draw_sds(prior, labels, stream):
    shape, scale = _variance(prior, labels)
    return np.sqrt(scale / rng.gammas(stream, 2, shape))


def _variance(prior, labels):
    shape = each("prior.variance.shape", prior.variance.shape, labels)
    return shape, each("prior.variance.scale", prior.variance.scale, labels)
