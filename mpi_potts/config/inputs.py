"""The input file: TOML to frozen dataclasses.

Every key is declared once, with its kind, default and meaning; reading, refusing and documenting all follow
from the declaration.  Nothing is ignored: an unknown key is refused with the nearest known one.  Here are the
tables that more than one method, or none, has to do with; those of a single method are declared where the
method is, and known through `registry`.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..errors import InputError
from ..lattice import LARGEST_BETA, NEIGHBOURHOODS, NUMBERS
from . import overrides as changes
from . import paper, registry, schema
from .registry import MethodName, StudiedName
from .schema import (
    Choice,
    Either,
    Flag,
    Integer,
    Items,
    Named,
    Number,
    Numbers,
    Refused,
    Table,
    Text,
    WordOrFile,
    key,
    required_key,
    show,
)

SAMPLERS = ("swendsen-wang", "gibbs", "alternating")
RESAMPLINGS = ("residual", "systematic", "multinomial")

_POSITIVE = Number(low=0.0, open_low=True)
_BETA = Number(low=0.0, high=LARGEST_BETA)
# Words that stand for numbers of the image, and of the lattice; `model.scale` has the numbers.
IMAGE, AUTO = "image", "auto"
# What a stored input is read for again: the model, and where its files lay.
_STORED = ("seed", "output", "image", "model", "prior", "precompute")

# Sweeps at each beta of a grid, as in the paper, and the most of an adaptive one.
SWEEPS, MOST_SWEEPS = 1000, 20_000

Keys = TypeVar("Keys")


def _by_label(kind: Any) -> Either:
    """One number for all labels, one for each, or that of the image."""
    return Either(kind, Items(kind), Choice(IMAGE))


@dataclass(frozen=True)
class Ndvi:
    red: int = required_key(Integer(1), "band of visible red, counted from 1")
    nir: int = required_key(Integer(1), "band of near infrared, counted from 1")


@dataclass(frozen=True)
class ImageKeys:
    path: Path | None = key(
        Text(), None, "image file, relative to the input file: npy, csv, h5, png, tif, nii"
    )
    shape: tuple[int, ...] | None = key(
        Items(Integer(1), (1, 2, 3)),
        None,
        "rows, columns (and planes), or the samples of a graph: needed where there is no path",
    )
    graph: Path | None = key(
        Text(),
        None,
        "npy or csv file of pairs of samples, counted from 0, that are neighbours: the image is a vector",
    )
    kind: str = key(
        Choice("observations", "labels"),
        "observations",
        '"labels": the labels themselves, observed without noise',
    )
    band: int | None = key(Integer(1), None, "band of a multi-band image, counted from 1")
    ndvi: Ndvi | None = key(
        Table(Ndvi), None, "instead of band: (nir - red) / (nir + red); nodata where nir + red is 0"
    )
    crop: tuple[int, ...] | None = key(
        Items(Integer(0), (4, 6)), None, "rows from, to, columns from, to (planes from, to); 'to' is left out"
    )
    scale: float = key(_POSITIVE, 1.0, "each number v of the file means v * scale + offset")
    offset: float = key(Number(), 0.0, "added to every number of the file after scale")
    nodata: float | None = key(
        Number(finite=False), None, "number in the file of pixels that do not exist; nan is accepted"
    )
    mask: Path | None = key(Text(), None, "image file of the same shape: pixels exist where it is not zero")
    dataset: str = key(Text(), "values", "dataset to read in an .h5 file")


@dataclass(frozen=True)
class ModelKeys:
    labels: int = key(
        Either(Integer(2, 255), Items(Integer(2, 255), least=2)),
        3,
        "number k of labels; of several, `run` fits each and says which the image speaks for",
    )
    neighbourhood: str | int = key(
        Either(Choice(*NEIGHBOURHOODS), Numbers(*NUMBERS)),
        "first",
        "first: 4 (in 3-D 6) neighbours; second: 8 (in 3-D 26); hexagonal: 6 in a plane whose rows 1, 3, ... "
        "are half a pixel to the right; or how many",
    )


@dataclass(frozen=True)
class MeanPrior:
    mean: tuple[float, ...] | str = key(
        _by_label(Number()),
        IMAGE,
        'mean of the prior of mu_j: one number, one for each label, or "image" for the mean of the pixels',
    )
    sd: tuple[float, ...] | str = key(
        _by_label(_POSITIVE),
        IMAGE,
        'standard deviation of the prior of mu_j: one, one for each label, or "image" for 5 times the spread '
        "of the pixels",
    )


@dataclass(frozen=True)
class VariancePrior:
    shape: tuple[float, ...] | str = key(
        _by_label(_POSITIVE), IMAGE, 'shape of the inverse gamma prior of sigma_j^2; "image" is 1.5'
    )
    scale: tuple[float, ...] | str = key(
        _by_label(_POSITIVE),
        IMAGE,
        'scale of the inverse gamma prior of sigma_j^2; "image" is half the square of the spread of the '
        "pixels over k",
    )


@dataclass(frozen=True)
class PriorKeys:
    # A word until the lattice is known: `model.scale.on_lattice` puts the numbers in its place.
    beta: tuple[float, float] = key(
        Either(Items(_BETA, (2,)), Choice(AUTO)),
        AUTO,
        'ends of the uniform prior of beta; "auto": 0 and 2.5 times beta_crit of the lattice and k',
    )
    mean: MeanPrior = key(Table(MeanPrior), MeanPrior(), "normal prior of the label means mu_j")
    variance: VariancePrior = key(Table(VariancePrior), VariancePrior(), "inverse gamma prior of sigma_j^2")

    @property
    def left_to_lattice(self) -> bool:
        """Whether beta has no numbers yet."""
        beta: Any = self.beta
        return beta == AUTO


@dataclass(frozen=True)
class PrecomputeKeys:
    grid: str | tuple[float, ...] = key(
        Either(Choice("adaptive", "critical", "regular"), Items(_BETA)),
        "adaptive",
        "adaptive: where the posterior is; critical: as in the paper, drawn from a normal around beta_crit; "
        "regular: evenly spaced; or the values of beta",
    )
    accuracy: float = key(
        _POSITIVE, 0.1, "of an adaptive grid: the error that it brings to beta, in posterior sds of beta"
    )
    points: int = key(
        Integer(2), 1000, "number of values of beta on the grid (not for a list), of an adaptive one at most"
    )
    iterations: int = key(
        Integer(2),
        None,
        f"sweeps at each beta, burn-in included: {SWEEPS}; of an adaptive grid at most, {MOST_SWEEPS}",
    )
    burn_in: int = key(
        Integer(0),
        500,
        "sweeps left out at the start; smaller than iterations (an adaptive grid finds it out)",
    )
    sampler: str = key(
        Choice("auto", *SAMPLERS),
        "auto",
        "of the Potts prior; auto: swendsen-wang, on an adaptive grid with three labels or more alternating",
    )
    starts: str = key(
        Choice("auto", "random", "ordered", "both"),
        "auto",
        "first labels of the chains; auto: both for gibbs and at first-order transitions, else random",
    )
    interpolation: str = key(
        Choice("smooth", "linear"),
        "smooth",
        "smooth: one convex function for means and variances; linear: as the paper",
    )
    file: Path | None = key(
        Text(), None, "binding function to use, relative to the input file: shared by many images"
    )
    library: Path | None = key(
        Text(),
        None,
        "file of small lattices, from which others are composed, by precompute --library; a cache without it",
    )
    keep_states: bool = key(Flag(), True, "keep the last labels, so that more iterations continue the chains")


@dataclass(frozen=True)
class TargetKeys:
    rhat: float = key(Number(1.0, open_low=True), 1.01, "the largest R-hat of beta, S(z), mu_j and sigma_j")
    ess: float = key(_POSITIVE, 400.0, "the least effective draws of each of them, in bulk and in tail")
    map_error: float = key(
        _POSITIVE, 0.01, "the largest mean standard error of the probability of a pixel's label"
    )


@dataclass(frozen=True)
class FitKeys:
    method: str = key(MethodName(), "smc-abc", "how the posterior of beta is computed")
    pseudo_data: bool = key(
        Flag(), False, "true: simulate images instead of drawing from the binding function"
    )
    chains: int = key(Integer(1), 2, "parallel chains of labels, from different starts")
    start: str | Path = key(
        WordOrFile("best", "paper", "prior"),
        "best",
        "first labels of a chain; best: the best of a few candidates; paper: a warm-up at beta = 0; prior: "
        "the label under whose prior a pixel is most probable; or an image file of labels, numbered from 1",
    )
    final_sweeps: int | str = key(
        Either(Integer(0), Choice("auto")),
        "auto",
        "sweeps after the SMC has stopped, for labels and marginal posterior; auto: until fit.target is met",
    )
    final_burn_in: int = key(
        Integer(0),
        400,
        "sweeps before the final sweeps that are not counted; auto finds out where it is more",
    )
    target: TargetKeys = key(Table(TargetKeys), TargetKeys(), "what final sweeps go on for where auto")
    max_sweeps: int = key(Integer(2), 20_000, "final sweeps where auto, at most")
    marginal: str = key(Choice("path", "synthetic"), "path", "likelihood of beta in the final sweeps")
    crossing: bool = key(
        Flag(),
        True,
        "chains cross between modes: clusters change labels, chains that disagree are weighed or tempered",
    )
    sort_labels: bool = key(
        Flag(), False, "true: name labels by their means after every sweep, where their priors are the same"
    )
    as_in_paper: bool = key(
        Flag(), False, "SMC-ABC as printed in the paper: every departure from it off at once; see methods.md"
    )

    @property
    def most_sweeps(self) -> int:
        """The final sweeps: as many as asked for, or the most there may be."""
        return self.max_sweeps if isinstance(self.final_sweeps, str) else self.final_sweeps


@dataclass(frozen=True)
class SmcKeys:
    particles: int = key(Integer(2), 10000, "number N of particles")
    replicates: int | str = key(
        Either(Integer(1), Choice("infinite")),
        200,
        "number M of pseudo-statistics of each particle; infinite: their expected counts, nothing drawn",
    )
    alpha: float = key(Number(0.0, 1.0, True, True), 0.97, "ESS kept from one iteration to the next")
    resampling: str = key(Choice(*RESAMPLINGS), "residual", "how particles are resampled")
    resample_below: float = key(Number(0.0, 1.0), 0.5, "resample when ESS falls below this part of N")
    rise_below: float = key(
        Number(0.0, 1.0), 0.1, "raise the tolerance where S(z) moved so far that ESS is below this part of N"
    )
    min_acceptance: float = key(
        Number(0.0, 1.0, False, True), 0.015, "stop when fewer proposals are accepted"
    )
    max_iterations: int = key(Integer(1), 500, "stop after this many iterations")
    label_sweeps: int = key(
        Integer(1), 100, "sweeps of the label chain in an iteration; where guided 5 times as many, once"
    )
    warm_up: int = key(Integer(0), 100, "sweeps of the label chain at beta = 0 before the first iteration")
    min_epsilon: float = key(Number(0.0), 0.5, "stop when the tolerance reaches this floor")
    noise_floor: float = key(
        Number(0.0), 0.5, "stop when the tolerance falls below this times the sampling noise of S(z)"
    )
    weights: str = key(
        Choice("moving", "printed"),
        "moving",
        "the incremental weight divides by the count near S(z) of then; printed: near S(z) of now, 0/0 = 0",
    )
    bandwidth: str = key(
        Choice("current", "previous"),
        "current",
        "population whose variance sets the step of a mutation: after its new weights, or before, as printed",
    )
    guide: bool = key(
        Flag(),
        True,
        "label chains draw beta from p(beta | S(z)) while the particles are far; never with start = paper",
    )
    last_mutations: int = key(
        Integer(0), 10, "mutations at the last S(z) and tolerance, after the SMC of a hidden image"
    )


@dataclass(frozen=True)
class PseudoDataKeys:
    burn_in: int = key(Integer(0), 500, "Swendsen-Wang sweeps from a random start before the first statistic")
    spacing: int = key(Integer(1), 1, "sweeps from one statistic of a particle to the next")


@dataclass(frozen=True)
class SimulateKeys:
    images: int = key(Integer(1, 999_999), 1, "number of images")
    beta: float | str | tuple[float, ...] = key(
        Either(_BETA, Items(_BETA), Choice("prior")),
        "prior",
        "one for all, one for each image, or drawn from the prior",
    )
    mean: str | tuple[float, ...] = key(
        Either(Items(Number()), Choice("prior")), "prior", "mu_j, one for each label, or drawn from the prior"
    )
    sd: str | tuple[float, ...] = key(
        Either(Items(_POSITIVE), Choice("prior")),
        "prior",
        "sigma_j, one for each label, or drawn from the prior",
    )
    sweeps: int = key(Integer(1), 1000, "Swendsen-Wang sweeps for each image")


@dataclass(frozen=True)
class StudyKeys:
    methods: tuple[str, ...] = key(
        Items(Named(StudiedName())),
        ("smc-abc", "path"),
        "they fit each image; one method can have several names, for different changes",
    )
    changes: tuple[str, ...] = key(
        Items(Text(), least=0), (), '"METHOD table.key=value": what one method has different from the input'
    )
    images_from: int = key(Integer(0), 0, "first image of this job; for jobs that share a study")
    images_to: int | None = key(Integer(1), None, "the image after the last of this job; all by default")
    draws: int = key(Integer(1), 99, "thinned draws among which the true beta is ranked")
    bins: int = key(Integer(2), 20, "largest number of bins of the ranks' histogram")


@dataclass(frozen=True)
class RunKeys:
    checkpoint_minutes: float = key(_POSITIVE, 10.0, "time between checkpoints")
    writer: str = key(
        Choice("auto", "mpio", "gather"),
        "auto",
        "parallel HDF5, or gathered on rank 0; auto: what h5py can do",
    )
    threads: int | str = key(
        Either(Integer(1, 1024), Choice("auto")),
        "auto",
        "threads that sweep the labels of one image; auto: the cores of waiting ranks, where it is large",
    )
    keep_end: bool = key(
        Flag(), True, "keep where label chains ended, so that more sweeps or a stricter target continue a fit"
    )


@dataclass(frozen=True)
class Config:
    """The whole input: the tables, where they came from, and the text as it was read.

    own : the tables that belong to single methods, by name; `of` finds one by the class of its keys
    """

    seed: int = key(Integer(0, 2**63 - 1), 1, "seed of all random numbers")
    output: Path = key(
        Text(), None, "directory for results, relative to the current one; out/NAME for NAME.toml"
    )
    image: ImageKeys = key(Table(ImageKeys), ImageKeys(), "the image")
    model: ModelKeys = key(Table(ModelKeys), ModelKeys(), "the Potts model")
    prior: PriorKeys = key(Table(PriorKeys), PriorKeys(), "the priors")
    precompute: PrecomputeKeys = key(Table(PrecomputeKeys), PrecomputeKeys(), "the binding function")
    fit: FitKeys = key(Table(FitKeys), FitKeys(), "the method")
    smc: SmcKeys = key(Table(SmcKeys), SmcKeys(), "SMC-ABC")
    pseudo_data: PseudoDataKeys = key(Table(PseudoDataKeys), PseudoDataKeys(), "simulated pseudo-data")
    simulate: SimulateKeys = key(Table(SimulateKeys), SimulateKeys(), "synthetic images")
    study: StudyKeys = key(Table(StudyKeys), StudyKeys(), "many images, many methods")
    run: RunKeys = key(Table(RunKeys), RunKeys(), "checkpoints and files")
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    choices: tuple[int, ...] = ()  # several numbers of labels to choose from, of which `model` has the first
    path: Path = field(default=Path())
    text: str = field(default="", repr=False)
    overrides: tuple[str, ...] = ()

    def of(self, form: type[Keys]) -> Keys:
        """The table of a single method, by the class of its keys."""
        return next(table for table in self.own.values() if isinstance(table, form))

    def table(self, name: str) -> Any:
        """A table by its name, one of a single method too."""
        return self.own[name] if name in self.own else getattr(self, name)

    def with_keys(self, changed: Mapping[str, Mapping[str, Any]]) -> "Config":
        """This input with other values of some keys, {table: {key: value}}; they are not checked."""
        tables = {name: replace(self.table(name), **keys) for name, keys in changed.items()}
        own = {name: tables.pop(name, table) for name, table in self.own.items()}
        return replace(self, own=own, **tables)


def load(
    path: str | os.PathLike, overrides: Iterable[str] = (), output: str | os.PathLike | None = None
) -> Config:
    """Read an input file, apply `table.key=value` overrides, and check all that needs no other file."""
    path = Path(path)
    return parse(_read_text(path), path, overrides, output)


def parse(
    text: str, path: Path, overrides: Iterable[str] = (), output: str | os.PathLike | None = None
) -> Config:
    """The same from the text of an input file; `path` is its name, and what its files are relative to."""
    overrides = tuple(overrides)
    if output is not None and not str(output).strip():
        raise InputError(f"--output {show(str(output))}: the name of a directory is needed")
    tables, changed = _tables(text, path, overrides)
    try:
        paper.apply(tables)
        config = _first_choice(_whole_input().read(tables))
        config = _complete(config, path, output)
        _check(config)
    except Refused as refused:
        raise InputError(_message(path, refused, changed)) from None
    return replace(config, path=path, text=text, overrides=overrides)


def parse_stored(
    text: str, path: Path, overrides: Iterable[str] = (), output: str | os.PathLike | None = None
) -> Config:
    """Of an input that was stored in a result, the model, its priors, and where its files lie.

    The other tables, which were checked when the result was made, keep their defaults: no method need be
    known, so that none is imported.
    """
    overrides = tuple(overrides)
    tables, changed = _tables(text, path, overrides)
    try:
        paper.apply(tables)
        config = _first_choice(Table(Config).read({name: tables[name] for name in _STORED if name in tables}))
        config = _complete(config, path, output)
        _check_image(config.image)
    except Refused as refused:
        raise InputError(_message(path, refused, changed)) from None
    return replace(config, path=path, text=text, overrides=overrides)


def _first_choice(config: Config) -> Config:
    """Several numbers of labels as choices, and the first of them in the model."""
    given: Any = config.model.labels
    if isinstance(given, int):
        return config
    if len(set(given)) < len(given):
        _refuse("a list with each number once", list(given), "model", "labels")
    if config.precompute.file is not None:
        _refuse(
            "left out where model.labels has several numbers",
            str(config.precompute.file),
            "precompute",
            "file",
        )
    choices = tuple(sorted(given))
    return replace(config, model=replace(config.model, labels=choices[0]), choices=choices)


def _tables(text: str, path: Path, overrides: tuple[str, ...]) -> tuple[dict[str, Any], set[str]]:
    """The tables of a text with the overrides in them, and the keys that these changed."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {' '.join(str(error).split())}") from None
    return tables, {changes.apply(tables, setting) for setting in overrides}


