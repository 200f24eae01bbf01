"""What a fit found, gathered from all ranks.

The posterior of beta is reported up to twice: for fixed labels, observed or the last z of an SMC as in the
paper, and marginal over z, by the chains of a hidden image.  Every number comes with its diagnostic:
effective sample sizes, R-hat, and the part of the error of beta that comes from the binding function.

What is done with it is elsewhere: `precision` has the diagnostics, `cautions` the warnings, `datasets` the
names in the files, `words` what is said on the screen.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..estimation.predictive import Predictive, predictive
from ..labels.ensemble import Draws, LabelChains
from ..labels.matching import renamed
from ..labels.residuals import residuals
from ..labels.starts import score
from ..methods.base import Fit
from ..runtime.parallel import Comm, bcast, merge_rows
from ..slabs import slabs
from . import cautions, precision, spare, summary
from .spare import Holdings
from .summary import INTERVAL, Summary


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything to write and to print.

    particles, marginal : the posterior of beta for fixed labels, and marginal over those of a hidden image
    beta                : the one of them that most users will quote
    draws, raw          : those of chains, if any, and beta of hidden images without the binding's error
    probability, shares : (shape, k) of every label, on rank 0 only; (k,) the part of the pixels that has it
    diagnostics         : of every quantity, rows (R-hat, bulk and tail effective size)
    predictive          : the checks of the noise of a hidden image
    """

    fit: Fit
    beta: Summary
    particles: Summary | None
    marginal: Summary | None
    draws: Draws | None
    raw: np.ndarray | None
    probability: np.ndarray | None
    shares: np.ndarray | None
    diagnostics: dict[str, np.ndarray]
    predictive: Predictive | None
    binding_error: float
    warnings: tuple[str, ...]


def outcome(comm: Comm, fit: Fit) -> Outcome:
    """What a fit has found, put together from the pieces of all ranks; collective."""
    draws = names = probability = shares = held = marginal = None
    particles, diagnostics = _particles(fit), {}
    if fit.chains is not None and fit.chains.drawn > 0:
        draws = fit.chains.gathered()
        names = fit.chains.names(draws)
        draws = draws.renamed(names)
        diagnostics = precision.diagnostics(draws)
        of_chains = summary.of_chains(draws.beta, *diagnostics["beta"][:2].tolist())
        if fit.problem.hidden:
            marginal = of_chains
        else:
            particles = of_chains
    best = marginal or particles
    if best is None:
        raise ValueError("a fit has found neither draws nor particles")
    error = precision.binding_error(fit.problem.binding, best, hidden=marginal is not None)
    raw = None
    if draws is not None and marginal is not None:
        # R-hat and effective sizes are those of the chains; mean, sd and interval have the error in them.
        interval, raw = fit.problem.config.prior.beta, draws.beta
        draws = replace(draws, beta=precision.shifted(raw, error, interval, fit.problem.config.seed))
        best = marginal = summary.of_chains(draws.beta, *diagnostics["beta"][:2].tolist())
    behind = np.zeros(0)
    if draws is not None and fit.chains is not None and fit.problem.hidden and fit.chains.count > 1:
        behind = _behind(comm, fit, fit.chains, draws)
    checks = None
    if fit.chains is not None and fit.problem.hidden:
        checks = _checks(comm, fit, fit.chains, names)
    shares_by_chain = np.zeros(0)
    if fit.chains is not None and marginal is not None and names is not None:
        shares_by_chain = fit.chains.shares(names)
        # Last of all that asks the chains: they give their counts away.
        probability, held = _probabilities(comm, fit, fit.chains, names)
        shares = held.share
    unneeded = np.zeros(0, dtype=int) if held is None else spare.small(held)
    first = []
    if draws is not None and fit.chains is not None and fit.problem.hidden and names is not None:
        if cautions.modes(draws, unneeded):
            why = "tempering has not settled in its sweeps" if fit.chains.tempered else "are not known"
            first = [cautions.not_one_answer(draws.beta.mean(axis=1), shares_by_chain, why)]
    warnings = [
        *first,
        *cautions.cautions(fit, best, diagnostics, error, behind, unneeded, one_mode=not first),
    ]
    if draws is not None and (grain := fit.problem.facts.grain) is not None:
        noise = fit.problem.noise
        widths = noise.widths([draws.noise[name] for name in noise.names])
        warnings += cautions.coarse_grain(grain, widths.mean(axis=(0, 1)))
        values = np.array([draws.noise[name].mean(axis=(0, 1)) for name in noise.names])
        warnings += cautions.far_from_prior(noise, values)
    if draws is not None and held is not None:
        warnings += spare.spare(held, _apart(fit, draws))
    warnings += cautions.few_particles(particles, marginal)
    if checks is not None:
        warnings += cautions.misfit(checks, fit.problem.noise.title)
    found = best, particles, marginal, draws, raw, probability, shares
    return Outcome(fit, *found, diagnostics, checks, error, tuple(warnings))


