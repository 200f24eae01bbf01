"""Run the program as a user does: a process of its own, under mpirun, with a hard time-out."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Open MPI 4 and 5 bind the first ranks of every job to the same cores, though several jobs may run at once.
UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
# What an MPI library leaves in the environment of a rank would make a process started by a test join it.
LAUNCHER_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "MPI_LOCAL", "HYDRA_", "SLURM_STEP")


@dataclass(frozen=True)
class Finished:
    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> list[str]:
        """The lines on stderr that the program wrote, without those of the launcher."""
        return [line for line in self.stderr.splitlines() if line.startswith("mpi-potts: ")]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a fresh shell: no launcher above, one thread, root allowed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    kept |= dict.fromkeys(THREADS, "1")
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} | UNBOUND
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return kept | changes


def mpirun(ranks: int) -> list[str]:
    """The launcher's part of a command line."""
    return [*_launcher()[:1], "-n", str(ranks), *_launcher()[1:]]


@cache
def _launcher():
    """The launcher, and the option with which it starts more ranks than there are cores."""
    launcher = shutil.which("mpirun")
    if launcher is None:
        raise RuntimeError("the tests need mpirun")
    version = subprocess.run(
        [launcher, "--version"], capture_output=True, text=True, env=environment()
    ).stdout
    many = ["--oversubscribe"] if "Open MPI" in version or "OpenRTE" in version else []
    return [launcher, *many]


def start(
    arguments, ranks: int = 1, cwd=None, launcher: bool = True, program=("-m", "mpi_potts"), **changes: str
) -> subprocess.Popen:
    """Start `mpirun -n RANKS python -m mpi_potts ARGUMENTS` in a process group of its own; text pipes."""
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.Popen(
        [*(mpirun(ranks) if launcher else []), *command],
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, seconds: float = 60) -> Finished:
    """Wait for the end; after `seconds` kill the whole group and fail."""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        stdout, stderr = process.communicate()
        raise AssertionError(f"still running after {seconds} s\n{stdout[-2000:]}\n{stderr[-2000:]}") from None
    return Finished(process.returncode, stdout, stderr)


def kill(process: subprocess.Popen) -> None:
    """kill -9 for the launcher and all its ranks at once; ranks may have process groups of their own."""
    for pid in alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def alive(process: subprocess.Popen) -> list[int]:
    """The processes of a job that have not ended, the launcher among them."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(int(entry.name) for entry in entries if _session(entry) == process.pid)


def ranks(process: subprocess.Popen) -> list[int]:
    """The processes of a job that are ranks."""
    return [pid for pid in alive(process) if pid != process.pid]


def _session(entry):
    """The session of a process, or None where it has ended."""
    try:
        state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def launch(
    arguments, ranks: int = 1, seconds: float = 60, cwd=None, launcher: bool = True, **changes
) -> Finished:
    """Run to the end: code, stdout, stderr."""
    return finish(start(arguments, ranks, cwd, launcher, **changes), seconds)
