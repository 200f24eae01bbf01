"""`mpi-potts run INPUT.toml`: the main job: a binding function unless a valid one is there, fit, report."""

from ..config import Config
from ..control import Control
from ..fit_file import Paths
from ..methods.problem import Problem, needs_binding
from ..parallel import Comm, on_root
from . import fit, precompute, report


def execute(comm: Comm, config: Config, options) -> int:
    config, image, lattice = on_root(comm, fit.load, config)
    with Control(options.max_hours) as control:
        # --fresh starts the fit over; a binding function that answers the input is always worth keeping.
        binding = None
        if needs_binding(config):
            binding = precompute.obtain(comm, config, lattice, control, options.quiet)
        fit.say(comm, fit.fit_image(comm, Problem(config, image, lattice, binding), control, options))
    report.after(comm, Paths(config.output).result)
    return 0
