"""The tables of the input file for the comparison of SMC-ABC with other methods; declared as in inputs.py."""

from dataclasses import dataclass

from .schema import Choice, Flag, Integer, Items, Named, Number, Text, key

SAMPLERS = ("swendsen-wang", "gibbs")

_POSITIVE = Number(low=0.0, open_low=True)


@dataclass(frozen=True)
class ExchangeKeys:
    iterations: int = key(Integer(2), 100_000, "iterations of each chain, burn-in included")
    burn_in: int = key(Integer(0), 10_000, "iterations left out at the start, in which the step adapts")
    auxiliary_sweeps: int = key(Integer(1), 500, "sweeps for each auxiliary image")
    auxiliary_sampler: str = key(Choice(*SAMPLERS), "gibbs", "sampler of the auxiliary images")
    auxiliary_start: str = key(
        Choice("current", "random"), "current", "first labels of an auxiliary image: the current z, or random"
    )
    step: float = key(_POSITIVE, 0.05, "sd of the first proposals of beta")


@dataclass(frozen=True)
class RejectionKeys:
    draws: int = key(Integer(2), 100_000, "number of draws from the prior")
    tolerance: float | None = key(Number(0.0), None, "largest distance accepted; instead of quantile")
    quantile: float = key(
        Number(0.0, 1.0, True), 0.01, "part of the draws accepted, the nearest (not used with tolerance)"
    )
    adjust: bool = key(Flag(), False, "local-linear regression adjustment of the accepted draws")


@dataclass(frozen=True)
class PseudoDataKeys:
    burn_in: int = key(Integer(0), 500, "Swendsen-Wang sweeps from a random start before the first statistic")
    spacing: int = key(Integer(1), 1, "sweeps from one statistic of a particle to the next")


# A method, or with "-pseudo" its form with simulated pseudo-data.
STUDIED = (
    "smc-abc",
    "smc-abc-pseudo",
    "path",
    "synthetic",
    "exchange",
    "pseudolikelihood",
    "rejection",
    "rejection-pseudo",
)


@dataclass(frozen=True)
class StudyKeys:
    methods: tuple[str, ...] = key(
        Items(Named(Choice(*STUDIED))),
        ("smc-abc", "path"),
        "they fit each image; one method can have several names, for different changes",
    )
    changes: tuple[str, ...] = key(
        Items(Text(), least=0), (), '"METHOD table.key=value": what one method has different from the input'
    )
    images_from: int = key(Integer(0), 0, "first image of this job; for jobs that share a study")
    images_to: int | None = key(Integer(1), None, "the image after the last of this job; all by default")
    draws: int = key(Integer(1), 99, "thinned draws among which the true beta is ranked")
    bins: int = key(Integer(2), 20, "largest number of bins of the ranks' histogram")
