"""`mpi-potts check`: validate only, and print the plan, the memory of a rank and the estimated time.

The time comes from running the real kernels for some seconds on all ranks at once, since ranks on one node
share its memory.  The memory is what this process holds now and the arrays that the run will add.  An output
directory that `run` would refuse is refused here as well.  Nothing is written.
"""

import os
import resource
import sys
import tomllib
from dataclasses import dataclass

import numpy as np

from ..binding.compute import BindingPaths, Task, choose_starts
from ..binding.grid import make_grid
from ..config.inputs import Config
from ..errors import InputError
from ..image.pixels import Image, lattice_of, load_image, with_image_mean
from ..io import fit_file
from ..kernels import compiling
from ..lattice import Lattice
from ..methods.base import Problem, check_method, label_team, needs_binding
from ..methods.timing import stand_in, time_iteration, time_label_sweep, time_sweep
from ..model.noise import noise_kind
from ..model.potts import Sampler
from ..model.transition import transition
from ..runtime import parallel
from ..runtime.progress import clock
from ..study.fits import Study, make_problem
from . import fit, study

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the grid, where a sweep is timed

Row = tuple[str, str]


@dataclass(frozen=True)
class Pace:
    """Seconds of what is done over and over; None where the input has none of it."""

    sweep: float  # of the prior, on one rank
    label_sweep: float | None  # of one label chain
    iteration: float | None  # of the SMC, on all ranks


def execute(comm, config: Config, options) -> int:
    parallel.on_root(comm, check_output, config)
    with compiling.measured() as compiled:
        rows = _study(comm, config) if asks_for_a_study(config) else _one_image(comm, config)
    if comm.rank == 0:
        rows += [("compiling", _compiled(compiled.seconds))]
        print("\n".join(f"{name:<12}{text}" for name, text in rows), flush=True)
    return 0


def asks_for_a_study(config: Config) -> bool:
    """Whether the input has a table [study], and no image of its own."""
    named = "study" in tomllib.loads(config.text) or any(o.startswith("study.") for o in config.overrides)
    return named and config.image.path is None


def _compiled(seconds):
    done = f"{clock(seconds)} just now" if seconds >= 1.0 else "done before"
    return f"{done}, and kept by numba; a machine without its cache compiles first, about a minute"


def _one_image(comm, config) -> list[Row]:
    config, image, lattice, standing = parallel.on_root(comm, examine, config)
    sampler, betas, pace = measure(comm, config, lattice, image)
    rows = describe(config, lattice, _pixels(image)) + standing
    if needs_binding(config) and not parallel.on_root(comm, _there, config, lattice):
        rows += precompute_rows(config, lattice, betas, pace.sweep, comm.size)
    if image is not None:
        rows += fit_rows(config, lattice, pace, comm.size)
    return rows + memory_rows(config, sampler, betas, comm.size)


