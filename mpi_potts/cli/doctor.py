"""`mpi-potts doctor`: what this installation is made of, and whether it can work.  Writes nothing."""

import importlib
import os
import platform
import socket
import sys
from argparse import Namespace
from collections import Counter
from importlib import metadata
from importlib.util import find_spec

from .. import __version__
from ..errors import InputError
from ..runtime import parallel
from ..runtime.parallel import Comm

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
EXTRAS = {"tifffile": "geotiff", "PIL": "images", "nibabel": "nifti", "matplotlib": "figures"}


def execute(comm: Comm, config: None, options: Namespace) -> int:
    """Print one page on rank 0; exit code 1 if a run could not work."""
    places = comm.gather((socket.gethostname(), _cores()))
    code = 0
    if comm.rank == 0:
        rows, wrong = examine(comm, places or [])
        verdict = "; ".join(wrong) if wrong else "everything needed is there"
        rows.append(("verdict", ("WRONG: " if wrong else "") + verdict))
        print("\n".join(f"{name:<10} {text}" for name, text in rows), flush=True)
        code = int(bool(wrong))
    return parallel.bcast(comm, code)


def examine(comm: Comm, places: list[tuple[str, int]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Rows (name, text) of the report, and what is wrong."""
    rows = [("mpi-potts", f"{__version__}, Python {platform.python_version()}, {sys.executable}")]
    wrong: list[str] = []
    rows.append(("MPI", f"{parallel.library()}; mpi4py {_version('mpi4py')}"))
    rows.append(("launcher", _launcher(comm, wrong)))
    rows.append(("ranks", _ranks(places)))
    rows.append(("HDF5", _from_module("io.store", wrong)))
    rows.append(("compiler", _from_module("kernels.platform", wrong)))
    rows.append(("threads", " ".join(f"{name}={os.environ.get(name, 'not set')}" for name in THREADS)))
    rows.append(("numpy", f"{_version('numpy')}"))
    rows.append(("extras", _extras()))
    return rows, wrong


def _cores() -> int:
    """Cores this rank may run on, where the system can tell; else all."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _version(package: str) -> str:
    """The version of an installed package, or that it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _launcher(comm: Comm, wrong: list[str]) -> str:
    """What the launcher announced, and how many ranks there are; a contradiction is added to `wrong`."""
    try:
        parallel.check_launcher(comm)
    except InputError as error:
        wrong.append(str(error))
    announced = [f"{name}={os.environ[name]}" for name in parallel.LAUNCHERS if name in os.environ]
    return f"{' '.join(announced) or 'none'}; the communicator has {comm.size}"


def _ranks(places: list[tuple[str, int]]) -> str:
    """How many ranks there are on every node, and the cores that each may use."""
    ranks, cores = Counter(host for host, _ in places), dict(places)
    nodes = [f"{n} on {host} (cores a rank may use: {cores[host]})" for host, n in ranks.items()]
    return f"{len(places)}: {', '.join(nodes[:4])}{' ...' if len(nodes) > 4 else ''}"


def _from_module(name: str, wrong: list[str]) -> str:
    """What a module of ours says about the library it wraps; one that cannot be loaded is the finding."""
    try:
        found = importlib.import_module(f"..{name}", __package__).describe()
    except (ImportError, OSError, RuntimeError) as error:
        wrong.append(f"{name}: {' '.join(str(error).split())}")
        return "cannot be loaded"
    return ", ".join(f"{key} {value}" for key, value in found.items())


def _extras() -> str:
    """The optional packages that are installed, and those that are not, with the extra that installs them."""
    there = [f"{name} ({extra})" for name, extra in EXTRAS.items() if find_spec(name)]
    missing = [f"{name} ({extra})" for name, extra in EXTRAS.items() if not find_spec(name)]
    return "; ".join(
        filter(None, (", ".join(there), f"not installed: {', '.join(missing)}" if missing else ""))
    )
