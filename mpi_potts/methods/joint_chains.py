"""Fits without a tolerance: chains of (beta, z, mu, sigma) over ranks, and quadrature for observed labels.

- path, synthetic: beta given S(z) by the binding function, exactly as in the final phase after an SMC;
- pseudolikelihood: beta given z by its pseudolikelihood, the cheap baseline;
- exchange: beta by an auxiliary image; the only one that needs a chain for observed labels too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .. import arithmetic, rng
from ..estimation import quadrature
from ..labels.chain import Trace
from ..labels.ensemble import Phase, SurrogatePhase, join
from ..model.pseudolikelihood import Pseudolikelihood
from ..rng import Purpose
from ..runtime.parallel import Comm, merge_rows, warm_up
from ..runtime.progress import Live
from .base import Fit, Problem
from .exchange import ACCEPTED, LOG_STEP, Exchange


class ChainFit(Fit):
    """Hidden images by a phase of the joint chains, observed labels by the density of beta."""

    unit = "sweeps"

    def __init__(self, comm: Comm, problem: Problem):
        super().__init__(comm, problem)
        self.phase = self._phase()
        self.density: quadrature.Density | None = None
        if self._in_chains:
            self.chains = problem.chains(comm, self.phase.width)

    @property
    def _in_chains(self) -> bool:
        return self.problem.hidden

    def _phase(self) -> Phase:
        raise NotImplementedError

    def _log_density(self) -> Callable[[np.ndarray], np.ndarray]:
        """log p(beta | z) of the observed labels, up to a constant."""
        raise NotImplementedError

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        problem = self.problem
        if not self._in_chains:
            self.density = quadrature.density(self._log_density(), problem.config.prior.beta)
            return
        if self.chains.burned + self.chains.drawn == 0:
            self.chains.warm_up(problem.start)
        yield from self.final(self.phase, self.unit, quiet)

    @property
    def where(self) -> str:
        return f"{self.chains.burned + self.chains.drawn} {self.unit}"

    def headline(self) -> str:
        if self.density is not None:
            return "observed labels: by quadrature"
        chains, phase = self.chains, self.phase
        return f"{chains.count} chain(s) of {phase.sweeps} {self.unit} after a burn-in of {phase.burn_in}"

    def particles(self) -> tuple[np.ndarray, np.ndarray] | None:
        """For observed labels independent draws, as many as there would be sweeps."""
        if self.density is None:
            return None
        config, n = self.problem.config, self.problem.config.fit.final_sweeps
        uniform = rng.uniforms(rng.stream(config.seed, Purpose.POSTERIOR), 0, n)
        return self.density.quantiles(uniform), np.full(n, 1.0 / n)

    def traces(self) -> dict[str, np.ndarray]:
        if self.density is None:
            return {}
        return {"density/beta": self.density.beta, "density/value": self.density.value}


class SurrogateFit(ChainFit):
    """method = "path" or "synthetic"."""

    def _phase(self) -> SurrogatePhase:
        config = self.problem.config
        keys, table = config.fit, self.problem.binding.table
        return SurrogatePhase(table, config.prior.beta, keys.method, keys.final_burn_in, keys.final_sweeps)

    def _log_density(self):
        binding, statistic = self.problem.binding, self.problem.statistic

        def path(beta):
            return beta * statistic - binding.log_normaliser(beta)

        def synthetic(beta):
            mean, sd = binding.moments(beta)
            sd = np.maximum(sd, 1e-6)
            distance = (statistic - mean) / sd
            return -arithmetic.log(sd) - 0.5 * distance * distance

        return path if self.problem.config.fit.method == "path" else synthetic


@dataclass(frozen=True)
class PseudolikelihoodPhase:
    """beta drawn before each sweep from its posterior by the pseudolikelihood of z."""

    surrogate: Pseudolikelihood
    interval: tuple[float, float]
    burn_in: int
    sweeps: int
    seed: int
    width: int = 0
    cost: int = 10

    def start(self, number: int) -> np.ndarray:
        return np.zeros(0)

    def run(self, number, chain, memory, first, steps, counting) -> Trace:
        stream, traces = rng.stream(self.seed, Purpose.FINAL_BETA, number), []
        for t in range(first, first + steps):
            density = self.surrogate.log_density(chain.labels, chain.statistic)
            uniform = rng.uniforms(stream, t, 1)
            traces.append(chain.sweep(quadrature.density(density, self.interval).quantiles(uniform)))
            if counting:
                chain.count()
        return join(traces)


class PseudolikelihoodFit(ChainFit):
    """method = "pseudolikelihood"."""

    def _phase(self) -> PseudolikelihoodPhase:
        problem, config = self.problem, self.problem.config
        warm_up(self.comm, lambda: _compile_tabulate(problem))
        surrogate, keys = Pseudolikelihood(problem.lattice, config.model.labels), config.fit
        return PseudolikelihoodPhase(
            surrogate, config.prior.beta, keys.final_burn_in, keys.final_sweeps, config.seed
        )

    def _log_density(self):
        return self.phase.surrogate.log_density(self.problem.image.labels, self.problem.statistic)

    def cautions(self) -> Iterator[str]:
        yield "the pseudolikelihood is no likelihood: its intervals need not cover the truth"


def _compile_tabulate(problem):
    lattice = problem.lattice
    Pseudolikelihood(lattice, problem.config.model.labels).configurations(np.zeros(lattice.shape, np.uint8))


class ExchangeFit(ChainFit):
    """method = "exchange"."""

    unit = "iterations"
    length = "exchange.iterations"

    @property
    def _in_chains(self) -> bool:
        return True

    def _phase(self) -> Exchange:
        problem, config = self.problem, self.problem.config
        sampler = problem.sampler(self.comm, config.exchange.auxiliary_sampler)
        return Exchange(sampler, config.prior.beta, config.exchange, config.seed)

    def _memory(self):
        """(chains, width), of all ranks."""
        return merge_rows(self.comm, self.chains.numbers, self.chains.memory, self.chains.count)

    def traces(self) -> dict[str, np.ndarray]:
        """Of every chain, the part of the proposals that was accepted after the burn-in, and the step."""
        memory = self._memory()
        return {
            "exchange/acceptance": memory[:, ACCEPTED] / self.phase.sweeps,
            "exchange/step": arithmetic.exp(memory[:, LOG_STEP]),
        }

    def headline(self) -> str:
        return f"{super().headline()}, {self.phase.keys.auxiliary_sweeps} sweeps for each auxiliary image"
