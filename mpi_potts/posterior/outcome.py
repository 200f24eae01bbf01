"""What a fit found: the datasets of the result, the numbers a user reads, and what to be careful about.

The posterior of beta is reported up to twice: for fixed labels, observed or the last z of an SMC as in the
paper, and marginal over z, by the chains of a hidden image.  Every number comes with its diagnostic:
effective sample sizes, R-hat, and the part of the error of beta that comes from the binding function.

An error d in the mean of S moves beta by d / Var(S | beta) where S is fixed, the slope of the mean being the
variance.  The labels of a hidden image follow beta, so it moves farther: an error d of the mean multiplies
p(beta | y) by exp(-d beta), which moves its mean by d Var(beta | y).
"""

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from .. import rng
from ..estimation.autocorrelation import FLAG_DISAGREE, FLAG_SHORT
from ..estimation.diagnostics import LARGEST_RHAT, effective_size, split_rhat
from ..io.store import Rows
from ..labels.ensemble import Draws
from ..labels.starts import score
from ..methods.base import Fit
from ..rng import Purpose
from ..runtime.parallel import Comm, bcast, merge_rows
from ..smc import weights
from . import summary
from .summary import INTERVAL, Summary

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
PACKAGES = ("numpy", "numba", "h5py", "mpi4py")


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything to write and to print.

    `particles` is for fixed labels, `marginal` for a hidden image; `draws` are those of chains, if any.
    """

    fit: Fit
    particles: Summary | None
    marginal: Summary | None
    draws: Draws | None
    probability: np.ndarray | None  # rank 0 only
    shares: np.ndarray | None
    diagnostics: dict[str, np.ndarray]
    binding_error: float
    warnings: tuple[str, ...]

    @property
    def beta(self) -> Summary:
        """The summary most users will quote."""
        return self.marginal or self.particles


def outcome(comm: Comm, fit: Fit) -> Outcome:
    """Put the pieces of all ranks together; collective."""
    draws = probability = shares = marginal = None
    particles, diagnostics = _particles(fit), {}
    if fit.chains is not None and fit.chains.drawn > 0:
        draws = _gathered(comm, fit.chains)
        diagnostics = _diagnostics(draws)
        of_chains = summary.of_chains(draws.beta, *diagnostics["beta"].tolist())
        if fit.problem.hidden:
            marginal = of_chains
            probability, shares = _probabilities(comm, fit)
        else:
            particles = of_chains
    best = marginal or particles
    error = _binding_error(fit.problem.binding, best, hidden=marginal is not None)
    behind = _behind(comm, fit, draws)
    warnings = *_warnings(fit, best, draws, diagnostics, error, behind), *_few_particles(particles, marginal)
    return Outcome(fit, particles, marginal, draws, probability, shares, diagnostics, error, warnings)


def _particles(fit) -> Summary | None:
    """Of a sample that is no chain; by its density where there is one."""
    sample, density = fit.particles(), getattr(fit, "density", None)
    if sample is None:
        return None
    if density is None:
        return summary.of_particles(*sample)
    size = summary.distinct_ess(*sample)
    return Summary(*density.moments(), *density.quantiles(np.array(INTERVAL)).tolist(), size, np.nan)


def _gathered(comm, chains) -> Draws:
    """All chains' draws on every rank."""
    return Draws(*(merge_rows(comm, chains.numbers, v, chains.count) for v in chains.draws))


def _probabilities(comm, fit):
    """On rank 0 the label probabilities; everywhere the share of each label among the pixels."""
    counts, shares = fit.chains.counts(), None
    if counts is not None:
        counts = counts / np.float32(fit.chains.drawn * fit.chains.count)
        shares = counts[fit.problem.lattice.exists].mean(axis=0, dtype=np.float64)
    return counts, bcast(comm, shares)


def _behind(comm, fit, draws) -> np.ndarray:
    """(chains,) how far the score of each chain is behind the best; of hidden images, else nothing."""
    if draws is None or not fit.problem.hidden or fit.chains.count == 1:
        return np.zeros(0)
    chains, image = fit.chains, fit.problem.image  # which ranks without a chain do not hold
    scores = [
        score(chain, image.values, float(draws.beta[number].mean()))
        for number, chain in zip(chains.numbers, chains.chains)
    ]
    scores = merge_rows(comm, chains.numbers, np.array(scores), chains.count)
    return scores.max() - scores