def check_output(config: Config) -> None:
    """Refuse an output that cannot be a directory, without making one; on one rank."""
    there = next(path for path in (config.output, *config.output.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError(f"{config.output}: {there} is not a directory that can be written")


def examine(config: Config) -> tuple[Config, Image | None, Lattice, list[Row]]:
    """The input with its image, if any, and what the output directory holds of it; on one rank."""
    if config.image.path is None:
        lattice = lattice_of(config)
        return config, None, lattice, binding_rows(config, lattice)
    check_method(config)
    image = load_image(config)
    config, lattice = with_image_mean(config, image), lattice_of(config, image)
    rows = binding_rows(config, lattice) if needs_binding(config) else []
    return config, image, lattice, rows + result_rows(config, image, lattice)


def _there(config, lattice) -> bool:
    return Task.of(config, lattice).answered_by(BindingPaths.of(config).binding)


def binding_rows(config: Config, lattice: Lattice) -> list[Row]:
    """Whether the binding function is there; one of another lattice is refused."""
    paths = BindingPaths.of(config)
    if _there(config, lattice):
        return [("binding", f"{paths.binding}: there already, nothing to precompute")]
    if paths.binding.exists():
        return [("binding", f"{paths.binding}: there, and will be extended to this input")]
    return [("binding", f"{paths.parts}: begun, will be continued")] if paths.parts.exists() else []


def result_rows(config: Config, image: Image, lattice: Lattice) -> list[Row]:
    """Whether the result or a checkpoint is there; one of another input is refused."""
    paths, settings = fit_file.Paths(config.output), Problem(config, image, lattice, None).settings
    if needs_binding(config):
        # The digest of a binding function is known only once it is there.
        del settings["binding"], settings["precompute.interpolation"]
        if _there(config, lattice):
            settings = Problem(config, image, lattice, fit.read_binding(config)).settings
    if fit_file.finished(paths, settings):
        return [("result", f"{paths.result}: there already; only --fresh would fit again")]
    found, _ = fit_file.find_checkpoint(paths, settings, remove=False)
    return [("checkpoint", f"{found}: the fit goes on from it")] if found else []


def measure(comm, config: Config, lattice: Lattice, image: Image | None) -> tuple[Sampler, np.ndarray, Pace]:
    """The sampler and the grid of the precomputation, and how fast this machine is; collective."""
    keys, k = config.precompute, config.model.labels
    betas = make_grid(keys.grid, keys.points, lattice, k, config.prior.beta, config.seed)
    sampler = Sampler(lattice, k, keys.sampler)
    parallel.warm_up(comm, lambda: time_sweep(sampler, betas[0], seconds=0.0))
    mean = np.mean([time_sweep(sampler, float(np.quantile(betas, place))) for place in PLACES])
    sweep = max(comm.allgather(float(mean)))
    if image is None:
        return sampler, betas, Pace(sweep, None, None)
    problem = Problem(config, image, lattice, stand_in(config, lattice))
    problem.compile(comm)
    team = label_team(comm, config, lattice)
    labels = parallel.on_root(comm, time_label_sweep, problem, team) if problem.hidden else None
    smc = config.fit.method == "smc-abc" and not config.fit.pseudo_data
    return sampler, betas, Pace(sweep, labels, time_iteration(comm, config, problem.binding) if smc else None)


def _pixels(image: Image | None) -> str:
    if image is None:
        return "none: precompute and simulate need only the shape"
    values = image.pixels
    if image.labels is not None:
        return f"{image.source}: observed labels, {np.unique(values).size} different ones"
    return f"{image.source}: values {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"


def chains(config: Config, lattice: Lattice) -> int:
    """Chains at each beta: two where both starts are run."""
    keys = config.precompute
    return 2 if choose_starts(keys.starts, keys.sampler, lattice, config.model.labels) == "both" else 1


def describe(config: Config, lattice: Lattice, pixels: str) -> list[Row]:
    k, prior = config.model.labels, config.prior
    exist = f"{lattice.sites} of {np.prod(lattice.shape)} pixels"
    # Labels that are observed have no noise.
    noise = "" if config.image.kind == "labels" else f"; {noise_kind(config).describe(prior)}"
    neighbours = f"{lattice.neighbourhood}-order neighbours, {lattice.edges} edges"
    return [
        ("input", f"{config.path}: valid"),
        ("image", pixels),
        ("lattice", f"{' x '.join(map(str, lattice.shape))}, {exist}, {neighbours}"),
        ("model", f"{k} labels; beta_crit = {transition(lattice, k):.4f}"),
        ("prior", f"beta {prior.beta[0]:g} to {prior.beta[1]:g}{noise}"),
        ("output", f"{config.output}{'' if config.output.exists() else ' (will be created)'}"),
    ]


def precompute_rows(config, lattice, betas, sweep, size) -> list[tuple[str, str]]:
    keys, starts = config.precompute, chains(config, lattice)
    total = betas.size * keys.iterations * starts * sweep
    busiest = -(-betas.size // size) * keys.iterations * starts * sweep
    rate = 1e9 * sweep / lattice.sites
    grid = keys.grid if isinstance(keys.grid, str) else "listed"
    sweeps = f"{keys.iterations} sweeps of {keys.sampler}, {keys.burn_in} of them burn-in"
    return [
        ("precompute", f"{betas.size} betas from {betas[0]:g} to {betas[-1]:g} ({grid})"),
        ("", f"{sweeps}, at each from {starts} start(s)"),
        ("", f"{1e3 * sweep:.3g} ms a sweep, {rate:.2f} ns a site, with {size} rank(s) at work"),
        ("time", f"about {clock(busiest)} for precompute on {size} rank(s), {clock(total)} of CPU time"),
    ]


def fit_rows(config: Config, lattice: Lattice, pace: Pace, size: int) -> list[Row]:
    """The method and its parts, each with its time."""
    rows, seconds = (
        [("fit", f"{config.fit.method}: {_method(config)}")],
        fit_seconds(config, lattice, pace, size),
    )
    if pace.label_sweep is not None:
        rate = (
            f"{1e3 * pace.label_sweep:.3g} ms a sweep, {1e9 * pace.label_sweep / lattice.sites:.2f} ns a site"
        )
        rows.append(("", f"{config.fit.chains} label chain(s), {rate}"))
    if pace.iteration is not None:
        most = config.smc.max_iterations
        rows.append(("", f"{1e3 * pace.iteration:.3g} ms an iteration apart from the labels, {most} at most"))
    parts = ", ".join(f"{clock(each)} {name}" for name, each in seconds.items() if each)
    total = sum(seconds.values())
    if parts:
        rows.append(("time", f"at most about {clock(total)} for fit on {size} rank(s): {parts}"))
    return rows


def fit_seconds(config: Config, lattice: Lattice, pace: Pace, size: int) -> dict[str, float]:
    """Seconds of the parts of one fit on `size` ranks, at most."""
    simulated, sampler = _simulated_sweeps(config, size)
    found = {"label chains": 0.0, "particles": 0.0, "simulated images": 0.0}
    if pace.label_sweep is not None:
        found["label chains"] = -(-config.fit.chains // size) * _label_sweeps(config) * pace.label_sweep
    if pace.iteration is not None:
        found["particles"] = config.smc.max_iterations * pace.iteration
    if simulated:
        beta = sum(config.prior.beta) / 2
        found["simulated images"] = simulated * time_sweep(
            Sampler(lattice, config.model.labels, sampler), beta
        )
    return found


def _method(config):
    """The sizes of the method."""
    smc, exchange, rejection = config.smc, config.exchange, config.rejection
    if config.fit.method == "smc-abc":
        return f"{smc.particles} particles, {smc.replicates} replicates, alpha {smc.alpha:g}"
    if config.fit.method == "exchange":
        return (
            f"{exchange.iterations} iterations, {exchange.auxiliary_sweeps} sweeps for each auxiliary image"
        )
    if config.fit.method == "rejection":
        return f"{rejection.draws} draws"
    return f"{config.fit.final_sweeps} sweeps after a burn-in of {config.fit.final_burn_in}"


def _label_sweeps(config):
    """Sweeps of a label chain, at most."""
    fit, smc = config.fit, config.smc
    if fit.method == "exchange":
        return smc.warm_up + config.exchange.iterations
    final = fit.final_burn_in + fit.final_sweeps
    iterations = smc.max_iterations * smc.label_sweeps if fit.method == "smc-abc" else 0
    return smc.warm_up + iterations + final


def _simulated_sweeps(config, size):
    """Sweeps of the prior on the busiest rank, at most, and their sampler."""
    fit, data = config.fit, config.pseudo_data
    if fit.method == "exchange":
        keys = config.exchange
        sweeps = -(-fit.chains // size) * keys.iterations * keys.auxiliary_sweeps
        return sweeps, keys.auxiliary_sampler
    if not fit.pseudo_data:
        return 0, ""
    if fit.method == "rejection":
        sweeps = -(-config.rejection.draws // size) * (data.burn_in + data.spacing)
    else:
        each = data.burn_in + data.spacing * config.smc.replicates
        sweeps = -(-config.smc.particles // size) * each * (config.smc.max_iterations + 1)
    return sweeps, "swendsen-wang"


def _study(comm, config) -> list[Row]:
    """The plan of a study: one binding function, and every image by every method, on one rank each."""
    methods, lattice = parallel.on_root(comm, study.prepare, config)
    plan = Study(config, methods, lattice, stand_in(config, lattice))
    images, every = len(plan.images), len(plan.images) * len(methods)
    done = parallel.on_root(comm, lambda: sum(plan.part(n, m).exists() for n in plan.images for m in methods))
    with_binding = any(needs_binding(each) for each in methods.values())
    rows = describe(
        config, lattice, f"{config.simulate.images} simulated images, {images} of them in this job"
    )
    rows += parallel.on_root(comm, binding_rows, config, lattice) if with_binding else []
    total = 0.0
    for name, each in methods.items():
        problem, _ = parallel.on_root(comm, make_problem, plan, name, plan.images[0])
        sampler, betas, pace = measure(comm, each, lattice, problem.image)
        seconds = sum(parallel.on_root(comm, fit_seconds, each, lattice, pace, 1).values())
        rows += [("method", f"{name}: {_method(each)}; at most about {clock(seconds)} an image")]
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
    return rows + memory_rows(config, sampler, betas, comm.size)


def memory_rows(config, sampler, betas, size) -> list[tuple[str, str]]:
    """What this process holds, and the largest arrays of each stage."""
    share = -(-betas.size // size) * chains(config, sampler.lattice)
    states = share * sampler.packed_size * config.precompute.keep_states
    series = 2 * 8 * share * config.precompute.iterations  # every S(z), and once more while it is written
    particles = 2 * 8 * -(-config.smc.particles // size) * config.smc.replicates
    # Values, also standardised, labels, and counts and probabilities of every label.
    labels = int(np.prod(sampler.lattice.shape)) * (3 * 8 + 8 + 8 * config.model.labels)
    held = _resident()
    return [
        ("memory", f"about {_megabytes(held + states + series)} a rank in precompute"),
        (
            "",
            f"about {_megabytes(held + particles)} a rank in fit, {_megabytes(labels)} for each label chain",
        ),
    ]


def _resident():
    """The largest memory this process has held so far, in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used


def _megabytes(size):
    return f"{size / 1e6:.0f} MB"
