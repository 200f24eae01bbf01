"""`mpi-potts fit INPUT.toml`: the posterior of beta, the noise and the labels of an image."""

from typing import Any

from ..binding import file as binding_file
from ..binding.compute import Paths as BindingPaths
from ..binding.function import Binding
from ..config.inputs import Config
from ..errors import InputError
from ..image.pixels import Image, lattice_of, load_image, with_image_mean
from ..io import files, fit_file
from ..io.fit_file import FitPaths
from ..lattice import Lattice
from ..methods import driver
from ..methods.base import Problem, check_method, needs_binding
from ..posterior import datasets, words
from ..posterior.outcome import Outcome, outcome
from ..runtime.control import Control
from ..runtime.parallel import Comm, on_root
from .say import say


def execute(comm: Comm, config: Config, options) -> int:
    """Fit with the binding function that is there."""
    config, image, lattice = on_root(comm, load, config)
    binding = on_root(comm, read_binding, config) if needs_binding(config) else None
    with Control(options.max_hours) as control:
        say(comm, fit_image(comm, Problem(config, image, lattice, binding), control, options))
    return 0


def load(config: Config) -> tuple[Config, Image, Lattice]:
    """The image, its lattice, and the input with the image's mean where a prior asks for it; on one rank."""
    check_method(config)
    image = load_image(config)
    return with_image_mean(config, image), image, lattice_of(config, image)


def read_binding(config: Config) -> Binding:
    """The binding function that the input names or has in its output; on one rank."""
    path = BindingPaths.of(config).binding
    if not path.exists():
        raise InputError(
            f"{path}: no binding function; run `mpi-potts precompute` first, or `mpi-potts run` for both"
        )
    return binding_file.read_binding(path, config.precompute.interpolation)


def fit_image(comm: Comm, problem: Problem, control: Control, options) -> str:
    """Fit, or continue, or find that it is done; returns the result in a few lines.  Collective."""
    paths, settings = FitPaths(problem.config.output), problem.settings
    on_root(comm, files.make_directory, paths.directory)
    with files.locked(comm, paths.lock):
        if options.fresh:
            on_root(comm, paths.clear)
        if on_root(comm, fit_file.finished, paths, settings):
            on_root(comm, paths.forget)
            return f"{paths.result}: the result of this input is there already; --fresh starts over"
        fit = driver.run(comm, problem, paths, control, options.quiet)
        return _write(comm, outcome(comm, fit), paths, settings)


def _write(comm: Comm, found: Outcome, paths: FitPaths, settings: dict[str, Any]) -> str:
    """Write the result and its draws; returns what was found, in a few lines.  Collective."""
    writer = found.fit.problem.config.run.writer
    arrays, draws = datasets.datasets(comm, found), datasets.equal_draws(found)
    fit_file.write_result(comm, paths, settings, datasets.attributes(found), arrays, draws, writer)
    return f"{words.of_outcome(found)}\n{paths.result}: written, with {paths.posterior.name}"
