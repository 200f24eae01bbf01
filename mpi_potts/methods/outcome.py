"""What a fit found: the datasets of the result, the numbers a user reads, and what to be careful about.

The posterior of beta is reported twice: the particles, for the last S(z) as in the paper, and the draws of
the final phase, marginal over z.  Every number comes with its diagnostic: effective sample sizes, R-hat, and
the part of the error of beta that comes from the binding function.  An error d in the mean of S moves beta by
d / Var(S | beta), the slope of the mean being the variance.
"""

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from .. import rng, weights
from ..diagnostics import LARGEST_RHAT, effective_size, split_rhat
from ..parallel import Comm, bcast, merge_rows
from ..rng import Purpose
from ..series import FLAG_DISAGREE
from ..store import Rows
from .fit import Fit
from .hidden import Draws
from .smc import Stop

INTERVAL = (0.025, 0.5, 0.975)
# Fewer effective draws than this do not determine a 95 % interval.
FEW_DRAWS = 100.0
# The binding function is too coarse where its error of beta is more than this part of the posterior's sd.
COARSE = 0.2
# The prior cuts the posterior off where the 95 % interval comes this close to an end, in parts of its width.
EDGE = 0.005
PACKAGES = ("numpy", "numba", "h5py", "mpi4py")


@dataclass(frozen=True)
class Summary:
    """Mean, sd, 95 % interval and median of beta, the draws it is worth, and R-hat (nan for particles)."""

    mean: float
    sd: float
    low: float
    median: float
    high: float
    ess: float
    rhat: float

    def __str__(self) -> str:
        rhat = "" if np.isnan(self.rhat) else f", R-hat {self.rhat:.3f}"
        return (
            f"{self.mean:.5f} sd {self.sd:.5f}, 95 % {self.low:.5f} to {self.high:.5f} "
            f"(ESS {self.ess:.0f}{rhat})"
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything to write and to print; `draws` and `shares` are None for observed labels."""

    fit: Fit
    particles: Summary
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
    particles = _particles(fit.state)
    draws = probability = shares = marginal = None
    diagnostics = {}
    if fit.chains is not None and fit.chains.drawn > 0:
        draws = _gathered(comm, fit.chains)
        probability, shares = _probabilities(comm, fit)
        diagnostics = _diagnostics(draws)
        marginal = _marginal(draws, diagnostics)
    error = _binding_error(fit.problem.binding, (marginal or particles).mean)
    warnings = _warnings(fit, marginal or particles, diagnostics, error)
    return Outcome(fit, particles, marginal, draws, probability, shares, diagnostics, error, tuple(warnings))


def _particles(state) -> Summary:
    low, median, high = weights.quantiles(state.beta, state.weight, np.array(INTERVAL))
    size = weights.ess(state.weight)
    return Summary(state.beta_mean, state.beta_sd, float(low), float(median), float(high), size, np.nan)


def _gathered(comm, chains) -> Draws:
    """All chains' draws on every rank."""
    return Draws(*(merge_rows(comm, chains.numbers, v, chains.count) for v in chains.draws))


def _marginal(draws, diagnostics) -> Summary:
    beta = draws.beta
    low, median, high = np.quantile(beta, INTERVAL)
    rhat, size = diagnostics["beta"]
    return Summary(float(beta.mean()), float(beta.std()), low, median, high, float(size), float(rhat))


def _probabilities(comm, fit):
    """On rank 0 the label probabilities; everywhere the share of each label among the pixels."""
    counts, shares = fit.chains.counts(), None
    if counts is not None:
        counts = counts / np.float32(fit.chains.drawn * fit.chains.count)
        shares = counts[fit.problem.lattice.exists].mean(axis=0, dtype=np.float64)
    return counts, bcast(comm, shares)


def _diagnostics(draws: Draws) -> dict[str, np.ndarray]:
    """(R-hat, effective size) of beta and S(z); (k, 2) of the mean and sd of every label."""

    def both(values):
        return split_rhat(values), effective_size(values)

    found = {"beta": np.array(both(draws.beta)), "statistic": np.array(both(draws.statistic))}
    for name in ("mean", "sd"):
        found[name] = np.array([both(values) for values in np.moveaxis(getattr(draws, name), 2, 0)])
    return found


def _binding_error(binding, beta: float) -> float:
    """The standard error of beta that the binding function brings."""
    _, sd = binding.moments(np.array([beta]))
    error, _ = binding.standard_errors(np.array([beta]))
    return float(error[0] / sd[0] ** 2) if sd[0] > 0.0 else np.inf


def _warnings(fit, beta: Summary, diagnostics, binding_error):
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
            f"more fit.final_burn_in and final_sweeps, or look for two modes"
        )
    if diagnostics and beta.ess < FEW_DRAWS:
        yield f"beta has {beta.ess:.0f} effective draws; raise fit.final_sweeps"
    if fit.state.stopped_because == Stop.ITERATIONS:
        yield "the SMC stopped at smc.max_iterations, before its tolerance had settled"
    if binding_error > COARSE * beta.sd:
        yield (
            f"the binding function's error of beta, {binding_error:.2g}, is large against the posterior sd "
            f"{beta.sd:.2g}; raise precompute.points or precompute.iterations"
        )
    yield from _near_transition(fit.problem.binding, beta)
    yield from _at_the_edge(fit.problem.config.prior.beta, beta)