def _whole_input() -> Table:
    return Table(Config, {name: Table(own.form) for name, own in registry.own_tables().items()})


def describe_keys() -> list[tuple[str, str, str, str]]:
    """(key, default, what is accepted, meaning) for every key of the input; those of single methods last."""
    own = registry.own_tables().values()
    return schema.rows(Config) + [row for table in own for row in schema.rows(table.form, f"{table.name}.")]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8; an input file in TOML is accepted") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); an input file in TOML is accepted"
        ) from None


def _message(path: Path, refused: Refused, changed: set[str]) -> str:
    name = ".".join(refused.path)
    value = "" if refused.value is None else f" = {show(refused.value)}"
    origin = " (from --set)" if name in changed else ""
    return f"{path}: {name}{value}{origin}: {_with_table(name, str(refused))}"


def _with_table(name: str, text: str) -> str:
    """For an unknown key, also look for it in the other tables."""
    if not text.startswith("unknown key"):
        return text
    last = name.rpartition(".")[2]
    homes = [row[0] for row in describe_keys() if row[0].rpartition(".")[2] == last]
    return f"unknown key; did you mean {' or '.join(homes)}?" if homes else text


def _complete(config: Config, path: Path, output: str | os.PathLike | None) -> Config:
    """Resolve paths, and spread what is given once for all labels over the labels."""
    beside = path.parent
    k = config.model.labels
    places: tuple[str | os.PathLike | None, ...] = (output, config.output, Path("out", path.stem))
    prior = replace(
        config.prior,
        mean=_spread(config.prior.mean, k, ("prior", "mean")),
        variance=_spread(config.prior.variance, k, ("prior", "variance")),
    )
    return replace(
        config,
        output=Path(next(each for each in places if each is not None)),
        image=_resolve(config.image, beside, "path", "mask", "graph"),
        precompute=_with_sweeps(_resolve(config.precompute, beside, "file", "library")),
        fit=_resolve(config.fit, beside, "start") if isinstance(config.fit.start, Path) else config.fit,
        prior=prior,
    )