def _diagnostics(draws: Draws) -> dict[str, np.ndarray]:
    """(R-hat, effective size) of beta; of hidden images also of S(z), and (k, 2) of every mean and sd."""

    def both(values):
        return split_rhat(values), effective_size(values)

    found = {"beta": np.array(both(draws.beta))}
    if draws.mean.shape[2] == 0:
        return found
    found["statistic"] = np.array(both(draws.statistic))
    for name in ("mean", "sd"):
        found[name] = np.array([both(values) for values in np.moveaxis(getattr(draws, name), 2, 0)])
    return found


def _binding_error(binding, beta: Summary, hidden: bool) -> float:
    """The standard error of beta that the binding function brings; none where there is none."""
    if binding is None:
        return 0.0
    error, sd = binding.standard_errors(beta.mean)[0], binding.moments(beta.mean)[1]
    if hidden:
        return float(error * beta.sd * beta.sd)
    return float(error / (sd * sd)) if sd > 0.0 else np.inf


def _warnings(fit, beta: Summary, draws, diagnostics, binding_error, behind):
    """What a user should know before quoting the numbers, each in a sentence."""
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
        yield from _minor_modes(behind, fit.problem.lattice.sites)
    if beta.ess < FEW_DRAWS:
        yield f"beta has {beta.ess:.0f} effective draws; raise {fit.length}"
    yield from fit.cautions()
    if binding_error > COARSE * beta.sd:
        yield (
            f"the binding function's error of beta, {binding_error:.2g}, is large against the posterior sd "
            f"{beta.sd:.2g}; raise precompute.points or precompute.iterations"
        )
    if fit.problem.binding is not None:
        yield from _flags(fit.problem.binding, beta)
    yield from _at_the_edge(fit.problem.config.prior.beta, beta)
    if draws is not None and fit.problem.hidden:
        yield from _coarse_grain(fit.problem, draws.sd.mean(axis=(0, 1)))


def _coarse_grain(problem, sd):
    """Pixels are counted in grains: where a few are very far from all others, these have few grains."""
    grain = problem.facts.grain
    narrow = int(np.argmin(sd))
    if grain > GRAIN * sd[narrow]:
        yield (
            f"pixel values are rounded to {grain:.2g}, as the farthest is so far from the others, which is "
            f"not small against the sd of label {narrow + 1}, {sd[narrow]:.2g}; if far values are no data, "
            f"say so: image.nodata or image.mask"
        )


def _minor_modes(behind, sites):
    worse = np.flatnonzero(behind > MINOR * np.sqrt(sites))
    if worse.size:
        numbers, least = ", ".join(str(n + 1) for n in worse), behind[worse].min()
        yield (
            f"some chains are in a minor mode: {numbers} of {behind.size}, whose approximate log evidence is "
            f"{least:.0f} or more behind the best; do not quote the chains together, "
            f"try another seed or fewer labels"
        )


def _few_particles(particles, marginal):
    if marginal is not None and particles is not None and particles.ess < FEW_DRAWS:
        yield (
            f"the particles for the last S(z) are worth {particles.ess:.0f} draws: raise smc.particles; "
            f"the marginal posterior does not depend on them"
        )


def flags_near(binding, low: float, high: float, sd: float) -> np.ndarray:
    """The flags of the betas of the grid within an sd of the interval."""
    return binding.flag[(binding.beta >= low - sd) & (binding.beta <= high + sd)]


def _flags(binding, beta: Summary):
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


def _at_the_edge(interval, beta: Summary):
    low, high = interval
    margin = EDGE * (high - low)
    if (low > 0.0 and beta.low < low + margin) or beta.high > high - margin:
        yield f"the posterior of beta reaches an end of its prior, {low:g} to {high:g}; widen prior.beta"


def attributes(found: Outcome) -> dict[str, Any]:
    """Attributes of the result."""
    problem, config = found.fit.problem, found.fit.problem.config
    lattice, binding = problem.lattice, problem.binding
    numbers = {"beta_mean": found.beta.mean, "beta_sd": found.beta.sd, "beta_low": found.beta.low}
    return numbers | {
        "beta_high": found.beta.high,
        "beta_median": found.beta.median,
        "beta_ess": found.beta.ess,
        "binding_error": found.binding_error,
        "method": config.fit.method,
        "pseudo_data": config.fit.pseudo_data,
        "stopped_because": found.fit.stopped_because,
        "warnings": "\n".join(found.warnings),
        "seed": config.seed,
        "input": config.text,
        # Paths in the input are relative to it: `report` reads the image again.
        "input_directory": str(config.path.parent.resolve()),
        "overrides": "\n".join(config.overrides),
        "labels": config.model.labels,
        "shape": list(lattice.shape),
        "neighbourhood": lattice.neighbourhood,
        "edges": lattice.edges,
        "sites": lattice.sites,
        "lattice": lattice.digest,
        "binding": "" if binding is None else binding.digest,
        "interpolation": "" if binding is None else binding.interpolation,
        "chains": 0 if found.draws is None else len(found.draws.beta),
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
    }


