"""The label chains beside the SMC (paper, section 4.2), and the final phase after it.

A small number C of chains of (z, mu, sigma) run on the ranks, chain c on rank c mod size.  The SMC follows
the statistic S(z) of chain 0, as in the paper: before each iteration every chain makes one sweep for each of
`label_sweeps` values of beta, drawn by weight from the particles, or, while these are far from what the
chain's own S(z) says of beta, as `guide` has it.  The others start differently and see the same particles;
they tell whether the answer depends on the start.

After the SMC every chain is on its own, and the pairs (beta, z) sample the joint posterior: a `Phase` says
how beta moves.  In the final phase of the SMC beta is drawn from p(beta | S(z)) before each sweep; the
methods that need no SMC are such a phase from the start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..estimation import autocorrelation
from ..io.rows import Rows
from ..kernels.chain import Trace
from ..lattice import Lattice
from ..runtime.parallel import Comm, bcast, decided, merge_rows, quiet_wait, sum_on_root
from ..smc.sampler import State, chain_betas
from . import matching
from .chain import LabelChain
from .guide import Guide

# A slice of the final phase is about a second of sweeps.  A fixed amount of work, so that all ranks make the
# same slices and meet after each.
SLICE_SITES = 200_000_000


@dataclass(frozen=True, eq=False)
class Draws:
    """Counted steps: beta and S(z) (chains, n), and by name the parameters of the noise (chains, n, k)."""

    beta: np.ndarray
    statistic: np.ndarray
    noise: dict[str, np.ndarray]

    @classmethod
    def room(cls, chains: int, steps: int, labels: int, noise: Iterable[str]) -> "Draws":
        """Zeros for so many steps of every chain; noise : the names of its parameters."""
        parameters = {name: np.zeros((chains, steps, labels)) for name in noise}
        return cls(np.zeros((chains, steps)), np.zeros((chains, steps), dtype=np.int64), parameters)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Draws":
        """From what `arrays` gave."""
        noise = {name: values for name, values in arrays.items() if name not in ("beta", "statistic")}
        return cls(arrays["beta"], arrays["statistic"], noise)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them by name."""
        return {"beta": self.beta, "statistic": self.statistic} | self.noise

    def put(self, chain: int, first: int, trace: Trace) -> None:
        """Take over the steps of a trace, from number `first` on."""
        rooms, columns = self.arrays().values(), (trace.beta, trace.statistic, *trace.noise)
        for room, values in zip(rooms, columns, strict=True):
            room[chain, first : first + len(values)] = values

    def renamed(self, names: np.ndarray) -> "Draws":
        """The same with label j of chain c called names[c, j]."""
        noise = {name: matching.renamed(values, names) for name, values in self.noise.items()}
        return Draws(self.beta, self.statistic, noise)

    def to(self, count: int) -> "Draws":
        """The first `count` draws of every chain."""
        return Draws.of({name: values[:, :count] for name, values in self.arrays().items()})


def join(traces: Sequence[Trace]) -> Trace:
    """Traces that follow each other, as one."""
    beta, statistic, noise = zip(*traces)
    return Trace(np.concatenate(beta), np.concatenate(statistic), np.concatenate(noise, axis=1))


# The first sweeps of a chain, of this number; S(z) after each.
Start = Callable[[int, LabelChain], np.ndarray]


class Phase(Protocol):
    """Steps of beta together with (z, mu, sigma), the first `burn_in` of which are not counted."""

    @property
    def burn_in(self) -> int:
        """Steps that are not counted."""

    @property
    def sweeps(self) -> int:
        """Steps that are counted."""

    @property
    def width(self) -> int:
        """Numbers that a chain remembers from step to step."""

    @property
    def cost(self) -> int:
        """Sweeps over the lattice that a step takes."""

    def start(self, number: int) -> np.ndarray:
        """(width,) what chain `number` remembers at its start."""

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
        """Steps first..first+steps-1 of a chain, in place; labels are counted where `counting`."""