def _with_sweeps(keys: PrecomputeKeys) -> PrecomputeKeys:
    """The keys with the sweeps that their kind of grid has where none are given."""
    usual = MOST_SWEEPS if keys.grid == "adaptive" else SWEEPS
    given: int | None = keys.iterations  # none is the default, and is left to the grid
    return replace(keys, iterations=usual) if given is None else keys


def _resolve(table: Any, directory: Path, *names: str) -> Any:
    """A table with the files of these keys relative to a directory."""
    given = {name: getattr(table, name) for name in names}
    return replace(table, **{name: directory / value for name, value in given.items() if value is not None})


def _spread(table: Any, k: int, where: tuple[str, ...]) -> Any:
    """Numbers to k-tuples; a list must already have one number for each label."""
    values = {}
    for f in fields(table):
        value = getattr(table, f.name)
        if isinstance(value, tuple) and len(value) != k:
            raise Refused(
                f"must be a number, or a list of {k} as model.labels = {k}", (*where, f.name), list(value)
            )
        values[f.name] = value if isinstance(value, tuple | str) else (value,) * k
    return replace(table, **values)


def _refuse(accepts: str, value: Any, *path: str) -> NoReturn:
    raise Refused(f"must be {accepts}", path, list(value) if isinstance(value, tuple) else value)


