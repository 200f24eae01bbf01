"""`mpi-potts precompute INPUT.toml`: the binding function of the lattice that the input names."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from ..binding import file as binding_file
from ..binding import library
from ..binding.compute import BindingPaths, Task, compute, prepare
from ..binding.function import Binding
from ..config.inputs import Config
from ..errors import InputError
from ..estimation.verdicts import FLAG_DISAGREE, FLAG_SHORT
from ..image.pixels import lattice_of, load_image
from ..io import files
from ..lattice import Lattice
from ..methods import adapt, needs
from ..methods.base import Problem
from ..model.scale import on_lattice
from ..runtime.control import Control
from ..runtime.parallel import Comm, on_root
from ..runtime.progress import Live
from . import image_input
from .fit import pose
from .say import note, say


def execute(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  Compute, continue or extend the binding function, and say what it is like."""
    if options.library is not None:
        return _improve_library(comm, config, options)
    config, lattice, problem = for_what(comm, config)
    with Control(options.max_hours) as control:
        binding = obtain(comm, config, lattice, control, options.quiet, options.fresh, problem)
    image_input.keep(comm, config, only_new=True)
    say(comm, f"{BindingPaths.of(config).binding}: {describe(binding)}")
    return 0


def _improve_library(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  Make the small lattices from which that of the input is composed more exact."""
    lattice = on_root(comm, lattice_to_cover, config)
    config = on_lattice(config, lattice)
    keys, named = config.precompute, options.library or config.precompute.library
    if not named or Path(named) == library.default_path():
        raise InputError(
            "--library: a FILE is needed, which inputs then name as precompute.library; the user's, which "
            "no input names, is not made longer, since results would depend on it without saying so"
        )
    live = Live(comm, options.quiet)
    asked = config.prior.beta, keys.accuracy, keys.iterations, live.say
    error, limit = library.improve(comm, lattice, config.model.labels, Path(named), *asked)
    size = " x ".join(map(str, lattice.shape))
    reached = f"an error of {error:.2g} posterior sds of beta away from the transition"
    more = f"; precompute.accuracy = {keys.accuracy:g} was asked for, but for {limit}" if limit else ""
    say(comm, f"{named}: composes {size} with {reached}{more}")
    return 0


def for_what(comm: Comm, config: Config) -> tuple[Config, Lattice, Problem | None]:
    """Collective.  The lattice that the binding function is of, and the image that an adaptive one is for."""
    if config.precompute.grid == "adaptive" and config.image.path is not None:
        problem = pose(comm, config)
        return problem.config, problem.lattice, problem
    return config, on_root(comm, lattice_to_cover, config), None


def obtain(
    comm: Comm,
    config: Config,
    lattice: Lattice,
    control: Control,
    quiet: bool = False,
    fresh: bool = False,
    problem: Problem | None = None,
) -> Binding:
    """Collective.  The binding function that the input asks for: read if it is there, else computed.

    problem : the image that an adaptive one is for; without, it is for any image
    """
    config = on_lattice(config, lattice)
    if config.precompute.grid == "adaptive":
        needs.check_precompute(comm, config, lattice, 1)
        return adapt.obtain(comm, config, lattice, problem, control, quiet, fresh)
    task, paths = Task.of(config, lattice), BindingPaths.of(config)
    if fresh or not on_root(comm, task.answered_by, paths.binding):
        needs.check_precompute(comm, config, lattice, len(task.kinds))
        on_root(comm, files.make_directory, paths.binding.parent)
        with files.locked(comm, paths.lock):
            prepare(comm, paths, fresh)
            compute(comm, task, paths, config, control, quiet)
    return on_root(comm, binding_file.read_binding, paths.binding, config.precompute.interpolation)


def describe(binding: Binding) -> str:
    """One line: the grid, the chains, and what to look at."""
    simulated = ~binding.composed
    text = (
        f"{np.count_nonzero(simulated)} betas from {binding.beta[0]:g} to {binding.beta[-1]:g}, "
        f"{binding.counted[simulated].sum()} counted sweeps of {binding.sampler}, "
        f"largest tau {binding.tau.max():.1f}"
    )
    if not simulated.all():
        text += f", {np.count_nonzero(~simulated)} betas composed from smaller lattices"
    if np.unique(binding.counted[simulated]).size > 1:
        return text  # chains of one window are long enough together
    for bit, meaning in ((FLAG_DISAGREE, "where the starts disagree"), (FLAG_SHORT, "with short chains")):
        count = int(np.count_nonzero(binding.flag & bit))
        text += f", {count} {meaning}" if count else ""
    return text


def lattice_to_cover(config: Config) -> Lattice:
    """The lattice of the image that the input names, else of image.shape; on one rank."""
    if config.image.path is None:
        return lattice_of(config)
    image = load_image(config)
    note(image)
    return lattice_of(config, image)
