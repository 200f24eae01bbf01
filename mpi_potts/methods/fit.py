"""Fit the hidden Potts model to one image: SMC-ABC beside the label chains, then the final phase.

This is the driver of the stages: it owns the trace, the checkpoints and the order of things, and no formula.
What a fit is a function of is in `Problem.settings`; where it stands is in `Fit`, of which a checkpoint holds
every array.  Checkpoints are written between iterations and between slices of the final phase, where the
ranks meet anyway.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import fit_file
from ..binding import Binding
from ..config import Config
from ..control import Control
from ..errors import InputError
from ..fit_file import Paths
from ..image import Image
from ..labels import LabelChain
from ..lattice import Lattice
from ..noise import priors
from ..parallel import Comm, agree, on_root, warm_up
from ..progress import Live, Progress
from .hidden import Final, LabelChains
from .smc import BindingSource, State, observed, smc_abc

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


@dataclass(frozen=True, eq=False)
class Problem:
    """One image, its lattice, and the binding function that stands for the Potts prior on it."""

    config: Config
    image: Image
    lattice: Lattice
    binding: Binding

    def __post_init__(self):
        config, binding = self.config, self.binding
        for name, found, wanted in (
            ("labels", binding.labels, config.model.labels),
            ("lattice", binding.lattice, self.lattice.digest),
        ):
            if found != wanted:
                raise InputError(
                    f"the binding function is for {name} = {found}, the image needs {wanted}; "
                    f"run precompute for this image, or name another precompute.file"
                )

    @property
    def hidden(self) -> bool:
        return self.image.labels is None

    @property
    def settings(self) -> dict[str, Any]:
        """Everything the result is a function of, by the names of the input file where they have one."""
        config, keys = self.config, {}
        for table in ("prior", "fit", "smc"):
            for name, value in asdict(getattr(config, table)).items():
                keys[f"{table}.{name}"] = value
        pixels = self.image.values if self.hidden else self.image.labels
        return keys | {
            "seed": config.seed,
            "model.labels": config.model.labels,
            "lattice": self.lattice.digest,
            "image.kind": config.image.kind,
            "image": hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest(),
            "binding": self.binding.digest,
            "precompute.interpolation": self.binding.interpolation,
        }

    def label_chain(self, number: int) -> LabelChain:
        """Label chain `number` at its start."""
        config = self.config
        mean, variance = config.prior.mean, config.prior.variance
        noise = priors(config.model.labels, mean.mean, mean.sd, variance.shape, variance.scale)
        return LabelChain(self.lattice, self.image.values, config.model.labels, noise, config.seed, number)


class Fit:
    """Where a fit stands: the SMC, its trace, and the label chains (None for observed labels)."""

    def __init__(self, comm: Comm, problem: Problem):
        config = problem.config
        self.comm, self.problem = comm, problem
        self.state: State | None = None
        self.trace: dict[str, list] = {name: [] for name in TRACE}
        self.seconds: dict[str, list[float]] = {name: [] for name in ("total", *PARTS)}
        self.chains: LabelChains | None = None
        if problem.hidden:
            make, k = problem.label_chain, config.model.labels
            self.chains = LabelChains(comm, problem.lattice, k, make, config.fit.chains, config.seed)

    def iterate(self) -> Iterator[State]:
        """The SMC-ABC from where it stands; the trace has one row more at each yield."""
        problem, keys = self.problem, self.problem.config.smc
        if self.chains is None:
            observe = observed(problem.lattice.statistic(problem.image.labels))
        else:
            chains = self.chains

            def observe(state):
                return chains.observe(state, keys.warm_up, keys.label_sweeps)

        seed, interval = problem.config.seed, problem.config.prior.beta
        source = BindingSource(problem.binding, keys.replicates, seed)
        started = time.perf_counter()
        for state in smc_abc(self.comm, source, interval, keys, seed, observe, self.state):
            self._note(state, time.perf_counter() - started)
            yield state
            started = time.perf_counter()

    def _note(self, state, seconds):
        self.state = state
        for name, column in self.trace.items():
            column.append(getattr(state, name))
        for name, column in self.seconds.items():
            column.append(seconds if name == "total" else state.seconds[name])

    def final(self) -> Iterator[int]:
        """The final phase from where it stands; yields the sweeps done."""
        keys, binding = self.problem.config.fit, self.problem.binding
        interval = self.problem.config.prior.beta
        phase = Final(binding.table, interval, keys.marginal, keys.final_burn_in, keys.final_sweeps)
        return self.chains.final(phase)

    def traces(self) -> dict[str, np.ndarray]:
        """The trace as datasets; what ends in `seconds` is left out of checksums."""
        columns = {
            f"trace/{name}": np.array(column, dtype=np.int64 if name in INTEGERS else np.float64)
            for name, column in self.trace.items()
        }
        columns["trace/seconds"] = np.array(self.seconds["total"])
        return columns | {f"timing/{name}/seconds": np.array(self.seconds[name]) for name in PARTS}

    def pack(self) -> dict[str, Any]:
        """Every array of a checkpoint."""
        arrays = {f"smc/{name}": values for name, values in self.state.pack().items()} | self.traces()
        if self.chains is not None:
            arrays |= {f"labels/{name}": values for name, values in self.chains.pack().items()}
        return arrays

    def resume(self, path) -> None:
        """Go on from a checkpoint; collective."""
        groups = {name: on_root(self.comm, fit_file.read_group, path, name) for name in ("smc", "trace")}
        self.state = State.unpack(groups["smc"])
        self.trace = {name: groups["trace"][name].tolist() for name in TRACE}
        timing = on_root(self.comm, fit_file.read_group, path, "timing")
        self.seconds = {name: timing[f"{name}/seconds"].tolist() for name in PARTS}
        self.seconds["total"] = groups["trace"]["seconds"].tolist()
        if self.chains is not None:
            whole = on_root(self.comm, lambda: {"final": fit_file.read_group(path, "labels")["final"]})
            self.chains.unpack(whole, lambda names: self._rows(path, names))

    def _rows(self, path, names):
        stored = fit_file.read_checkpoint(path, self.chains.numbers, [f"labels/{name}" for name in names])
        return {name.removeprefix("labels/"): values for name, values in stored.items()}


class Saver:
    """Writes a checkpoint when it is due, and stops the run when it is time to."""

    def __init__(self, fit: Fit, paths: Paths, control: Control):
        self._fit, self._paths, self._control = fit, paths, control
        self._settings = fit.problem.settings
        self._interval = 60.0 * fit.problem.config.run.checkpoint_minutes
        self._next = time.monotonic() + self._interval

    def between(self) -> None:
        """To be called by all ranks where the fit can be continued from."""
        comm = self._fit.comm
        stop = self._control.agreed(comm)
        if stop or agree(comm, comm.rank == 0 and time.monotonic() >= self._next):
            self._write()
        if stop:
            raise self._control.interrupted(str(self._paths.checkpoint))

    def _write(self):
        fit = self._fit
        writer = fit.problem.config.run.writer
        fit_file.write_checkpoint(fit.comm, self._paths, self._settings, fit.pack(), writer)
        self._next = time.monotonic() + self._interval


def run(comm: Comm, problem: Problem, paths: Paths, control: Control, quiet: bool) -> Fit:
    """Fit the image from the start or from a checkpoint to the end; collective.

    Raises Interrupted, with a checkpoint written, where it was asked to stop.
    """
    live = Live(comm, quiet)
    path, notes = on_root(comm, fit_file.find_checkpoint, paths, problem.settings)
    for note in notes:
        live.say(note)
    _compile(comm, problem)
    fit = Fit(comm, problem)
    if path is not None:
        fit.resume(path)
        live.say(f"{path}: continued after iteration {fit.state.iteration}")
    saver = Saver(fit, paths, control)
    for state in fit.iterate():
        live.show(line(state))
        saver.between()
    live.say(f"stopped after iteration {fit.state.iteration}: {fit.state.stopped_because}")
    if fit.chains is not None:
        _final(comm, fit, saver, quiet)
    return fit


def _compile(comm, problem):
    """Compile the kernels of the label chain on one rank of a node first; on a lattice of a few pixels."""
    if problem.hidden:
        warm_up(comm, lambda: _small_chain(problem))


def _small_chain(problem):
    k, lattice, binding = problem.config.model.labels, problem.lattice, problem.binding
    small = Lattice((4,) * lattice.dimensions, lattice.neighbourhood)
    values = np.arange(float(np.prod(small.shape))).reshape(small.shape)
    chain = LabelChain(small, values, k, priors(k), 0)
    chain.sweep(np.zeros(1))
    chain.final(binding.table, (float(binding.beta[0]), float(binding.beta[-1])), 1)


def _final(comm, fit, saver, quiet):
    keys, chains = fit.problem.config.fit, fit.chains
    total, done = keys.final_burn_in + keys.final_sweeps, chains.burned + chains.drawn
    with Progress(comm, "final sweeps", total - done, "sweeps", quiet) as progress:
        for now in fit.final():
            progress.advance(now - done)
            done = now
            saver.between()


def line(state: State) -> str:
    """One iteration in a line: what it reached, and the seconds of its parts."""
    seconds = state.seconds
    mark = " resampled" if state.resampled else ""
    return (
        f"{state.iteration:4d}  epsilon {state.epsilon:.6g}  ESS {state.ess:.0f}  "
        f"accepted {100 * state.acceptance:.1f} %  S(z) {state.statistic:.0f}  "
        f"beta {state.beta_mean:.5f} sd {state.beta_sd:.5f}  "
        f"labels {seconds['statistic']:.3f} s, weights {seconds['adaptation']:.3f}, "
        f"resampling {seconds['resampling']:.3f}, mutation {seconds['mutation']:.3f}{mark}"
    )
