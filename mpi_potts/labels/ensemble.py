"""The label chains beside the SMC (paper, section 4.2), and the final phase after it.

A small number C of chains of (z, mu, sigma) run on the ranks, chain c on rank c mod size.  The SMC follows
the statistic S(z) of chain 0, as in the paper: before each iteration every chain makes one sweep for each of
`label_sweeps` values of beta, drawn by weight from the particles, or, while these are far from what the
chain's own S(z) says of beta, goes on as `guide` has it.  The others start differently and see the same
particles; they tell whether the answer depends on the start.

After the SMC every chain is on its own, and the pairs (beta, z) sample the joint posterior: a `Phase` says
how beta moves.  In the final phase of the SMC beta is drawn from p(beta | S(z)) before each sweep; the
methods that need no SMC are such a phase from the start.

A phase has as many steps as it says, or goes on until its draws suffice (`estimation/enough.py`).  Then the
draws of all chains are looked at after 128, 181, 256, 362, ... counted steps, numbers that depend on nothing
else, so that any number of ranks, a continued run and one with a stricter target look at the same draws.  At
the powers of two, draws that have not forgotten their start become burn-in: they are dropped, the labels that
were counted with them too, and the count begins again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..binding.function import Binding
from ..estimation import autocorrelation, enough
from ..estimation.enough import Reached, Target
from ..estimation.verdicts import Ended
from ..io.rows import Parts, Rows
from ..kernels.chain import Trace
from ..lattice import GRAPH, Lattice
from ..runtime.parallel import Comm, bcast, decided, merge_rows, quiet_wait, sum_on_root
from ..smc.sampler import State, chain_betas
from . import evidence, matching, tempering, watched
from .chain import LabelChain
from .guide import Guide

# Chains are looked at for so many steps after their burn-in, and tempered where the means of anything are
# more than this many sds apart, and there are no more than so many pixels.
PROBE, APART = 200, 1.5
TEMPERED = 2**12

# Before that, chains whose mode has a log evidence this much below the best, beyond so many standard errors,
# begin again from better ones, with so many steps that are not counted.
MINOR, SURE, AGAIN = 5.0, 3.0, 200
# The chains by which that is told have these numbers, downwards.
WEIGHERS = 2**32 - 1

# A slice of the final phase is about a second of sweeps.  A fixed amount of work, so that all ranks make the
# same slices and meet after each.
SLICE_SITES = 200_000_000

# The first looks at the draws of a phase that has a target; all others are these times a power of two.
LOOKS = (128, 181)
# What is drawn of the noise of a label that has a smaller part of the pixels is not asked to have settled: it
# may be superfluous, and then its noise is the prior's.
SMALL = 0.01


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


# The first sweeps of a chain, of this number; S(z) after each.
Start = Callable[[int, LabelChain], np.ndarray]


class Phase(Protocol):
    """Steps of beta together with (z, mu, sigma), the first `burn_in` of which are not counted."""

    @property
    def burn_in(self) -> int:
        """Steps that are not counted."""

    @property
    def sweeps(self) -> int:
        """Steps that are counted, or that were and then became burn-in."""

    @property
    def target(self) -> Target | None:
        """Where it is met the phase ends, and `sweeps` are the most there are; None: exactly so many."""

    @property
    def width(self) -> int:
        """Numbers that a chain remembers from step to step."""

    @property
    def cost(self) -> int:
        """Sweeps over the lattice that a step takes."""

    @property
    def crossing(self) -> "Crossing | None":
        """How its chains can be made to cross between modes; None: they cannot."""

    def start(self, number: int) -> np.ndarray:
        """(width,) what chain `number` remembers at its start."""

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
        """Steps first..first+steps-1 of a chain, in place; labels are counted where `counting`."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """Chains with beta from a binding function, which can be weighed and tempered: see `evidence.of_mode` and
    `tempering`."""

    binding: Binding
    interval: tuple[float, float]
    marginal: str

    @property
    def table(self) -> np.ndarray:
        """The binding function's."""
        return self.binding.table

    @property
    def weighs(self) -> bool:
        """Whether modes can be weighed: log C(beta) is known only from beta = 0 on."""
        return float(self.binding.beta[0]) == 0.0

    def probe(self, chain: LabelChain) -> np.ndarray:
        """(quantities, PROBE) of a chain's next steps, whatever its labels are called."""
        trace = chain.sample(self.table, self.interval, PROBE, self.marginal, count=False)
        order = np.argsort(trace.noise[0], axis=1, kind="stable")
        noise = [np.take_along_axis(values, order, axis=1).T for values in trace.noise]
        return np.concatenate([trace.beta[None], trace.statistic[None], *noise])

    def scout(self, chain: LabelChain) -> LabelChain:
        """A chain that was at its start, after steps at beta = 0 and then as many of beta with the rest."""
        chain.sweep(np.zeros(AGAIN))
        chain.sample(self.table, self.interval, AGAIN, self.marginal, count=False)
        return chain

    def again(self, chain: LabelChain, labels: np.ndarray, noise: np.ndarray) -> None:
        """Let a chain begin again from labels (n,) and noise (P, k) of another."""
        chain.unpack({"steps": np.array([chain.done, 0]), "labels": labels, "noise": noise})
        chain.sample(self.table, self.interval, AGAIN, self.marginal, count=False)

    def temper(self, chain: LabelChain) -> None:
        """Temper a chain from now on."""
        chain.temper(self.table, self.interval, self.marginal)