def _particles(fit: Fit) -> Summary | None:
    """The summary of a sample that is no chain; by its density where there is one."""
    sample, density = fit.particles(), getattr(fit, "density", None)
    if sample is None:
        return None
    if density is None:
        return summary.of_particles(*sample)
    mean, sd = density.moments()
    low, median, high = density.quantiles(np.array(INTERVAL)).tolist()
    return Summary(mean, sd, low, median, high, summary.distinct_ess(*sample), np.nan)


def _probabilities(
    comm: Comm, fit: Fit, chains: LabelChains, names: np.ndarray
) -> tuple[np.ndarray | None, Holdings]:
    """On rank 0 the label probabilities; everywhere what each label holds of the pixels.  Collective."""
    counts, held, probability = chains.take_counts(names), None, None
    if counts is not None:
        drawn = chains.drawn * chains.count
        held = spare.holdings(counts.reshape(len(counts), -1), fit.problem.lattice.sites, drawn)
        probability = np.moveaxis(_parts_of(counts, drawn), 0, -1)
    return probability, bcast(comm, held)


def _parts_of(counts: np.ndarray, drawn: int) -> np.ndarray:
    """Counts (k, shape) uint32 as parts of the draws, float32, in the same memory."""
    parts, total = counts.view(np.float32), np.float32(drawn)
    those, these = counts.reshape(-1), parts.reshape(-1)
    for part in slabs(those.size):
        these[part] = those[part] / total
    return parts


def _apart(fit: Fit, draws: Draws) -> np.ndarray:
    """(k, k) how far the posterior means of the noise of two labels are apart, in the first's sd."""
    noise = fit.problem.noise
    values = np.stack([draws.noise[name].mean(axis=(0, 1)) for name in noise.names])
    return np.stack([noise.apart(values, j) for j in range(noise.labels)])


def _behind(comm: Comm, fit: Fit, chains: LabelChains, draws: Draws) -> np.ndarray:
    """Collective.  (chains,) how far the score of each chain of a hidden image is behind the best."""
    image = fit.problem.image  # which ranks without a chain do not hold
    scores = [
        score(chain, image.values, float(draws.beta[number].mean()))
        for number, chain in zip(chains.numbers, chains.chains)
        if image is not None
    ]
    merged = merge_rows(comm, chains.numbers, np.array(scores), chains.count)
    return merged.max() - merged


def _checks(comm: Comm, fit: Fit, chains: LabelChains, names: np.ndarray | None) -> Predictive:
    """Collective.  What the last state of every chain leaves of the image, against what the model would.

    names : of the labels of every chain; their own where there are no draws by which to name them
    """
    image = fit.problem.image  # which ranks without a chain do not hold
    sums = residuals(chains.chains, None if image is None else image.values, chains.labels)
    sums = merge_rows(comm, chains.numbers, sums, chains.count)
    if names is not None:
        by_label = np.moveaxis(sums[:, :-1], 1, 2)
        sums[:, :-1] = np.moveaxis(renamed(by_label, names), 2, 1)
    return predictive(sums)
