"""Synthetic images with known truth: labels from the Potts prior, observations from the Gaussian noise.

    z ~ p(z | beta),    y_i | z_i = j  ~  N(mu_j, sigma_j^2)          (paper, equations 5 and 9)

The truth (beta, mu, sigma) of an image is given, or drawn from the priors: beta uniform, mu_j normal,
sigma_j^2 inverse gamma.  Everything about image `number` is addressed by its number, and does not depend on
how many images there are or who makes them.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .. import rng
from ..errors import InputError
from ..lattice import MASKED, Lattice
from ..rng import Purpose
from .potts import Sampler

PRIOR = "prior"


class Priors(Protocol):
    """The `[prior]` table of the input file."""

    beta: tuple[float, float]
    mean: object  # with mean and sd: a number, or one for each label
    variance: object  # with shape and scale


@dataclass(frozen=True)
class Truth:
    """The parameters of one image: inverse temperature, and mean and standard deviation of every label."""

    beta: float
    mean: np.ndarray
    sd: np.ndarray


def truth_of(config, number: int) -> Truth:
    """The truth of image `number` of an input."""
    keys = config.simulate
    try:
        return truth(config.model.labels, keys.beta, keys.mean, keys.sd, config.prior, config.seed, number)
    except InputError as error:
        raise InputError(f"{config.path}: {error}") from None


def truth(labels: int, beta, mean, sd, prior: Priors, seed: int, number: int) -> Truth:
    """The truth of image `number`.

    `beta` is a number, a list with one for each image, or "prior"; `mean` and `sd` are lists with one number
    for each label, or "prior".  Drawn means ascend where all labels have the same priors, as in a fit.
    """
    stream = rng.stream(seed, Purpose.SIMULATE_TRUTH, number)
    return Truth(
        _draw_beta(prior.beta, stream) if _is_prior(beta) else _given_beta(beta, number),
        _draw_means(prior, labels, stream) if _is_prior(mean) else _each("simulate.mean", mean, labels),
        _draw_sds(prior, labels, stream) if _is_prior(sd) else _each("simulate.sd", sd, labels),
    )


def _is_prior(value):
    return isinstance(value, str) and value == PRIOR


def _given_beta(beta, number):
    if np.ndim(beta) == 0:
        return float(beta)
    if number >= len(beta):
        raise InputError(f"simulate.beta has {len(beta)} values: one for each image is accepted")
    return float(beta[number])


def _each(name, values, labels):
    """One number for each label: a single number counts for all."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim and values.shape != (labels,):
        raise InputError(f"{name} has {values.size} values: {labels}, one for each label, are accepted")
    return np.broadcast_to(values, (labels,)).copy()


def _draw_beta(interval, stream):
    low, high = interval
    return float(low + (high - low) * rng.uniforms(stream, 0, 1)[0])


def _draw_means(prior, labels, stream):
    if isinstance(prior.mean.mean, str):
        raise InputError(
            f'prior.mean.mean = "{prior.mean.mean}": numbers are accepted where simulate.mean = "prior"'
        )
    centre = _each("prior.mean.mean", prior.mean.mean, labels)
    spread = _each("prior.mean.sd", prior.mean.sd, labels)
    mean = centre + spread * rng.normals(stream, 1, labels)
    same = all(np.ptp(values) == 0.0 for values in (centre, spread, *_variance(prior, labels)))
    return np.sort(mean) if same else mean


def _draw_sds(prior, labels, stream):
    shape, scale = _variance(prior, labels)
    return np.sqrt(scale / rng.gammas(stream, 2, shape))


def _variance(prior, labels):
    shape = _each("prior.variance.shape", prior.variance.shape, labels)
    return shape, _each("prior.variance.scale", prior.variance.scale, labels)


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
    mean: np.ndarray,
    sd: np.ndarray,
    seed: int,
    number: int,
    sweeps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (uint8, 255 where masked) and observations (float64, NaN where masked) of one image."""
    z = simulate_labels(lattice, labels, beta, seed, number, sweeps)
    exists = z != MASKED
    site = np.flatnonzero(exists)
    noise = rng.normals(rng.stream(seed, Purpose.SIMULATE_NOISE, number), 0, site)
    values = np.full(lattice.shape, np.nan)
    values[exists] = np.asarray(mean)[z[exists]] + np.asarray(sd)[z[exists]] * noise
    return z, values
