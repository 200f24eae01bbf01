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
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..config.inputs import Config
from ..errors import Damaged, Foreign, InputError
from ..estimation import autocorrelation
from ..io import files
from ..io.rows import Rows
from ..lattice import Lattice
from ..model.low_temperature import Anchor, LowTemperature
from ..model.potts import Sampler
from ..model.transition import first_order, transition
from ..rng import Purpose
from ..runtime.control import Control
from ..runtime.parallel import ALONE, Bell, Comm, agree, bcast, merge_rows, on_root, warm_up
from ..runtime.progress import Progress
from . import file as binding_file
from .chains import (
    Chain,
    ChainsFile,
    OfAnother,
    Row,
    check_identity,
    choose,
    deal,
    lost,
    open_binding,
    open_chains,
    read_chains,
    start_kinds,
    write_chains,
)
from .grid import make_grid

# Sweeps are done in slices of about this many seconds, between which the clock and the signals are looked at.
SLICE = 0.25
# A rank saves its own part this often (seconds), and never spends more than this fraction of its time on it.
SAVE_SECONDS = 20.0
SAVE_FRACTION = 0.05
# More parts than this, for each rank, are put together when a job goes on.
MANY_PARTS = 8

# log C is known well, at large beta, where its error is below this.
ANCHOR_ERROR = 0.01

_SWEEPS = {"random": Purpose.PRIOR_SWEEP, "ordered": Purpose.ORDERED_SWEEP}


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
        starts = choose_starts(keys.starts, keys.sampler, lattice, k)
        beta = make_grid(keys.grid, keys.points, lattice, k, config.prior.beta, config.seed)
        return cls(lattice, k, keys.sampler, config.seed, beta, starts, keys.iterations, keys.burn_in)

    @property
    def identity(self) -> dict[str, Any]:
        """What the chains are a function of, as attributes of a file."""
        return {
            "labels": self.labels,
            "shape": list(self.lattice.shape),
            "neighbourhood": self.lattice.neighbourhood,
            "sites": self.lattice.sites,
            "edges": self.lattice.edges,
            "lattice": self.lattice.digest,
            "sampler": self.sampler,
            "seed": self.seed,
        }

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
            attributes, beta = binding_file.read_settings(path)
        except Foreign as error:  # any file may have been named
            raise InputError(f"{error}; it is not overwritten: remove it, or name another file") from None
        except Damaged:  # `compute` says so, and writes it again from what is known of its chains
            return False
        check_identity(path, attributes, self.identity)
        same = all(attributes[name] == value for name, value in self.settings.items())
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


class SliceLength:
    """How many sweeps take about SLICE seconds, by the time that the last ones took."""

    def __init__(self) -> None:
        self._count = 1

    def sweeps(self, left: int) -> int:
        """The number of sweeps for the next slice, of so many that are left."""
        return min(self._count, left)

    def note(self, count: int, seconds: float) -> None:
        """Set the length of a slice by `count` sweeps that took so many seconds."""
        self._count = max(1, int(SLICE * count / max(seconds, 1e-9)))


def simulate(sampler: Sampler, task: Task, rows: list[Row]) -> Iterator[tuple[Row, int]]:
    """The stage: bring the chains of every row to their length; yields the row and the sweeps of each slice.

    At every yield the row can be saved as it is: the chain in hand is packed only when it is asked for.
    """
    length = SliceLength()
    for row in rows:
        row.prepare(task.kinds, task.iterations)
        for kind in task.kinds:
            chain = row.chains[kind]
            for count in _continue(sampler, task, row.beta, kind, chain, length):
                yield row, count


def _continue(
    sampler: Sampler, task: Task, beta: float, kind: str, chain: Chain, length: SliceLength
) -> Iterator[int]:
    """Sweep one chain to its end, a slice at a time; yields the sweeps of each slice."""
    address = rng.float_bits(beta)
    sweeps = rng.stream(task.seed, _SWEEPS[kind], address)
    if chain.done >= task.iterations:
        return
    if chain.packed is None:
        state = sampler.start(kind, rng.stream(task.seed, Purpose.START, address))
    else:
        state = sampler.unpack(chain.packed)
    while chain.done < task.iterations:
        count, started = length.sweeps(task.iterations - chain.done), time.perf_counter()
        values = sampler.sweeps(state, beta, sweeps, chain.done, count)
        chain.extend(values, lambda: sampler.pack(state))
        length.note(count, time.perf_counter() - started)
        yield count


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
    part = Part(comm, task, paths, sampler, config)
    total = sum(task.iterations - row.chains[kind].done for row in todo for kind in task.kinds)
    there = 1.0 - total / max(1, task.iterations * len(task.kinds) * len(todo + finished))
    with Progress(comm, "precompute", total * comm.size, "sweeps", quiet) as progress:
        if total and there:
            progress.say(f"going on: {100 * there:.0f} % of the sweeps are there, the rest follows")
        if redone:
            progress.say(f"{redone} betas are simulated again: the labels to go on from were not kept")
        _work(comm, simulate(sampler, task, todo), part, control, progress)
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
    path = paths.parts / f"{_session(comm)}-all.h5"
    kept = [row for row in rows if any(chain.done for chain in row.chains.values())]
    write_chains(comm, path, task.identity, kept, sampler.packed_size, config.run.writer)
    on_root(comm, _discard, old)


def _discard(paths: list[Path]) -> None:
    for path in paths:
        files.discard(path)


def _session(comm: Comm) -> str:
    """A name for the files of this session, the same on every rank."""
    return bcast(comm, time.strftime("%Y%m%dT%H%M%S") + f"-{time.time_ns() % 10**9:09d}")


def _work(
    comm: Comm, slices: Iterator[tuple[Row, int]], part: "Part", control: Control, progress: Progress
) -> None:
    """Run the stage until it ends or someone is asked to stop; the ranks meet only at the end of it."""
    bell = Bell(comm)
    for row, count in slices:
        part.add(row)
        progress.advance(count * comm.size)
        if control.stop:
            bell.ring()
        if bell.heard():
            break
        part.save_if_due()
    part.save()
    bell.close()


class Part:
    """This rank's own file of the rows it worked on in this session, rewritten as they grow."""

    def __init__(self, comm: Comm, task: Task, paths: BindingPaths, sampler: Sampler, config: Config):
        self.path = paths.parts / f"{_session(comm)}-{comm.rank}.h5"
        self._identity, self._size = task.identity, sampler.packed_size
        self._keep = config.precompute.keep_states
        self._rows: list[Row] = []
        self._unsaved = False
        self._interval = min(SAVE_SECONDS, 60.0 * config.run.checkpoint_minutes)
        self._next = time.monotonic() + self._interval

    def add(self, row: Row) -> None:
        """Take up the row in hand; the one before it is then finished."""
        self._unsaved = True
        if self._rows and self._rows[-1] is row:
            return
        if self._rows:
            for chain in self._rows[-1].chains.values():
                chain.close(self._keep)
        self._rows.append(row)

    def save_if_due(self) -> None:
        """Save if enough time has passed since this rank saved last."""
        if time.monotonic() >= self._next:
            self.save()

    def save(self) -> None:
        """Write all rows of this session into the file of this rank: whole, or the old file stays."""
        if not self._unsaved:
            return
        started = time.monotonic()
        write_chains(ALONE, self.path, self._identity, self._rows, self._size, "gather")
        self._unsaved = False
        now = time.monotonic()
        self._next = now + max(self._interval, (now - started) / SAVE_FRACTION)


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
