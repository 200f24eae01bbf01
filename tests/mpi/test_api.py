"""Calls from Python on several ranks: the bits of one rank, the same answer and the same error everywhere."""

import hashlib

import pytest
from fitting import image_of, same_bits
from mpi4py import MPI

import mpi_potts as mp

KEYS = {"beta": [0.0, 1.3], "points": 11, "chains": 2, "final_sweeps": 60, "final_burn_in": 10}
KEYS |= {"particles": 50, "replicates": 7, "alpha": 0.8, "label_sweeps": 10, "max_iterations": 5}


def digest(arrays):
    names = sorted(name for name in arrays if not name.endswith("seconds"))
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in names)).hexdigest()


def test_any_number_of_ranks_gives_the_same_result_to_all(comm):
    values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(9, 11))[1] if comm.rank == 0 else None
    # The image of rank 0 counts.
    together = mp.fit(values, comm=comm, **KEYS)
    assert len(set(comm.allgather(digest(together.arrays)))) == 1
    if comm.rank == 0:
        assert same_bits(mp.fit(values, comm=MPI.COMM_SELF, **KEYS).arrays, together.arrays) == []


def test_all_ranks_write_one_output(comm, directory):
    binding = mp.precompute((9, 11), output=directory, points=11, iterations=40, burn_in=10)
    images = mp.simulate((9, 11), images=3, sweeps=5, output=directory)
    comm.Barrier()
    assert mp.load(directory / "binding.h5").digest == binding.digest
    assert [mp.load(directory / f"image_00{i}.h5").beta for i in range(3)] == [each.beta for each in images]


def test_a_mistake_is_raised_on_every_rank(comm):
    with pytest.raises(mp.InputError, match=r"model\.labels = 1"):
        mp.precompute((9, 11), labels=1, comm=comm)
    # And the ranks still meet.
    assert mp.simulate((4, 5), sweeps=2, comm=comm)[0].values.shape == (4, 5)
