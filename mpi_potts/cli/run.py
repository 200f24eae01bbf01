"""`mpi-potts run INPUT.toml`: the main job: a binding function unless a valid one is there, fit, report."""

from argparse import Namespace
from dataclasses import replace

from ..binding.compute import BindingPaths, Task, belongs
from ..config.inputs import Config
from ..io.fit_file import FitPaths
from ..lattice import Lattice
from ..methods import answers
from ..methods.base import needs_binding
from ..runtime.control import Control
from ..runtime.parallel import Comm, on_root
from . import choice, fit, image_input, precompute, report
from .say import say


def execute(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  The binding function, unless a valid one is there, the fit and its report."""
    if config.choices:
        return choice.execute(comm, config, options, execute)
    problem = fit.pose(comm, config)
    config, lattice = problem.config, problem.lattice
    image_input.keep(comm, config, only_new=not options.fresh)
    with Control(options.max_hours) as control:
        if needs_binding(config):
            fresh = options.fresh and on_root(comm, _of_another, config, lattice)
            binding = precompute.obtain(comm, config, lattice, control, options.quiet, fresh, problem)
            problem = replace(problem, binding=binding)
        for text in fit.fit_until_it_suffices(comm, problem, control, options):
            say(comm, text)
    image_input.keep(comm, config)
    del problem  # the report reads the image again
    report.after(comm, FitPaths(config.output).result)
    return 0


def _of_another(config: Config, lattice: Lattice) -> bool:
    """Whether --fresh starts the binding function over too.

    One that answers the input is always worth keeping, and one that other images may share is never removed.
    """
    own = config.precompute.file is None
    if config.precompute.grid == "adaptive":
        return own and not answers.belongs(config, lattice)
    return own and not belongs(Task.of(config, lattice), BindingPaths.of(config))
