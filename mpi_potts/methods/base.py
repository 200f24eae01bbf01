"""What is fitted, and what every fit of it has in common, whatever the method.

`KINDS` says of every method which tables of the input its result is a function of, and what it can be used
for; `Fit` is what the driver and the outcome ask of a method.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import rng
from ..binding.function import Binding
from ..config.inputs import Config
from ..errors import InputError
from ..image.pixels import Image
from ..io import fit_file
from ..labels.chain import LabelChain
from ..labels.ensemble import LabelChains, Phase
from ..labels.observed import ObservedLabels
from ..labels.starts import settle
from ..lattice import Lattice
from ..model.noise import NoiseModel, noise_of
from ..model.potts import Sampler
from ..rng import Purpose
from ..runtime.parallel import Comm, lent_cores, on_root, warm_up
from ..runtime.progress import Live, Progress
from ..runtime.threads import Team, enough


@dataclass(frozen=True)
class Kind:
    """A method: its own tables of the input, whether it has pseudo-data, and what it can and cannot do."""

    tables: tuple[str, ...] = ()
    binding: bool = True  # it needs a binding function
    pseudo_data: bool = False  # simulated images can take the place of the binding function
    hidden: bool = True  # it fits hidden images too
    final_sweeps: bool = True  # for hidden images it consists of the final sweeps


KINDS = {
    "smc-abc": Kind(tables=("smc",), pseudo_data=True, final_sweeps=False),
    "path": Kind(),
    "synthetic": Kind(),
    "exchange": Kind(tables=("exchange",), binding=False, final_sweeps=False),
    "rejection": Kind(tables=("rejection",), pseudo_data=True, hidden=False),
    "pseudolikelihood": Kind(binding=False),
}


def _hidden(config: Config) -> bool:
    return config.image.kind == "observations"


def check_method(config: Config) -> None:
    """Refuse what the method cannot do, by name."""
    method, kind = config.fit.method, KINDS[config.fit.method]
    if config.fit.pseudo_data and not kind.pseudo_data:
        able = " or ".join(f'"{name}"' for name, other in KINDS.items() if other.pseudo_data)
        raise InputError(
            f"{config.path}: fit.pseudo_data = true: false is accepted with fit.method = "
            f'"{method}", or fit.method = {able}'
        )
    if _hidden(config) and not kind.hidden:
        raise InputError(
            f'{config.path}: fit.method = "{method}" is for observed labels, image.kind = "labels"; '
            f'for a hidden image "smc-abc" follows the labels'
        )
    if kind.final_sweeps and config.fit.final_sweeps < 2:
        raise InputError(
            f"{config.path}: fit.final_sweeps = {config.fit.final_sweeps}: 2 or more are accepted with "
            f'fit.method = "{method}"'
        )


def needs_binding(config: Config) -> bool:
    """Whether the fit needs a binding function; with pseudo-data only the final sweeps do."""
    if config.fit.pseudo_data:
        return _hidden(config) and config.fit.final_sweeps > 0
    return KINDS[config.fit.method].binding


def label_team(comm: Comm, config: Config, lattice: Lattice) -> Team:
    """The threads for the label chains of this rank.  Collective."""
    cores, share = lent_cores(comm, comm.rank < config.fit.chains)
    wanted = config.run.threads
    return Team(enough(lattice.sites, share) if wanted == "auto" else wanted, cores)


@dataclass(frozen=True, eq=False)
class Problem:
    """One image, its lattice, and the binding function that stands for the Potts prior on it, if any."""

    config: Config
    image: Image
    lattice: Lattice
    binding: Binding | None

    def __post_init__(self):
        config, binding = self.config, self.binding
        if binding is None:
            return
        lattice = self.lattice
        for name, found, wanted in (
            ("labels", binding.labels, config.model.labels),
            ("shape", list(binding.shape), list(lattice.shape)),
            ("neighbourhood", binding.neighbourhood, lattice.neighbourhood),
            ("pixels", binding.sites, lattice.sites),
            # The same number of pixels, masked in other places.
            ("lattice", binding.lattice, lattice.digest),
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
    def statistic(self) -> int:
        """S of the observed labels."""
        return self.lattice.statistic(self.image.labels)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything the result is a function of, by the names of the input file where they have one."""
        config, keys = self.config, {"smc.warm_up": self.config.smc.warm_up}
        tables = "prior", "fit", *KINDS[config.fit.method].tables
        for table in (*tables, "pseudo_data") if config.fit.pseudo_data else tables:
            for name, value in asdict(getattr(config, table)).items():
                keys[f"{table}.{name}"] = value
        pixels = self.image.values if self.hidden else self.image.labels
        binding = self.binding
        return keys | {
            "seed": config.seed,
            "model.labels": config.model.labels,
            "lattice": self.lattice.digest,
            "image.kind": config.image.kind,
            "image": hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest(),
            "binding": "" if binding is None else binding.digest,
            "precompute.interpolation": "" if binding is None else binding.interpolation,
        }

    @property
    def noise(self) -> NoiseModel:
        """The prior of the noise of hidden labels."""
        return noise_of(self.config)

    def label_chain(self, number: int, team: Team) -> LabelChain:
        """Label chain `number` at its start."""
        config = self.config
        chain = config.model.labels, self.noise, config.seed, number, team
        return LabelChain(self.lattice, self.image.values, *chain)

    def start(self, number: int, chain: LabelChain) -> np.ndarray:
        """The first sweeps of a chain: at beta = 0, below the phase transition; then, of hidden labels,
        the best of a few candidates.  S(z) after each of the last sweeps."""
        config = self.config
        statistic = chain.sweep(np.zeros(config.smc.warm_up)).statistic
        if self.hidden and config.fit.start == "best":
            statistic = settle(chain, self.image.values, config.prior.beta, config.seed, number)
        return statistic

    def chains(self, comm: Comm, width: int = 0) -> LabelChains:
        """The chains of this rank at their start; those of observed labels stand still."""
        config, k = self.config, 0

        def make(number):
            return ObservedLabels(self.image.labels, self.statistic)

        if self.hidden:
            k = config.model.labels
            make = partial(self.label_chain, team=label_team(comm, config, self.lattice))
        names = self.noise.names if self.hidden else ()
        return LabelChains(comm, self.lattice, k, make, config.fit.chains, config.seed, width, names)

    def sampler(self, comm: Comm, name: str = "swendsen-wang") -> Sampler:
        """A sampler of the prior on the image's lattice, compiled on one rank of a node first."""
        sampler = Sampler(self.lattice, self.config.model.labels, name)

        def sweep():
            state = sampler.start("random", rng.stream(0, Purpose.PSEUDO_START))
            sampler.sweeps(state, 0.1, rng.stream(0, Purpose.PSEUDO_SWEEP), 0, 1)

        warm_up(comm, sweep)
        return sampler

    def compile(self, comm: Comm) -> None:
        """Compile the kernels of the label chain on one rank of a node first; on a lattice of few pixels."""
        if self.hidden:
            warm_up(comm, self._small_chain)

    def _small_chain(self):
        k, lattice = self.config.model.labels, self.lattice
        small = Lattice((4,) * lattice.dimensions, lattice.neighbourhood)
        values = np.arange(float(np.prod(small.shape))).reshape(small.shape)
        chain = LabelChain(small, values, k, self.noise, 0)
        chain.sweep(np.zeros(1))
        settle(chain, values, self.config.prior.beta, 0, 0)
        if self.binding is not None:
            table = self.binding.table
            chain.sample(table, (float(table[0, 0]), float(table[0, -1])), 1)


