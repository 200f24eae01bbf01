"""The parallel suite: started as `MPI_POTTS_EXPECT_RANKS=n mpirun -n n python -m pytest tests/mpi`.

It fails, and never skips, where it would test nothing: a launcher of another MPI that starts n jobs of size
1, or an h5py without parallel HDF5.
"""

import os
import shutil
import tempfile
from pathlib import Path

import h5py
import pytest
from mpi4py import MPI


def pytest_sessionstart(session):
    expected = os.environ.get("MPI_POTTS_EXPECT_RANKS", "")
    if expected != str(MPI.COMM_WORLD.size):
        pytest.exit(
            f"MPI_POTTS_EXPECT_RANKS is {expected!r}, the communicator has {MPI.COMM_WORLD.size} ranks", 3
        )
    if not h5py.get_config().mpi:
        pytest.exit("h5py has no parallel HDF5", 3)


@pytest.fixture
def comm():
    """A communicator of its own for each test, so that a failed one leaves no message to the next."""
    comm = MPI.COMM_WORLD.Dup()
    yield comm
    comm.Barrier()
    comm.Free()


@pytest.fixture
def directory(comm):
    """One directory for all ranks."""
    name = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    yield Path(name)
    comm.Barrier()
    if comm.rank == 0:
        shutil.rmtree(name)
