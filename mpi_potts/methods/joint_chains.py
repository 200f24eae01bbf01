"""Fits without a tolerance: chains of (beta, z, mu, sigma) over ranks, and quadrature for observed labels.

Each such method has a `Phase` of the label chains, which says how beta moves with the labels, and for
observed labels the density of beta.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .. import rng
from ..binding.function import Binding
from ..config.inputs import Config
from ..estimation import quadrature
from ..estimation.quadrature import Density
from ..labels.ensemble import LabelChains, Phase
from ..rng import Purpose
from ..runtime.parallel import Comm, decided
from ..runtime.progress import Live
from . import needs
from .base import Fit, Method, Problem, check_final_sweeps, is_hidden, length_key

LogDensity = Callable[[np.ndarray], np.ndarray]


# Independent draws from the density of beta given observed labels, where no number is asked for.
OBSERVED_DRAWS = 4000


def observed_draws(config: Config) -> int:
    """The draws from the density of beta given observed labels."""
    sweeps = config.fit.final_sweeps
    return OBSERVED_DRAWS if isinstance(sweeps, str) else sweeps


def error_of_beta(binding: Binding, beta: float) -> float:
    """The standard error that a binding function brings to beta of observed labels.

    An error d of the mean of S moves beta by d / Var(S | beta), the slope of the mean being the variance.
    """
    error, sd = binding.standard_errors(beta)[0], binding.moments(beta)[1]
    return float(error / (sd * sd)) if sd > 0.0 else np.inf


class ChainMethod(Method):
    """A method whose fit is a `ChainFit`: hidden images by final sweeps, observed labels by quadrature."""

    def check(self, config: Config) -> None:
        check_final_sweeps(config)

    def sizes(self, config: Config) -> str:
        keys = config.fit
        if keys.final_sweeps == "auto":
            return f"sweeps until fit.target is met, at most {keys.max_sweeps}, and a burn-in"
        return f"{keys.final_sweeps} sweeps after a burn-in of {keys.final_burn_in}"

    def memory(self, config: Config, size: int) -> dict[str, float]:
        draws = observed_draws(config)
        return {} if is_hidden(config) else {f"fit.final_sweeps = {draws}": 2.0 * needs.NUMBER * draws}


class ChainFit(Fit):
    """Hidden images by a phase of the joint chains, observed labels by the density of beta."""

    unit = "sweeps"
    always_in_chains = False  # observed labels too

    def __init__(self, comm: Comm, problem: Problem):
        """Collective.  The chains before their first sweeps, if there are any."""
        super().__init__(comm, problem)
        self.phase = self._phase()
        self._begun = False
        if problem.hidden or self.always_in_chains:
            self.chains = problem.chains(comm, self.phase.width)

    def _phase(self) -> Phase:
        """Collective.  How beta moves with the labels."""
        raise NotImplementedError

    def _log_density(self) -> LogDensity:
        """log p(beta | z) of the observed labels, up to a constant; on rank 0."""
        raise NotImplementedError

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        interval = self.problem.config.prior.beta
        if self.chains is None:
            self.density = decided(self.comm, self._observed, interval)
            return
        if self.chains.burned + self.chains.drawn == 0 and not self._begun:
            self.chains.warm_up(self.problem.start)
        yield from self.run_phase(self.chains, self.phase, self.unit, quiet)

    def begin_again(self) -> None:
        if self.chains is not None:
            self.chains.begin_again()
            self._begun = True

    def _observed(self, interval: tuple[float, float]) -> Density:
        """The density of beta given the observed labels, with the error that a binding function brings."""
        log_density, binding = self._log_density(), self.problem.binding
        found = quadrature.density(log_density, interval)
        error = 0.0 if binding is None else error_of_beta(binding, found.moments()[0])
        if not 0.0 < error < np.inf:
            return found
        return quadrature.density(quadrature.widened(log_density, interval, error), interval)

    @property
    def length(self) -> str:  # type: ignore[override]
        """The key that makes a run longer."""
        return length_key(self.problem.config)

    @property
    def stopped_because(self) -> str:
        ended = None if self.chains is None else self.chains.ended
        return super().stopped_because if ended is None else str(ended)

    @property
    def where(self) -> str:
        return f"{_done(self.chains)} {self.unit}"

    def headline(self) -> str:
        if self.chains is None:
            return "observed labels: by quadrature"
        chains = self.chains
        return f"{chains.count} chain(s) of {chains.drawn} {self.unit} after a burn-in of {chains.burned}"

    def particles(self) -> tuple[np.ndarray, np.ndarray] | None:
        """For observed labels independent draws, as many as there would be sweeps."""
        if self.density is None:
            return None
        config, n = self.problem.config, observed_draws(self.problem.config)
        uniform = rng.uniforms(rng.stream(config.seed, Purpose.POSTERIOR), 0, n)
        return self.density.quantiles(uniform), np.full(n, 1.0 / n)

    def traces(self) -> dict[str, np.ndarray]:
        if self.density is None:
            return {}
        return {"density/beta": self.density.beta, "density/value": self.density.value}


def _done(chains: LabelChains | None) -> int:
    return 0 if chains is None else chains.burned + chains.drawn
