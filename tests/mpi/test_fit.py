"""A fit on any number of ranks, and of threads, gives the bits of one rank."""

import pytest
from fitting import image_of, run_fit, same_bits, write_input
from mpi4py import MPI


@pytest.mark.parametrize("writer", ["mpio", "gather"])
@pytest.mark.parametrize("chains", [1, 3])
def test_any_number_of_ranks_gives_the_same_bits(comm, directory, writer, chains):
    path = directory / "input.toml"
    if comm.rank == 0:
        _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(13, 17))
        write_input(directory, values, chains=chains, final_sweeps=150, max_iterations=12)
        alone = run_fit(MPI.COMM_SELF, path, directory / "alone", [f"run.writer={writer}"])
    comm.Barrier()
    attributes, arrays = run_fit(comm, path, directory / "together", [f"run.writer={writer}"])
    assert attributes["writer"] == writer
    if comm.rank == 0:
        assert same_bits(alone[1], arrays) == []
        assert alone[0]["checksum"] == attributes["checksum"]


def test_any_number_of_threads_gives_the_same_bits(comm, directory):
    if comm.rank == 0:
        _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(13, 17))
        write_input(directory, values, final_sweeps=150, max_iterations=4)
    comm.Barrier()
    path = directory / "input.toml"
    found = [
        run_fit(comm, path, directory / f"by_{threads}", [f"run.threads={threads}"])[1] for threads in (1, 3)
    ]
    assert same_bits(*found) == []


def test_observed_labels_give_the_same_bits(comm, directory):
    path = directory / "input.toml"
    if comm.rank == 0:
        labels, _ = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(13, 17))
        write_input(directory, labels, kind="labels", max_iterations=15)
        alone = run_fit(MPI.COMM_SELF, path, directory / "alone")
    comm.Barrier()
    _, arrays = run_fit(comm, path, directory / "together")
    if comm.rank == 0:
        assert same_bits(alone[1], arrays) == []


def test_sweeping_until_it_suffices_ends_alike_on_any_number_of_ranks(comm, directory):
    path = directory / "input.toml"
    if comm.rank == 0:
        _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(13, 17))
        write_input(directory, values, chains=3, final_sweeps='"auto"')
    comm.Barrier()
    keys = ["fit.method=path", "fit.target.ess=150", "fit.target.map_error=0.02", "run.checkpoint_minutes=60"]
    if comm.rank == 0:
        alone = run_fit(MPI.COMM_SELF, path, directory / "alone", keys)
    comm.Barrier()
    attributes, arrays = run_fit(comm, path, directory / "together", keys)
    assert attributes["stopped_because"] == "fit.target is met"
    if comm.rank == 0:
        assert same_bits(alone[1], arrays) == []
        assert alone[0]["checksum"] == attributes["checksum"]
