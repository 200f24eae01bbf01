"""SMC-ABC (paper, section 2.1) for beta, with S(z) moving under it (section 4.2).

N particles beta_i with weights w_i, each with M pseudo-statistics x_im, follow the targets

    pi_t(beta, x_1..M)  proportional to  #{m : |x_m - S_t| < eps_t}  prod_m p(x_m | beta)  pi(beta).

With M infinite the share of its pseudo-statistics that count is known without drawing any.

One iteration: S_t is asked for (fixed for observed labels, else from the label chain); **adaptation** finds
eps_t and the weights; **resampling** where ESS is low; **mutation** by one Metropolis step of every
particle that has weight. The formulas are in `weights`; here ranks meet.

The N x M pseudo-statistics, by far the largest array, stay on the rank that has the particle's slot.  All
else, (beta, birth, weight, count), is N numbers each, and known to every rank.  Tolerance, weights,
resampling, bandwidth and the stop are decided by rank 0, which the others follow: ranks on different CPUs
cannot come to different ends.  A
pseudo-statistic is an addressed draw, a function of (seed, birth iteration, birth index, m) and beta: so
after resampling the replicates need not travel with their particle, and a checkpoint need not hold them.
The rank that takes a particle over draws the same bits again, unless they are costly simulations: those
rows are sent.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from .. import rng
from ..errors import InputError
from ..kernels import smc as kernels
from ..kernels import windows
from ..rng import Purpose
from ..runtime.parallel import Comm, decided, take_rows, warm_up
from . import weights
from .distances import Slots
from .sources import Source, check_support
from .weights import Reason

# Proposals drawn and counted together: few calls, and their pseudo-statistics stay in the cache.
CHUNK = 512


class Stop(StrEnum):
    """Why the SMC stopped: the text is stored in the result."""

    ACCEPTANCE = "acceptance below min_acceptance"
    EPSILON = "epsilon reached min_epsilon"
    NOISE = "epsilon below the sampling noise of S(z)"
    ITERATIONS = "max_iterations reached"
    LOST = "no particle is within the tolerance of S(z) any more"


@dataclass(frozen=True)
class State:
    """Everything at the end of an iteration; the arrays are whole, in global particle order, on every rank.

    With its source, settings and seed it continues bit for bit on any number of ranks.
    """

    iteration: int
    epsilon: float
    statistic: float
    noise_sd: float  # sampling noise of the statistic; 0 for observed labels
    beta: np.ndarray  # (N,)
    weight: np.ndarray  # (N,), sum 1
    count: np.ndarray  # (N,) int64, pseudo-statistics closer than epsilon to the statistic; see `Replicates`
    birth: np.ndarray  # (N, 2) int64, iteration and slot in which beta was proposed
    ess: float  # after adaptation, before resampling
    target: float  # what adaptation aimed at
    reason: Reason  # why epsilon is what it is
    resampled: bool
    acceptance: float  # accepted proposals / N
    beta_mean: float
    beta_sd: float
    stopped_because: str = ""
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def pack(self) -> dict[str, np.ndarray]:
        """Plain arrays, all but the times, from which `unpack` makes this state again."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seconds"}
        values["stopped_because"] = ["", *Stop].index(self.stopped_because)
        return {name: np.asarray(value) for name, value in values.items()}

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> "State":
        """The state that was packed into these arrays."""
        packed = {f.name: np.asarray(arrays[f.name]) for f in fields(cls) if f.name != "seconds"}
        values: dict[str, Any] = {name: v.item() if v.ndim == 0 else v for name, v in packed.items()}
        values["reason"] = Reason(values["reason"])
        values["stopped_because"] = ["", *Stop][values["stopped_because"]]
        return cls(**values)


