"""Every method gives the bits of one rank on any number of ranks."""

import numpy as np
import pytest
from fitting import image_of, problem_of, run_fit, same_bits, write_input
from method_cases import CONTINUED, TINY, Impatient, sets
from mpi4py import MPI

from mpi_potts.errors import Interrupted
from mpi_potts.io.fit_file import FitPaths
from mpi_potts.methods import driver
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import allgather_rows, block, take_rows

CASES = [*CONTINUED, ("rejection", "labels", {"rejection.adjust": "true"})]
CASES += [(method, "labels", {}) for method in ("path", "pseudolikelihood")]


def prepare(comm, directory, kind):
    """The input file, with three chains: some ranks have more than others."""
    if comm.rank == 0:
        labels, values = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(9, 11), number=3)
        image = labels if kind == "labels" else values
        write_input(directory, image, labels=2, kind=kind, chains=3, final_sweeps=25)
    comm.Barrier()
    return directory / "input.toml"


@pytest.mark.parametrize("method, kind, keys", CASES)
def test_any_number_of_ranks_gives_the_same_bits(comm, directory, method, kind, keys):
    path, keys = prepare(comm, directory, kind), sets(TINY | keys | {"fit.method": method})
    if comm.rank == 0:
        alone = run_fit(MPI.COMM_SELF, path, directory / "alone", keys)
    comm.Barrier()
    attributes, arrays = run_fit(comm, path, directory / "together", keys)
    if comm.rank == 0:
        assert same_bits(alone[1], arrays) == []
        assert alone[0]["checksum"] == attributes["checksum"]


class Silent:
    """A communicator that no one may speak on."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} of the communicator is used")


@pytest.mark.parametrize("method, kind, keys", CASES)
def test_what_a_concluded_fit_is_asked_it_answers_without_a_word(comm, directory, method, kind, keys):
    """On one rank alone: a question that communicates would wait for ever, or fail."""
    path, keys = prepare(comm, directory, kind), sets(TINY | keys | {"fit.method": method})
    problem = problem_of(comm, path, directory / "out", keys)
    with Control() as control:
        fit = driver.run(comm, problem, FitPaths(directory), control, True)
    fit.comm = Silent()
    if comm.rank == comm.size - 1:
        answers = fit.headline(), fit.where, fit.stopped_because, fit.length, fit.iteration, [*fit.cautions()]
        assert all(answer is not None for answer in answers)
        assert fit.traces() is not None and fit.pack() is not None and problem.settings
        assert fit.particles() is not None or fit.chains.drawn > 0
    comm.Barrier()


@pytest.mark.parametrize("method, kind, keys", CASES)
def test_ranks_without_a_chain_hold_no_image(comm, directory, method, kind, keys):
    path, keys = prepare(comm, directory, kind), sets(TINY | keys | {"fit.method": method, "fit.chains": 1})
    problem = problem_of(comm, path, directory / "together", keys)
    assert (problem.image is None) == (comm.rank > 0)
    assert comm.allgather(problem.settings) == [problem.settings] * comm.size
    attributes, _ = run_fit(comm, path, directory / "together", keys)
    if comm.rank == 0:
        alone, _ = run_fit(MPI.COMM_SELF, path, directory / "alone", keys)
        assert alone["checksum"] == attributes["checksum"]


@pytest.mark.parametrize("method", ["exchange", "rejection"])
def test_what_many_ranks_began_one_rank_ends_with_the_same_bits(comm, directory, method):
    kind = "labels" if method == "rejection" else "observations"
    path, keys = prepare(comm, directory, kind), sets(TINY | {"fit.method": method})
    with pytest.raises(Interrupted):
        run_fit(comm, path, directory / "begun", keys, control=Impatient(0))
    comm.Barrier()
    if comm.rank == 0:
        _, ended = run_fit(MPI.COMM_SELF, path, directory / "begun", keys)
        _, alone = run_fit(MPI.COMM_SELF, path, directory / "alone", keys)
        assert same_bits(alone, ended) == []


@pytest.mark.parametrize("n", [1, 4, 11])
def test_rows_are_taken_from_any_rank(comm, n):
    whole = np.random.default_rng(n).normal(size=(n, 3))
    wanted = np.random.default_rng(n + 1).integers(0, n, n)
    taken = take_rows(comm, whole[slice(*block(n, comm.size, comm.rank))], wanted)
    assert np.array_equal(allgather_rows(comm, taken, n), whole[wanted])
