"""The chains of a binding function that grows: what is known of them on every rank, and more where it is
asked for.

A row, all chains at one beta, lives on one rank, which alone holds its labels; S(z) of every chain is on all
ranks, so that each can make the same decisions.  What counts is `chains`: the rows of the binding file as it
was found, at their full length, and what was asked for since.  Longer chains and other rows may lie about, in
the parts of a session that was stopped or in the states file; they save sweeps where they are asked for, and
count only as far as they are.  So a job that was killed goes on to the same bits, whatever it had saved."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import rng
from ..config.inputs import Config
from ..errors import Damaged, Foreign, InputError
from ..io import files
from ..io.rows import Rows
from ..lattice import Lattice
from ..model.potts import Sampler
from ..rng import Purpose
from ..runtime.control import Control
from ..runtime.parallel import Comm, agree, on_root, warm_up
from ..runtime.progress import Progress
from . import file as binding_file
from .adaptive import Request
from .chains import (
    KINDS,
    ChainsFile,
    Place,
    Row,
    check_identity,
    identity_of,
    open_binding,
    open_chains,
    read_chains,
    write_chains,
)
from .compute import BindingPaths, choose_sampler
from .estimates import Estimator
from .work import Part, SliceLength, lengthen, work


class Bench:
    """The rows of one binding function over the ranks.

    chains : {beta: {kind: S(z)}} that count, the same on every rank
    """

    def __init__(
        self,
        comm: Comm,
        config: Config,
        lattice: Lattice,
        paths: BindingPaths,
        control: Control,
        quiet: bool = False,
    ):
        """Collective.  Takes up what is there; a binding function of another lattice, k or sampler is
        refused."""
        self._comm, self._config, self._paths, self._control = comm, config, paths, control
        self._quiet = quiet
        self.lattice, keys = lattice, config.precompute
        sources, base, notes, sampler = on_root(comm, self._find)
        for note in notes if comm.rank == 0 else ():
            print(note, file=sys.stderr, flush=True)  # also where progress is not wanted
        self.base: ChainsFile | None = base
        self.sampler = Sampler(lattice, config.model.labels, sampler)
        self.seed = config.seed if base is None else int(base.attributes["seed"])
        self._home: dict[float, int] = {}
        self._rows: dict[float, Row] = {}
        self.chains: dict[float, dict[str, np.ndarray]] = {}
        self._full: dict[float, dict[str, np.ndarray]] = {}
        self._read(sources, base)
        warm_up(comm, self._warm_up)
        self._length = SliceLength()
        identity, size = self.identity, self.sampler.packed_size
        keep, minutes = keys.keep_states, config.run.checkpoint_minutes
        self._part = Part(comm, paths.parts, identity, size, keep, minutes)

    @property
    def identity(self) -> dict[str, Any]:
        """What the chains are a function of, as attributes of a file."""
        return identity_of(self.lattice, self.sampler.k, self.sampler.name, self.seed)

    def _find(self) -> tuple[list[ChainsFile], ChainsFile | None, list[str], str]:
        """The files with chains of this lattice, the binding file among them, what to say, and the sampler,
        which is that of the files where it is left to the program; on one rank."""
        base, sources, notes = self._open()
        config = self._config
        seed = config.seed if base is None else int(base.attributes["seed"])
        there = str(sources[0].attributes["sampler"]) if sources else None
        sampler = choose_sampler(config.precompute, self.lattice, config.model.labels, there)
        wanted = identity_of(self.lattice, config.model.labels, sampler, seed)
        for source in sources:
            check_identity(source.path, source.attributes, wanted)
        return sources, base, notes, sampler

    def _open(self) -> tuple[ChainsFile | None, list[ChainsFile], list[str]]:
        """The binding file, all files with chains, it first, and what is to say of damaged ones."""
        paths, notes, base = self._paths, [], None
        sources: list[ChainsFile] = []
        try:
            base = open_binding(paths.binding) if paths.binding.exists() else None
        except Foreign as error:  # any file may have been named
            raise InputError(f"{error}; it is not overwritten: remove it, or name another file") from None
        except Damaged as error:
            notes.append(f"{error}: ignored, chains that are nowhere else are done again")
        if base is not None:
            sources.append(base)
        for path in [paths.states, *paths.all_parts()]:
            try:
                sources += [open_chains(path)] if path.exists() else []
            except Damaged as error:
                notes.append(f"{error}: ignored, chains that are nowhere else are done again")
        return base, sources, notes

    def _read(self, sources: Sequence[ChainsFile], base: ChainsFile | None) -> None:
        """Collective.  Deal the rows of all files out, each from the file that has most of it."""
        best: dict[float, tuple[tuple[int, int], Place]] = {}
        for number, source in enumerate(sources):
            for row, beta in enumerate(source.beta.tolist()):
                done = int(source.done[row].sum())
                value = int(row < source.states), done
                if done and (beta not in best or value > best[beta][0]):
                    best[beta] = value, Place(beta, number, row)
        for number, beta in enumerate(sorted(best)):
            self._home[beta] = number % self._comm.size
        mine = [best[beta][1] for beta, home in self._home.items() if home == self._comm.rank]
        self._rows = {row.beta: row for row in read_chains(sources, mine)}
        known = {beta: _statistics(row) for beta, row in self._rows.items()}
        for of_rank in self._comm.allgather(known):
            self._full |= of_rank
        if base is not None:
            self.chains = self._counted(base)

    def _counted(self, base: ChainsFile) -> dict[float, dict[str, np.ndarray]]:
        """Collective.  The chains of the binding file itself: a part may have less of a row, which was begun
        again."""
        places = [Place(beta, 0, row) for row, beta in enumerate(base.beta.tolist()) if base.done[row].any()]
        rows = read_chains([base], places[self._comm.rank :: self._comm.size])
        counted: dict[float, dict[str, np.ndarray]] = {}
        for of_rank in self._comm.allgather({row.beta: _statistics(row) for row in rows}):
            counted |= of_rank
        return {beta: counted[beta] for beta in sorted(counted)}

    def _warm_up(self) -> None:
        stream = rng.stream(self.seed, Purpose.START)
        for kind in KINDS:
            state = self.sampler.start(kind, stream)
            self.sampler.sweeps(state, 0.1, stream, 0, 1)
            self.sampler.unpack(self.sampler.pack(state))

    def extend(self, requests: Sequence[Request], label: str, expected: float = 0.0) -> None:
        """Collective.  Make chains as long as they are asked for.

        label : what it is for, and expected : the sweeps that will be needed from here on, for the progress

        Raises Interrupted, with everything saved, where it was asked to stop before the end.
        """
        load = [0] * self._comm.size
        todo: dict[float, list[Request]] = {}
        for request in requests:
            have = self._full.get(request.beta, {}).get(request.kind, np.zeros(0)).size
            if have < request.sweeps:
                todo.setdefault(request.beta, []).append(request)
                if request.beta in self._home:
                    load[self._home[request.beta]] += request.sweeps - have
        for beta, asked in todo.items():
            if beta not in self._home:
                rank = load.index(min(load))
                self._home[beta] = rank
                load[rank] += sum(request.sweeps for request in asked)
        mine = {beta: asked for beta, asked in todo.items() if self._home[beta] == self._comm.rank}
        total = max(float(sum(load)), expected)
        with Progress(self._comm, label, total, "sweeps", self._quiet) as progress:
            work(self._comm, self._sweep(mine), self._part, self._control, progress)
        grown = {beta: _statistics(self._rows[beta]) for beta in mine if beta in self._rows}
        complete = all(self._done(r) >= r.sweeps for asked in mine.values() for r in asked)
        if agree(self._comm, not complete):
            raise self._control.interrupted(str(self._paths.parts))
        for of_rank in self._comm.allgather(grown):
            self._full |= of_rank
        for beta, kind, sweeps in requests:
            counted = self.chains.setdefault(beta, {})
            if counted.get(kind, np.zeros(0)).size < sweeps:
                counted[kind] = self._full[beta][kind][:sweeps]

    def _done(self, request: Request) -> int:
        """The sweeps that a chain of this rank has; a stop may come before its first."""
        row = self._rows.get(request.beta)
        return row.chains[request.kind].done if row is not None and request.kind in row.chains else 0

    def _sweep(self, todo: dict[float, list[Request]]) -> Iterator[tuple[Row, int]]:
        """This rank's part of the work, in slices."""
        for beta, asked in todo.items():
            row = self._rows.setdefault(beta, Row(beta))
            for request in asked:
                row.prepare((request.kind,), request.sweeps)
                chain = row.chains[request.kind]
                steps = lengthen(
                    self.sampler, self.seed, beta, request.kind, chain, request.sweeps, self._length
                )
                for count in steps:
                    yield row, count
                chain.close(keep=True)

    def write(self, estimator: Estimator, more: dict[str, Any]) -> None:
        """Collective.  The binding file, with all that counts; the states first, so that a kill loses
        nothing."""
        comm, paths, config = self._comm, self._paths, self._config
        writer, keep = config.run.writer, config.precompute.keep_states
        rows = list(self._rows.values())
        if keep:
            write_chains(comm, paths.states, self.identity, rows, self.sampler.packed_size, writer)
        columns = estimator.columns(self.chains)
        beta = columns["beta"]
        kinds = [kind for kind in KINDS if any(kind in starts for starts in self.chains.values())]
        length = max((s.size for starts in self.chains.values() for s in starts.values()), default=0)
        done = np.zeros((beta.size, len(kinds)), dtype=np.int64)
        mine = [b for b in sorted(self._rows) if b in self.chains]
        index = np.searchsorted(beta, mine).astype(np.int64)
        statistic = np.zeros((len(mine), len(kinds), length), dtype=np.int64)
        for i, b in enumerate(beta.tolist()):
            for j, kind in enumerate(kinds):
                done[i, j] = self.chains.get(b, {}).get(kind, np.zeros(0)).size
        for i, b in enumerate(mine):
            for j, kind in enumerate(kinds):
                if kind in self.chains[b]:
                    statistic[i, j, : self.chains[b][kind].size] = self.chains[b][kind]
        # The rows without chains are rank 0's.
        empty = np.flatnonzero(done.sum(axis=1) == 0) if comm.rank == 0 else np.zeros(0, dtype=np.int64)
        index = np.concatenate([index, empty]).astype(np.int64)
        statistic = np.concatenate([statistic, np.zeros((empty.size, len(kinds), length), dtype=np.int64)])
        settings = estimator.settings(self.chains) | more
        binding_file.write_binding(
            comm, paths.binding, settings, columns, Rows(index, statistic, beta.size), writer, done=done
        )
        on_root(comm, shutil.rmtree, paths.parts, True)
        if not keep:
            on_root(comm, files.discard, paths.states)


def _statistics(row: Row) -> dict[str, np.ndarray]:
    return {kind: chain.statistic[: chain.done].copy() for kind, chain in row.chains.items() if chain.done}