class Settings(Protocol):
    """The settings of the sampler: the [smc] table of the input."""

    @property
    def particles(self) -> int:
        """The number N of particles."""

    @property
    def alpha(self) -> float:
        """The part of ESS that adaptation keeps from one iteration to the next."""

    @property
    def rise_below(self) -> float:
        """The tolerance rises where S(z) has moved so far that ESS is below this part of N."""

    @property
    def resampling(self) -> str:
        """The scheme, a key of `weights.RESAMPLING`."""

    @property
    def resample_below(self) -> float:
        """Particles are resampled where ESS is below this part of N."""

    @property
    def min_acceptance(self) -> float:
        """Stop when a smaller part of the proposals is accepted."""

    @property
    def min_epsilon(self) -> float:
        """Stop when the tolerance reaches this floor."""

    @property
    def noise_floor(self) -> float:
        """Stop when the tolerance is below this times the sampling noise of S(z)."""

    @property
    def max_iterations(self) -> int:
        """Stop after so many iterations."""

    @property
    def weights(self) -> str:
        """ "moving", or "printed": what the incremental weight is divided by."""

    @property
    def bandwidth(self) -> str:
        """ "current" or "previous": the population whose variance sets the step of a mutation."""

    @property
    def last_mutations(self) -> int:
        """Metropolis steps after the last iteration for a hidden image."""


@dataclass(frozen=True)
class _Walk:
    """A random walk of the particles: where pseudo-statistics come from, the prior's ends, the step's sd."""

    source: Source
    interval: tuple[float, float]
    seed: int
    step: float


# Called on every rank before each iteration with the state after the last one (before the first: equally
# weighted draws from the prior, and epsilon infinite).  Returns S(z) and its sampling noise, the same on
# every rank.
Observe = Callable[[State], tuple[float, float]]


def observed(statistic: float) -> Observe:
    """What to pass as `observe` for observed labels: S(z) is fixed and has no noise."""
    return lambda state: (statistic, 0.0)


def chain_betas(state: State, seed: int, count: int, chain: int = 0) -> np.ndarray:
    """(count,) values of beta drawn by weight, for the sweeps of a label chain after this iteration."""
    uniform = rng.uniforms(rng.stream(seed, Purpose.CHAIN_BETA, chain), state.iteration, count)
    return state.beta[weights.choose(state.weight, uniform)]


def smc_abc(
    comm: Comm,
    source: Source,
    interval: tuple[float, float],
    settings: Settings,
    seed: int,
    observe: Observe,
    state: State | None = None,
) -> Iterator[State]:
    """Yield the state after each iteration; the last one has `stopped_because`.  Collective at every step.

    interval : beta is uniform on it a priori.  observe : asked for S(z) before each iteration.  state :
    continue from it.
    """
    _check(comm, source, interval, settings)
    state = _initial(interval, settings.particles, source, seed) if state is None else state
    if state.stopped_because:
        return
    warm_up(comm, _compile)
    slots = Slots(comm, settings.particles)
    x = np.empty((slots.index.size, source.replicates.width))
    _draw_again(slots, state, x, source, slots.index)
    while not state.stopped_because:
        clock = _Clock()
        statistic, noise_sd = observe(state)
        state = replace(
            state, iteration=state.iteration + 1, statistic=float(statistic), noise_sd=float(noise_sd)
        )
        clock.lap("statistic")
        spread = state.beta_sd
        state = _adapt(slots, state, x, source, settings)
        if settings.bandwidth == "current":
            # From the weighted particles: resampling would only add noise to it.
            spread = decided(comm, weights.moments, state.beta, state.weight)[1]
        clock.lap("adaptation")
        state = _resample(slots, state, x, source, settings, seed)
        clock.lap("resampling")
        walk = _Walk(source, interval, seed, math.sqrt(2.0) * spread)
        state = _mutate(slots, state, x, walk, state.iteration)
        state = replace(state, stopped_because=decided(comm, _stop, state, settings))
        if state.stopped_because and state.noise_sd > 0.0:
            state = _settle(slots, state, x, walk, settings.last_mutations)
        clock.lap("mutation")
        state = replace(state, seconds=clock.seconds)
        yield state


