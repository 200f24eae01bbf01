"""The beta of the label chains beside an SMC whose particles are still far from p(beta | S(z)).

In the paper a label chain draws its betas from the particles.  In the first iterations these are the prior,
and many a sweep is made at a beta near 0, where all labels have equal shares: a chain with very unequal
labels, even one that started right, leaves its mode there and does not come back.  So as long as the
particles are far from p(beta | S(z)), their root mean square distance from its mean more than FAR of its
standard deviations, a chain draws beta from p(beta | S(z)) itself before each sweep, as in the final phase.

Such a chain does not follow the particles, it is at its own posterior already, and the particles are on their
way to one S(z) of it.  So it makes its sweeps before the first iteration, FIRST times those of another, and
then stands still until the particles are near: they come sooner to an S(z) that does not move, and most of
the time of a fit went into those sweeps.
"""

from dataclasses import dataclass

import numpy as np

from .. import arithmetic
from ..binding.function import Binding
from ..estimation import quadrature
from ..smc.sampler import State
from .chain import LabelChain

FAR = 3.0
# A guided chain makes so many times `label_sweeps` sweeps at first, and none later.
FIRST = 5


@dataclass(frozen=True, eq=False)
class Guide:
    """p(beta | S(z)) by a binding function; beta is uniform on the interval a priori."""

    binding: Binding
    interval: tuple[float, float]
    marginal: str

    def needed(self, state: State, statistic: int) -> bool:
        """Whether the particles are far from p(beta | statistic)."""

        def log_density(beta):
            return beta * statistic - self.binding.log_normaliser(beta)

        mean, sd = quadrature.density(log_density, self.interval).moments()
        return bool(arithmetic.hypot(state.beta_mean - mean, state.beta_sd) > FAR * sd)

    def sweep(self, chain: LabelChain, state: State, label_sweeps: int) -> np.ndarray:
        """S(z) after each of a chain's sweeps, each at a beta drawn before it from p(beta | S(z))."""
        sweeps = FIRST * label_sweeps if state.iteration == 1 else 0
        return chain.sample(self.binding.table, self.interval, sweeps, self.marginal, count=False).statistic