@dataclass(frozen=True)
class SurrogatePhase:
    """beta drawn before each sweep from p(beta | S(z)) by a binding function's table."""

    table: np.ndarray
    interval: tuple[float, float]
    marginal: str
    burn_in: int
    sweeps: int
    width: int = 0
    cost: int = 1

    def start(self, number: int) -> np.ndarray:
        """Nothing: S(z) of the chain says all."""
        return np.zeros(0)

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
        """Steps of a chain, in place; labels are counted where `counting`."""
        return chain.sample(self.table, self.interval, steps, self.marginal, counting)


class LabelChains:
    """The chains of this rank, and how far all chains are: `burned` and `drawn` sweeps of the final phase."""

    def __init__(
        self,
        comm: Comm,
        lattice: Lattice,
        labels: int,
        make: Callable[[int], LabelChain],
        count: int,
        seed: int,
        width: int = 0,
        noise: tuple[str, ...] = (),
        witnesses: int = 0,
    ):
        """make(c): chain c at its start.  labels: k, or 0 where they are observed.  width: of the phase.
        noise: the names of its parameters; none where the labels are observed.  witnesses: by how many pixels
        chains keep the names of their labels; none where these have names without it."""
        self._comm, self._lattice, self.labels, self.count, self._seed = comm, lattice, labels, count, seed
        self.numbers = np.arange(comm.rank, count, comm.size)
        self.chains = [make(int(c)) for c in self.numbers]
        self.burned = self.drawn = 0
        self._noise, self._witnesses = noise, witnesses
        self._draws = Draws.room(self.numbers.size, 0, labels, noise)
        self.memory = np.zeros((self.numbers.size, width))

    def warm_up(self, start: Start) -> None:
        """The first sweeps of the chains."""
        for number, chain in zip(self.numbers, self.chains):
            start(int(number), chain)

    def observe(
        self, state: State, start: Start, label_sweeps: int, guide: Guide | None = None
    ) -> tuple[float, float]:
        """S(z) of chain 0 after its next sweeps, and its sampling noise: the sd over their second half,
        corrected for their correlation.

        Before the first iteration the chains warm up; then beta is drawn from the particles, or, where they
        are far and there is a guide, by it.
        """
        told = None
        for number, chain in zip(self.numbers, self.chains):
            if state.iteration == 0:
                statistic = start(int(number), chain)
            elif guide is not None and guide.needed(state, chain.statistic):
                statistic = guide.sweep(chain, label_sweeps).statistic
            else:
                statistic = chain.sweep(chain_betas(state, self._seed, label_sweeps, int(number))).statistic
            if number == 0:
                late = statistic[statistic.size // 2 :]
                told = float(chain.statistic), autocorrelation.moments(late).sd if late.size else 0.0
        # The ranks without a chain wait without taking memory bandwidth from those that have one.
        quiet_wait(self._comm)
        return bcast(self._comm, told)

    def run(self, phase: Phase) -> Iterator[int]:
        """The phase in slices; yields the steps done after each.  Continues where it was packed."""
        self._draws = self._with_room(phase.sweeps)
        if self.burned + self.drawn == 0:
            starts = [phase.start(int(number)) for number in self.numbers]
            self.memory = np.array(starts).reshape(self.memory.shape)
        size = max(1, SLICE_SITES // (self._lattice.sites * phase.cost))
        while self.burned + self.drawn < phase.burn_in + phase.sweeps:
            counting = self.burned == phase.burn_in
            steps = min(size, phase.sweeps - self.drawn if counting else phase.burn_in - self.burned)
            first = self.burned + self.drawn
            for i, (number, chain) in enumerate(zip(self.numbers, self.chains)):
                trace = phase.run(int(number), chain, self.memory[i], first, steps, counting)
                if counting:
                    self._draws.put(i, self.drawn, trace)
            if counting:
                self.drawn += steps
            else:
                self.burned += steps
            quiet_wait(self._comm)
            yield self.burned + self.drawn

    def _with_room(self, sweeps):
        room = Draws.room(self.numbers.size, sweeps, self.labels, self._noise)
        for new, old in zip(room.arrays().values(), self.draws.arrays().values()):
            new[:, : self.drawn] = old
        return room

    @property
    def draws(self) -> Draws:
        """The draws of this rank's chains."""
        return self._draws.to(self.drawn)

    def names(self, draws: Draws) -> np.ndarray:
        """(chains, k) the final names of the labels of every chain, as `matching` has them; collective.

        draws : of all chains, on every rank
        """
        table = np.tile(np.arange(self.labels, dtype=np.uint8), (self.count, 1))
        if self._witnesses == 0:
            return table
        if self.count > 1:
            step = matching.stride(self._lattice.sites, self.labels)
            room = np.zeros((0, len(range(0, self._lattice.sites, step)), self.labels), np.uint32)
            some = np.stack([chain.some_counts(step) for chain in self.chains]) if self.chains else room
            every = merge_rows(self._comm, self.numbers, some, self.count)
            table = decided(self._comm, matching.matched, list(every))
        first = matching.renamed(draws.noise[self._noise[0]], table)
        return matching.ascending(first)[table]

    def counts(self, names: np.ndarray) -> np.ndarray | None:
        """On rank 0: (*shape, k) how often every pixel had every label, in all chains; collective.

        names : (chains, k) of the labels of every chain
        """
        total = np.zeros((*self._lattice.shape, self.labels), dtype=np.uint32)
        for number, chain in zip(self.numbers, self.chains):
            for j, name in enumerate(names[number]):
                total[..., name] += chain.counts_of(j)
        return sum_on_root(self._comm, total)

    def pack(self) -> dict[str, np.ndarray | Rows]:
        """Everything as datasets of a checkpoint, a row for each chain."""
        arrays: dict[str, np.ndarray | Rows] = {"final": np.array([self.burned, self.drawn])}
        arrays |= {f"draws/{name}": self._rows(values) for name, values in self.draws.arrays().items()}
        if self.memory.shape[1]:
            arrays["memory"] = self._rows(self.memory)
        packed = [chain.pack() for chain in self.chains]
        for name, (dtype, shape) in self._parts().items():
            values = np.array([p[name] for p in packed], dtype=dtype).reshape(len(packed), *shape)
            arrays[f"chain/{name}"] = self._rows(values)
        return arrays

    def unpack(
        self, whole: dict[str, np.ndarray], rows: Callable[[list[str]], dict[str, np.ndarray]]
    ) -> None:
        """Go on from what `pack` gave: `whole` arrays, and a function that reads this rank's rows by name."""
        self.burned, self.drawn = (int(n) for n in whole["final"])
        names = [*self._draws.arrays()]
        draws = rows([f"draws/{name}" for name in names])
        self._draws = Draws.of({name: draws[f"draws/{name}"] for name in names})
        if self.memory.shape[1]:
            self.memory = rows(["memory"])["memory"]
        parts = rows([f"chain/{name}" for name in self._parts()])
        for i, chain in enumerate(self.chains):
            chain.unpack({name: parts[f"chain/{name}"][i] for name in self._parts()})

    def _rows(self, values):
        return Rows(self.numbers, values, self.count)

    def _parts(self):
        """(dtype, shape) of every array of a packed chain; the counts only once there are some."""
        sites, k = self._lattice.sites, self.labels
        if k == 0:
            return {"steps": (np.int64, (2,))}
        parts: dict[str, tuple[type, tuple[int, ...]]] = {"steps": (np.int64, (2,))}
        parts["labels"] = np.uint8, (sites,)
        parts["noise"] = np.float64, (len(self._noise), k)
        if self._witnesses:
            parts |= {"before": (np.uint32, (self._witnesses, k)), "switches": (np.int64, (1,))}
        return parts | ({"counts": (np.uint32, (sites, k))} if self.drawn else {})
