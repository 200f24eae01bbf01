"""How long the parts of a run take: the real kernels, for a moment.  Estimates for `mpi-potts check`."""

import time
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .. import rng
from ..binding.function import Binding
from ..config.inputs import Config
from ..labels.starts import rivals_of, work_of_settling
from ..lattice import Lattice
from ..model.potts import Sampler
from ..model.transition import transition
from ..rng import Purpose
from ..runtime.parallel import Comm
from ..runtime.threads import Team
from ..smc.sampler import observed, smc_abc
from ..smc.sources import from_binding
from .base import Problem

ENOUGH = 0.2  # seconds of sweeps
GROUPS = 5
ITERATIONS = 6  # of the SMC


def time_sweep(sampler: Sampler, beta: float, seconds: float = ENOUGH) -> float:
    """Seconds of one sweep of the prior at beta, from a start in whose phase it is."""
    kind = "ordered" if beta > transition(sampler.lattice, sampler.k) else "random"
    state = sampler.start(kind, rng.stream(0, Purpose.START))
    stream = rng.stream(0, Purpose.PRIOR_SWEEP)
    return _least(lambda first, count: sampler.sweeps(state, beta, stream, first, count), seconds)


class LabelPace(NamedTuple):
    """Seconds of what a label chain does: a step, a step whose labels are counted, and all of its start."""

    step: float
    counted: float
    start: float


def time_label_chain(problem: Problem, team: Team) -> LabelPace:
    """How fast a label chain is, in the middle of the prior of beta."""
    config, interval = problem.config, problem.config.prior.beta
    chain, beta = problem.label_chain(0, team), sum(interval) / 2
    table = stand_in(config, problem.lattice).table
    step = _least(lambda first, count: chain.sweep(np.full(count, beta)), ENOUGH)
    counted = _least(lambda first, count: chain.sample(table, interval, count), ENOUGH)
    start, seconds = config.fit.start, 0.0
    sweeps = config.smc.warm_up if start in ("best", "paper") else 0
    if start != "paper" and problem.image is not None:
        given = str(start) if problem.image.start is None else problem.image.start
        rivals = rivals_of(given, problem.noise.exchangeable)
        more, seconds = work_of_settling(chain, problem.image.values, interval, rivals)
        sweeps += more
    return LabelPace(step, counted, sweeps * step + seconds)


def _least(run: Callable[[int, int], Any], seconds: float) -> float:
    """Seconds of one sweep: the least of several groups of sweeps, about `seconds` in all, after a few."""
    run(0, 2)
    one = _seconds(run, 2, 1)
    count, first = max(1, int(seconds / GROUPS / max(one, 1e-9))), 3
    return min(_seconds(run, first + group * count, count) / count for group in range(GROUPS))


def _seconds(run: Callable[[int, int], Any], first: int, count: int) -> float:
    started = time.perf_counter()
    run(first, count)
    return time.perf_counter() - started


def stand_in(config: Config, lattice: Lattice) -> Binding:
    """A binding function of the right lattice and no other worth, to time with: S(z) grows evenly."""
    low, high = config.prior.beta
    beta, k = np.linspace(low, high, 8), config.model.labels
    mean = lattice.edges * (1.0 / k + (1.0 - 1.0 / k) * np.linspace(0.0, 0.9, 8))
    sd = np.full(8, np.sqrt(lattice.edges))
    return Binding(
        beta=beta,
        mean=mean,
        sd=sd,
        mean_se=sd / 30,
        sd_se=sd / 30,
        tau=np.ones(8),
        flag=np.zeros(8),
        labels=k,
        shape=lattice.shape,
        neighbourhood=str(lattice.neighbourhood),
        sites=lattice.sites,
        edges=lattice.edges,
        lattice=lattice.digest,
        sampler="none",
        iterations=2,
        burn_in=0,
        seed=0,
        starts="random",
        interpolation="linear",
    )


def time_iteration(comm: Comm, config: Config, binding: Binding) -> float:
    """Collective.  Seconds of one iteration of the SMC apart from the label chain, on all ranks."""
    source = from_binding(binding, config.smc.replicates, config.seed)
    middle = float(binding.moments(sum(config.prior.beta) / 2)[0])
    states = smc_abc(comm, source, config.prior.beta, config.smc, config.seed, observed(middle))
    seconds = [sum(state.seconds.values()) for state in islice(states, ITERATIONS)]
    return max(comm.allgather(float(np.median(seconds))))
