"""What a user should know before quoting the numbers of a fit, each in a sentence; docs/warnings.md has all.

The constants say from which numbers on.  Nothing here depends on how a fit was computed, but for the cautions
that its method adds.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimation.predictive import Predictive
from ..estimation.verdicts import FLAG_DISAGREE, FLAG_SHORT, LARGEST_RHAT
from ..lattice import LARGEST_BETA
from .summary import Summary

if TYPE_CHECKING:  # numba comes with these, which who asks for a constant does not need
    from ..binding.function import Binding
    from ..labels.ensemble import Draws
    from ..methods.base import Fit
    from ..model.noise import NoiseModel

# Fewer effective draws than this do not determine a 95 % interval.
FEW_DRAWS = 100.0
# The binding function is too coarse where its error of beta is more than this part of the posterior's sd.
COARSE = 0.2
# Chains of the binding function near the posterior know their errors if together they have so many tau.
LONG_ENOUGH = 50.0
# Betas at which starts disagree do not matter where all near the posterior have so many times their sweeps.
OUTWEIGHED = 10.0
# The prior cuts the posterior off where the 95 % interval comes this close to an end, in parts of its width.
EDGE = 0.005
# Chains are in modes of their own where their means are so many sds apart.
MODES = 1.5
# Rounding adds grain**2 / 12 to a label's variance: beyond this part of its sd, more than 0.02 %.
GRAIN = 0.05
# Residuals that are not those of the noise model.  Of many pixels any misfit is significant, so it must also
# be large enough to move beta.  Seen at 125x125, k = 3, means 3.3 sds apart, beta = 0.8: t noise of 4 degrees
# of freedom has a kurtosis of 3 and more and moves beta by 4 posterior sds, Laplace noise 1.5 to 2 and 6 sds;
# noise averaged over 3x3 pixels correlates neighbours by 0.25 and moves beta by 2 to 4 sds, a point spread of
# 0.6 and 4 times 0.1 by 0.07 and 12 to 16 sds.
SKEWED, TAILED = 0.25, 0.5
# Neighbours of one label, and all neighbours.
CORRELATED, BETWEEN = 0.05, 0.02
# What effective draws are missing is known roughly: so many times the sweeps are named.
MARGIN = 1.3
# How many sds beside what the model expects; kurtosis, whose distribution has a tail, needs the most.
SURE = 5.0
# A label is not where its prior put it beyond this many of the prior's sds.
FAR = 3.0


def cautions(
    fit: "Fit",
    beta: Summary,
    diagnostics: Mapping[str, np.ndarray],
    binding_error: float,
    behind: np.ndarray,
    spare: np.ndarray,
    one_mode: bool = True,
) -> Iterator[str]:
    """Every caution about the posterior to quote.

    beta        : its summary
    diagnostics : of every quantity, rows (R-hat, bulk and tail effective size)
    behind      : (chains,) how far the score of each chain is behind the best; of hidden images, else empty
    spare       : labels without pixels, whose noise is as slow to settle as it is without consequence
    one_mode    : whether all chains are in it, so that more of the same would help
    """
    apart = [
        f"{name} of label {j + 1}" if rows.ndim > 1 else name
        for name, rows in diagnostics.items()
        for j, row in enumerate(np.atleast_2d(rows))
        if row[0] > LARGEST_RHAT and not (rows.ndim > 1 and j in spare)
    ]
    if apart:
        yield (
            f"chains disagree, or have not settled (R-hat above {LARGEST_RHAT}): {', '.join(apart)}; "
            f"a longer burn-in and more {fit.length}, or look for two modes"
        )
        yield from minor_modes(behind, fit.problem.lattice.sites)
    yield from short_of_target(fit, one_mode)
    # Of chains the tails count too: the ends of the interval lie there.
    ess = float(min(beta.ess, *diagnostics["beta"][1:])) if "beta" in diagnostics else beta.ess
    if ess < FEW_DRAWS and one_mode:
        yield f"beta has {ess:.0f} effective draws; raise {fit.length}"
    yield from fit.cautions()
    if binding_error > COARSE * beta.sd:
        yield too_coarse(fit.problem.config.precompute, binding_error, beta)
    if fit.problem.binding is not None:
        yield from flagged(fit.problem.binding, beta)
        yield from between_phases(fit.problem.binding, beta, binding_error)
    yield from at_the_edge(fit.problem.config.prior.beta, beta, fit.problem.binding)


def short_of_target(fit: "Fit", one_mode: bool = True) -> Iterator[str]:
    """Says so where final sweeps ended before their target was met, with what is missing.

    one_mode : whether all chains are in it, so that more of the same would help
    """
    found, keys = None if fit.chains is None else fit.chains.reached, fit.problem.config.fit
    if found is None or found.met:
        return
    if found.apart:
        yield f"the chains have settled apart, and more sweeps would not bring them together: {found.words}"
        return
    if np.isfinite(found.more):
        more = float(f"{MARGIN * found.more:.2g}")
        many, to = f"about {more:.0f}", f" from {keys.max_sweeps} to {keys.max_sweeps + more:.0f}"
    else:
        many, to = "many", ""
    unless = "" if one_mode else ", unless the chains are in modes of their own, which sweeps do not join"
    yield (
        f"the final sweeps ended before fit.target was met: {found.words}; {many} more sweeps are needed"
        f"{unless}: raise fit.max_sweeps{to}, and the same command goes on from here"
    )


def modes(draws: "Draws", spare: np.ndarray) -> bool:
    """Whether chains are in modes of their own: of anything but spare labels, their means are more than
    `MODES` of the sd within chains apart."""
    if len(draws.beta) < 2:
        return False
    held = np.setdiff1d(np.arange(max((v.shape[2] for v in draws.noise.values()), default=0)), spare)
    series = [draws.beta[..., None], draws.statistic[..., None]]
    for values in (*series, *(values[:, :, held] for values in draws.noise.values())):
        within = np.sqrt(values.var(axis=1).mean(axis=0))
        if (np.ptp(values.mean(axis=1), axis=0) > MODES * within).any():
            return True
    return False


def not_one_answer(beta: np.ndarray, shares: np.ndarray, why: str) -> str:
    """What is said first where chains are in modes of their own.

    beta : (chains,) posterior means.  shares : (chains, k) of the labels.  why : they could not be crossed
    """
    each = (
        f"chain {c + 1}: beta {mean:.4f}, shares {', '.join(f'{share:.3f}' for share in own)}"
        for c, (mean, own) in enumerate(zip(beta, shares))
    )
    return f"this is not one answer: chains are in modes of their own, whose weights {why}; {'; '.join(each)}"


def minor_modes(behind: np.ndarray, sites: int) -> Iterator[str]:
    """Names the chains of hidden labels that are in a mode of much less evidence than the best."""
    from ..labels.starts import untold  # numba comes with it

    worse = np.flatnonzero(behind > untold(sites))
    if worse.size:
        numbers, least = ", ".join(str(n + 1) for n in worse), behind[worse].min()
        yield (
            f"some chains are in a minor mode: of the {behind.size} chains number {numbers}, whose "
            f"approximate log evidence is {least:.0f} or more behind the best; do not quote the chains "
            f"together, try another seed or fewer labels"
        )


def too_coarse(keys: Any, binding_error: float, beta: Summary) -> str:
    """Says how much more the binding function needs: its error falls with the root of its sweeps."""
    ratio = binding_error / (keys.accuracy * beta.sd)
    more = (
        f"about {float(f'{ratio * ratio:.2g}'):g} times the sweeps would make it {keys.accuracy:g} of that sd"
    )
    how = (
        f"raise precompute.iterations, which is {keys.iterations}"
        if keys.grid == "adaptive"
        else 'take precompute.grid = "adaptive", or raise precompute.points or precompute.iterations'
    )
    return (
        f"the binding function's error of beta, {binding_error:.2g}, is large against the posterior sd "
        f"{beta.sd:.2g}; {more}: {how}"
    )


def flags_near(binding: "Binding", low: float, high: float, sd: float) -> np.ndarray:
    """The flags of the betas of the grid within an sd of the interval.

    Chains that are short are not flagged as such where few are among many, or where they are long enough
    together, nor starts that disagree where others outweigh them: the curve is fitted to all of them.
    """
    inside = (binding.beta >= low - sd) & (binding.beta <= high + sd)
    flags, counted = binding.flag[inside], binding.counted[inside]
    disagree = flags & FLAG_DISAGREE > 0
    if OUTWEIGHED * counted[disagree].sum() < counted.sum():
        flags = flags & ~FLAG_DISAGREE
    worth = float(np.sum(counted / binding.tau[inside]))
    short = 2 * np.count_nonzero(flags & FLAG_SHORT) > flags.size and worth < LONG_ENOUGH
    return flags if short else flags & ~FLAG_SHORT


def flagged(binding: "Binding", beta: Summary) -> Iterator[str]:
    """Says where chains of the binding function are flagged that the posterior depends on."""
    near = flags_near(binding, beta.low, beta.high, beta.sd)
    disagree, short = (int(np.count_nonzero(near & bit)) for bit in (FLAG_DISAGREE, FLAG_SHORT))
    if disagree:
        yield (
            f"the posterior lies where a random and an ordered start of the precomputation disagree "
            f"({disagree} betas): S(z) has two phases there, and beta is known to its error at best"
        )
    if short:
        yield (
            f"the chains of the binding function are short near the posterior ({short} of {near.size}): "
            f"its errors are uncertain; raise precompute.iterations"
        )


def between_phases(binding: "Binding", beta: Summary, error: float) -> Iterator[str]:
    """Says so where S(z) lies in the gap of a first-order transition, and the error of beta matters."""
    if error > COARSE * beta.sd and binding.between_phases(beta.mean):
        yield (
            f"S(z) lies between the two phases of a first-order transition, where beta rests on how often "
            f"chains of the binding function passed from one to the other: its error of beta, {error:.2g}, "
            f"is uncertain itself, though taken twice as large as the chains say"
        )


def at_the_edge(
    interval: tuple[float, float], beta: Summary, binding: "Binding | None" = None
) -> Iterator[str]:
    """Says so where the prior cuts the posterior of beta off, with the prior to take."""
    low, high = interval
    margin = EDGE * (high - low)
    below, above = low > 0.0 and beta.low < low + margin, beta.high > high - margin
    if not (below or above):
        return
    start = math.floor(100.0 * max(0.0, low - beyond(low, interval, beta, binding))) / 100.0 if below else low
    stop = math.ceil(100.0 * (high + beyond(high, interval, beta, binding))) / 100.0 if above else high
    wider = f"[{start:g}, {min(stop, LARGEST_BETA):g}]"
    yield (
        f"the posterior of beta reaches an end of its prior, {low:g} to {high:g}; widen prior.beta, to "
        f"{wider} say: chains then go on from their labels, and all draws begin again"
    )


def beyond(end: float, interval: tuple[float, float], beta: Summary, binding: "Binding | None") -> float:
    """How far beyond an end of its prior the posterior of beta may reach, about.

    Cut off at a distance d from its mean it falls off like exp(x / d) there, so that its logarithm has the
    slope 1 / d; with the curvature V = Var(S | beta) its largest value lies 1 / (d V) beyond the end.  The
    labels of a hidden image follow beta: twice that, and six standard deviations.  Without a binding function
    nothing is known of V: as far as the prior is wide.
    """
    distance = max(abs(end - beta.mean), 1e-9)
    sd = 0.0
    if binding is not None:
        sd = float(binding.moments(min(max(end, binding.beta[0]), binding.beta[-1]))[1])
    if sd == 0.0:
        return interval[1] - interval[0]
    # Near an end where S hardly moves the curvature says nothing: no farther than the prior is wide.
    return min(max(2.0 / (distance * sd * sd) + 6.0 / sd, 6.0 * beta.sd), interval[1] - interval[0])


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


def far_from_prior(noise: "NoiseModel", values: np.ndarray) -> Iterator[str]:
    """Names the labels whose posterior is not where their prior put them.

    values : (P, k) posterior means of the noise
    """
    where, centre, sd = values[0], *noise.location_prior
    name, distance = noise.names[0], np.abs(where - centre) / sd
    remedy = "the prior is too narrow, or centred elsewhere"
    if not noise.exchangeable:
        remedy = 'the prior is off, or the label is not the one meant; fit.start = "prior" starts from that'
    for j in np.flatnonzero(distance > FAR):
        yield (
            f"label {j + 1} has a posterior {name} of {where[j]:.5g}, {distance[j]:.1f} prior sds from its "
            f"prior {name} {centre[j]:.5g} (sd {sd[j]:.3g}): {remedy}"
        )


def few_particles(particles: Summary | None, marginal: Summary | None) -> Iterator[str]:
    """Says so where the particles for the last S(z), beside a marginal posterior, are worth few draws."""
    if marginal is not None and particles is not None and particles.ess < FEW_DRAWS:
        yield (
            f"the particles for the last S(z) are worth {particles.ess:.0f} draws: raise smc.particles; "
            f"the marginal posterior does not depend on them"
        )


def misfit(checks: Predictive, noise: str) -> Iterator[str]:
    """Says where residuals are not those of the noise model, by so much that beta follows.

    noise : the name of its distribution
    """
    tailed = _beyond(checks.kurtosis, TAILED)
    heavy = {j: value for j, value in tailed.items() if value > 0.0}
    flat = {j: value for j, value in tailed.items() if value < 0.0}
    if heavy:
        yield (
            f"the noise has heavier tails than {noise} noise, on which beta rests (excess kurtosis of "
            f"{_listed(heavy)}): declare outliers that are no data (image.nodata, image.mask), "
            f"try a transform of the image, or more labels"
        )
    if flat:
        yield (
            f"the noise has shorter tails than {noise} noise, on which beta rests (excess kurtosis of "
            f"{_listed(flat)}): a label may be several, try more labels; or values are cut off"
        )
    if skewed := _beyond(checks.skewness, SKEWED):
        yield (
            f"the noise is skewed, unlike {noise} noise, on which beta rests (skewness of "
            f"{_listed(skewed)}): try the logarithm or the square root of the image, or more labels"
        )
    every, near = _beyond(checks.neighbours[:, None], BETWEEN), _beyond(checks.correlation, CORRELATED)
    if every or near:
        found = [f"all neighbours: {value:.2g}" for value in every.values()]
        found += [f"those of {_listed(near)}"] if near else []
        yield (
            f"the noise of neighbouring pixels is correlated, unlike the independent noise on which beta "
            f"rests ({', '.join(found)}): a point spread, a resampled or compressed image, or uneven light; "
            f"take the image before it was resampled, average blocks of pixels, or remove the gradient"
        )


def _beyond(rows: np.ndarray, limit: float) -> dict[int, float]:
    """By label, from 0, the means over the chains of what is beyond a limit and surely not by chance.

    rows : (chains, k, 2) values and their sds.  The chains share the image, so their mean has the sd of one.
    """
    found = {}
    for j, of_label in enumerate(np.moveaxis(rows, 1, 0)):
        known = of_label[~np.isnan(of_label[:, 0])]
        if len(known):
            value, sd = known.mean(axis=0).tolist()
            if abs(value) > max(limit, SURE * sd):
                found[j] = value
    return found


def _listed(by_label: Mapping[int, float]) -> str:
    """Labels, from 1, with their values."""
    return ", ".join(f"label {j + 1}: {value:.2g}" for j, value in by_label.items())
