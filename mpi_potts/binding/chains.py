"""Chains of S(z) at each beta, and the files in which they wait to be continued.

A row is one beta with a chain for each start.  A chain is a pure function of seed, lattice, labels, sampler,
beta, start and number of sweeps, so rows from any session on any number of ranks may be put together; the
longest that can be continued wins.  They come from three kinds of files:

- parts, one for each rank and session, rewritten as the work goes on;
- the states file beside a finished binding function, with all that was ever computed;
- the binding function itself, which has the statistic but no labels to go on from.

In a chains file `statistic` is (rows, starts, sweeps), filled as far as `done` (rows, starts) says; `state`
has the packed labels (see `potts.Sampler.pack`) of the first rows only, those that can be continued.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..io import reading, store
from ..io.formats import BINDING, CHAINS, Format
from ..io.rows import Rows
from ..lattice import Lattice
from ..runtime.parallel import Comm, merge_rows
from . import file as binding_file

KINDS = ("random", "ordered")
# What chains are a function of: files that differ in one of these do not belong together.
IDENTITY = ("lattice", "labels", "sampler", "seed")
# Finished rows are dealt to the ranks in runs of this many from one file, so that few ranks open each file.
RUN = 16


@dataclass
class Chain:
    """S(z) after each of `done` sweeps, in an array with room for more, and the packed labels after them.

    While a chain is being continued its labels are packed by `pack`, only when they are asked for.
    """

    statistic: np.ndarray
    done: int = 0
    packed: np.ndarray | None = None
    pack: Callable[[], np.ndarray] | None = None

    @classmethod
    def of_length(
        cls, length: int, statistic: Sequence[int] | np.ndarray = (), packed: np.ndarray | None = None
    ) -> "Chain":
        """A chain with this statistic so far, and room for `length` sweeps at least."""
        room = np.zeros(max(length, len(statistic)), dtype=np.int64)
        room[: len(statistic)] = statistic
        return cls(room, len(statistic), packed)

    @property
    def resumable(self) -> bool:
        """Whether the labels after the last sweep are known."""
        return self.packed is not None or self.pack is not None

    def extend(self, statistic: np.ndarray, pack: Callable[[], np.ndarray]) -> None:
        """Append the statistic of further sweeps; `pack` gives the labels after them when it is called."""
        self.statistic[self.done : self.done + statistic.size] = statistic
        self.done += statistic.size
        self.packed, self.pack = None, pack

    def labels(self) -> np.ndarray | None:
        """The packed labels after the last sweep, if they are known."""
        return self.packed if self.pack is None else self.pack()

    def close(self, keep: bool) -> None:
        """End a chain that is not continued now: keep its packed labels or none, and let the state go."""
        self.packed, self.pack = self.labels() if keep else None, None


@dataclass
class Row:
    """The chains at one beta, by kind of start."""

    beta: float
    chains: dict[str, Chain] = field(default_factory=dict)

    def complete(self, starts: Iterable[str], iterations: int) -> bool:
        """Whether there are as many sweeps from every one of these starts."""
        return all(kind in self.chains and self.chains[kind].done >= iterations for kind in starts)

    def prepare(self, starts: Iterable[str], iterations: int) -> None:
        """Make room for `iterations` sweeps from every start; what cannot be continued starts again."""
        for kind in starts:
            chain = self.chains.get(kind, Chain.of_length(0))
            if not chain.resumable and chain.done < iterations:
                chain = Chain.of_length(0)
            if chain.statistic.size < iterations:
                chain = Chain.of_length(iterations, chain.statistic[: chain.done], chain.packed)
            self.chains[kind] = chain

    @property
    def resumable(self) -> bool:
        """Whether every chain that has begun can be continued."""
        return all(chain.resumable for chain in self.chains.values() if chain.done)


class Place(NamedTuple):
    """Where the row of a beta is kept: the number of its file among the sources, and of the row in it."""

    beta: float
    source: int
    row: int


@dataclass(frozen=True, eq=False)
class ChainsFile:
    """A verified file of chains: what is in it, without the chains themselves.

    `done` (rows, kinds) counts the sweeps of each chain; the first `states` rows can be continued.
    """

    path: Path
    kinds: tuple[str, ...]
    beta: np.ndarray
    done: np.ndarray
    states: int
    attributes: dict[str, Any]
    format: Format = CHAINS

    def value(self, row: int, starts: Iterable[str], iterations: int) -> tuple[int, int, int]:
        """How much of the asked chains a row saves, whether it can be continued, and how long it is."""
        resumable = row < self.states
        done = {kind: int(n) for kind, n in zip(self.kinds, self.done[row])}
        asked = (done.get(kind, 0) for kind in starts)
        saved = sum(min(n, iterations) for n in asked if resumable or n >= iterations)
        return saved, int(resumable), sum(done.values())


def write_chains(
    comm: Comm,
    path: Path,
    identity: dict[str, Any],
    rows: Sequence[Row],
    packed_size: int,
    writer: str,
) -> None:
    """Write the rows of all ranks in the order of beta, those that can be continued first; collective."""
    index, n = _numbers(comm, rows)
    kinds = [kind for kind in KINDS if any(comm.allgather(any(kind in row.chains for row in rows)))]
    chains = [[row.chains.get(kind, Chain.of_length(0)) for kind in kinds] for row in rows]
    done = np.array([[c.done for c in row] for row in chains], dtype=np.int64).reshape(len(rows), len(kinds))
    resumable = np.array([row.resumable for row in rows], dtype=bool)
    every = merge_rows(comm, index, resumable, n)
    place = np.argsort(np.argsort(~every, kind="stable"))[index]
    length = int(merge_rows(comm, index, done, n).max(initial=0))

    statistic = np.zeros((len(rows), len(kinds), length), dtype=np.int64)
    state = np.zeros((int(resumable.sum()), len(kinds), packed_size), dtype=np.uint8)
    for i, row in enumerate(chains):
        for j, chain in enumerate(row):
            statistic[i, j, : chain.done] = chain.statistic[: chain.done]
    for i, row in enumerate(row for row, keep in zip(chains, resumable) if keep):
        for j, chain in enumerate(row):
            packed = chain.labels() if chain.done else None
            state[i, j] = 0 if packed is None else packed
    datasets = {
        "beta": Rows(place, np.array([row.beta for row in rows], dtype=np.float64), n),
        "done": Rows(place, done, n),
        "statistic": Rows(place, statistic, n),
        "state": Rows(place[resumable], state, int(every.sum())),
    }
    attributes = identity | {"starts": kinds, "states": int(every.sum())}
    store.write(comm, path, *CHAINS, attributes, datasets, writer)


def _numbers(comm: Comm, rows: Sequence[Row]) -> tuple[np.ndarray, int]:
    """The places of this rank's rows among those of all ranks, by beta, and how many there are."""
    betas = comm.allgather([row.beta for row in rows])
    order = np.argsort(np.argsort([beta for rank in betas for beta in rank], kind="stable"))
    first = sum(map(len, betas[: comm.rank]))
    return order[first : first + len(rows)], len(order)