def datasets(comm: Comm, found: Outcome) -> dict[str, np.ndarray | Rows]:
    """Datasets of the result: particles in blocks over the ranks, maps from rank 0, which has them."""
    arrays = found.fit.traces()
    sample = _sample(found)
    if sample is not None:
        for name, values in zip(("beta", "weight"), sample):
            arrays[f"posterior/{name}"] = Rows.of_block(comm, _own_block(comm, values), values.size)
    arrays |= {f"diagnostics/{name}": values for name, values in found.diagnostics.items()}
    if found.marginal is None:
        return arrays
    flat = {"marginal/beta": found.draws.beta, "marginal/statistic": found.draws.statistic}
    flat |= {"noise/mean": found.draws.mean, "noise/sd": found.draws.sd}
    arrays |= {name: v.reshape(-1, *v.shape[2:]) for name, v in flat.items()}
    return arrays | _maps(comm, found)


def _sample(found):
    """(beta, weight) for fixed labels: particles, or the draws of chains with observed labels."""
    if found.marginal is None and found.draws is not None:
        beta = found.draws.beta.ravel()
        return beta, np.full(beta.size, 1.0 / beta.size)
    return found.fit.particles()


def _own_block(comm, values):
    rows = Rows.of_block(comm, values[:0], len(values))
    return values[rows.index]


def _maps(comm, found):
    """labels/probability and labels/map, which rank 0 has."""
    lattice, k = found.fit.problem.lattice, found.fit.problem.config.model.labels
    rest = lattice.shape[1:]
    probability, most = np.empty((0, *rest, k), np.float32), np.empty((0, *rest), np.int16)
    if comm.rank == 0:
        probability = found.probability.astype(np.float32)
        most = np.where(lattice.exists, probability.argmax(axis=-1), -1).astype(np.int16)
    index, rows = np.arange(len(probability)), lattice.shape[0]
    return {"labels/probability": Rows(index, probability, rows), "labels/map": Rows(index, most, rows)}


def equal_draws(found: Outcome) -> dict[str, np.ndarray]:
    """Equally weighted draws for other programs: beta (chain, draw), mu and sigma (chain, draw, label)."""
    if found.marginal is not None:
        return {"beta": found.draws.beta, "mu": found.draws.mean, "sigma": found.draws.sd}
    if found.draws is not None:
        return {"beta": found.draws.beta}
    (beta, weight), seed = found.fit.particles(), found.fit.problem.config.seed
    uniform = rng.uniforms(rng.stream(seed, Purpose.RESAMPLE), found.fit.iteration + 1, 1)
    return {"beta": beta[weights.systematic(weight, uniform)][None]}


def report(found: Outcome) -> str:
    """The result in a few lines, for the screen."""
    fit, lines = found.fit, [found.fit.headline()]
    if found.marginal is not None:
        lines.append(f"beta, marginal over the labels  {found.marginal}")
    if found.particles is not None:
        of_what = "particles for the last S" if fit.problem.hidden else "for the observed labels "
        lines.append(f"beta, {of_what}  {found.particles}")
    if fit.problem.binding is not None:
        error = f"{found.binding_error:.2g}"
        lines.append(f"  not in this sd: the binding function's own standard error of beta, {error}")
    if found.marginal is not None:
        lines += _noise_table(found)
    return "\n".join(lines + [f"warning: {text}" for text in found.warnings])


def _noise_table(found):
    yield f"{'label':>7} {'share':>7} {'mean':>12} {'+-':>9} {'sd':>12} {'+-':>9} {'R-hat':>7}"
    draws, rhat = found.draws, found.diagnostics
    for j, share in enumerate(found.shares):
        mean, sd = draws.mean[:, :, j], draws.sd[:, :, j]
        worst = max(rhat["mean"][j, 0], rhat["sd"][j, 0])
        yield (
            f"{j + 1:>7} {share:>7.3f} {mean.mean():>12.5g} {mean.std():>9.2g} "
            f"{sd.mean():>12.5g} {sd.std():>9.2g} {worst:>7.3f}"
        )