def _near_transition(binding, beta: Summary):
    near = (binding.beta >= beta.low - beta.sd) & (binding.beta <= beta.high + beta.sd)
    flagged = int(np.count_nonzero(binding.flag[near] & FLAG_DISAGREE))
    if flagged:
        yield (
            f"the posterior lies where a random and an ordered start of the precomputation disagree "
            f"({flagged} betas): S(z) has two phases there"
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
        "binding_error": found.binding_error,
        "method": config.fit.method,
        "stopped_because": str(found.fit.state.stopped_because),
        "warnings": "\n".join(found.warnings),
        "seed": config.seed,
        "input": config.text,
        "overrides": "\n".join(config.overrides),
        "labels": config.model.labels,
        "shape": list(lattice.shape),
        "neighbourhood": lattice.neighbourhood,
        "edges": lattice.edges,
        "sites": lattice.sites,
        "lattice": lattice.digest,
        "binding": binding.digest,
        "interpolation": binding.interpolation,
        "chains": 0 if found.draws is None else len(found.draws.beta),
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
    }


def datasets(comm: Comm, found: Outcome) -> dict[str, np.ndarray | Rows]:
    """Datasets of the result: particles in blocks over the ranks, maps from rank 0, which has them."""
    fit, state = found.fit, found.fit.state
    n = state.beta.size
    arrays = fit.traces()
    for name, values in (("beta", state.beta), ("weight", state.weight)):
        arrays[f"posterior/{name}"] = Rows.of_block(comm, _own_block(comm, values), n)
    if found.draws is None:
        return arrays
    flat = {"marginal/beta": found.draws.beta, "marginal/statistic": found.draws.statistic}
    flat |= {"noise/mean": found.draws.mean, "noise/sd": found.draws.sd}
    arrays |= {name: v.reshape(-1, *v.shape[2:]) for name, v in flat.items()}
    arrays |= {f"diagnostics/{name}": values for name, values in found.diagnostics.items()}
    return arrays | _maps(comm, found)


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
    if found.draws is not None:
        return {"beta": found.draws.beta, "mu": found.draws.mean, "sigma": found.draws.sd}
    state, seed = found.fit.state, found.fit.problem.config.seed
    uniform = rng.uniforms(rng.stream(seed, Purpose.RESAMPLE), state.iteration + 1, 1)
    return {"beta": state.beta[weights.systematic(state.weight, uniform)][None]}


def report(found: Outcome) -> str:
    """The result in a few lines, for the screen."""
    state = found.fit.state
    lines = [f"stopped after {state.iteration} iterations: {state.stopped_because}"]
    if found.marginal is not None:
        lines.append(f"beta, marginal over the labels  {found.marginal}")
    lines.append(f"beta, particles for the last S  {found.particles}")
    lines.append(f"  of which the binding function's error {found.binding_error:.2g}")
    if found.draws is not None:
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
