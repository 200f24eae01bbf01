"""What a user should know before quoting the numbers of a fit, each in a sentence; docs/warnings.md has all.

The constants say from which numbers on.  Nothing here depends on how a fit was computed, but for the cautions
that its method adds.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..estimation.verdicts import FLAG_DISAGREE, FLAG_SHORT, LARGEST_RHAT
from .summary import Summary

if TYPE_CHECKING:  # numba comes with these, which who asks for a constant does not need
    from ..binding.function import Binding
    from ..methods.base import Fit

# Fewer effective draws than this do not determine a 95 % interval.
FEW_DRAWS = 100.0
# The binding function is too coarse where its error of beta is more than this part of the posterior's sd.
COARSE = 0.2
# The prior cuts the posterior off where the 95 % interval comes this close to an end, in parts of its width.
EDGE = 0.005
# A chain is in a minor mode where its score is behind the best by more than this times the root of the number
# of pixels; within a mode a score has an sd of up to 0.3 of that root.
MINOR = 1.5
# Rounding adds grain**2 / 12 to a label's variance: beyond this part of its sd, more than 0.02 %.
GRAIN = 0.05


def cautions(
    fit: "Fit",
    beta: Summary,
    diagnostics: Mapping[str, np.ndarray],
    binding_error: float,
    behind: np.ndarray,
) -> Iterator[str]:
    """Every caution about the posterior to quote.

    beta        : its summary
    diagnostics : of every quantity, rows (R-hat, bulk and tail effective size)
    behind      : (chains,) how far the score of each chain is behind the best; of hidden images, else empty
    """
    apart = [
        f"{name} of label {j + 1}" if rows.ndim > 1 else name
        for name, rows in diagnostics.items()
        for j, row in enumerate(np.atleast_2d(rows))
        if row[0] > LARGEST_RHAT
    ]
    if apart:
        yield (
            f"chains disagree, or have not settled (R-hat above {LARGEST_RHAT}): {', '.join(apart)}; "
            f"a longer burn-in and more {fit.length}, or look for two modes"
        )
        yield from minor_modes(behind, fit.problem.lattice.sites)
    # Of chains the tails count too: the ends of the interval lie there.
    ess = float(min(beta.ess, *diagnostics["beta"][1:])) if "beta" in diagnostics else beta.ess
    if ess < FEW_DRAWS:
        yield f"beta has {ess:.0f} effective draws; raise {fit.length}"
    yield from fit.cautions()
    if binding_error > COARSE * beta.sd:
        yield (
            f"the binding function's error of beta, {binding_error:.2g}, is large against the posterior sd "
            f"{beta.sd:.2g}; raise precompute.points or precompute.iterations"
        )
    if fit.problem.binding is not None:
        yield from flagged(fit.problem.binding, beta)
    yield from at_the_edge(fit.problem.config.prior.beta, beta)


def minor_modes(behind: np.ndarray, sites: int) -> Iterator[str]:
    """Names the chains of hidden labels that are in a mode of much less evidence than the best."""
    worse = np.flatnonzero(behind > MINOR * np.sqrt(sites))
    if worse.size:
        numbers, least = ", ".join(str(n + 1) for n in worse), behind[worse].min()
        yield (
            f"some chains are in a minor mode: {numbers} of {behind.size}, whose approximate log evidence is "
            f"{least:.0f} or more behind the best; do not quote the chains together, "
            f"try another seed or fewer labels"
        )


def flags_near(binding: "Binding", low: float, high: float, sd: float) -> np.ndarray:
    """The flags of the betas of the grid within an sd of the interval."""
    return binding.flag[(binding.beta >= low - sd) & (binding.beta <= high + sd)]


def flagged(binding: "Binding", beta: Summary) -> Iterator[str]:
    """Says where chains of the binding function are flagged that the posterior depends on."""
    near = flags_near(binding, beta.low, beta.high, beta.sd)
    disagree, short = (int(np.count_nonzero(near & bit)) for bit in (FLAG_DISAGREE, FLAG_SHORT))
    if disagree:
        yield (
            f"the posterior lies where a random and an ordered start of the precomputation disagree "
            f"({disagree} betas): S(z) has two phases there"
        )
    # A few short chains among others do not matter: the curve is fitted to all of them.
    if 2 * short > near.size:
        yield (
            f"the chains of the binding function are short near the posterior ({short} of {near.size}): "
            f"its errors are uncertain; raise precompute.iterations"
        )


def at_the_edge(interval: tuple[float, float], beta: Summary) -> Iterator[str]:
    """Says so where the prior cuts the posterior of beta off."""
    low, high = interval
    margin = EDGE * (high - low)
    if (low > 0.0 and beta.low < low + margin) or beta.high > high - margin:
        yield f"the posterior of beta reaches an end of its prior, {low:g} to {high:g}; widen prior.beta"


def coarse_grain(grain: float, sd: np.ndarray) -> Iterator[str]:
    """Says so where pixel values are rounded too coarsely for the narrowest label.

    Pixels are counted in grains: where a few are very far from all others, these have few grains.

    grain : the step to which the pixel values are rounded
    sd    : (k,) posterior means of the sd of every label
    """
    narrow = int(np.argmin(sd))
    if grain > GRAIN * sd[narrow]:
        yield (
            f"pixel values are rounded to {grain:.2g}, as the farthest is so far from the others, which is "
            f"not small against the sd of label {narrow + 1}, {sd[narrow]:.2g}; if far values are no data, "
            f"say so: image.nodata or image.mask"
        )


def few_particles(particles: Summary | None, marginal: Summary | None) -> Iterator[str]:
    """Says so where the particles for the last S(z), beside a marginal posterior, are worth few draws."""
    if marginal is not None and particles is not None and particles.ess < FEW_DRAWS:
        yield (
            f"the particles for the last S(z) are worth {particles.ess:.0f} draws: raise smc.particles; "
            f"the marginal posterior does not depend on them"
        )
