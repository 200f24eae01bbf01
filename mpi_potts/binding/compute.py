"""The precomputation of the binding function (paper, section 4.1).

At every beta of the grid the Potts prior is simulated for a number of sweeps; after the burn-in, the mean and
standard deviation of S(z), their standard errors and tau are taken from the chains.  The betas are dealt out
to the ranks in turn, which spreads the slow ones, and a rank meets the others only at the end.

A chain at beta draws from streams that belong to the value of beta and to its start, not to its place in the
grid, so a longer grid or a longer chain continues what is there and gives the bits of one computed in one go.
The binding file holds exactly what the input asks for.  What an earlier input asked for beyond that stays in
the states file, for as long as `precompute.keep_states` is true, and is not computed again when it is asked
for again.
"""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..config.inputs import Config, PrecomputeKeys
from ..errors import Damaged, Foreign, InputError
from ..estimation import autocorrelation
from ..io import files
from ..io.rows import Rows
from ..lattice import Lattice
from ..model.low_temperature import Anchor, LowTemperature
from ..model.potts import Sampler, quickest
from ..model.transition import first_order, transition
from ..rng import Purpose
from ..runtime.control import Control
from ..runtime.parallel import Comm, agree, merge_rows, on_root, warm_up
from ..runtime.progress import Progress
from . import file as binding_file
from .chains import (
    ChainsFile,
    OfAnother,
    Row,
    check_identity,
    choose,
    deal,
    identity_of,
    lost,
    open_binding,
    open_chains,
    read_chains,
    start_kinds,
    write_chains,
)
from .grid import make_grid
from .work import Part, SliceLength, lengthen, session_name, work

# More parts than this, for each rank, are put together when a job goes on.
MANY_PARTS = 8

# log C is known well, at large beta, where its error is below this.
ANCHOR_ERROR = 0.01


def choose_sampler(keys: PrecomputeKeys, lattice: Lattice, labels: int, there: str | None = None) -> str:
    """What "auto" stands for: the paper's Swendsen-Wang on a fixed grid; on an adaptive one the sampler of
    the chains that are `there`, else the quickest."""
    if keys.sampler != "auto":
        return keys.sampler
    if keys.grid == "adaptive" and there is not None:
        return there
    return quickest(lattice, labels) if keys.grid == "adaptive" else "swendsen-wang"


def choose_starts(starts: str, sampler: str, lattice: Lattice, labels: int) -> str:
    """What "auto" stands for: both starts where a chain from one may stay in the wrong place, unnoticed.

    Any sampler may stay in one phase at a first-order transition.  Gibbs sweeps from random labels can also
    end in stripes in the ordered phase, which look stationary for longer than any run.
    """
    if starts != "auto":
        return starts
    return "both" if sampler == "gibbs" or first_order(lattice, labels) else "random"


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked: chains of `iterations` sweeps from every start, at every beta of an ascending grid."""

    lattice: Lattice
    labels: int
    sampler: str
    seed: int
    beta: np.ndarray
    starts: str
    iterations: int
    burn_in: int

    @classmethod
    def of(cls, config: Config, lattice: Lattice) -> "Task":
        """What the input asks for on this lattice."""
        keys, k = config.precompute, config.model.labels
        sampler = choose_sampler(keys, lattice, k)
        starts = choose_starts(keys.starts, sampler, lattice, k)
        beta = make_grid(keys.grid, keys.points, lattice, k, config.prior.beta, config.seed)
        return cls(lattice, k, sampler, config.seed, beta, starts, keys.iterations, keys.burn_in)

    @property
    def identity(self) -> dict[str, Any]:
        """What the chains are a function of, as attributes of a file."""
        return identity_of(self.lattice, self.labels, self.sampler, self.seed)

    @property
    def settings(self) -> dict[str, Any]:
        """All attributes of the binding file."""
        asked = {"starts": self.starts, "iterations": self.iterations, "burn_in": self.burn_in}
        return self.identity | asked

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of start that every beta has a chain from."""
        return start_kinds(self.starts)

    def answered_by(self, path: Path) -> bool:
        """Whether this binding file is the answer; one of another lattice is refused; on one rank."""
        if not path.exists():
            return False
        try:
            attributes, beta, done = binding_file.read_settings(path)
        except Foreign as error:  # any file may have been named
            raise InputError(f"{error}; it is not overwritten: remove it, or name another file") from None
        except Damaged:  # `compute` says so, and writes it again from what is known of its chains
            return False
        check_identity(path, attributes, self.identity)
        same = done is None and all(attributes[name] == value for name, value in self.settings.items())
        return same and np.array_equal(beta, self.beta)