class Fit:
    """A fit by one method: where it stands, how it goes on, and what it has found.

    `advance` yields wherever the fit can be continued from; a checkpoint there holds what `pack` gives, and
    `resume` reads it.
    """

    chains: LabelChains | None = None
    iteration = 0
    length = "fit.final_sweeps"  # the key that makes a run longer

    def __init__(self, comm: Comm, problem: Problem):
        self.comm, self.problem = comm, problem

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        """Go on to the end."""
        raise NotImplementedError

    @property
    def stopped_because(self) -> str:
        return "all iterations are done"

    @property
    def where(self) -> str:
        """How far the fit is, in a few words."""
        raise NotImplementedError

    def headline(self) -> str:
        """What was done, in a line of the report."""
        raise NotImplementedError

    def particles(self) -> tuple[np.ndarray, np.ndarray] | None:
        """beta and weight of a sample of the posterior that is no chain, whole on every rank."""
        return None

    def traces(self) -> dict[str, np.ndarray]:
        """What happened on the way, as datasets; what ends in `seconds` is left out of checksums."""
        return {}

    def cautions(self) -> Iterator[str]:
        """What a user should know of this method's run, each in a sentence."""
        yield from ()

    def pack(self) -> dict[str, Any]:
        """Every array of a checkpoint."""
        if self.chains is None:
            return {}
        return {f"labels/{name}": values for name, values in self.chains.pack().items()}

    def resume(self, path) -> None:
        """Go on from a checkpoint; collective."""
        if self.chains is not None:
            whole = on_root(self.comm, lambda: {"final": fit_file.read_group(path, "labels")["final"]})
            self.chains.unpack(whole, lambda names: self._rows(path, names))

    def _rows(self, path, names):
        stored = fit_file.read_checkpoint(path, self.chains.numbers, [f"labels/{name}" for name in names])
        return {name.removeprefix("labels/"): values for name, values in stored.items()}

    def final(self, phase: Phase, label: str, quiet: bool) -> Iterator[None]:
        """A phase of the chains from where it stands."""
        done = self.chains.burned + self.chains.drawn
        total = phase.burn_in + phase.sweeps - done
        with Progress(self.comm, label, total, f"{label.split()[-1]}", quiet) as progress:
            for now in self.chains.run(phase):
                progress.advance(now - done)
                done = now
                yield
