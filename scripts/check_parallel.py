"""Under mpirun: the job has the expected number of ranks, and with --hdf5 they write one file together.

A launcher of another MPI than mpi4py's starts N jobs of size 1 and says nothing; an h5py without MPI imports
just as well.  Both end here with exit code 1.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from mpi4py import MPI


def write_and_read_together(comm, path):
    """Every rank writes its own row of one dataset through MPI-IO and reads all of them."""
    import h5py

    if not h5py.get_config().mpi:
        return "h5py is not built with MPI"
    with h5py.File(path, "w", driver="mpio", comm=comm) as file:
        file.create_dataset("rank", (comm.size,), dtype="i8")[comm.rank] = comm.rank
    with h5py.File(path, "r", driver="mpio", comm=comm) as file:
        rows = file["rank"][:]
    return "" if np.array_equal(rows, np.arange(comm.size)) else f"the ranks wrote {rows.tolist()}"


def main():
    comm = MPI.COMM_WORLD
    expected = int(sys.argv[1])
    library = MPI.Get_library_version().split(",")[0].strip()
    problem = "" if comm.size == expected else f"started {expected} ranks, the communicator has {comm.size}"
    if not problem and "--hdf5" in sys.argv:
        folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
        problem = write_and_read_together(comm, Path(folder) / "together.h5")
        comm.Barrier()
        if comm.rank == 0:
            (Path(folder) / "together.h5").unlink(missing_ok=True)
            Path(folder).rmdir()
    if comm.rank == 0:
        what = "parallel HDF5" if "--hdf5" in sys.argv else "MPI"
        print(f"{what} on {comm.size} ranks, {library}: {problem or 'works'}", flush=True)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