def belongs(task: Task, paths: "BindingPaths") -> bool:
    """Whether all that is there of a binding function is of this task's lattice, k, sampler and seed."""
    try:
        task.answered_by(paths.binding)
        _find_sources(task, paths)
    except OfAnother:
        return False
    return True


@dataclass(frozen=True)
class BindingPaths:
    """The files of one binding function, all beside each other: what the input names, and its own."""

    binding: Path

    @classmethod
    def of(cls, config: Config) -> "BindingPaths":
        """Those that the input names, by precompute.file or by its output directory."""
        return cls(config.precompute.file or config.output / "binding.h5")

    @property
    def states(self) -> Path:
        """The file of all chains with labels to go on from."""
        return self.binding.with_suffix(".states.h5")

    @property
    def parts(self) -> Path:
        """The directory of what each rank saves while it works."""
        return self.binding.with_suffix(".parts")

    def all_parts(self) -> list[Path]:
        """The files that ranks of this session and of earlier ones have saved."""
        return sorted(self.parts.glob("*.h5"))

    @property
    def lock(self) -> Path:
        """The file whose lock says that someone is computing this binding function."""
        return self.binding.with_name(f".{self.binding.stem}.lock")

    def clear(self) -> None:
        """Remove all that is there of the binding function, so that it starts over."""
        shutil.rmtree(self.parts, ignore_errors=True)
        for path in (self.states, self.binding):
            path.unlink(missing_ok=True)


def simulate(sampler: Sampler, task: Task, rows: list[Row]) -> Iterator[tuple[Row, int]]:
    """The stage: bring the chains of every row to their length; yields the row and the sweeps of each slice.

    At every yield the row can be saved as it is: the chain in hand is packed only when it is asked for.
    """
    length = SliceLength()
    for row in rows:
        row.prepare(task.kinds, task.iterations)
        for kind in task.kinds:
            chain = row.chains[kind]
            for count in lengthen(sampler, task.seed, row.beta, kind, chain, task.iterations, length):
                yield row, count


def compute(
    comm: Comm, task: Task, paths: BindingPaths, config: Config, control: Control, quiet: bool = False
) -> None:
    """Write the binding file of `task`; whatever chains are there already are used.  Collective.

    Raises Interrupted, with everything saved, where it was asked to stop before the end.
    """
    sampler = Sampler(task.lattice, task.labels, task.sampler)
    sources, notes = on_root(comm, _find_sources, task, paths)
    for note in notes if comm.rank == 0 else ():
        print(note, file=sys.stderr, flush=True)  # also where progress is not wanted
    todo, finished, redone = _deal_out(comm, task, sources, config.precompute.keep_states)
    _put_together(comm, task, paths, todo + finished, sampler, config)
    warm_up(comm, lambda: _warm_up(sampler, task))
    keep, minutes = config.precompute.keep_states, config.run.checkpoint_minutes
    part = Part(comm, paths.parts, task.identity, sampler.packed_size, keep, minutes)
    total = sum(task.iterations - row.chains[kind].done for row in todo for kind in task.kinds)
    there = 1.0 - total / max(1, task.iterations * len(task.kinds) * len(todo + finished))
    with Progress(comm, "precompute", total * comm.size, "sweeps", quiet) as progress:
        if total and there:
            progress.say(f"going on: {100 * there:.0f} % of the sweeps are there, the rest follows")
        if redone:
            progress.say(f"{redone} betas are simulated again: the labels to go on from were not kept")
        work(comm, simulate(sampler, task, todo), part, control, progress)
    if agree(comm, not all(row.complete(task.kinds, task.iterations) for row in todo)):
        raise control.interrupted(str(paths.parts))
    _finish(comm, task, paths, todo + finished, sampler, config)


def _warm_up(sampler: Sampler, task: Task) -> None:
    stream = rng.stream(task.seed, Purpose.START)
    for kind in task.kinds:
        state = sampler.start(kind, stream)
        sampler.sweeps(state, float(task.beta[0]), stream, 0, 1)
        sampler.unpack(sampler.pack(state))


def _find_sources(task: Task, paths: BindingPaths) -> tuple[list[ChainsFile], list[str]]:
    """The files that hold chains of this task; a damaged one only costs its chains again."""
    sources, notes = [], []
    for path in [paths.states, *paths.all_parts(), paths.binding]:
        if path.exists():
            try:
                sources.append((open_binding if path == paths.binding else open_chains)(path))
            except Damaged as error:
                notes.append(f"{error}: ignored, chains that are nowhere else are done again")
    for source in sources:
        check_identity(source.path, source.attributes, task.identity)
    return sources, notes


