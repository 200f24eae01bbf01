"""Where the pseudo-statistics of a particle come from: the binding function, or simulated images.

The binding function's are drawn from the Gaussian auxiliary model (paper, section 3).  Pseudo-data (section
5) are what it takes the place of: for each particle one Swendsen-Wang chain starts from random labels at its
beta; after `burn_in` sweeps the statistic of every `spacing`-th image is one of its M replicates.  They are
correlated, but each has the right distribution, so the target of the SMC is the same, with a larger
variance of the counts.

All draws are addressed by the birth of the particle, so a continued run has the same ones.
"""

from typing import Protocol

import numpy as np

from .. import rng
from ..config.inputs import PseudoDataKeys
from ..errors import InputError
from ..kernels import smc as kernels
from ..model.potts import LARGEST_BETA, Sampler
from ..rng import Purpose


class Source(Protocol):
    """Where pseudo-statistics come from.  Draws are addressed: the same arguments give the same bits."""

    replicates: int  # M
    support: tuple[float, float]  # the values of beta it can draw for
    costly: bool  # rather send what was drawn to another rank than draw it again

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        """Fill out, (n, M) float64, for n particles born at (iteration, index) with their beta."""


class BindingSource:
    """Pseudo-statistics from the Gaussian auxiliary model: x = mean(beta) + sd(beta) * normal."""

    costly = False

    def __init__(self, binding, replicates: int, seed: int):
        self.replicates = replicates
        self.support = float(binding.beta[0]), float(binding.beta[-1])
        self._moments = binding.moments
        self._stream = rng.stream(seed, Purpose.PSEUDO_STATISTIC)

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
        kernels.draw(out, *self._moments(beta), iteration, index, self._stream)


class SimulationSource:
    """Pseudo-statistics of simulated images."""

    costly = True

    def __init__(self, sampler: Sampler, replicates: int, seed: int, keys: PseudoDataKeys):
        self.replicates = replicates
        self.support = 0.0, LARGEST_BETA
        self.sweeps = keys.burn_in + keys.spacing * replicates
        self._sampler, self._seed, self._keys = sampler, seed, keys

    def draw(self, out: np.ndarray, beta: np.ndarray, iteration: np.ndarray, index: np.ndarray) -> None:
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
