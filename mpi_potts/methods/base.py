"""What is fitted, what a method says of itself, and what every fit has in common, whatever the method.

A method is one module: a subclass of `Method`, of which it registers one object (`config/registry.py`), and a
subclass of `Fit`, which is one run of it.  The input, the checks before a run, the driver, a study and the
outcome ask these two, and know no method by its name.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from .. import rng
from ..binding.function import Binding
from ..config import registry
from ..config.inputs import Config
from ..config.registry import Declaration
from ..errors import InputError
from ..estimation.enough import Target
from ..estimation.quadrature import Density
from ..image.pixels import Image
from ..io import fit_file
from ..labels.chain import LabelChain, witnesses
from ..labels.ensemble import LabelChains, Phase, can_temper
from ..labels.observed import ObservedLabels
from ..labels.residuals import residuals
from ..labels.starts import settle
from ..lattice import Lattice
from ..model.noise import NoiseModel, noise_of
from ..model.potts import Sampler
from ..rng import Purpose
from ..runtime.parallel import Comm, lent_cores, on_root, warm_up
from ..runtime.progress import Live, Progress
from ..runtime.threads import Team, enough

# Sweeps that a final phase with the default target is expected to take before any are made, for the time that
# is left and that `check` predicts: ten simulated images of a million pixels, k = 5 and 6, took 1024 to 7168,
# half of them fewer than 1900.  A phase that has begun goes by what it has reached.
EXPECTED = 2000

# A fit of a moment, by any method: what a study compiles with, since compiling is in no one's times.
SHORT: dict[str, dict[str, Any]] = {
    "fit": {"final_sweeps": 2, "final_burn_in": 0},
    "smc": {"warm_up": 1},
    "pseudo_data": {"burn_in": 1},
}


@dataclass(frozen=True)
class Simulation:
    """The images of the prior that a fit simulates, at most.

    In each of `rounds` rounds, `count` particles, draws or chains are simulated for, with `sweeps` of
    `sampler` each; the labels of a hidden image are swept `label_sweeps` times beside them.
    """

    count: int
    sweeps: int
    rounds: int
    sampler: str = "swendsen-wang"
    label_sweeps: int = 0

    def on_one_rank(self, size: int) -> int:
        """The sweeps of the busiest of `size` ranks."""
        return -(-self.count // size) * self.sweeps * self.rounds

    def in_one_round(self, hidden: bool) -> int:
        """The sweeps over whole images in a round, those of the labels too."""
        return self.count * self.sweeps + hidden * self.label_sweeps


class Method(Declaration):
    """What a method says of itself: its keys, what it can fit, what that takes, and its fit.

    `name`, `table` and `pseudo_data` are those of `Declaration`.  A subclass has to give `fit` and `sizes`.
    """

    binding: bool = True  # it needs a binding function
    hidden: bool = True  # it fits hidden images, not only observed labels
    tables: tuple[str, ...] = ()  # tables that it shares, of which its result is a function
    simulates_for: str = "an image"  # what the sweeps of `simulated` in one round are for

    def fit(self, comm: Comm, problem: "Problem") -> "Fit":
        """Collective.  A fit of the problem, at its start."""
        raise NotImplementedError

    def short(self) -> dict[str, dict[str, Any]]:
        """{table: {key: value}} that makes its fit one of a moment, beside `SHORT`."""
        return {}

    def check(self, config: Config) -> None:
        """Raise InputError where the input asks for what this method cannot do."""

    def sizes(self, config: Config) -> str:
        """How large the fit is, in a few words for `mpi-potts check`."""
        raise NotImplementedError

    def needs_binding(self, config: Config) -> bool:
        """Whether the fit needs a binding function; with pseudo-data only the final sweeps do."""
        if config.fit.pseudo_data:
            return is_hidden(config) and config.fit.most_sweeps > 0
        return self.binding

    def draws(self, config: Config) -> tuple[str, int]:
        """The key that says how many draws each label chain leaves, and their number."""
        return length_key(config), config.fit.most_sweeps

    def in_chains(self, config: Config) -> bool:
        """Whether the fit runs label chains, of hidden or of observed labels."""
        return is_hidden(config)

    def memory(self, config: Config, size: int) -> dict[str, float]:
        """{keys and their values: bytes} of its large arrays on each of `size` ranks, beside label chains."""
        return {}

    def label_sweeps(self, config: Config, usual: bool = False) -> tuple[int, int]:
        """The sweeps of one label chain after its start, those not counted, and those counted: at most, or as
        many as fits usually take."""
        most = config.fit.most_sweeps
        ends_early = usual and config.fit.final_sweeps == "auto"
        return config.fit.final_burn_in, min(EXPECTED, most) if ends_early else most

    def simulated(self, config: Config) -> Simulation | None:
        """The images that it simulates; None where it simulates none."""
        return None

    def rounds(self, config: Config, iterations: float) -> float:
        """How often it simulated in a fit that ended after so many iterations."""
        return 1.0

    def iterations(self, config: Config, usual: bool = False) -> int:
        """The iterations that `time_iteration` is the time of: at most, or as many as fits usually take."""
        return 0

    def time_iteration(self, comm: Comm, config: Config, binding: Binding) -> float | None:
        """Collective.  Seconds of an iteration apart from label sweeps and simulated images, if any."""
        return None


def method_of(config: Config) -> Method:
    """The method that the input names."""
    method = registry.methods()[config.fit.method]
    assert isinstance(method, Method)
    return method


def is_hidden(config: Config) -> bool:
    """Whether the image is of noisy observations, and not of the labels themselves."""
    return config.image.kind == "observations"


def check_method(config: Config) -> None:
    """Refuse what the method of the input cannot do, by name."""
    method, others = method_of(config), registry.methods()
    if config.fit.pseudo_data and not method.pseudo_data:
        able = " or ".join(f'"{name}"' for name, other in others.items() if other.pseudo_data)
        raise InputError(
            f"{config.path}: fit.pseudo_data = true: false is accepted with fit.method = "
            f'"{method.name}", or fit.method = {able}'
        )
    if is_hidden(config) and not method.hidden:
        fitting = [name for name, other in others.items() if isinstance(other, Method) and other.hidden]
        able = ", ".join(f'"{name}"' for name in fitting)
        raise InputError(
            f'{config.path}: fit.method = "{method.name}" is for observed labels, image.kind = "labels"; '
            f"a hidden image is fitted by {able}"
        )
    method.check(config)


def check_final_sweeps(config: Config) -> None:
    """Refuse too few final sweeps, for the methods that consist of them."""
    if config.fit.most_sweeps < 2:
        raise InputError(
            f"{config.path}: fit.final_sweeps = {config.fit.final_sweeps}: 2 or more are accepted with "
            f'fit.method = "{config.fit.method}"'
        )


def length_key(config: Config) -> str:
    """The key that makes the final sweeps longer."""
    return "fit.max_sweeps" if config.fit.final_sweeps == "auto" else "fit.final_sweeps"


def final(config: Config) -> tuple[int, int, Target | None]:
    """Burn-in and number of the final sweeps, and their target: without one they are exactly so many."""
    keys = config.fit
    target = Target(**asdict(keys.target)) if keys.final_sweeps == "auto" else None
    return keys.final_burn_in, keys.most_sweeps, target


def needs_binding(config: Config) -> bool:
    """Whether the fit that the input asks for needs a binding function."""
    return method_of(config).needs_binding(config)


def settings_of(
    config: Config,
    lattice: Lattice,
    binding: Binding | None,
    tables: tuple[str, ...] = (),
    more: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Everything a fit is a function of, by the names of the input file where they have one.

    tables : those of the input that count beside the prior's and the method's; more : what else counts
    """
    method = method_of(config)
    keys: dict[str, Any] = {"smc.warm_up": config.smc.warm_up}
    names = ["prior", *tables, "fit", *method.tables]
    names += [method.table.name] if method.table is not None else []
    names += ["pseudo_data"] if config.fit.pseudo_data else []
    for table in names:
        keys |= {f"{table}.{name}": value for name, value in asdict(config.table(table)).items()}
    keys |= {"seed": config.seed, "model.labels": config.model.labels}
    keys |= {"lattice": lattice.digest, "image.kind": config.image.kind, **more}
    keys["binding"] = "" if binding is None else binding.digest
    keys["precompute.interpolation"] = "" if binding is None else binding.interpolation
    return keys


