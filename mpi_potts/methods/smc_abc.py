"""The fit by SMC-ABC: the SMC beside the label chains, its trace, then the final phase."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..binding.function import Binding
from ..config.inputs import Config
from ..config.registry import register
from ..errors import InputError
from ..io import fit_file
from ..labels.chain import LabelChain
from ..labels.ensemble import SurrogatePhase
from ..labels.guide import FIRST, Guide
from ..runtime.parallel import Comm, on_root
from ..runtime.progress import Live
from ..smc.distances import InfiniteReplicates
from ..smc.sampler import State, Stop, observed, smc_abc
from ..smc.sources import SimulationSource, Source, from_binding
from . import needs, timing
from .base import Fit, Method, Problem, Simulation, final, is_hidden, length_key
from .surrogate import not_normal

# Columns of the trace, one row for each iteration, and the parts of an iteration whose seconds are kept.
TRACE = (
    "iteration",
    "epsilon",
    "ess",
    "target",
    "reason",
    "acceptance",
    "statistic",
    "noise_sd",
    "beta_mean",
    "beta_sd",
    "resampled",
)
INTEGERS = ("iteration", "reason", "resampled")
PARTS = ("statistic", "adaptation", "resampling", "mutation")

# Iterations that fits of ten images of a million pixels took (179 to 220), and those of them, with a guide,
# in which labels were swept (22 to 52).
USUAL, SWEPT = 200, 30

# With fewer replicates the particles of a hidden image come out too narrow, by 1 % and more where S(z) moves
# (docs/methods.md has the table).
FEW_REPLICATES = 50


class SmcFit(Fit):
    """Where the SMC stands, its trace, and the label chains (None for observed labels)."""

    def __init__(self, comm: Comm, problem: Problem):
        """Collective.  Before the first iteration."""
        super().__init__(comm, problem)
        self._state: State | None = None
        self.trace: dict[str, list] = {name: [] for name in TRACE}
        self.seconds: dict[str, list[float]] = {name: [] for name in ("total", *PARTS)}
        self.chains = problem.chains(comm) if problem.hidden else None
        self._begun = False

    def begin_again(self) -> None:
        """The particles start over; the chains do not, and there is nothing to warm up."""
        self._state, self._begun = None, True
        self.trace = {name: [] for name in self.trace}
        self.seconds = {name: [] for name in self.seconds}
        if self.chains is not None:
            self.chains.begin_again()

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        live.say(heading(self.problem.config.smc.particles))
        for state in self._iterate():
            live.show(line(state))
            yield
        live.close()
        problem, keys = self.problem, self.problem.config.fit
        if self.chains is not None and keys.most_sweeps > 0:
            curve, interval = problem.curve, problem.config.prior.beta
            length = final(problem.config)
            phase = SurrogatePhase(curve, interval, keys.marginal, *length, crosses=keys.crossing)
            yield from self.run_phase(self.chains, phase, "final sweeps", quiet)

    def _source(self) -> Source:
        """Collective.  Where the pseudo-statistics come from."""
        problem, config = self.problem, self.problem.config
        if config.fit.pseudo_data:
            keys = config.pseudo_data
            return SimulationSource(problem.sampler(self.comm), drawn(config), config.seed, keys)
        return from_binding(problem.curve, config.smc.replicates, config.seed)

    def _guide(self) -> Guide | None:
        """None where the chains follow the particles from the start, as in the paper or without a table."""
        binding, config = self.problem.binding, self.problem.config
        if config.fit.start == "paper" or not config.smc.guide or binding is None:
            return None
        return Guide(binding, config.prior.beta, config.fit.marginal)

    def _iterate(self) -> Iterator[State]:
        """The SMC-ABC from where it stands; the trace has one row more at each yield."""
        problem, keys = self.problem, self.problem.config.smc
        if self.chains is None:
            observe = observed(problem.statistic)
        else:
            chains, guide = self.chains, self._guide()

            def go_on(number: int, chain: LabelChain) -> np.ndarray:
                return np.zeros(0)  # the labels are where they ended

            start = go_on if self._begun else problem.start

            def observe(state: State) -> tuple[float, float]:
                return chains.observe(state, start, keys.label_sweeps, guide)

        seed, interval = problem.config.seed, problem.config.prior.beta
        started = time.perf_counter()
        for state in smc_abc(self.comm, self._source(), interval, keys, seed, observe, self._state):
            self._note(state, time.perf_counter() - started)
            yield state
            started = time.perf_counter()

    def _note(self, state: State, seconds: float) -> None:
        self._state = state
        for name, column in self.trace.items():
            column.append(getattr(state, name))
        for name, column in self.seconds.items():
            column.append(seconds if name == "total" else state.seconds[name])

    @property
    def state(self) -> State:
        """The particles as they are, from the first iteration on."""
        if self._state is None:
            raise RuntimeError("the SMC has made no iteration yet")
        return self._state

    @property
    def length(self) -> str:  # type: ignore[override]
        """The key that makes what limits the answer longer."""
        marginal = self.chains is not None and self.chains.drawn
        return length_key(self.problem.config) if marginal else "smc.particles"

    @property
    def iteration(self) -> int:  # type: ignore[override]
        """The iterations that were made."""
        return self.state.iteration

    @property
    def stopped_because(self) -> str:
        return str(self.state.stopped_because)

    @property
    def where(self) -> str:
        return f"iteration {self.iteration}"

    def headline(self) -> str:
        return f"stopped after {self.iteration} iterations: {self.stopped_because}"

    def particles(self) -> tuple[np.ndarray, np.ndarray]:
        return self.state.beta, self.state.weight

    def cautions(self) -> Iterator[str]:
        if self.stopped_because == Stop.ITERATIONS:
            yield "the SMC stopped at smc.max_iterations, before its tolerance had settled"
        replicates = self.problem.config.smc.replicates
        if self.problem.hidden and not isinstance(replicates, str) and replicates < FEW_REPLICATES:
            yield (
                f"the replicates are few for a hidden image, {replicates}: the particles for the last S(z) "
                f'may be too narrow; raise smc.replicates to {FEW_REPLICATES}, or take "infinite"'
            )
        problem = self.problem
        if not problem.hidden and problem.binding is not None:
            yield from not_normal(problem.binding, problem.statistic, problem.config.prior.beta)
        if self.stopped_because == Stop.LOST:
            yield (
                "the SMC lost its particles: S(z) moved out of the reach of all pseudo-statistics, and those "
                "kept are for an S(z) before; smc.rise_below above 0 lets the tolerance follow"
            )

    def traces(self) -> dict[str, np.ndarray]:
        columns = {
            f"trace/{name}": np.array(column, dtype=np.int64 if name in INTEGERS else np.float64)
            for name, column in self.trace.items()
        }
        columns["trace/seconds"] = np.array(self.seconds["total"])
        return columns | {f"timing/{name}/seconds": np.array(self.seconds[name]) for name in PARTS}

    def pack(self) -> dict[str, Any]:
        arrays = {f"smc/{name}": values for name, values in self.state.pack().items()}
        return arrays | self.traces() | super().pack()

    def resume(self, path: Path) -> None:
        groups = {name: on_root(self.comm, fit_file.read_group, path, name) for name in ("smc", "trace")}
        self._state = State.unpack(groups["smc"])
        self.trace = {name: groups["trace"][name].tolist() for name in TRACE}
        timing = on_root(self.comm, fit_file.read_group, path, "timing")
        self.seconds = {name: timing[f"{name}/seconds"].tolist() for name in PARTS}
        self.seconds["total"] = groups["trace"]["seconds"].tolist()
        super().resume(path)


# Columns of the progress: heading, width, and the number of a state; the last four are seconds of the parts.
COLUMNS = (
    ("iter", 4, lambda state: f"{state.iteration}"),
    ("epsilon", 11, lambda state: f"{state.epsilon:.6g}"),
    ("ESS", 8, lambda state: f"{state.ess:.0f}{'r' if state.resampled else ' '}"),
    ("accepted", 9, lambda state: f"{100 * state.acceptance:.1f} %"),
    ("S(z)", 12, lambda state: f"{state.statistic:.0f}"),
    ("beta", 9, lambda state: f"{state.beta_mean:.5f}"),
    ("sd", 9, lambda state: f"{state.beta_sd:.5f}"),
    ("labels", 9, lambda state: f"{state.seconds['statistic']:.3f}"),
    ("weights", 8, lambda state: f"{state.seconds['adaptation']:.3f}"),
    ("resample", 9, lambda state: f"{state.seconds['resampling']:.3f}"),
    ("mutate", 8, lambda state: f"{state.seconds['mutation']:.3f}"),
)


def heading(particles: int) -> str:
    """What stands above the lines of the iterations."""
    names = "".join(f"{name:>{width}}" for name, width, _ in COLUMNS)
    ess = "ESS counts copies (r: then resampled)"
    return f"SMC-ABC, {particles} particles; {ess}; the last four columns are seconds\n{names}"


def line(state: State) -> str:
    """One iteration in a line: what it reached, and the seconds of its parts."""
    return "".join(f"{number(state):>{width}}" for _, width, number in COLUMNS)


def drawn(config: Config) -> int:
    """The number M of pseudo-statistics that are drawn or simulated, where it is finite."""
    replicates = config.smc.replicates
    if isinstance(replicates, str):
        raise RuntimeError(f"smc.replicates = {replicates}: none are drawn")
    return replicates


class SmcMethod(Method):
    """method = "smc-abc"."""

    name = "smc-abc"
    pseudo_data = True
    tables = ("smc",)
    # How many iterations there would be is not known.
    simulates_for = "for each iteration of the SMC"

    def fit(self, comm: Comm, problem: Problem) -> SmcFit:
        return SmcFit(comm, problem)

    def short(self) -> dict[str, dict[str, Any]]:
        return {"smc": {"particles": 8, "replicates": 4, "max_iterations": 2, "label_sweeps": 2}}

    def check(self, config: Config) -> None:
        if config.fit.pseudo_data and isinstance(config.smc.replicates, str):
            raise InputError(
                f'{config.path}: smc.replicates = "{config.smc.replicates}": an integer is accepted with '
                f"fit.pseudo_data = true, as only a binding function has counts without simulating"
            )

    def sizes(self, config: Config) -> str:
        keys = config.smc
        return f"{keys.particles} particles, {keys.replicates} replicates, alpha {keys.alpha:g}"

    def memory(self, config: Config, size: int) -> dict[str, float]:
        keys = config.smc
        width = InfiniteReplicates.width if isinstance(keys.replicates, str) else keys.replicates
        held = needs.NUMBER * keys.particles * (4 + width / size)
        arrays = {f"smc.particles = {keys.particles}, smc.replicates = {keys.replicates}": held}
        if is_hidden(config):
            most = keys.label_sweeps * (FIRST if keys.guide else 1)
            arrays[f"smc.label_sweeps = {keys.label_sweeps}"] = needs.of_draw(config) * most
        return arrays

    def label_sweeps(self, config: Config, usual: bool = False) -> tuple[int, int]:
        burn_in, counted = super().label_sweeps(config, usual)
        swept = (
            min(SWEPT, config.smc.max_iterations)
            if usual and config.smc.guide
            else self.iterations(config, usual)
        )
        return (swept + (FIRST - 1) * config.smc.guide) * config.smc.label_sweeps + burn_in, counted

    def simulated(self, config: Config) -> Simulation | None:
        """In a round for all particles: at the start, and in every iteration."""
        if not config.fit.pseudo_data:
            return None
        keys, data = config.smc, config.pseudo_data
        sweeps = data.burn_in + data.spacing * drawn(config)
        rounds = keys.max_iterations + 1
        return Simulation(keys.particles, sweeps, rounds, label_sweeps=keys.label_sweeps)

    def rounds(self, config: Config, iterations: float) -> float:
        """At the start, in each iteration, and for a hidden image in the steps after the last."""
        return float(1 + iterations + is_hidden(config) * config.smc.last_mutations)

    def iterations(self, config: Config, usual: bool = False) -> int:
        return min(USUAL, config.smc.max_iterations) if usual else config.smc.max_iterations

    def time_iteration(self, comm: Comm, config: Config, binding: Binding) -> float | None:
        return None if config.fit.pseudo_data else timing.time_iteration(comm, config, binding)


register(SmcMethod())