def can_temper(lattice: Lattice) -> bool:
    """Whether label chains on a lattice can be tempered: on none that is large, and no graph."""
    return lattice.sites <= TEMPERED and lattice.neighbourhood != GRAPH


def disagree(probes: np.ndarray) -> bool:
    """Whether chains (chains, quantities, n) are apart: the means of any, in its sd within chains."""
    within = np.sqrt(probes.var(axis=2).mean(axis=0))
    return bool((np.ptp(probes.mean(axis=2), axis=0) > APART * within).any())


def origins(found: np.ndarray) -> np.ndarray:
    """(chains,) from which state each chain goes on, by the evidence (chains + 1, 2) of their modes, with its
    error, and last of the scout's.

    From its own; but a chain whose mode has surely next to nothing of the posterior from the scout's, unless
    that has nothing either, or else from the best.
    """
    value, error = found.T
    best, scout = int(np.argmax(value)), value.size - 1
    surely = SURE * np.sqrt(error * error + error[best] * error[best])
    minor = value[best] - value > MINOR + surely
    return np.where(minor, best if minor[scout] else scout, np.arange(scout + 1))[:scout]


@dataclass(frozen=True, eq=False)
class SurrogatePhase:
    """beta drawn before each sweep from p(beta | S(z)) by a binding function."""

    binding: Binding
    interval: tuple[float, float]
    marginal: str
    burn_in: int
    sweeps: int
    target: Target | None = None
    width: int = 0
    cost: int = 1
    crosses: bool = True

    @property
    def crossing(self) -> Crossing | None:
        """Tempering, where it is wanted."""
        return Crossing(self.binding, self.interval, self.marginal) if self.crosses else None

    def start(self, number: int) -> np.ndarray:
        """Nothing: S(z) of the chain says all."""
        return np.zeros(0)

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
        """Steps of a chain, in place; labels are counted where `counting`."""
        return chain.sample(self.binding.table, self.interval, steps, self.marginal, counting)


def next_look(steps: int) -> int:
    """The first number of counted steps beyond `steps` at which their draws are looked at."""
    looks = (look << doublings for doublings in range(steps.bit_length() + 1) for look in LOOKS)
    return next(look for look in looks if look > steps)


