"""Priors that a user need not state: what "image" and "auto" stand for, in numbers.

Noise.  With m the mean of the pixels and s their spread, "image" stands for

    mu_j ~ N(m, (5 s)**2),    sigma_j**2 ~ inverse gamma(3 / 2, s**2 / (2 k**2)),

so that the same picture in other units, y -> a + b y, has the same posterior of beta and of the labels.
5 s is about the range of the pixels, which Richardson and Green (1997) take.  The variances have the prior
that Fraley and Raftery (2007) give to mixtures: k labels side by side fill the spread of the image.  It is
worth three pixels: too little to matter to a label that has some, and enough that an empty one is neither a
spike, which would hold no pixel, nor as wide as the image, which would take any.

The spread is the root mean square distance of the pixels from m, each brought within the quantiles of
`TAILS`: a few dead or hot pixels, however far, do not set the scale of all others.

Interval of beta.  "auto" is from 0 to 2.5 beta_crit.  At its end one pixel in 6700 differs from all its
neighbours in the plane with two labels, and fewer with more: fewer than in images of large plain regions.

Where images are simulated from such priors there is no image yet: "image" is then one of mean 0 and spread 1.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import LARGEST_POWER, Graph
from ..lattice import LARGEST_BETA, Lattice
from .gaussian import is_prior
from .transition import transition

# As in the input.
IMAGE = "image"

# Of the pixels: the quantiles beyond which none is farther than the quantile.
TAILS = (0.001, 0.999)
# The sd of the prior of a mean in spreads, the shape and the scale of that of a variance: see above.
MEAN_SD, SHAPE, SCALE = 5.0, 1.5, 0.5
# The end of the prior of beta, in beta_crit.
BEYOND = 2.5


@dataclass(frozen=True)
class Scale:
    """Where the pixels of an image lie, and how far they spread."""

    centre: float
    spread: float

    @classmethod
    def of(cls, pixels: np.ndarray) -> "Scale":
        """That of the pixels (n,) that exist."""
        centre = float(pixels.mean())
        low, high = np.quantile(pixels, TAILS)
        # Where nearly all pixels are the same, the others are what there is to tell apart.
        near = np.clip(pixels, low, high) if low < high else pixels
        distance = near - centre
        return cls(centre, math.sqrt(float((distance * distance).mean())))

    def prior(self, prior: Any, labels: int) -> Any:
        """The table `[prior]` with numbers for the words of its noise."""
        part = self.spread / labels
        mean = _put(prior.mean, labels, mean=self.centre, sd=MEAN_SD * self.spread)
        variance = _put(prior.variance, labels, shape=SHAPE, scale=SCALE * part * part)
        return replace(prior, mean=mean, variance=variance)


STANDARD = Scale(0.0, 1.0)


def _put(table: Any, labels: int, **numbers: float) -> Any:
    asked = {name: (number,) * labels for name, number in numbers.items() if getattr(table, name) == IMAGE}
    return replace(table, **asked)


def on_image(config: Any, pixels: np.ndarray) -> Any:
    """The input with numbers where the priors of the noise ask for those of the image.

    Observed labels have no noise.
    """
    if config.image.kind == "labels":
        return config
    return replace(config, prior=Scale.of(pixels).prior(config.prior, config.model.labels))


def on_lattice(config: Any, lattice: Lattice) -> Any:
    """The input with the ends of the prior of beta, where they are those of the lattice."""
    if not config.prior.left_to_lattice:
        return config
    end = min(BEYOND * transition(lattice, config.model.labels), LARGEST_BETA)
    if isinstance(lattice, Graph):
        end = min(end, LARGEST_POWER / lattice.most)
    return replace(config, prior=replace(config.prior, beta=(0.0, end)))


def before_images(config: Any, lattice: Lattice) -> Any:
    """The input of images that are yet to be simulated: numbers in the priors that their truth is drawn from,
    which are those of the fits too."""
    config = on_lattice(config, lattice)
    drawn = STANDARD.prior(config.prior, config.model.labels)
    keep = {
        table: getattr(config.prior, table)
        for table, parameter in (("mean", "mean"), ("variance", "sd"))
        if not is_prior(getattr(config.simulate, parameter))
    }
    return replace(config, prior=replace(drawn, **keep))