class OfAnother(InputError):
    """A file of another lattice, number of labels, sampler or seed."""


def check_identity(path: Path, attributes: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse a file of another lattice, number of labels, sampler or seed."""
    for name in ("shape", "neighbourhood", *IDENTITY):
        if attributes.get(name) != identity[name]:
            raise OfAnother(
                f"{path}: computed for {name} = {attributes.get(name)}, but the input has "
                f"{identity[name]}; use another output, or --fresh to start over"
            )


def identity_of(lattice: Lattice, labels: int, sampler: str, seed: int) -> dict[str, Any]:
    """What chains are a function of, as attributes of a file."""
    return {
        "labels": labels,
        "shape": list(lattice.shape),
        "neighbourhood": lattice.neighbourhood,
        "sites": lattice.sites,
        "edges": lattice.edges,
        "lattice": lattice.digest,
        "sampler": sampler,
        "seed": seed,
    }


def open_chains(path: Path) -> ChainsFile:
    """Verify a chains file, and say what is in it; on one rank."""
    attributes, arrays = reading.read(path, *CHAINS, ("beta", "done"))
    kinds, states = tuple(attributes["starts"]), attributes["states"]
    return ChainsFile(path, kinds, arrays["beta"], arrays["done"], states, attributes)


def open_binding(path: Path) -> ChainsFile:
    """The chains of a binding function, verified, which has no labels to go on from; on one rank."""
    attributes, beta, done = binding_file.read_settings(path)
    kinds = start_kinds(attributes["starts"])
    if done is None:
        done = np.full((beta.size, len(kinds)), attributes["iterations"])
    return ChainsFile(path, kinds, beta, done, 0, attributes, BINDING)


def start_kinds(starts: str) -> tuple[str, ...]:
    """The kinds of start that "random", "ordered" or "both" stands for."""
    return KINDS if starts == "both" else (starts,)


def choose(
    sources: Sequence[ChainsFile], beta: np.ndarray, starts: Sequence[str], iterations: int
) -> tuple[list[tuple[float, Place | None]], list[Place], list[Place]]:
    """The best row of every beta: those with work left, with what can be saved; complete; not asked for."""
    best: dict[float, tuple[tuple[int, int, int], Place]] = {}
    for number, source in enumerate(sources):
        for row, b in enumerate(source.beta.tolist()):
            value = source.value(row, starts, iterations)
            if b not in best or value > best[b][0]:
                best[b] = (value, Place(b, number, row))
    todo: list[tuple[float, Place | None]] = []
    complete: list[Place] = []
    for b in beta.tolist():
        value, place = best.pop(b, ((0, 0, 0), None))
        if place is not None and value[0] == iterations * len(starts):
            complete.append(place)
        else:
            todo.append((b, place if value[0] else None))
    return todo, complete, [place for _, place in best.values()]


def lost(
    sources: Sequence[ChainsFile], todo: Sequence[tuple[float, Place | None]], starts: Sequence[str]
) -> int:
    """The number of betas that were simulated before, but must start again."""
    known = set()
    for source in sources:
        asked = [kind in starts for kind in source.kinds]
        known.update(source.beta[source.done[:, asked].any(axis=1)].tolist())
    return sum(place is None and b in known for b, place in todo)


def deal(places: Sequence[Place], size: int) -> list[list[Place]]:
    """Deal the places out to `size` ranks: a list for each, made of runs of neighbours in one file."""
    ordered = sorted(places, key=lambda place: (place.source, place.row))
    runs = [ordered[first : first + RUN] for first in range(0, len(ordered), RUN)]
    return [[place for run in runs[rank::size] for place in run] for rank in range(size)]


def read_chains(sources: Sequence[ChainsFile], places: Iterable[Place]) -> list[Row]:
    """Read the rows at these places, on the rank that will have them."""
    by_source: dict[int, list[int]] = {}
    for place in places:
        by_source.setdefault(place.source, []).append(place.row)
    return [row for number, rows in by_source.items() for row in _read_from(sources[number], sorted(rows))]


def _read_from(source: ChainsFile, rows: Sequence[int]) -> list[Row]:
    index = np.array(rows)
    resumable = index[index < source.states]
    wanted = {"statistic": index} | ({"state": resumable} if resumable.size else {})
    name, version = source.format
    arrays = reading.read_rows(source.path, name, version, wanted)
    read = []
    for i, row in enumerate(rows):
        chains = {}
        for j, kind in enumerate(source.kinds):
            done = int(source.done[row, j])
            packed = arrays["state"][i, j] if row < source.states and done else None
            chains[kind] = Chain.of_length(0, arrays["statistic"][i, j, :done], packed)
        read.append(Row(float(source.beta[row]), chains))
    return read
