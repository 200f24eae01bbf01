"""Synthetic images with known truth: labels from the Potts prior, observations from the noise model.

    z ~ p(z | beta),    y_i | z_i = j  ~  the noise of label j          (paper, equations 5 and 9)

The truth of an image, beta and the noise, is given, or drawn from the priors: beta uniform, the noise as its
model has it.  Everything about image `number` is addressed by its number, and does not depend on how many
images there are or who makes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import rng
from ..errors import InputError
from ..lattice import MASKED, Lattice
from ..rng import Purpose
from .gaussian import GaussianNoise, is_prior
from .noise import NoiseModel, noise_kind
from .potts import Sampler


@dataclass(frozen=True)
class Truth:
    """The parameters of one image: inverse temperature, and (P, k) those of the noise of every label."""

    beta: float
    noise: np.ndarray


def truth_of(config: Any, number: int) -> Truth:
    """The truth of image `number` of an input."""
    keys, model = config.simulate, noise_kind(config)
    given = {name: getattr(keys, name) for name in model.names}
    try:
        return truth(config.model.labels, keys.beta, given, config.prior, config.seed, number, model)
    except InputError as error:
        raise InputError(f"{config.path}: {error}") from None


def truth(
    labels: int,
    beta: float | str | Sequence[float],
    noise: Mapping[str, Any],
    prior: Any,
    seed: int,
    number: int,
    model: type[NoiseModel] = GaussianNoise,
) -> Truth:
    """The truth of image `number`.

    `beta` is a number, a list with one for each image, or "prior"; `noise` has the parameters of the model by
    name, each a list with one number for each label, or "prior"; `prior` is the table `[prior]` of the input.
    """
    stream = rng.stream(seed, Purpose.SIMULATE_TRUTH, number)
    drawn = _draw_beta(prior.beta, stream) if is_prior(beta) else _given_beta(beta, number)
    return Truth(drawn, model.truth(noise, prior, labels, stream))


def _given_beta(beta, number):
    if np.ndim(beta) == 0:
        return float(beta)
    if number >= len(beta):
        raise InputError(f"simulate.beta has {len(beta)} values: one for each image is accepted")
    return float(beta[number])


def _draw_beta(interval, stream):
    low, high = interval
    return float(low + (high - low) * rng.uniforms(stream, 0, 1)[0])


def simulate_labels(
    lattice: Lattice, labels: int, beta: float, seed: int, number: int, sweeps: int
) -> np.ndarray:
    """Labels after `sweeps` sweeps of Swendsen-Wang at beta from a random start: uint8, 255 where masked."""
    sampler = Sampler(lattice, labels)
    state = sampler.start("random", rng.stream(seed, Purpose.SIMULATE_START, number))
    sampler.sweeps(state, beta, rng.stream(seed, Purpose.SIMULATE, number), 0, sweeps)
    return sampler.labels(state)


def simulate_image(
    lattice: Lattice,
    labels: int,
    beta: float,
    noise: np.ndarray,
    seed: int,
    number: int,
    sweeps: int,
    model: type[NoiseModel] = GaussianNoise,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (uint8, 255 where masked) and observations (float64, NaN where masked) of one image.

    noise : (P, k) the parameters of every label.
    """
    z = simulate_labels(lattice, labels, beta, seed, number, sweeps)
    exists = z != MASKED
    stream = rng.stream(seed, Purpose.SIMULATE_NOISE, number)
    values = np.full(lattice.shape, np.nan)
    values[exists] = model.simulate(np.asarray(noise), z[exists], stream, np.flatnonzero(exists))
    return z, values