def _deal_out(
    comm: Comm, task: Task, sources: list[ChainsFile], keep: bool
) -> tuple[list[Row], list[Row], int]:
    """This rank's rows: with work left, only passed on; and how many betas start again in all."""
    todo, complete, surplus = choose(sources, task.beta, task.kinds, task.iterations)
    mine = todo[comm.rank :: comm.size]
    saved = {row.beta: row for row in read_chains(sources, [place for _, place in mine if place is not None])}
    rows = [saved.get(b, Row(b)) for b, _ in mine]
    for row in rows:
        row.prepare(task.kinds, task.iterations)
    passed_on = deal(complete + (surplus if keep else []), comm.size)[comm.rank]
    return rows, read_chains(sources, passed_on), lost(sources, todo, task.kinds)


def _put_together(
    comm: Comm, task: Task, paths: BindingPaths, rows: list[Row], sampler: Sampler, config: Config
) -> None:
    """Many parts become one: a job that is stopped again and again would leave more and more of them."""
    old = on_root(comm, paths.all_parts)
    if len(old) <= MANY_PARTS * comm.size:
        return
    path = paths.parts / f"{session_name(comm)}-all.h5"
    kept = [row for row in rows if any(chain.done for chain in row.chains.values())]
    write_chains(comm, path, task.identity, kept, sampler.packed_size, config.run.writer)
    on_root(comm, _discard, old)


def _discard(paths: list[Path]) -> None:
    for path in paths:
        files.discard(path)


def _finish(
    comm: Comm, task: Task, paths: BindingPaths, rows: list[Row], sampler: Sampler, config: Config
) -> None:
    """Put the rows of all ranks together; the states first, so that a kill in between loses nothing."""
    writer = config.run.writer
    if config.precompute.keep_states:
        write_chains(comm, paths.states, task.identity, rows, sampler.packed_size, writer)
    _write_binding(comm, task, paths, rows, writer)
    on_root(comm, _remove_parts, paths, config.precompute.keep_states)


def _write_binding(comm: Comm, task: Task, paths: BindingPaths, rows: list[Row], writer: str) -> None:
    asked = set(task.beta.tolist())
    rows = [row for row in rows if row.beta in asked]
    n, length = task.beta.size, task.iterations
    index = np.searchsorted(task.beta, [row.beta for row in rows]).astype(np.int64)
    statistic = np.zeros((len(rows), len(task.kinds), length), dtype=np.int64)
    moments = []
    for i, row in enumerate(rows):
        for j, kind in enumerate(task.kinds):
            statistic[i, j] = row.chains[kind].statistic[:length]
        # One pixel changes S by at most its number of neighbours.
        moments.append(autocorrelation.moments(statistic[i, :, task.burn_in :], task.lattice.degree))
    columns = {"beta": task.beta}
    for name in ("mean", "sd", "mean_se", "sd_se", "tau", "flag"):
        dtype = np.int64 if name == "flag" else np.float64
        values = np.array([getattr(m, name) for m in moments], dtype=dtype)
        columns[name] = merge_rows(comm, index, values, n)
    anchor = on_root(comm, find_anchor, task.lattice, task.labels, task.beta)
    if anchor is not None:
        columns["anchor"] = np.array(anchor)
    rows_of_statistic = Rows(index, statistic, n)
    binding_file.write_binding(comm, paths.binding, task.settings, columns, rows_of_statistic, writer)


def find_anchor(lattice: Lattice, labels: int, beta: np.ndarray) -> Anchor | None:
    """What the low-temperature expansion knows at the first beta of a grid where it knows log C well.

    None where the grid does not reach so far, or does not start at 0, from where log C is counted.
    """
    # Well beyond beta_crit or not at all: most grids need not ask.
    if beta[0] > 0.0 or beta[-1] <= transition(lattice, labels):
        return None
    expansion = LowTemperature(lattice, labels)
    known = beta[beta >= expansion.reach(ANCHOR_ERROR)]
    return expansion.anchor(float(known[0])) if known.size else None


def _remove_parts(paths: BindingPaths, keep_states: bool) -> None:
    shutil.rmtree(paths.parts, ignore_errors=True)
    if not keep_states:
        paths.states.unlink(missing_ok=True)


def prepare(comm: Comm, paths: BindingPaths, fresh: bool) -> None:
    """Make the directory for the parts, and start over if asked to; collective."""

    def make() -> None:
        if fresh:
            paths.clear()
        files.make_directory(paths.parts)

    on_root(comm, make)
