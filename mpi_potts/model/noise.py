"""What the rest of the program asks of a noise model, whichever it is, and which one an input has.

A noise model says how the observation of a pixel follows from its label: y_i | z_i = j has a density with P
parameters of label j.  An object of a model is its prior for k labels; *values* are the parameters of all
labels, (P, k) or with more axes between.  Chains have images of mean 0 and variance 1 inside, and their
values in these units.  `gaussian` is the paper's model; kernels ask the same of `kernels/noise.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from .gaussian import GaussianNoise


class NoiseModel(Protocol):
    """The prior of the noise of k labels, and what follows from parameters of this kind."""

    # Names of the parameters, as in noise/NAME, diagnostics/NAME and simulate.NAME; the first is where the
    # observations of a label are.
    names: ClassVar[tuple[str, ...]]
    symbols: ClassVar[tuple[str, ...]]  # of the same in posterior.nc and in reports
    title: ClassVar[str]  # of the distribution of an observation, for captions

    @classmethod
    def of_keys(cls, prior: Any, labels: int) -> "NoiseModel":
        """The prior that the table `[prior]` of an input says."""

    @property
    def labels(self) -> int:
        """k."""

    @property
    def exchangeable(self) -> bool:
        """Whether the priors are the same for all labels, so that only their order tells them apart."""

    @property
    def order(self) -> np.ndarray:
        """(k,) the labels by where their observations are expected, the lowest first."""

    @property
    def location_prior(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) mean and sd of the prior of the first parameter, where the observations of a label are."""

    def standardised(self, centre: float, unit: float) -> "NoiseModel":
        """The prior of the parameters of (y - centre) / unit."""

    def most_probable(self, y: np.ndarray) -> np.ndarray:
        """(n,) for observations y (n,) the label under whose prior each is most probable."""

    def log_prior(self, values: np.ndarray) -> float:
        """The logarithm of the prior density of values (P, k), up to a constant."""

    def log_likelihoods(self, values: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """(..., m, k) log p(observations of label b | values of a), of values (P, m) and sums (..., k,
        columns) that `label_sums` made."""

    def log_marginals(self, sums: np.ndarray) -> np.ndarray:
        """(..., k) log p(observations of label b), marginal over its prior."""

    @staticmethod
    def label_sums(z: np.ndarray, y: np.ndarray, labels: int) -> np.ndarray:
        """(k, columns) what these two need of observations y (n,) with labels z."""

    def state(self, values: np.ndarray, power: float = 1.0) -> Any:
        """The record of values and their prior that steps of a chain change in place; the likelihood of the
        observations counts to the given power."""

    @staticmethod
    def data(layout: Any, image: np.ndarray) -> Any:
        """The record of an image of mean 0 and variance 1, for sweeps in a layout."""

    @staticmethod
    def density(values: np.ndarray) -> Any:
        """The record by which kernels know the density of an observation."""

    @staticmethod
    def of_labels(z: np.ndarray, y: np.ndarray, labels: int, least: float, empty: float) -> np.ndarray:
        """Values (P, k) of observations y (n,) with labels z: where a chain starts.

        A label's variance is at least `least`, and `empty` where it has no pixels.
        """

    @staticmethod
    def in_units(values: np.ndarray, centre: float, unit: float) -> np.ndarray:
        """From values of (y - centre) / unit to those of y."""

    @staticmethod
    def widths(values: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """(..., k) the standard deviations of observations of each label."""

    @staticmethod
    def grain(pixels: np.ndarray) -> float:
        """What the pixels (n,) of an image are rounded to inside, in the image's units."""

    @staticmethod
    def truth(given: Mapping[str, Any], prior: Any, labels: int, stream: np.ndarray) -> np.ndarray:
        """(P, k) values of a synthetic image, each given by name, or "prior": drawn from `[prior]`."""

    @staticmethod
    def simulate(values: np.ndarray, z: np.ndarray, stream: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Observations of pixels with labels z, addressed by their raster numbers `site`."""

    @staticmethod
    def pdf(values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(n, k) the density of observations x (n,) under every label, for figures."""

    @staticmethod
    def apart(values: np.ndarray, label: int) -> np.ndarray:
        """(k,) how far the noise of every label is from that of one, in the latter's standard deviations."""

    @staticmethod
    def describe(prior: Any) -> str:
        """The prior of the table `[prior]` in a few words, for `check`."""


MODELS: tuple[type[NoiseModel], ...] = (GaussianNoise,)


def named(parameters: Iterable[str]) -> type[NoiseModel]:
    """The model whose parameters have these names, as those of a result."""
    wanted = set(parameters)
    return next(model for model in MODELS if set(model.names) == wanted)


def noise_kind(config: Any) -> type[NoiseModel]:
    """The noise model of an input; there is one so far."""
    return GaussianNoise


def noise_of(config: Any) -> NoiseModel:
    """The prior of the noise of an input."""
    return noise_kind(config).of_keys(config.prior, config.model.labels)