def _compile() -> None:
    kernels.compile_all()
    windows.compile_all()


class _Clock:
    """Measures how many seconds each part of an iteration took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Note the time since the last call as that of this part."""
        now = time.perf_counter()
        self.seconds[part], self._last = now - self._last, now


def _check(comm: Comm, source: Source, interval: tuple[float, float], settings: Settings) -> None:
    check_support(source, interval)
    if settings.particles < comm.size:
        raise InputError(f"smc.particles = {settings.particles}: at least one for each of {comm.size} ranks")


def _initial(interval: tuple[float, float], particles: int, source: Source, seed: int) -> State:
    """Iteration 0: the prior, and a tolerance that every pseudo-statistic meets whatever S is."""
    low, high = interval
    uniform = rng.uniforms(rng.stream(seed, Purpose.PARTICLE), 0, particles)
    beta = low + (high - low) * uniform
    weight = np.full(particles, 1.0 / particles)
    mean, sd = weights.moments(beta, weight)
    return State(
        iteration=0,
        epsilon=math.inf,
        statistic=0.0,
        noise_sd=0.0,
        beta=beta,
        weight=weight,
        count=source.replicates.start(particles),
        birth=np.stack([np.zeros(particles, dtype=np.int64), np.arange(particles)], axis=1),
        ess=float(particles),
        target=float(particles),
        reason=Reason.SOLVED,
        resampled=False,
        acceptance=1.0,
        beta_mean=mean,
        beta_sd=sd,
    )


def _adapt(slots: Slots, state: State, x: np.ndarray, source: Source, settings: Settings) -> State:
    """eps_t and the weights for (S_t, eps_t); the counts of `state` are still those of (S_t-1, eps_t-1)."""
    if not math.isfinite(state.statistic):
        raise RuntimeError(f"iteration {state.iteration}: the statistic S(z) is {state.statistic}")
    alive = state.weight[slots.own] > 0.0
    shared = source.replicates.windows(slots, x, alive, state.statistic)
    if slots.comm.rank > 0:
        return replace(state, **shared.serve())
    count = state.count
    if settings.weights == "printed":
        count = shared.counts(np.array([weights.within(shared, state.epsilon)]))[:, 0]
    value = shared.scale.per_count(state.weight, count)
    target = settings.alpha * weights.ess(state.weight)
    least = settings.rise_below * slots.particles
    tolerance = weights.solve(shared, value, target, state.epsilon, settings.min_epsilon, least)
    if tolerance.ess == 0.0:
        return replace(state, **shared.conclude({"ess": 0.0, "target": target, "reason": Reason.LOST}))
    changes = {
        "epsilon": tolerance.epsilon,
        "weight": weights.normalise(shared.scale.times(value, tolerance.count)),
        "count": tolerance.count,
        "ess": tolerance.ess,
        "target": target,
        "reason": tolerance.reason,
    }
    return replace(state, **shared.conclude(changes))


def _resample(
    slots: Slots, state: State, x: np.ndarray, source: Source, settings: Settings, seed: int
) -> State:
    """Where ESS is low, N equally weighted particles by the resampling scheme; `x` follows."""
    n = slots.particles
    if state.ess >= settings.resample_below * n or state.reason == Reason.LOST:
        return replace(state, resampled=False)
    uniform = rng.uniforms(rng.stream(seed, Purpose.RESAMPLE), state.iteration, n)
    ancestors = decided(slots.comm, weights.ancestors, state.weight, uniform, settings.resampling)
    state = replace(
        state,
        beta=state.beta[ancestors],
        weight=np.full(n, 1.0 / n),
        count=state.count[ancestors],
        birth=state.birth[ancestors],
        resampled=True,
    )
    if source.costly:
        x[:] = take_rows(slots.comm, x, ancestors)
    else:
        _draw_again(slots, state, x, source, slots.index[ancestors[slots.own] != slots.index])
    return state


