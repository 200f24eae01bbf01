"""The beta of the label chains beside an SMC whose particles are still far from p(beta | S(z)).

In the paper a label chain draws its betas from the particles.  In the first iterations these are the prior,
and many a sweep is made at a beta near 0, where all labels have equal shares: a chain with very unequal
labels, even one that started right, leaves its mode there and does not come back.  So as long as the
particles are far from p(beta | S(z)), their root mean square distance from its mean more than FAR of its
standard deviations, a chain draws beta from p(beta | S(z)) itself before each sweep, as in the final phase.

Such a chain does not follow the particles, it is at its own posterior already; so it makes only a part of the
sweeps of an iteration, which most of the time of a fit would otherwise go into.
"""

from dataclasses import dataclass

from .. import arithmetic
from ..binding.function import Binding
from ..estimation import quadrature
from ..kernels.chain import Trace
from ..smc.sampler import State
from .chain import LabelChain

FAR = 3.0
# The part of `label_sweeps` that a guided chain makes, and the fewest sweeps that tell the noise of S(z).
PART, FEWEST = 0.1, 20


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

    def sweep(self, chain: LabelChain, label_sweeps: int) -> Trace:
        """Sweeps of a chain, each at a beta drawn before it from p(beta | S(z))."""
        sweeps = min(label_sweeps, max(FEWEST, round(PART * label_sweeps)))
        return chain.sample(self.binding.table, self.interval, sweeps, self.marginal, count=False)
