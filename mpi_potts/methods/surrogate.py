"""beta given S(z) by the binding function, exactly as in the final phase after an SMC: path and synthetic.

For observed labels with statistic S (equations 6 and 7), up to a constant,

    path:       log p(beta | z) = beta S - log C(beta), with log C the integral of the mean of S(z);
    synthetic:  log p(beta | z) = -log sd(beta) - (S - mean(beta))^2 / (2 sd(beta)^2).
"""

from collections.abc import Iterator

import numpy as np

from .. import arithmetic
from ..binding.function import Binding
from ..config.registry import register
from ..estimation import quadrature
from ..labels.ensemble import SurrogatePhase
from ..runtime.parallel import Comm
from .base import Problem, final
from .joint_chains import ChainFit, ChainMethod, LogDensity

# Where S(z) is not normal given beta, the two have other posteriors: this many sds apart, or so much wider or
# narrower, and it is said.
SHIFTED, SCALED = 0.3, 1.25


def path_density(binding: Binding, statistic: float) -> LogDensity:
    """log p(beta | z) by path sampling."""
    return lambda beta: beta * statistic - binding.log_normaliser(beta)


def synthetic_density(binding: Binding, statistic: float) -> LogDensity:
    """log p(beta | z), were S(z) normal."""

    def synthetic(beta: np.ndarray) -> np.ndarray:
        mean, sd = binding.moments(beta)
        sd = np.maximum(sd, 1e-6)
        distance = (statistic - mean) / sd
        return -arithmetic.log(sd) - 0.5 * distance * distance

    return synthetic


def not_normal(binding: Binding, statistic: float, interval: tuple[float, float]) -> Iterator[str]:
    """Says so where a normal S(z) gives observed labels another posterior of beta than path sampling."""
    (right, width), (mean, sd) = (
        quadrature.density(log_density(binding, statistic), interval).moments()
        for log_density in (path_density, synthetic_density)
    )
    if abs(mean - right) > SHIFTED * width or not width / SCALED < sd < width * SCALED:
        yield (
            f"S(z) is not normal near the posterior, as between the phases of a transition, and this method "
            f"takes it to be: by path sampling beta has mean {right:.5g} and sd {width:.2g}, "
            f'with a normal S(z) {mean:.5g} and {sd:.2g}; take fit.method = "path"'
        )


class SurrogateFit(ChainFit):
    """A fit by path or synthetic likelihood, as fit.method says."""

    def _phase(self) -> SurrogatePhase:
        config = self.problem.config
        curve, keys = self.problem.curve, config.fit
        return SurrogatePhase(curve, config.prior.beta, keys.method, *final(config), crosses=keys.crossing)

    def _log_density(self) -> LogDensity:
        of_method = path_density if self.problem.config.fit.method == "path" else synthetic_density
        return of_method(self.problem.curve, self.problem.statistic)


class SurrogateMethod(ChainMethod):
    """method = "path" or "synthetic"."""

    def __init__(self, name: str):
        self.name = name

    def fit(self, comm: Comm, problem: Problem) -> SurrogateFit:
        return SurrogateFit(comm, problem)


register(SurrogateMethod("path"))
register(SurrogateMethod("synthetic"))
