"""beta given z by its pseudolikelihood, the cheap baseline (paper, section 5).

The pseudolikelihood itself is in `model/pseudolikelihood.py`; here beta is drawn from it before each sweep of
a hidden image, and for observed labels it is integrated numerically.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import rng
from ..config.registry import register
from ..estimation import quadrature
from ..estimation.enough import Target
from ..kernels.chain import Trace
from ..labels.chain import LabelChain, join
from ..model.pseudolikelihood import Pseudolikelihood
from ..rng import Purpose
from ..runtime.parallel import Comm, warm_up
from .base import Problem, final
from .joint_chains import ChainFit, ChainMethod, LogDensity


@dataclass(frozen=True)
class PseudolikelihoodPhase:
    """beta drawn before each sweep from its posterior by the pseudolikelihood of z."""

    surrogate: Pseudolikelihood
    interval: tuple[float, float]
    burn_in: int
    sweeps: int
    seed: int
    target: Target | None = None
    width: int = 0
    crossing: None = None
    cost: int = 10

    def start(self, number: int) -> np.ndarray:
        return np.zeros(0)

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
        stream, traces = rng.stream(self.seed, Purpose.FINAL_BETA, number), []
        for t in range(first, first + steps):
            density = self.surrogate.log_density(chain.labels, chain.statistic)
            uniform = rng.uniforms(stream, t, 1)
            traces.append(chain.sweep(quadrature.density(density, self.interval).quantiles(uniform)))
            if counting:
                chain.count()
        return join(traces)


class PseudolikelihoodFit(ChainFit):
    """A fit by the pseudolikelihood, which counts the labels around every pixel."""

    phase: PseudolikelihoodPhase

    def _phase(self) -> PseudolikelihoodPhase:
        problem, config = self.problem, self.problem.config
        warm_up(self.comm, lambda: _compile_tabulate(problem))
        surrogate, (burn_in, sweeps, target) = (
            Pseudolikelihood(problem.lattice, config.model.labels),
            final(config),
        )
        return PseudolikelihoodPhase(surrogate, config.prior.beta, burn_in, sweeps, config.seed, target)

    def _log_density(self) -> LogDensity:
        return self.phase.surrogate.log_density(self.problem.labels, self.problem.statistic)

    def cautions(self) -> Iterator[str]:
        yield "the pseudolikelihood is no likelihood: its intervals need not cover the truth"


def _compile_tabulate(problem: Problem) -> None:
    lattice = problem.lattice
    Pseudolikelihood(lattice, problem.config.model.labels).configurations(np.zeros(lattice.shape, np.uint8))


class PseudolikelihoodMethod(ChainMethod):
    """method = "pseudolikelihood"."""

    name = "pseudolikelihood"
    binding = False

    def fit(self, comm: Comm, problem: Problem) -> PseudolikelihoodFit:
        return PseudolikelihoodFit(comm, problem)


register(PseudolikelihoodMethod())
