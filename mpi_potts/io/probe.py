"""A foreign HDF5 file is read by another process first.

Files of this program carry a seal that is checked before HDF5 sees them.  Others do not, and on a damaged one
the HDF5 library may loop for ever or crash.  Here that happens to a process that does nothing else: `python
-m mpi_potts.io.probe FILE DATASET`, started without a shell and outside MPI.
"""

import os
import subprocess
import sys
from pathlib import Path

from ..errors import InputError

# Seconds that reading a file may take: some, and more for a large one.
PATIENCE = 60.0
SLOWEST = 5e6  # bytes a second
# What a launcher leaves in the environment would make the process a rank of the job.
LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "MPI_LOCAL", "HYDRA_", "SLURM_")


def check(path: Path, name: str) -> None:
    """Refuse a file on which the HDF5 library hangs or crashes; what else is wrong with it, reading tells."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
    place = str(Path(__file__).resolve().parents[2])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (place, kept.get("PYTHONPATH"))))
    kept["MPI4PY_RC_INITIALIZE"] = "0"
    try:
        code = subprocess.run(
            [sys.executable, "-m", "mpi_potts.io.probe", str(path), name],
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE + path.stat().st_size / SLOWEST,
        ).returncode
    except subprocess.TimeoutExpired:
        raise InputError(f"{path}: damaged: the HDF5 library does not come to an end with it") from None
    if code < 0:
        raise InputError(f"{path}: damaged: the HDF5 library crashes on it (signal {-code})")


if __name__ == "__main__":
    from .reading import read_to_the_end

    read_to_the_end(Path(sys.argv[1]), sys.argv[2])
