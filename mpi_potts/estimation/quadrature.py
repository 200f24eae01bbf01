"""The posterior of beta given fixed labels, by quadrature: one dimension, uniform prior on an interval.

The density may be far narrower than the interval.  Its logarithm is evaluated on a grid, and the grid is
drawn together around what lies within DROP of the largest value, until that fills half of it.  There a finer
grid has cells of a small part of a standard deviation.  The logarithm has one maximum (for path sampling and
the pseudolikelihood it is concave), so none is lost between the points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import arithmetic

COARSE, POINTS = 65, 513
DROP = 40.0


@dataclass(frozen=True, eq=False)
class Density:
    """A density (n,) on an ascending grid (n,), linear between its points; 0 outside."""

    beta: np.ndarray
    value: np.ndarray

    @property
    def _cumulative(self):
        mass = np.diff(self.beta) * (self.value[1:] + self.value[:-1]) / 2
        return np.append(0.0, np.cumsum(mass))

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of beta under the density."""
        mean = np.trapezoid(self.beta * self.value, self.beta)
        deviation = self.beta - mean
        return float(mean), float(np.sqrt(np.trapezoid(deviation * deviation * self.value, self.beta)))

    def quantiles(self, probability: np.ndarray) -> np.ndarray:
        """The values below which these probabilities lie: of uniforms, draws."""
        total = self._cumulative
        return arithmetic.interp(np.asarray(probability) * total[-1], total, self.beta)


def density(log_density: Callable[[np.ndarray], np.ndarray], interval: tuple[float, float]) -> Density:
    """The normalised density whose logarithm, up to a constant, is log_density on the interval."""
    low, high = interval
    while True:
        beta = np.linspace(low, high, COARSE)
        value = log_density(beta)
        inside = np.flatnonzero(value > value.max() - DROP)
        first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, COARSE - 1)
        low, high = beta[first], beta[last]
        if last - first >= COARSE // 2 or not beta[first] < beta[first + 1]:
            break
    beta = np.linspace(low, high, POINTS)
    value = log_density(beta)
    value = arithmetic.exp(value - value.max())
    return Density(beta, value / np.trapezoid(value, beta))


# Standard normal shifts by which a density is widened: evenly spaced, so close that the sum of shifted
# densities is smooth where these are as narrow as a quarter of the error.
SHIFTS = np.arange(-20, 21) * 0.25


def widened(
    log_density: Callable[[np.ndarray], np.ndarray], interval: tuple[float, float], error: float
) -> Callable[[np.ndarray], np.ndarray]:
    """The log density of beta + N(0, error^2), reflected at the ends of the interval, up to a constant."""
    low, high = interval
    width = high - low

    def mixture(beta: np.ndarray) -> np.ndarray:
        parts = []
        for shift in SHIFTS:
            for side in (1.0, -1.0):
                # Where a draw came from that is shifted, and reflected as often as needed, to this beta.
                place = np.mod(side * (beta - low) - shift * error, 2.0 * width)
                value = log_density(low + np.minimum(place, width))
                # An end of the interval is its own reflection, and counts once.
                inside = place <= width if side > 0.0 else (place > 0.0) & (place < width)
                parts.append(np.where(inside, value - 0.5 * shift * shift, -np.inf))
        largest = np.max(parts, axis=0)
        return largest + arithmetic.log(np.sum(arithmetic.exp(np.array(parts) - largest), axis=0))

    return mixture