def _draw_again(slots: Slots, state: State, x: np.ndarray, source: Source, index: np.ndarray) -> None:
    """Draw the pseudo-statistics of the particles in slots `index` of this rank at their birth's address."""
    buffer = np.empty((CHUNK, source.replicates.width))
    for slot in _chunks(index):
        rows = buffer[: slot.size]
        source.draw(rows, state.beta[slot], state.birth[slot, 0], state.birth[slot, 1])
        x[slot - slots.start] = rows


def _mutate(slots: Slots, state: State, x: np.ndarray, walk: _Walk, t: int) -> State:
    """One Metropolis step (paper, equation 4) of every particle with weight; `x` follows.  t : its address.

    The walk is symmetric and the prior uniform, so the ratio is that of the counts.  A proposal outside the
    prior's support is rejected before anything is drawn for it.
    """
    index, (low, high) = slots.index, walk.interval
    normal = rng.normals(rng.stream(walk.seed, Purpose.PROPOSAL), t, index)
    uniform = rng.uniforms(rng.stream(walk.seed, Purpose.ACCEPT), t, index)
    proposal = state.beta[slots.own] + walk.step * normal
    possible = (proposal >= low) & (proposal <= high) & (state.weight[slots.own] > 0.0)
    possible &= state.reason != Reason.LOST
    count = state.count[slots.own].copy()
    accepted = np.zeros(index.size, dtype=bool)
    replicates = walk.source.replicates
    buffer = np.empty((CHUNK, replicates.width))
    for rows in _chunks(np.flatnonzero(possible)):
        new = buffer[: rows.size]
        walk.source.draw(new, proposal[rows], np.full(rows.size, t), index[rows])
        replicates.accept(x, count, accepted, rows, new, uniform, state.statistic, state.epsilon)
    beta = np.where(accepted, proposal, state.beta[slots.own])
    return _gathered(slots, state, beta, count, accepted, t)


def _settle(slots: Slots, state: State, x: np.ndarray, walk: _Walk, steps: int) -> State:
    """Metropolis steps for the last S(z) and tolerance, so that the particles have them as their target.

    The weights are those of importance sampling only where every pseudo-statistic that counts now counted
    before.  S(z) moves, so that some that count now were lost; steps for a target that stands still bring
    them back (without, the sd of beta came out up to 6 % too small with few replicates).
    """
    for t in range(state.iteration + 1, state.iteration + 1 + steps):
        state = replace(_mutate(slots, state, x, walk, t), acceptance=state.acceptance)
    return state


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[first : first + CHUNK] for first in range(0, rows.size, CHUNK))


def _gathered(
    slots: Slots, state: State, beta: np.ndarray, count: np.ndarray, accepted: np.ndarray, t: int
) -> State:
    """The state after mutation at address t, from each rank's block of it."""
    beta, count, moved = slots.gather(np.stack([beta, count, accepted], axis=1)).T
    accepted = moved > 0.0
    birth = state.birth.copy()
    birth[accepted] = np.stack([np.full(accepted.sum(), t), np.flatnonzero(accepted)], axis=1)
    beta = np.ascontiguousarray(beta)
    mean, sd = decided(slots.comm, weights.moments, beta, state.weight)
    return replace(
        state,
        beta=beta,
        count=count.astype(state.count.dtype),
        birth=birth,
        acceptance=float(accepted.sum() / accepted.size),
        beta_mean=mean,
        beta_sd=sd,
    )


def _stop(state: State, settings: Settings) -> str:
    """Why to stop now, if at all.

    Once epsilon is well below the sampling noise of S(z), a smaller one would only chase that noise.
    """
    if state.reason == Reason.LOST:
        return Stop.LOST
    if state.acceptance < settings.min_acceptance:
        return Stop.ACCEPTANCE
    if state.epsilon <= settings.min_epsilon:
        return Stop.EPSILON
    if state.epsilon < settings.noise_floor * state.noise_sd:
        return Stop.NOISE
    return Stop.ITERATIONS if state.iteration >= settings.max_iterations else ""
