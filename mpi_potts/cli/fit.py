"""`mpi-potts fit INPUT.toml`: the posterior of beta, the noise and the labels of an image."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..binding import file as binding_file
from ..binding.function import Binding
from ..config.inputs import Config
from ..errors import InputError
from ..image.pixels import Image, lattice_of, load_image, with_start
from ..io import files, fit_file
from ..io.fit_file import FitPaths
from ..lattice import Lattice
from ..methods import adapt, answers, driver
from ..methods.base import Facts, Problem, check_method, needs_binding
from ..model.scale import on_image, on_lattice
from ..posterior import datasets, words
from ..posterior.outcome import Outcome, outcome
from ..runtime.control import Control
from ..runtime.parallel import Comm, bcast_first, on_root
from . import image_input
from .say import note, say

# Fits of one run, at most.
MOST_FITS = 3


def execute(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  Fit with the binding function that is there."""
    problem = pose(comm, config)
    if needs_binding(problem.config):
        problem = replace(problem, binding=on_root(comm, _begin_with, problem, options.fresh))
    with Control(options.max_hours) as control:
        say(comm, fit_image(comm, problem, control, options))
    image_input.keep(comm, problem.config)
    return 0


def pose(comm: Comm, config: Config) -> Problem:
    """Collective.  The problem that an input poses, before it has a binding function.

    Rank 0 reads the image; of the others only those that will have a label chain receive it.
    """
    held: list[Image] = []

    def read() -> tuple[Config, Lattice, Facts]:
        changed, image, lattice = read_image(config)
        held.append(image)
        note(image)
        return changed, lattice, Facts.of(changed, image, lattice)

    config, lattice, facts = on_root(comm, read)
    image = bcast_first(comm, held[0] if held else None, config.fit.chains)
    return Problem(config, image, lattice, None, facts)


def read_image(config: Config) -> tuple[Config, Image, Lattice]:
    """The image, its lattice, and the input with numbers in its priors where these are the image's and the
    lattice's; on one rank."""
    check_method(config)
    image = with_start(config, load_image(config))
    lattice = lattice_of(config, image)
    return on_image(on_lattice(config, lattice), image.pixels), image, lattice


def read_binding(problem: Problem) -> Binding:
    """The binding function that the fit has, or would begin with; on one rank."""
    return _read(answers.of_fit(problem), problem)


def _begin_with(problem: Problem, fresh: bool) -> Binding:
    """The binding function of a fit, which finds it again when it goes on; on one rank."""
    return _read(answers.begun_with(problem, fresh), problem)


def _read(path: Path, problem: Problem) -> Binding:
    if not path.exists():
        raise InputError(
            f"{path}: no binding function; run `mpi-potts precompute` first, or `mpi-potts run` for both"
        )
    return binding_file.read_binding(path, problem.config.precompute.interpolation)


def fit_image(comm: Comm, problem: Problem, control: Control, options: Any) -> str:
    """Collective.  Fit, or continue, or find that it is done; returns the result in a few lines.

    options : has `fresh`, to start over, and `quiet`
    """
    paths, settings = FitPaths(problem.config.output), problem.settings
    on_root(comm, files.make_directory, paths.directory)
    with files.locked(comm, paths.lock):
        if options.fresh:
            on_root(comm, paths.clear)
        if on_root(comm, fit_file.finished, paths, settings):
            on_root(comm, paths.forget)
            return f"{paths.result}: the result of this input is there already; --fresh starts over"
        fit = driver.run(comm, problem, paths, control, options.quiet)
        if problem.config.run.keep_end and fit.chains is not None:
            # Before the maps are made, which take as much memory again.
            fit_file.write_end(comm, paths, settings, fit.pack(), problem.config.run.writer)
        return _write(comm, outcome(comm, fit), paths, settings)


def fit_until_it_suffices(comm: Comm, problem: Problem, control: Control, options: Any) -> Iterator[str]:
    """Collective.  Fit, and again where the posterior came to lie beside what an adaptive binding function is
    good for; yields what there is to say.

    Seldom: the label chains that showed where the curve was needed had not yet come to their end.
    """
    yield fit_image(comm, problem, control, options)
    paths = FitPaths(problem.config.output)
    for _ in range(MOST_FITS - 1):
        seen = on_root(comm, adapt.left_the_window, problem.config, paths.result)
        if seen is None or problem.binding is None:
            return
        config, bare = problem.config, replace(problem, binding=None)
        binding = adapt.obtain(comm, config, problem.lattice, bare, control, options.quiet, seen=seen)
        if binding.digest == problem.binding.digest:
            return
        problem = replace(problem, binding=binding)
        yield "the posterior lies beside what was simulated for it: more was, and the fit is done again"
        yield fit_image(comm, problem, control, Namespace(fresh=True, quiet=options.quiet))


def _write(comm: Comm, found: Outcome, paths: FitPaths, settings: dict[str, Any]) -> str:
    """Collective.  Write the result and its draws; returns what was found, in a few lines."""
    writer = found.fit.problem.config.run.writer
    arrays, draws = datasets.datasets(comm, found), datasets.equal_draws(found)
    fit_file.write_result(comm, paths, settings, datasets.attributes(found), arrays, draws, writer)
    return f"{words.of_outcome(found)}\n{paths.result}: written, with {paths.posterior.name}"
