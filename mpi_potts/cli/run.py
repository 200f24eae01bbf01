"""`mpi-potts run INPUT.toml`: the main job: a binding function unless a valid one is there, fit, report."""

from ..binding.compute import Paths as BindingPaths
from ..binding.compute import Task, belongs
from ..config.inputs import Config
from ..io.fit_file import FitPaths
from ..lattice import Lattice
from ..methods.base import Problem, needs_binding
from ..runtime.control import Control
from ..runtime.parallel import Comm, on_root
from . import fit, precompute, report
from .say import say


def execute(comm: Comm, config: Config, options) -> int:
    config, image, lattice = on_root(comm, fit.load, config)
    with Control(options.max_hours) as control:
        binding = None
        if needs_binding(config):
            fresh = options.fresh and on_root(comm, _of_another, config, lattice)
            binding = precompute.obtain(comm, config, lattice, control, options.quiet, fresh)
        say(comm, fit.fit_image(comm, Problem(config, image, lattice, binding), control, options))
    report.after(comm, FitPaths(config.output).result)
    return 0


def _of_another(config: Config, lattice: Lattice) -> bool:
    """Whether --fresh starts the binding function over too.

    One that answers the input is always worth keeping, and one that other images may share is never removed.
    """
    own = config.precompute.file is None
    return own and not belongs(Task.of(config, lattice), BindingPaths.of(config))
