"""`mpi-potts check`: validate only, and print the plan, the memory of a rank and the estimated time.

The time comes from running the real kernels for about a second on all ranks at once, since ranks on one node
share its memory.  The memory is what this process holds now and the arrays that the run will add.  Nothing is
written.
"""

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import parallel, rng
from ..config import Config
from ..grid import make_grid
from ..image import Image, lattice_of, load_image, with_image_mean
from ..labels import LabelChain
from ..lattice import Lattice
from ..methods.precompute import choose_starts
from ..methods.problem import check_method, needs_binding
from ..noise import priors
from ..potts import Sampler
from ..progress import clock
from ..rng import Purpose

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the grid, where a sweep is timed
ENOUGH = 0.2  # seconds of sweeps at each
GROUPS = 5


def execute(comm, config: Config, options) -> int:
    config, lattice, pixels, label_sweep = parallel.on_root(comm, examine, config)
    betas = make_grid(
        config.precompute.grid,
        config.precompute.points,
        lattice,
        config.model.labels,
        config.prior.beta,
        config.seed,
    )
    sampler = Sampler(lattice, config.model.labels, config.precompute.sampler)
    parallel.warm_up(comm, lambda: time_sweep(sampler, betas[0], seconds=0.0))
    mean = np.mean([time_sweep(sampler, float(np.quantile(betas, place))) for place in PLACES])
    sweep = max(comm.allgather(float(mean)))
    if comm.rank == 0:
        rows = describe(config, lattice, pixels)
        if needs_binding(config):
            rows += precompute_rows(config, lattice, betas, sweep, comm.size)
        rows += fit_rows(config, lattice, label_sweep, comm.size)
        rows += memory_rows(config, sampler, betas, comm.size)
        print("\n".join(f"{name:<12}{text}" for name, text in rows), flush=True)
    return 0


def examine(config: Config) -> tuple[Config, Lattice, str, float | None]:
    """Read the image where there is one: the lattice, the pixels in words, seconds of a sweep with data."""
    if config.image.path is None:
        return config, lattice_of(config), "none: precompute and simulate need only the shape", None
    check_method(config)
    image = load_image(config)
    config, lattice = with_image_mean(config, image), lattice_of(config, image)
    seconds = None if image.labels is not None else time_label_sweep(config, lattice, image)
    return config, lattice, _pixels(config, image), seconds


def _pixels(config, image: Image):
    values = image.pixels
    if image.labels is not None:
        return f"{image.source}: observed labels, {np.unique(values).size} different ones"
    return f"{image.source}: values {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"


def chains(config: Config, lattice: Lattice) -> int:
    """Chains at each beta: two where both starts are run."""
    keys = config.precompute
    return 2 if choose_starts(keys.starts, keys.sampler, lattice, config.model.labels) == "both" else 1


def time_sweep(sampler: Sampler, beta: float, seconds: float = ENOUGH) -> float:
    """Seconds of one sweep of the prior at beta."""
    state = sampler.start("random", rng.stream(0, Purpose.START))
    stream = rng.stream(0, Purpose.PRIOR_SWEEP)
    return _least(lambda first, count: sampler.sweeps(state, beta, stream, first, count), seconds)


def time_label_sweep(config: Config, lattice: Lattice, image: Image) -> float:
    """Seconds of one step of the label chain, in the middle of the prior of beta."""
    mean, variance = config.prior.mean, config.prior.variance
    noise = priors(config.model.labels, mean.mean, mean.sd, variance.shape, variance.scale)
    chain = LabelChain(lattice, image.values, config.model.labels, noise, config.seed)
    beta = sum(config.prior.beta) / 2
    return _least(lambda first, count: chain.sweep(np.full(count, beta)), ENOUGH)


def _least(run: Callable[[int, int], Any], seconds: float) -> float:
    """Seconds of one sweep: the least of several groups of sweeps, about `seconds` in all, after a few."""
    run(0, 2)
    one = _seconds(run, 2, 1)
    count, first = max(1, int(seconds / GROUPS / max(one, 1e-9))), 3
    return min(_seconds(run, first + group * count, count) / count for group in range(GROUPS))


def _seconds(run, first, count):
    started = time.perf_counter()
    run(first, count)
    return time.perf_counter() - started


def describe(config: Config, lattice: Lattice, pixels: str) -> list[tuple[str, str]]:
    k, prior = config.model.labels, config.prior
    exist = f"{lattice.sites} of {np.prod(lattice.shape)} pixels"
    noise = f"mean {_once(prior.mean.mean)}, sd {_once(prior.mean.sd)}"
    neighbours = f"{lattice.neighbourhood}-order neighbours, {lattice.edges} edges"
    return [
        ("input", f"{config.path}: valid"),
        ("image", pixels),
        ("lattice", f"{' x '.join(map(str, lattice.shape))}, {exist}, {neighbours}"),
        ("model", f"{k} labels; beta_crit = {lattice.transition(k):.4f}"),
        ("prior", f"beta {prior.beta[0]:g} to {prior.beta[1]:g}; label means: {noise}"),
        ("output", f"{config.output}{'' if config.output.exists() else ' (will be created)'}"),
    ]


def _once(values):
    """One number for all labels, or all of them; "image" before the image is known."""
    if isinstance(values, str):
        return values
    return f"{values[0]:g}" if len(set(values)) == 1 else ", ".join(f"{value:g}" for value in values)


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


def fit_rows(config, lattice, label_sweep, size) -> list[tuple[str, str]]:
    """The method, the label chains, and the time of what they and simulated images take."""
    fit, hidden = config.fit, label_sweep is not None
    rows, seconds = [("fit", f"{fit.method}: {_method(config)}")], 0.0
    if hidden:
        rate = 1e9 * label_sweep / lattice.sites
        text = f"{fit.chains} label chain(s), {1e3 * label_sweep:.3g} ms a sweep, {rate:.2f} ns a site"
        rows.append(("", text))
        seconds += -(-fit.chains // size) * _label_sweeps(config) * label_sweep
    simulated, sampler = _simulated_sweeps(config, size)
    if simulated:
        beta = sum(config.prior.beta) / 2
        sweep = time_sweep(Sampler(lattice, config.model.labels, sampler), beta)
        rows.append(("", f"simulated images: {simulated:.3g} sweeps of {sampler}, {1e3 * sweep:.3g} ms each"))
        seconds += simulated * sweep
    if seconds:
        what = "label chains" if not simulated else "label chains and images" if hidden else "images"
        rows.append(("time", f"at most about {clock(seconds)} for the {what} of fit on {size} rank(s)"))
    return rows


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
