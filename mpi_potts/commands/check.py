"""`mpi-potts check`: validate only, and print the plan, the memory of a rank and the estimated time.

The time comes from running the real kernels for about a second on all ranks at once, since ranks on one node
share its memory.  The memory is what this process holds now and the arrays that the run will add.  Nothing is
written.
"""

import resource
import sys
import time

import numpy as np

from .. import parallel, rng
from ..config import Config
from ..grid import make_grid
from ..image import Image, lattice_of, load_image, with_image_mean
from ..lattice import Lattice
from ..potts import Sampler
from ..progress import clock
from ..rng import Purpose

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the grid, where a sweep is timed
ENOUGH = 0.2  # seconds of sweeps at each
GROUPS = 5


def execute(comm, config: Config, options) -> int:
    config, lattice, pixels = parallel.on_root(comm, examine, config)
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
        rows += precompute_rows(config, lattice, betas, sweep, comm.size)
        rows += memory_rows(config, sampler, betas, comm.size)
        print("\n".join(f"{name:<12}{text}" for name, text in rows), flush=True)
    return 0


def examine(config: Config) -> tuple[Config, Lattice, str]:
    """Read the image where there is one; the lattice, and the pixels in words."""
    if config.image.path is None:
        return config, lattice_of(config), "none: precompute and simulate need only the shape"
    image = load_image(config)
    return with_image_mean(config, image), lattice_of(config, image), _pixels(config, image)


def _pixels(config, image: Image):
    values = image.pixels
    if image.labels is not None:
        return f"{image.source}: observed labels, {np.unique(values).size} different ones"
    return f"{image.source}: values {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"


def chains(config: Config, lattice: Lattice) -> int:
    """Chains at each beta: two where both starts are run."""
    starts = config.precompute.starts
    both = starts == "both" or (starts == "auto" and lattice.first_order_transition(config.model.labels))
    return 2 if both else 1


def time_sweep(sampler: Sampler, beta: float, seconds: float = ENOUGH) -> float:
    """Seconds of one sweep at beta: the least of several groups of sweeps, about `seconds` in all."""
    state = sampler.start("random", rng.stream(0, Purpose.START))
    stream = rng.stream(0, Purpose.PRIOR_SWEEP)
    sampler.sweeps(state, beta, stream, 0, 2)
    first, one = 3, _seconds(sampler, state, beta, stream, 2, 1)
    count = max(1, int(seconds / GROUPS / max(one, 1e-9)))
    groups = []
    for _ in range(GROUPS):
        groups.append(_seconds(sampler, state, beta, stream, first, count) / count)
        first += count
    return min(groups)


def _seconds(sampler, state, beta, stream, first, count):
    started = time.perf_counter()
    sampler.sweeps(state, beta, stream, first, count)
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


def memory_rows(config, sampler, betas, size) -> list[tuple[str, str]]:
    """What this process holds, and the largest arrays of each stage."""
    share = -(-betas.size // size) * chains(config, sampler.lattice)
    states = share * sampler.packed_size * config.precompute.keep_states
    series = 2 * 8 * share * config.precompute.iterations  # every S(z), and once more while it is written
    particles = 2 * 8 * -(-config.smc.particles // size) * config.smc.replicates
    held = _resident()
    return [
        ("memory", f"about {_megabytes(held + states + series)} a rank in precompute"),
        ("", f"about {_megabytes(held + particles)} a rank in SMC-ABC, apart from the labels on rank 0"),
    ]


def _resident():
    """The largest memory this process has held so far, in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used


def _megabytes(size):
    return f"{size / 1e6:.0f} MB"
