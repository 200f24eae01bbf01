"""beta given S(z) by the binding function, exactly as in the final phase after an SMC: path and synthetic.

For observed labels with statistic S (equations 6 and 7), up to a constant,

    path:       log p(beta | z) = beta S - log C(beta), with log C the integral of the mean of S(z);
    synthetic:  log p(beta | z) = -log sd(beta) - (S - mean(beta))^2 / (2 sd(beta)^2).
"""

import numpy as np

from .. import arithmetic
from ..config.registry import register
from ..labels.ensemble import SurrogatePhase
from ..runtime.parallel import Comm
from .base import Problem, final
from .joint_chains import ChainFit, ChainMethod, LogDensity


class SurrogateFit(ChainFit):
    """A fit by path or synthetic likelihood, as fit.method says."""

    def _phase(self) -> SurrogatePhase:
        config = self.problem.config
        curve, keys = self.problem.curve, config.fit
        return SurrogatePhase(curve, config.prior.beta, keys.method, *final(config), crosses=keys.crossing)

    def _log_density(self) -> LogDensity:
        binding, statistic = self.problem.curve, self.problem.statistic

        def path(beta: np.ndarray) -> np.ndarray:
            return beta * statistic - binding.log_normaliser(beta)

        def synthetic(beta: np.ndarray) -> np.ndarray:
            mean, sd = binding.moments(beta)
            sd = np.maximum(sd, 1e-6)
            distance = (statistic - mean) / sd
            return -arithmetic.log(sd) - 0.5 * distance * distance

        return path if self.problem.config.fit.method == "path" else synthetic


class SurrogateMethod(ChainMethod):
    """method = "path" or "synthetic"."""

    def __init__(self, name: str):
        self.name = name

    def fit(self, comm: Comm, problem: Problem) -> SurrogateFit:
        return SurrogateFit(comm, problem)


register(SurrogateMethod("path"))
register(SurrogateMethod("synthetic"))
