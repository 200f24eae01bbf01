"""A binding function that grows where it is needed, on any number of ranks: the same decisions, the same
bits."""

from dataclasses import replace

import numpy as np
import pytest
from fitting import image_of, options, same_bits
from method_cases import StopAt
from mpi4py import MPI

from mpi_potts.binding import library
from mpi_potts.cli import fit, precompute
from mpi_potts.config import inputs
from mpi_potts.errors import Interrupted
from mpi_potts.io import formats, reading
from mpi_potts.lattice import Lattice
from mpi_potts.runtime import parallel
from mpi_potts.runtime.control import Control

INPUT = """
seed = 4
[image]
path = "image.npy"
[model]
labels = 3
[prior]
beta = [0.0, 1.3]
mean = { mean = 0.0, sd = 10.0 }
variance = { shape = 1.0, scale = 0.1 }
[precompute]
accuracy = 0.2
[fit]
method = "path"
chains = 2
final_sweeps = 150
final_burn_in = 50
[run]
checkpoint_minutes = 1e-9
"""
CASES = {
    "hidden": [],
    "masked": ['image.mask="mask.npy"'],
    "observed": ['image.path="labels.npy"', "image.kind=labels"],
    "gibbs": ["precompute.sampler=gibbs", "precompute.accuracy=0.5"],
}


@pytest.fixture
def image(comm, directory):
    """An input with its image, labels and mask."""
    if comm.rank == 0:
        (directory / "input.toml").write_text(INPUT)
        labels, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(40, 30))
        rows, columns = np.mgrid[:40, :30]
        np.save(directory / "image.npy", values)
        np.save(directory / "labels.npy", labels)
        np.save(directory / "mask.npy", (rows - 20) ** 2 + (columns - 15) ** 2 < 230)
    comm.Barrier()
    return directory / "input.toml"


def grow(comm, path, output, changes=(), control=None):
    """The binding function as `mpi-potts precompute` has it, and the problem with it."""
    problem = fit.pose(comm, inputs.load(path, changes, output))
    with control or Control() as control:
        binding = precompute.obtain(
            comm, problem.config, problem.lattice, control, quiet=True, problem=problem
        )
    return replace(problem, binding=binding)


def run(comm, path, output, changes=(), control=None):
    """Binding function and fit: checksum and datasets of both files, on rank 0."""
    problem = grow(comm, path, output, changes, control)
    with Control() as control:
        for _ in fit.fit_until_it_suffices(comm, problem, control, options()):
            pass
    return parallel.on_root(comm, content, output)


def content(output):
    binding, result = (
        reading.read(output / name, *kind)
        for name, kind in (("binding.h5", formats.BINDING), ("result.h5", formats.RESULT))
    )
    return binding[0]["checksum"], binding[1], result[1]


def assert_same(one, other):
    assert same_bits(one[1], other[1]) == [] and same_bits(one[2], other[2]) == []
    assert one[0] == other[0]


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_ranks_gives_the_same_bits(comm, directory, image, case):
    together = run(comm, image, directory / "together", CASES[case])
    assert not (directory / "together" / "binding.parts").exists()
    if comm.rank == 0:
        assert_same(together, run(MPI.COMM_SELF, image, directory / "alone", CASES[case]))


def test_more_ranks_than_chains_are_no_special_case(comm, directory, image):
    # One beta at most beside the pilot: most ranks have nothing to do in the rounds of the search.
    few = ["fit.chains=1", "precompute.points=42", "precompute.starts=random"]
    together = run(comm, image, directory / "together", few)
    if comm.rank == 0:
        assert together[1]["beta"].size <= 42
        assert_same(together, run(MPI.COMM_SELF, image, directory / "alone", few))


@pytest.mark.parametrize("looks", [1, 43])
def test_stopped_and_continued_on_one_rank_gives_the_same_bits(comm, directory, image, looks):
    with pytest.raises(Interrupted):
        grow(comm, image, directory / "stopped", control=StopAt(max(1, looks // comm.size)))
    assert not (directory / "stopped" / "binding.h5").exists()
    whole = run(comm, image, directory / "whole")
    if comm.rank == 0:
        assert list((directory / "stopped" / "binding.parts").glob("*.h5"))
        assert_same(run(MPI.COMM_SELF, image, directory / "stopped"), whole)


def test_a_composed_pilot_is_the_same_on_any_number_of_ranks(comm, monkeypatch):
    monkeypatch.setattr(library, "SWEEPS", 40)
    lattice = Lattice((90, 70))
    together = library.compose_pilot(comm, lattice, 3, None)
    if comm.rank == 0:
        alone = library.compose_pilot(MPI.COMM_SELF, lattice, 3, None)
        for name in ("beta", "mean", "sd", "mean_se", "sd_se"):
            assert getattr(together, name).tobytes() == getattr(alone, name).tobytes(), name
