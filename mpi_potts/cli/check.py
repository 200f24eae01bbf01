"""`mpi-potts check`: validate only, and print the plan, the memory of a rank and the estimated time.

The time comes from running the real kernels for some seconds on all ranks at once, since ranks on one node
share its memory.  The memory is what this process holds now and the arrays that the run will add.  An output
directory that `run` would refuse is refused here as well.  Nothing is written.
"""

import math
import os
import tomllib
from argparse import Namespace
from dataclasses import asdict, dataclass, replace

import numpy as np

from ..binding.adaptive import WINDOW, expected_sweeps, expected_to_cover
from ..binding.compute import BindingPaths, Task, choose_sampler, choose_starts
from ..binding.grid import make_grid
from ..config.inputs import IMAGE, Config
from ..errors import InputError
from ..image.pixels import Image, lattice_of
from ..io import fit_file
from ..kernels import compiling
from ..lattice import GRAPH, Lattice, in_words
from ..methods import adapt, answers, needs
from ..methods.base import Problem, is_hidden, label_team, method_of, needs_binding
from ..methods.timing import LabelPace, stand_in, time_label_chain, time_sweep
from ..model.noise import noise_kind
from ..model.potts import Sampler
from ..model.scale import before_images, on_lattice
from ..model.transition import transition
from ..runtime import memory, parallel
from ..runtime.parallel import Comm
from ..runtime.progress import clock
from ..study.fits import Study, make_problem
from . import choice, fit, study
from .say import say

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the grid, where a sweep is timed

Row = tuple[str, str]


@dataclass(frozen=True)
class FitPace:
    """Seconds of what a fit does over and over; None where the input has none of it."""

    sweep: float  # of the prior, on one rank
    labels: LabelPace | None  # of one label chain
    iteration: float | None  # apart from sweeps, on all ranks