def _check(config: Config) -> None:
    """What one key alone cannot tell."""
    _check_image(config.image)
    _check_neighbours(config.image, config.model.neighbourhood)
    beta = config.prior.beta
    if not config.prior.left_to_lattice and not beta[0] < beta[1]:
        _refuse("two numbers, the first smaller than the second", beta, "prior", "beta")
    if config.image.kind == "labels" and config.fit.start not in ("best", "paper"):
        _refuse('left out where image.kind = "labels"', str(config.fit.start), "fit", "start")
    if config.precompute.grid != "adaptive":  # which leaves out what a chain needs to settle
        schema.check_burn_in("precompute", config.precompute.burn_in, config.precompute.iterations)
    for table in config.own.values():
        if hasattr(table, "check"):
            table.check()
    _check_simulate(config)


def _check_image(image: ImageKeys) -> None:
    if image.path is None and image.shape is None:
        raise Refused(
            "missing; without image.path a list of 2 or 3 integers is needed, of 1 with image.graph",
            ("image", "shape"),
            None,
        )
    if image.band is not None and image.ndvi is not None:
        _refuse("left out where image.ndvi is given", image.band, "image", "band")
    for name, value, none in (("scale", image.scale, 1.0), ("offset", image.offset, 0.0)):
        if image.kind == "labels" and value != none:
            _refuse('left out where image.kind = "labels"', value, "image", name)
    crop = image.crop
    if crop is not None and image.path is None:
        _refuse("left out where there is no image.path", crop, "image", "crop")
    if crop is not None and not all(start < stop for start, stop in zip(crop[::2], crop[1::2])):
        _refuse("from, to for each axis, with from < to", crop, "image", "crop")