class LabelChains:
    """The chains of this rank, and how far all chains are.

    burned, drawn : steps of the phase that are burn-in, and that count
    reached       : at the last look at the draws, what they had reached of the target, if there is one
    """

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
        self._make = make
        self.chains = [make(int(c)) for c in self.numbers]
        self.burned = self.drawn = 0
        self.tempered, self.restarted = False, 0
        self.reached: Reached | None = None
        self._noise, self._witnesses = noise, witnesses
        self._pixels = watched.pixels(lattice.sites)
        self._batches = self._no_batches()
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
        corrected for their correlation, or where none were made, that of before.

        Before the first iteration the chains warm up; then beta is drawn from the particles, or, where they
        are far and there is a guide, by it.
        """
        told = None
        for number, chain in zip(self.numbers, self.chains):
            if state.iteration == 0:
                statistic = start(int(number), chain)
            elif guide is not None and guide.needed(state, chain.statistic):
                statistic = guide.sweep(chain, state, label_sweeps)
            else:
                statistic = chain.sweep(chain_betas(state, self._seed, label_sweeps, int(number))).statistic
            if number == 0:
                late = statistic[statistic.size // 2 :]
                noise_sd = autocorrelation.moments(late).sd if late.size else state.noise_sd
                told = float(chain.statistic), noise_sd
        # The ranks without a chain wait without taking memory bandwidth from those that have one.
        quiet_wait(self._comm)
        return bcast(self._comm, told)

    def run(self, phase: Phase) -> Iterator[int]:
        """Collective.  The phase in slices; yields the steps done after each.  Continues where it was packed.

        Where there is a target, `reached` says after the last what came of it.
        """
        if self.burned + self.drawn == 0:
            starts = [phase.start(int(number)) for number in self.numbers]
            self.memory = np.array(starts).reshape(self.memory.shape)
        while not self._ended(phase):
            counting = self.burned >= phase.burn_in
            if self.burned == phase.burn_in and self.drawn == 0:
                self._look_for_modes(phase)
            steps, first = self._slice(phase, counting), self.burned + self.drawn
            if counting:
                self._make_room(steps if phase.target is not None else phase.sweeps - self.drawn)
            for i, (number, chain) in enumerate(zip(self.numbers, self.chains)):
                trace = phase.run(int(number), chain, self.memory[i], first, steps, counting)
                if counting:
                    self._draws.put(i, self.drawn, trace)
            if counting:
                self.drawn += steps
            else:
                self.burned += steps
            if phase.target is not None and counting:
                self._watch()
            quiet_wait(self._comm)
            yield self.burned + self.drawn

    def _look_for_modes(self, phase: Phase) -> None:
        """Collective.  Where the chains, or a scout, are in different modes after their burn-in, weigh these,
        and let chains of next to no weight begin again in better ones; temper all where they still differ.

        The scout looks where few starts lead, at labels that hardly see their neighbours.  What is decided
        by, and all that follows from it, is done between two checkpoints.
        """
        crossing = phase.crossing
        if crossing is None or not self._can_temper or self.tempered:
            return
        scouts = []
        if crossing.weighs and self._comm.rank == 0:  # others may not have the image
            scouts = [crossing.scout(self._make(WEIGHERS - self.count))]
        probes = self._probes(crossing, scouts, self.count + crossing.weighs)
        apart = decided(self._comm, disagree, probes[: self.count])
        moved = False
        if crossing.weighs and (apart or decided(self._comm, disagree, probes)):
            moved = self._weigh(crossing, scouts)
            apart = decided(self._comm, disagree, self._probes(crossing, [], self.count)) if moved else apart
        if apart:
            self._temper(crossing)

    def _probes(self, crossing: Crossing, scouts: list[LabelChain], many: int) -> np.ndarray:
        """Collective.  Of the next steps of all chains, and of the scout where there is one: so many."""
        probes = [crossing.probe(chain) for chain in (*self.chains, *scouts)]
        room = np.zeros((0, 2 + len(self._noise) * self.labels, PROBE))
        found = np.stack(probes) if probes else room
        return merge_rows(self._comm, self._rows_with(scouts), found, many)

    def _rows_with(self, scouts):
        """The numbers of this rank's chains, and after those of all, the scout's."""
        return np.array([*self.numbers, *([self.count] if scouts else [])], dtype=np.int64)

    def _weigh(self, crossing: Crossing, scouts: list[LabelChain]) -> bool:
        """Collective.  Let chains in minor modes begin again in better ones; whether there were any."""
        rows = self._rows_with(scouts)
        found, states = np.zeros((rows.size, 2)), np.zeros((rows.size, self._lattice.sites), np.uint8)
        noise = np.zeros((rows.size, len(self._noise), self.labels))
        for i, (number, chain) in enumerate(zip(rows, (*self.chains, *scouts))):
            packed = chain.pack()
            states[i], noise[i] = packed["labels"], packed["noise"]
            weigher = self._make(WEIGHERS - int(number))
            found[i] = evidence.of_mode(weigher, states[i], crossing.binding, crossing.interval)
        every = [merge_rows(self._comm, rows, values, self.count + 1) for values in (found, states, noise)]
        origin = decided(self._comm, origins, every[0])
        for number, chain in zip(self.numbers, self.chains):
            if origin[number] != number:
                crossing.again(chain, every[1][origin[number]], every[2][origin[number]])
        again = int(np.count_nonzero(origin != np.arange(self.count)))
        self.restarted += again
        return again > 0

    @property
    def _can_temper(self) -> bool:
        """Whether chains that are apart are tempered: several, of hidden labels."""
        return self.labels > 1 and self.count > 1 and can_temper(self._lattice)

    def _temper(self, crossing: Crossing) -> None:
        self.tempered = True
        for chain in self.chains:
            crossing.temper(chain)

    def _slice(self, phase: Phase, counting: bool) -> int:
        """The steps of the next slice: up to whatever comes first."""
        cost = phase.cost * (tempering.RUNGS if self.tempered else 1)
        size = max(1, SLICE_SITES // (self._lattice.sites * cost))
        if not counting:
            return min(size, phase.burn_in - self.burned)
        place = self.burned + self.drawn - phase.burn_in
        size = min(size, phase.sweeps - place)
        if phase.target is None:
            return size
        batch = watched.stride(self.drawn)
        return min(size, next_look(place) - place, batch - self.drawn % batch)

    @property
    def ended(self) -> Ended | None:
        """Why a phase with a target ended, after its last step; None where it has none."""
        if self.reached is None:
            return None
        met = Ended.MET if self.reached.met else Ended.LIMIT
        return Ended.APART if self.reached.apart and not self.reached.met else met

    def _ended(self, phase: Phase) -> bool:
        """Collective.  Whether the phase ends here; may find that all draws so far are burn-in."""
        place = self.burned + self.drawn - phase.burn_in
        last = place >= phase.sweeps
        if phase.target is None or (last and self.drawn == 0):
            return last
        if not last and (self.drawn == 0 or place != next_look(place - 1)):
            return False
        # The last look of one run may be none at all in another.
        at_power = place.bit_count() == 1
        self.reached, drifting = self._looked(phase.target, at_power or last)
        if last or self.reached.met:
            return True
        crossing = phase.crossing if self._can_temper and not self.tempered else None
        if at_power and self.reached.apart and crossing is not None:
            self._forget()
            self._temper(crossing)
            return False
        if at_power and drifting:
            self._forget()
        return at_power and not drifting and self.reached.apart

    def _looked(self, target: Target, thoroughly: bool) -> tuple[Reached, bool]:
        """Collective.  What all chains have reached and, where it is looked at thoroughly, whether some have
        not forgotten their start."""
        draws = self.gathered()
        batches = merge_rows(self._comm, self.numbers, self._batches, self.count)

        def look() -> tuple[Reached, bool]:
            parts, names = watched.fractions(batches, self.drawn), self._names_by(batches, draws)
            series = comparable(draws, parts, names)
            by_name = np.moveaxis(matching.renamed(np.moveaxis(parts, 2, 3), names), 3, 2)
            found = enough.reached(series, watched.mean_error(by_name), target)
            if found.met or not thoroughly:
                return found, False
            drifting = enough.drifts(series)
            return replace(found, apart=not drifting and enough.apart(series, target)), drifting

        return decided(self._comm, look)

    def _names_by(self, batches: np.ndarray, draws: Draws) -> np.ndarray:
        """(chains, k) names of the labels of every chain, by the pixels that are watched; on one rank."""
        table = np.tile(np.arange(self.labels, dtype=np.uint8), (self.count, 1))
        if self._witnesses == 0 or batches.shape[1] == 0:
            return table
        table = matching.matched([np.ascontiguousarray(each[-1].T) for each in batches])
        return matching.ascending(matching.renamed(draws.noise[self._noise[0]], table))[table]

    def _forget(self) -> None:
        """What was drawn and counted so far is burn-in."""
        self.burned, self.drawn = self.burned + self.drawn, 0
        self._batches = self._no_batches()
        for chain in self.chains:
            chain.forget_counts()

    def begin_again(self) -> None:
        """Keep the labels and the noise as they are, as the start of a phase from its first step on."""
        self._forget()
        self.burned = 0

    def _watch(self) -> None:
        """At the end of a batch, keep the counts of the pixels that are watched."""
        if self.drawn % watched.stride(self.drawn - 1):
            return
        counts = [chain.counts_at(self._pixels) for chain in self.chains]
        now = np.array(counts, dtype=np.uint32).reshape(self.numbers.size, 1, self.labels, self._pixels.size)
        self._batches = watched.merged(np.concatenate([self._batches, now], axis=1), self.drawn)

    def _no_batches(self):
        return np.zeros((self.numbers.size, 0, self.labels, self._pixels.size), dtype=np.uint32)

    def _make_room(self, steps):
        """Have room for so many more steps; it at least doubles, so that it seldom moves."""
        there, needed = self._draws.beta.shape[1], self.drawn + steps
        if needed > there:
            before = self._draws.to(self.drawn).arrays()
            self._draws = Draws.room(self.numbers.size, max(needed, 2 * there), self.labels, self._noise)
            for name, room in self._draws.arrays().items():
                room[:, : self.drawn] = before[name]

    def gathered(self) -> Draws:
        """Collective.  The draws of all chains on every rank."""
        draws = self.draws.arrays().items()
        return Draws.of({name: merge_rows(self._comm, self.numbers, v, self.count) for name, v in draws})

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

    def take_counts(self, names: np.ndarray) -> np.ndarray | None:
        """On rank 0: (k, *shape) uint32 how often every pixel had every label, in all chains; collective.

        The chains give their counts away, label by label: there is never more than one copy of them.

        names : (chains, k) of the labels of every chain
        """
        shape = self._lattice.shape
        layers = np.empty((self.labels, *shape), np.uint32) if self._comm.rank == 0 else None
        for name in range(self.labels):
            layer: np.ndarray | None = None
            for number, chain in zip(self.numbers, self.chains):
                label = int(np.flatnonzero(names[number] == name)[0])
                layer = chain.take_counts(label) if layer is None else layer + chain.take_counts(label)
            total = sum_on_root(self._comm, np.zeros(shape, np.uint32) if layer is None else layer)
            if layers is not None and total is not None:
                layers[name] = total
        return layers

    def shares(self, names: np.ndarray) -> np.ndarray:
        """Collective.  (chains, k) the share of every label among the pixels, in every chain by itself."""
        whole = float(self._lattice.sites) * self.drawn
        own = np.zeros((self.numbers.size, self.labels))
        for row, number, chain in zip(own, self.numbers, self.chains):
            row[names[number]] = chain.count_totals() / whole
        return merge_rows(self._comm, self.numbers, own, self.count)

    def pack(self) -> dict[str, np.ndarray | Rows]:
        """Everything as datasets of a checkpoint, a row for each chain."""
        steps = [self.burned, self.drawn, self._batches.shape[1], self.tempered, self.restarted]
        arrays: dict[str, np.ndarray | Rows] = {"final": np.array(steps)}
        if self._batches.shape[1]:
            arrays["batches"] = self._rows(self._batches)
        arrays |= {f"draws/{name}": self._rows(values) for name, values in self.draws.arrays().items()}
        if self.memory.shape[1]:
            arrays["memory"] = self._rows(self.memory)
        packed = [chain.pack(counts=False) for chain in self.chains]
        for name, (dtype, shape) in self._parts().items():
            if name == "counts":
                counts = Parts((len(packed), *shape), np.dtype(dtype), self._counts_of)
                arrays["chain/counts"] = self._rows(counts)
                continue
            values = np.asarray([p[name] for p in packed], dtype=dtype).reshape(len(packed), *shape)
            arrays[f"chain/{name}"] = self._rows(values)
        return arrays

    def _counts_of(self, row: int, first: int, last: int) -> np.ndarray:
        return self.chains[row].counts_of_pixels(first, last)

    def unpack(
        self, whole: dict[str, np.ndarray], rows: Callable[[list[str]], dict[str, np.ndarray]]
    ) -> None:
        """Go on from what `pack` gave: `whole` arrays, and a function that reads this rank's rows by name."""
        numbers = (int(n) for n in (*whole["final"], 0)[:5])  # the last is not in every file
        self.burned, self.drawn, batches, tempered, self.restarted = numbers
        self.tempered = bool(tempered)
        self._batches = rows(["batches"])["batches"] if batches else self._no_batches()
        names = [*self._draws.arrays()]
        draws = rows([f"draws/{name}" for name in names])
        self._draws = Draws.of({name: draws[f"draws/{name}"] for name in names})
        if self.memory.shape[1]:
            self.memory = rows(["memory"])["memory"]
        parts = rows([f"chain/{name}" for name in self._parts()])
        for i, chain in enumerate(self.chains):
            chain.unpack({name: parts[f"chain/{name}"][i] for name in self._parts()})

    def _rows(self, values: np.ndarray | Parts) -> Rows:
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
        if self.tempered:
            parts |= tempering.parts(sites, len(self._noise), k)
        return parts | ({"counts": (np.uint32, (sites, k))} if self.drawn else {})


def comparable(draws: Draws, parts: np.ndarray, names: np.ndarray) -> dict[str, np.ndarray]:
    """Series (chains, n) by name that are asked to have settled.

    Those of a label that holds less than SMALL of the pixels in every chain are left out.

    draws : of all chains; parts : (chains, batches, k, p) of `watched`; names : (chains, k) of the labels
    """
    series = {"beta": draws.beta, "S(z)": draws.statistic.astype(np.float64)}
    chains, batches, k, _ = parts.shape
    # Before the first batch is full all labels count.
    share = matching.renamed(parts.mean(axis=(1, 3)), names) if batches else np.ones((chains, k))
    large = np.flatnonzero((share >= SMALL).any(axis=0))
    for name, values in draws.renamed(names).noise.items():
        series |= {f"{name} of label {j + 1}": values[:, :, j] for j in large}
    return series