def execute(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  Print the plan of the input, an image's or a study's; of several numbers of labels that of
    each."""
    if config.choices:
        for each in parallel.on_root(comm, choice.inputs_of, config):
            execute(comm, each, options)
            say(comm, "")
        say(comm, "The sweeps of the evidence of every number of labels come after its fit.")
        return 0
    parallel.on_root(comm, check_output, config)
    with compiling.measured() as compiled:
        rows = _study(comm, config) if asks_for_a_study(config) else _one_image(comm, config)
    rows += [("compiling", _compiled(compiled.seconds))]
    say(comm, "\n".join(f"{name:<12}{text}" for name, text in rows))
    return 0


def asks_for_a_study(config: Config) -> bool:
    """Whether the input has a table [study], and no image of its own."""
    named = "study" in tomllib.loads(config.text) or any(o.startswith("study.") for o in config.overrides)
    return named and config.image.path is None


def _compiled(seconds: float) -> str:
    done = f"{clock(seconds)} just now" if seconds >= 1.0 else "done before"
    return f"{done}, and kept by numba; a machine without its cache compiles first, about a minute"


def _one_image(comm: Comm, config: Config) -> list[Row]:
    """Collective.  The plan for an image, or where none is named for its lattice."""
    asked = config
    problem = None if config.image.path is None else fit.pose(comm, config)
    lattice = parallel.on_root(comm, lattice_of, config) if problem is None else problem.lattice
    config = on_lattice(config, lattice) if problem is None else problem.config
    standing = parallel.on_root(comm, examine, config, lattice, problem)
    betas, pace = measure(comm, config, lattice, problem)
    image = None if problem is None else problem.image
    standing = [("note", text) for text in (() if image is None else image.notes)] + standing
    rows = describe(config, lattice, _pixels(problem)) + prior_rows(asked, config) + standing
    if needs_binding(config) and not parallel.on_root(comm, _there, config, lattice, problem):
        rows += precompute_rows(config, lattice, betas, pace.sweep, comm.size)
    if problem is not None and "result" not in dict(standing):
        rows += fit_rows(config, lattice, pace, comm.size)
    del problem, image  # what is held without them is held by any run
    return rows + memory_rows(config, lattice, [config], comm.size, comm.size)


def check_output(config: Config) -> None:
    """Refuse an output that cannot be a directory, without making one; on one rank."""
    there = next(path for path in (config.output, *config.output.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError(f"{config.output}: {there} is not a directory that can be written")


def examine(config: Config, lattice: Lattice, problem: Problem | None) -> list[Row]:
    """What the output directory holds of the input already; on one rank."""
    if problem is None:
        return binding_rows(config, lattice)
    rows = binding_rows(config, lattice, problem) if needs_binding(config) else []
    return rows + result_rows(problem)


def _there(config: Config, lattice: Lattice, problem: Problem | None) -> bool:
    path = BindingPaths.of(config).binding
    if config.precompute.grid == "adaptive":
        path = path if problem is None else answers.of_fit(problem)
        return answers.is_there(config, lattice, problem, path)
    return Task.of(config, lattice).answered_by(path)


def binding_rows(config: Config, lattice: Lattice, problem: Problem | None = None) -> list[Row]:
    """Whether the binding function is there; one of another lattice is refused."""
    paths = BindingPaths.of(config)
    if _there(config, lattice, problem):
        return [("binding", f"{paths.binding}: there already, nothing to precompute")]
    if paths.binding.exists():
        return [("binding", f"{paths.binding}: there, and will be extended to this input")]
    return [("binding", f"{paths.parts}: begun, will be continued")] if paths.parts.exists() else []


def result_rows(problem: Problem) -> list[Row]:
    """Whether the result or a checkpoint is there; one of another input is refused."""
    config = problem.config
    paths, settings = fit_file.FitPaths(config.output), problem.settings
    if needs_binding(config):
        # The digest of a binding function is known only once it is there.
        del settings["binding"], settings["precompute.interpolation"]
        if _there(config, problem.lattice, problem):
            settings = replace(problem, binding=fit.read_binding(problem)).settings
    if fit_file.finished(paths, settings):
        return [("result", f"{paths.result}: there already; only --fresh would fit again")]
    checkpoint, notes = fit_file.find_checkpoint(paths, settings, remove=False)
    begins = checkpoint is not None and fit_file.begins_again(checkpoint, settings)
    says = notes[-1] if begins else f"{checkpoint}: the fit goes on from it"
    return [("checkpoint", says)] if checkpoint else []


def measure(
    comm: Comm, config: Config, lattice: Lattice, problem: Problem | None
) -> tuple[np.ndarray, FitPace]:
    """Collective.  The grid of the precomputation, and how fast this machine is; the fit's parts, if any."""
    keys, k = config.precompute, config.model.labels
    if keys.grid == "adaptive":
        betas = np.linspace(*config.prior.beta, len(PLACES))
    else:
        betas = make_grid(keys.grid, keys.points, lattice, k, config.prior.beta, config.seed)
    sampler = Sampler(lattice, k, choose_sampler(keys, lattice, k))
    parallel.warm_up(comm, lambda: time_sweep(sampler, betas[0], seconds=0.0))
    mean = np.mean([time_sweep(sampler, float(np.quantile(betas, place))) for place in PLACES])
    sweep = max(comm.allgather(float(mean)))
    if problem is None:
        return betas, FitPace(sweep, None, None)
    binding = stand_in(config, lattice)
    problem = replace(problem, binding=binding)
    problem.compile(comm)
    team = label_team(comm, config, lattice)
    labels = parallel.on_root(comm, time_label_chain, problem, team) if problem.hidden else None
    return betas, FitPace(sweep, labels, method_of(config).time_iteration(comm, config, binding))


def _pixels(problem: Problem | None) -> str:
    """What the image is, in a few words; on rank 0, which holds it."""
    if problem is None:
        return "none: precompute and simulate need only the shape"
    image: Image | None = problem.image
    if image is None:
        return ""
    values = image.pixels
    if image.labels is not None:
        return f"{image.source}: observed labels, {np.unique(values).size} different ones"
    return f"{image.source}: values {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"


def chains(config: Config, lattice: Lattice) -> int:
    """Chains at each beta: two where both starts are run."""
    keys, k = config.precompute, config.model.labels
    return 2 if choose_starts(keys.starts, choose_sampler(keys, lattice, k), lattice, k) == "both" else 1


def describe(config: Config, lattice: Lattice, pixels: str) -> list[Row]:
    """What the input says, in words: the image, its lattice and model, and the output."""
    k = config.model.labels
    sites = "samples" if lattice.neighbourhood == GRAPH else "pixels"
    exist = f"{lattice.sites} of {np.prod(lattice.shape)} {sites}"
    neighbours = f"{in_words(lattice.neighbourhood)}, {lattice.edges} edges"
    return [
        ("input", f"{config.path}: valid"),
        ("image", pixels),
        ("lattice", f"{' x '.join(map(str, lattice.shape))}, {exist}, {neighbours}"),
        ("model", f"{k} labels; beta_crit = {transition(lattice, k):.4f}"),
        ("output", f"{config.output}{'' if config.output.exists() else ' (will be created)'}"),
    ]


def prior_rows(asked: Config, config: Config) -> list[Row]:
    """The priors in numbers, and which of them the input leaves to the lattice and to the image."""
    prior, beta = asked.prior, config.prior.beta
    rows = [("prior", f"beta {beta[0]:g} to {beta[1]:g}{' (auto)' if prior.left_to_lattice else ''}")]
    if is_hidden(config):  # labels that are observed have no noise
        words = {
            f"prior.{table}.{name}": value
            for table in ("mean", "variance")
            for name, value in asdict(getattr(prior, table)).items()
        }
        left = [name for name, value in words.items() if value == IMAGE]
        if config.image.path is not None or not left:
            rows += [("", noise_kind(config).describe(config.prior))]
        if left:
            rows += [("", f'on the scale of the image, being "{IMAGE}": {", ".join(left)}')]
    return rows


def precompute_rows(
    config: Config, lattice: Lattice, betas: np.ndarray, sweep: float, size: int
) -> list[Row]:
    """The precomputation and its time on `size` ranks, where a sweep takes so many seconds."""
    keys = config.precompute
    if keys.grid == "adaptive":
        return _adaptive_rows(config, lattice, sweep, size)
    starts = chains(config, lattice)
    total = betas.size * keys.iterations * starts * sweep
    busiest = -(-betas.size // size) * keys.iterations * starts * sweep
    rate = 1e9 * sweep / lattice.sites
    grid = keys.grid if isinstance(keys.grid, str) else "listed"
    sampler = choose_sampler(keys, lattice, config.model.labels)
    sweeps = f"{keys.iterations} sweeps of {sampler}, {keys.burn_in} of them burn-in"
    return [
        ("precompute", f"{betas.size} betas from {betas[0]:g} to {betas[-1]:g} ({grid})"),
        ("", f"{sweeps}, at each from {starts} start(s)"),
        ("", f"{1e3 * sweep:.3g} ms a sweep, {rate:.2f} ns a site, with {size} rank(s) at work"),
        ("time", f"about {clock(busiest)} for precompute on {size} rank(s), {clock(total)} of CPU time"),
    ]


def _adaptive_rows(config: Config, lattice: Lattice, sweep: float, size: int) -> list[Row]:
    """What an adaptive binding function takes, as far as it can be told before the posterior is known."""
    keys = config.precompute
    sampler = choose_sampler(keys, lattice, config.model.labels)
    if config.image.path is None:
        search, pilot, more = expected_to_cover(keys.accuracy), 0, ""
        ranks, where = size, "over the interval of the prior"
    else:
        search = expected_sweeps(lattice.sites, keys.accuracy, sampler)
        more = ", several times as many near the transition"
        pilot = adapt.pilot_work(lattice, keys.iterations)
        # The chains of a window are at most so many, and each is swept by one rank.
        ranks, where = min(size, len(WINDOW)), "where the posterior is"
    sweeps = search + pilot
    rate = 1e9 * sweep / lattice.sites
    return [
        ("precompute", f"adaptive: {where}, until the error of beta is {keys.accuracy:g} posterior sds"),
        ("", f"about {search} sweeps of {sampler}{more}"),
        *([("", f"before these {pilot} sweeps over all betas, for a first curve")] if pilot else []),
        ("", f"{1e3 * sweep:.3g} ms a sweep, {rate:.2f} ns a site, with {size} rank(s) at work"),
        (
            "time",
            f"about {clock(sweeps * sweep / ranks)} for precompute on {size} rank(s), "
            f"{clock(sweeps * sweep)} of CPU time",
        ),
    ]


def fit_rows(config: Config, lattice: Lattice, pace: FitPace, size: int) -> list[Row]:
    """The method and its parts, each with its time."""
    method = method_of(config)
    rows = [("fit", f"{method.name}: {method.sizes(config)}")]
    if pace.labels is not None:
        rate = 1e9 * pace.labels.counted / lattice.sites
        sweep = f"{1e3 * pace.labels.counted:.3g} ms a sweep, {rate:.2f} ns a site, labels counted"
        rows.append(("", f"{config.fit.chains} label chain(s), {sweep}"))
    if pace.iteration is not None:
        limit = method.iterations(config)
        rows.append(("", f"{1e3 * pace.iteration:.3g} ms an iteration apart from labels, {limit} at most"))
    usual = fit_seconds(config, lattice, pace, size, usual=True)
    parts = ", ".join(f"{clock(each)} {name}" for name, each in usual.items() if each)
    if parts:
        rows.append(("time", f"about {clock(sum(usual.values()))} for fit on {size} rank(s): {parts}"))
    least, most = (
        (method.label_sweeps(config, early), method.iterations(config, early)) for early in (True, False)
    )
    if parts and least != most:
        at_most = clock(math.fsum(fit_seconds(config, lattice, pace, size).values()))
        rows.append(("", f"as fits usually end; at most {at_most}, at the limits of sweeps and iterations"))
    return [*rows, ("", "apart from starting, compiling and the report")] if parts else rows


def fit_seconds(
    config: Config, lattice: Lattice, pace: FitPace, size: int, usual: bool = False
) -> dict[str, float]:
    """Seconds of the parts of one fit on `size` ranks: at most, or as fits usually take."""
    method = method_of(config)
    seconds = {"label chains": 0.0, "particles": 0.0, "simulated images": 0.0}
    if pace.labels is not None:
        others, counted = method.label_sweeps(config, usual)
        one = pace.labels.start + others * pace.labels.step + counted * pace.labels.counted
        seconds["label chains"] = -(-config.fit.chains // size) * one
    if pace.iteration is not None:
        seconds["particles"] = method.iterations(config, usual) * pace.iteration
    if (simulation := method.simulated(config)) is not None:
        sampler = Sampler(lattice, config.model.labels, simulation.sampler)
        sweep = time_sweep(sampler, sum(config.prior.beta) / 2)
        seconds["simulated images"] = simulation.on_one_rank(size) * sweep
    return seconds


def _study(comm: Comm, config: Config) -> list[Row]:
    """Collective.  The plan of a study: one binding function, and every image by every method on one rank."""
    methods, lattice = parallel.on_root(comm, study.prepare, config)
    asked, config = config, before_images(config, lattice)
    plan = Study(config, methods, lattice, stand_in(config, lattice))
    images, every = len(plan.images), len(plan.images) * len(methods)
    done = parallel.on_root(comm, lambda: sum(plan.part(n, m).exists() for n in plan.images for m in methods))
    with_binding = any(needs_binding(each) for each in methods.values())
    rows = describe(
        config, lattice, f"{config.simulate.images} simulated images, {images} of them in this job"
    )
    rows += prior_rows(asked, config)
    rows += parallel.on_root(comm, binding_rows, config, lattice) if with_binding else []
    total, betas, pace = 0.0, np.zeros(0), FitPace(0.0, None, None)
    for name, each in methods.items():
        problem, *_ = parallel.on_root(comm, make_problem, plan, name, plan.images[0])
        betas, pace = measure(comm, each, lattice, problem)
        seconds = sum(parallel.on_root(comm, fit_seconds, each, lattice, pace, 1).values())
        sizes = method_of(each).sizes(each)
        rows += [("method", f"{name}: {sizes}; at most about {clock(seconds)} an image")]
        total += images * seconds
    rows += precompute_rows(config, lattice, betas, pace.sweep, comm.size) if with_binding else []
    left = f"{every} fits, {done} of them there already" if done else f"{every} fits"
    busiest = total / images * -(-images // comm.size)
    rows += [
        (
            "time",
            f"at most about {clock(busiest)} for {left} on {comm.size} rank(s), {clock(total)} of CPU time",
        )
    ]
    return rows + memory_rows(config, lattice, list(methods.values()), comm.size, 1)


def memory_rows(
    config: Config, lattice: Lattice, fits: list[Config], size: int, ranks_of_a_fit: int
) -> list[Row]:
    """What this process holds, and with the large arrays of each stage; of several fits the largest."""
    held = memory.resident()
    precompute = math.fsum(needs.of_precompute(config, lattice, chains(config, lattice), size).values())
    arrays = max(math.fsum(needs.of_fit(each, lattice, ranks_of_a_fit).values()) for each in fits)
    stages = {"fit": arrays}
    if any(needs_binding(each) for each in fits) or config.image.path is None:
        stages = {"precompute": precompute} | stages
    rows = [
        f"about {_megabytes(held + size)} a rank in {stage}: {_megabytes(size)} of arrays, "
        f"{size / lattice.sites:.1f} bytes a site"
        for stage, size in stages.items()
    ]
    rows.append(f"{_megabytes(held)} of it are libraries and kernels")
    return [("memory" if i == 0 else "", text) for i, text in enumerate(rows)]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