def _check_neighbours(image: ImageKeys, neighbourhood: str | int) -> None:
    """What a graph cannot have beside it, and what would put the rows of a hexagonal plane out of step."""
    if image.graph is None:
        if image.shape is not None and len(image.shape) == 1:
            _refuse("2 or 3 integers, or 1 where image.graph is given", image.shape, "image", "shape")
        if neighbourhood == "hexagonal" and image.crop is not None and image.crop[0] % 2:
            _refuse("from an even row, since odd rows are shifted", image.crop, "image", "crop")
        return
    for name in ("band", "ndvi", "crop"):
        if getattr(image, name) is not None:
            raise Refused("must be left out where image.graph is given", ("image", name))
    if image.shape is not None and len(image.shape) != 1:
        _refuse("the number of samples where image.graph is given", image.shape, "image", "shape")
    if neighbourhood != "first":
        _refuse("left out where image.graph is given", neighbourhood, "model", "neighbourhood")


def _check_simulate(config: Config) -> None:
    simulate, k = config.simulate, config.model.labels
    if isinstance(simulate.beta, tuple) and len(simulate.beta) != simulate.images:
        accepts = f"a number, or a list of {simulate.images} as simulate.images = {simulate.images}"
        _refuse(accepts, simulate.beta, "simulate", "beta")
    for name in ("mean", "sd"):
        value = getattr(simulate, name)
        if isinstance(value, tuple) and len(value) != k:
            _refuse(f'a list of {k} numbers as model.labels = {k}, or "prior"', value, "simulate", name)
