"""Small hidden images with known truth, and fits of them, for the tests."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from mpi_potts.cli import fit, precompute
from mpi_potts.cli.say import say
from mpi_potts.config import inputs
from mpi_potts.io import reading
from mpi_potts.lattice import Lattice
from mpi_potts.methods.base import needs_binding
from mpi_potts.model.simulate import simulate_image
from mpi_potts.runtime import parallel
from mpi_potts.runtime.control import Control

INPUT = """
seed = 5
[image]
path = "image.npy"
kind = "{kind}"
[model]
labels = {labels}
[prior]
beta = [0.0, 1.3]
mean = {{ mean = 0.0, sd = 10.0 }}
variance = {{ shape = 1.0, scale = 0.1 }}
[precompute]
grid = "critical"
points = 120
iterations = 500
burn_in = 100
[fit]
chains = {chains}
final_sweeps = {final_sweeps}
final_burn_in = 100
[smc]
particles = 500
replicates = 50
alpha = 0.9
label_sweeps = 60
max_iterations = {max_iterations}
[run]
checkpoint_minutes = 1e-9
"""
KEYS = {"kind": "observations", "labels": 3, "chains": 1, "final_sweeps": 600, "max_iterations": 60}


def write_input(directory, image, **changes):
    """An input file with its image; returns its path."""
    np.save(directory / "image.npy", image)
    path = directory / "input.toml"
    path.write_text(INPUT.format(**KEYS | changes))
    return path


def image_of(beta, mean, sd, shape=(32, 32), number=0, mask=None):
    """Labels and values of a simulated image."""
    lattice = Lattice(shape, "first", mask)
    return simulate_image(lattice, len(mean), beta, np.array([mean, sd]), 11, number, 400)


def options(**changes):
    return SimpleNamespace(**{"max_hours": None, "quiet": True, "fresh": False, "library": None} | changes)


def problem_of(comm, path, output, overrides=()):
    """Load and precompute: the problem that `mpi-potts run` would fit."""
    settings = inputs.load(path, overrides, output)
    problem = fit.pose(comm, settings)
    if not needs_binding(problem.config):
        return problem
    with Control() as control:
        binding = precompute.obtain(comm, problem.config, problem.lattice, control, quiet=True)
    return replace(problem, binding=binding)


def run_fit(comm, path, output, overrides=(), control=None, **changes):
    """Fit as the command does; returns attributes and datasets of the result on every rank."""
    problem = problem_of(comm, path, output, overrides)
    with control or Control() as control:
        say(comm, fit.fit_image(comm, problem, control, options(**changes)))
    return parallel.on_root(comm, reading.read, output / "result.h5", "mpi_potts result", 1)


def same_bits(one, other):
    """Whether all datasets but the times are the same bits; names what differs."""
    names = {name for name in set(one) | set(other) if not name.endswith("seconds")}
    return sorted(
        n for n in names if n not in one or n not in other or one[n].tobytes() != other[n].tobytes()
    )
