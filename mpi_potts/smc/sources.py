"""Where the pseudo-statistics of a particle come from: the binding function, or simulated images.

The binding function's are drawn from the Gaussian auxiliary model (paper, section 3), or, where there are
infinitely many, not drawn at all: mean and sd say what part of them is near S(z) (`kernels/windows.py`).
Pseudo-data (section 5) are what it takes the place of: for each particle one Swendsen-Wang chain starts from
random labels at its beta; after `burn_in` sweeps the statistic of every `spacing`-th image is one of its M
replicates.  They are correlated, but each has the right distribution, so the target of the SMC is the same,
with a larger variance of the counts.

All draws are addressed by the birth of the particle, so a continued run has the same ones.
"""

from typing import Protocol

import numpy as np

from .. import rng
from ..errors import InputError
from ..kernels import smc as kernels
from ..lattice import LARGEST_BETA
from ..model.potts import Sampler
from ..rng import Purpose
from .distances import FiniteReplicates, InfiniteReplicates, Replicates

# An sd of S(x) below this is one that no chain has seen: S is a whole number.
LEAST_SD = 1e-3


class Source(Protocol):
    """Where pseudo-statistics come from.  Draws are addressed: the same arguments give the same bits."""

    replicates: Replicates  # how many, and what stands for them
    support: tuple[float, float]  # the values of beta it can draw for
    costly: bool  # rather send what was drawn to another rank than draw it again

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        """Fill out, (n, width) float64, for n particles born at (iteration, index) with their beta."""


class Curve(Protocol):
    """What is asked of a binding function: its ascending grid, and mean and sd of S(z) given beta."""

    @property
    def beta(self) -> np.ndarray:
        """(n,) betas; nothing is asked beyond the first and the last of them."""

    def moments(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of S(z) at each beta."""


class BindingSource:
    """Pseudo-statistics from the Gaussian auxiliary model: x = mean(beta) + sd(beta) * normal."""

    costly = False

    def __init__(self, binding: Curve, replicates: int, seed: int):
        self.replicates: Replicates = FiniteReplicates(replicates)
        self.support = float(binding.beta[0]), float(binding.beta[-1])
        self._moments = binding.moments
        self._stream = rng.stream(seed, Purpose.PSEUDO_STATISTIC)

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        """As `Source.draw`: the same normals whatever the rank, at the address of the birth."""
        kernels.draw(out, *self._moments(beta), iteration, index, self._stream)


class ExpectedSource:
    """Mean and sd of the Gaussian auxiliary model in place of pseudo-statistics: infinitely many of them."""

    costly = False
    replicates: Replicates = InfiniteReplicates()

    def __init__(self, binding: Curve):
        self.support = float(binding.beta[0]), float(binding.beta[-1])
        self._moments = binding.moments

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        """As `Source.draw`, with nothing left to chance."""
        out[:, 0], sd = self._moments(beta)
        out[:, 1] = np.maximum(sd, LEAST_SD)


def from_binding(binding: Curve, replicates: int | str, seed: int) -> Source:
    """So many pseudo-statistics by a binding function, or "infinite"."""
    return (
        ExpectedSource(binding) if isinstance(replicates, str) else BindingSource(binding, replicates, seed)
    )


class SimulationSettings(Protocol):
    """How the images of a particle are simulated: the [pseudo_data] table of the input."""

    @property
    def burn_in(self) -> int:
        """Sweeps before the first statistic."""

    @property
    def spacing(self) -> int:
        """Sweeps from one statistic to the next."""


class SimulationSource:
    """Pseudo-statistics of simulated images: M from one Swendsen-Wang chain for each particle."""

    costly = True

    def __init__(self, sampler: Sampler, replicates: int, seed: int, keys: SimulationSettings):
        self.replicates: Replicates = FiniteReplicates(replicates)
        self.support = 0.0, LARGEST_BETA
        self.sweeps = keys.burn_in + keys.spacing * replicates
        self._sampler, self._seed, self._keys = sampler, seed, keys

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        """As `Source.draw`: one chain after the other, each with the streams of its particle's birth."""
        for row, b, t, i in zip(out, beta, iteration, index):
            row[:] = self._simulate(float(b), int(t), int(i))

    def _simulate(self, beta, iteration, index):
        purposes = Purpose.PSEUDO_START, Purpose.PSEUDO_SWEEP
        start, sweeps = (rng.key(rng.stream(self._seed, p, iteration), index) for p in purposes)
        state = self._sampler.start("random", start)
        statistic = self._sampler.sweeps(state, beta, sweeps, 0, self.sweeps)
        return statistic[self._keys.burn_in + self._keys.spacing - 1 :: self._keys.spacing]


def check_support(source: Source, interval: tuple[float, float]) -> None:
    """Refuse a prior of beta that the source cannot draw for."""
    low, high = interval
    if not (source.support[0] <= low < high <= source.support[1]):
        raise InputError(
            f"prior.beta = [{low:g}, {high:g}]: the binding function covers {source.support[0]:g} to "
            f"{source.support[1]:g}, and the prior must lie inside it"
        )