def label_team(comm: Comm, config: Config, lattice: Lattice) -> Team:
    """Collective.  The threads for the label chains of this rank."""
    cores, share = lent_cores(comm, comm.rank < config.fit.chains)
    wanted = config.run.threads
    return Team(enough(lattice.sites, share) if isinstance(wanted, str) else wanted, cores)


@dataclass(frozen=True)
class Facts:
    """What every rank knows of the image, whether it holds the pixels or not.

    digest    : of the pixels, or of observed labels
    statistic : S of observed labels; None where they are hidden
    grain     : what the values of a hidden image are multiples of inside; None of observed labels
    start     : digest of the labels to start from, where they are a file's; else None
    """

    digest: str
    statistic: int | None
    grain: float | None
    start: str | None = None

    @classmethod
    def of(cls, config: Config, image: Image, lattice: Lattice) -> "Facts":
        """From the whole image, on a rank that holds it."""
        digest = _digest(image.values if image.labels is None else image.labels)
        if image.labels is None:
            start = None if image.start is None else _digest(image.start)
            return cls(digest, None, noise_of(config).grain(image.values[lattice.exists]), start)
        return cls(digest, lattice.statistic(image.labels), None)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


@dataclass(frozen=True, eq=False)
class Problem:
    """One image, its lattice, and the binding function that stands for the Potts prior on it, if any.

    image : only on ranks that have a label chain, the first `fit.chains`; None on the others
    facts : what all ranks know of the image
    started : label chains of this rank at their starts, packed, with S(z) of the last sweeps there
    """

    config: Config
    image: Image | None
    lattice: Lattice
    binding: Binding | None
    facts: Facts
    started: dict[int, tuple[dict[str, np.ndarray], np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, image: Image, lattice: Lattice, binding: Binding | None) -> "Problem":
        """The problem on a rank that holds the image, from which the facts are taken."""
        return cls(config, image, lattice, binding, Facts.of(config, image, lattice))

    def __post_init__(self) -> None:
        binding, lattice = self.binding, self.lattice
        if self.hidden and self.config.fit.start == "prior" and self.noise.exchangeable:
            raise InputError(
                f'{self.config.path}: fit.start = "prior": the priors are the same for all labels; a list of '
                f"numbers, one for each, is needed in prior.mean.mean"
            )
        if binding is None:
            return
        for name, given, wanted in (
            ("labels", binding.labels, self.config.model.labels),
            ("shape", list(binding.shape), list(lattice.shape)),
            ("neighbourhood", binding.neighbourhood, lattice.neighbourhood),
            ("pixels", binding.sites, lattice.sites),
            # The same number of pixels, masked in other places.
            ("lattice", binding.lattice, lattice.digest),
        ):
            if given != wanted:
                raise InputError(
                    f"the binding function is for {name} = {given}, the image needs {wanted}; "
                    f"run precompute for this image, or name another precompute.file"
                )

    @property
    def hidden(self) -> bool:
        """Whether the labels are hidden behind noise."""
        return is_hidden(self.config)

    @property
    def pixels(self) -> Image:
        """The image, on a rank that holds it."""
        if self.image is None:
            raise RuntimeError("the image is asked for on a rank without a label chain")
        return self.image

    @property
    def labels(self) -> np.ndarray:
        """The observed labels, on a rank that holds the image."""
        if self.pixels.labels is None:
            raise RuntimeError("the labels of a hidden image are not observed")
        return self.pixels.labels

    @property
    def curve(self) -> Binding:
        """The binding function, of a method that needs one."""
        if self.binding is None:
            raise RuntimeError(f"{self.config.fit.method} was given no binding function")
        return self.binding

    @property
    def statistic(self) -> int:
        """S of the observed labels."""
        if self.facts.statistic is None:
            raise RuntimeError("S of a hidden image is not observed")
        return self.facts.statistic

    @property
    def settings(self) -> dict[str, Any]:
        """Everything the result is a function of, by the names of the input file where they have one."""
        more = {"image": self.facts.digest}
        if self.facts.start is not None:
            more["fit.start"] = self.facts.start
        return settings_of(self.config, self.lattice, self.binding, more=more)

    @property
    def noise(self) -> NoiseModel:
        """The prior of the noise of hidden labels."""
        return noise_of(self.config)

    def label_chain(self, number: int, team: Team) -> LabelChain:
        """Label chain `number` before its first sweep."""
        config = self.config
        chain = config.model.labels, self.noise, config.seed, number, team
        keys = config.fit
        return LabelChain(self.lattice, self.pixels.values, *chain, keys.sort_labels, keys.crossing)

    def first_start(self, number: int, chain: LabelChain) -> np.ndarray:
        """As `start`, and kept for the chain that starts next: the same chain, in the fit after a search for
        the binding function."""
        statistic = self.start(number, chain)
        self.started[number] = chain.pack(counts=False), statistic
        return statistic

    def start(self, number: int, chain: LabelChain) -> np.ndarray:
        """The first sweeps of a chain: at beta = 0, below the phase transition; then, of hidden labels,
        the best of a few candidates; or of the labels that fit.start says.  S(z) after each of the last
        sweeps."""
        if number in self.started:
            packed, statistic = self.started.pop(number)
            chain.unpack(packed)
            return statistic
        config, start = self.config, self.config.fit.start
        if self.hidden and start not in ("best", "paper"):
            given = "prior" if self.pixels.start is None else self.pixels.start
            return settle(chain, self.pixels.values, config.prior.beta, config.seed, number, given)
        statistic = chain.sweep(np.zeros(config.smc.warm_up)).statistic
        if self.hidden and start == "best":
            # Where modes can be crossed, it does no harm to look for them.
            crosses = config.fit.crossing and needs_binding(config) and can_temper(self.lattice)
            place = config.prior.beta, config.seed, number
            statistic = settle(chain, self.pixels.values, *place, far=number > 0 and crosses)
        return statistic

    def chains(self, comm: Comm, width: int = 0) -> LabelChains:
        """Collective.  The chains of this rank before their first sweeps; observed labels stand still.

        width : the numbers that a chain remembers from step to step, beside its labels and noise
        """
        config = self.config

        def stands_still(number: int) -> Any:
            return ObservedLabels(self.labels, self.statistic)

        k, make = 0, stands_still
        if self.hidden:
            k = config.model.labels
            make = partial(self.label_chain, team=label_team(comm, config, self.lattice))
        names: tuple[str, ...] = ()
        kept = 0
        if self.hidden:
            names, kept = self.noise.names, witnesses(self.lattice, self.noise, config.fit.sort_labels)
        return LabelChains(comm, self.lattice, k, make, config.fit.chains, config.seed, width, names, kept)

    def sampler(self, comm: Comm, name: str = "swendsen-wang") -> Sampler:
        """Collective.  A sampler of the prior on the image's lattice, its kernels compiled."""
        sampler = Sampler(self.lattice, self.config.model.labels, name)

        def sweep() -> None:
            state = sampler.start("random", rng.stream(0, Purpose.PSEUDO_START))
            sampler.sweeps(state, 0.1, rng.stream(0, Purpose.PSEUDO_SWEEP), 0, 1)

        warm_up(comm, sweep)
        return sampler

    def compile(self, comm: Comm) -> None:
        """Collective.  Compile the kernels of the label chain on one rank of a node first, on few pixels."""
        if self.hidden:
            warm_up(comm, self._small_chain)

    def _small_chain(self) -> None:
        k, lattice = self.config.model.labels, self.lattice
        small = lattice.small
        values = np.arange(float(np.prod(small.shape))).reshape(small.shape)
        chain = LabelChain(small, values, k, self.noise, 0)
        chain.sweep(np.zeros(1))
        settle(chain, values, self.config.prior.beta, 0, 0)
        residuals([chain], values, k)
        if self.binding is not None:
            table = self.binding.table
            chain.sample(table, (float(table[0, 0]), float(table[0, -1])), 1)


class Fit:
    """One run of a method: where it stands, how it goes on, and what came of it.

    Collective, that is to be called by all ranks together, are the making of a fit, every step of `advance`,
    `conclude` and `resume`, and nothing else: what only asks, such as `headline`, `particles` or `traces`,
    answers from what this rank holds.

    `advance` yields wherever the fit can be continued from; a checkpoint there holds what `pack` gives, and
    `resume` reads it.
    """

    chains: LabelChains | None = None  # the label chains, of which this rank has some or none
    density: Density | None = None  # of beta, where it is computed by quadrature
    iteration: int = 0
    length: str = "fit.final_sweeps"  # the key that makes a run longer

    def __init__(self, comm: Comm, problem: Problem):
        """Collective.  The fit at its start."""
        self.comm, self.problem = comm, problem

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        """Collective.  Go on to the end, in steps."""
        raise NotImplementedError

    def conclude(self) -> None:
        """Collective.  After the last step, once: put together what the ranks have of the answer."""

    @property
    def stopped_because(self) -> str:
        """Why the fit ended where it did, in the words of docs/warnings.md."""
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
        """What this rank has of every array of a checkpoint."""
        if self.chains is None:
            return {}
        return {f"labels/{name}": values for name, values in self.chains.pack().items()}

    def resume(self, path: Path) -> None:
        """Collective.  Go on from a checkpoint."""
        chains = self.chains
        if chains is None:
            return

        def rows(names: list[str]) -> dict[str, np.ndarray]:
            stored = fit_file.read_checkpoint(path, chains.numbers, [f"labels/{name}" for name in names])
            return {name.removeprefix("labels/"): values for name, values in stored.items()}

        whole = on_root(self.comm, lambda: {"final": fit_file.read_group(path, "labels")["final"]})
        chains.unpack(whole, rows)

    def begin_again(self) -> None:
        """After `resume` from the end of a fit with another prior: of its chains only the labels are kept."""
        method = self.problem.config.fit.method
        raise InputError(
            f'prior.beta is wider than that of the result there, and fit.method = "{method}" cannot go on '
            f"from its end; use another output, or --fresh to start over"
        )

    def run_phase(self, chains: LabelChains, phase: Phase, label: str, quiet: bool) -> Iterator[None]:
        """Collective.  A phase of the label chains, from where they stand."""
        before = done = chains.burned + chains.drawn
        # Where there is a target, how many sweeps it takes is known only from what they have reached.
        total = phase.burn_in + (phase.sweeps if phase.target is None else EXPECTED) - done
        with Progress(self.comm, label, max(1, total), f"{label.split()[-1]}", quiet) as progress:
            for now in chains.run(phase):
                note = ""
                if phase.target is not None and (found := chains.reached) is not None:
                    most = phase.burn_in + phase.sweeps - before
                    progress.expect(min(most, chains.burned - before + found.draws * max(1.0, found.factor)))
                    note = found.words
                progress.advance(now - done, note)
                done = now
                yield
