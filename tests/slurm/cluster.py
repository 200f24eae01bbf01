"""A real Slurm of one node on this machine, in a directory and on ports of its own; needs root."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "qsub", "shellcheck", "mpirun")
DAEMONS = ("slurmd", "slurmctld", "munged")  # in the order in which they are stopped

CONFIGURATION = """\
ClusterName=mpi_potts
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge/socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
PlugStackConfig={directory}/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1
SwitchType=switch/none
ReturnToService=2
KillWait=10
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """What keeps a cluster from being started here; empty where nothing does."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"not found: {', '.join(absent)}; `make test-slurm` installs them on Debian"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def wait_for(what, seconds: float, message=lambda: ""):
    """The first true value of `what()`; without one in time a failure, with the message."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, f"not within {seconds} s: {message()}"
        time.sleep(0.2)
    return value


class Cluster:
    """Started and stopped as a context; jobs run in `environment`."""

    def __init__(self, **environment: str):
        self.directory = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.environment = environment | {"SLURM_CONF": str(self.directory / "slurm.conf")}
        self._heard: dict[str, int] = {}

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def run(self, *command, cwd=None) -> str:
        """Standard output of a command with the cluster in its environment; a failure is an error."""
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def job(self, number) -> dict[str, str]:
        """What Slurm knows of one job (with an array, of its first line)."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).splitlines()[0].split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, number, *states: str, seconds: float = 240) -> dict[str, str]:
        """Wait until a job is in one of the states."""
        wait_for(lambda: self.job(number)["JobState"] in states, seconds, lambda: self.job(number))
        return self.job(number)

    def wait_until_empty(self, seconds: float = 400) -> None:
        """Wait until no job runs or waits; a job that was put back is started soon."""

        def empty():
            for line in self.run("squeue", "--noheader", "--format=%A %r").splitlines():
                if line.endswith("BeginTime"):
                    self.release(line.split()[0])
            return not self.run("squeue", "--noheader")

        wait_for(empty, seconds, lambda: self.run("squeue"))

    def said(self) -> dict[str, str]:
        """What the daemons wrote since this was last asked: they alone know of a job not launched."""
        news = {}
        for path in sorted(self.directory.glob("slurm*.log")):
            text = path.read_bytes()
            news[path.name] = text[self._heard.get(path.name, 0) :].decode(errors="replace")
            self._heard[path.name] = len(text)
        return news

    def release(self, number) -> None:
        """Start a job that was put back soon, not after Slurm's two minutes of waiting.

        Slurm waits for two things, and so must this.  The job's last step is cleared away: before that Slurm
        does not change the job, and srun cannot launch a step of the same name.  And the job's credential was
        revoked: slurmd refuses a new one that is not younger, in whole seconds, and then Slurm ends the job
        with exit code 1 without having started its script.  So it may begin in the second after the change,
        which Slurm accepts only after the revocation.
        """
        steps = self.directory / "spool"
        wait_for(lambda: not list(steps.glob(f"stepd.slurm.pmix.{number}.*")), 60, lambda: self.job(number))
        wait_for(lambda: self.job(number)["JobState"] != "PENDING" or self._begins_soon(number), 60)
        # Not to be asked again meanwhile, which would put off the beginning by another second.
        wait_for(lambda: self.job(number)["Reason"] != "BeginTime", 180, lambda: self.job(number))

    def _begins_soon(self, number):
        command = ["scontrol", "update", f"jobid={number}", "starttime=now+1"]
        return subprocess.run(command, env=self.environment, capture_output=True).returncode == 0

    def _configure(self):
        for name in ("munge", "state", "spool"):
            (self.directory / name).mkdir(mode=0o755)
        self.directory.chmod(0o755)  # munge looks at the way to its socket
        key = self.directory / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        # The variables of PBS in every job, for the scripts that come through qsub.
        (self.directory / "plugstack.conf").write_text("required spank_pbs.so\n")
        values = {"host": socket.gethostname().split(".")[0], "ports": _free_ports(2), "cpus": os.cpu_count()}
        (self.directory / "slurm.conf").write_text(CONFIGURATION.format(directory=self.directory, **values))

    def _start(self):
        where = self.directory / "munge"
        files = {"key": "key", "socket": "socket", "pid": "../munged.pid", "log": "log", "seed": "seed"}
        options = [
            f"--{name}{'' if name == 'socket' else '-file'}={where / file}" for name, file in files.items()
        ]
        self.run("munged", *options)
        self.run("slurmctld", "-c")
        wait_for(self._answers, 60, self._log)
        self.run("slurmd")
        wait_for(lambda: self.run("sinfo", "--noheader", "--format=%T") == "idle", 60, self._log)

    def _answers(self):
        return subprocess.run(["sinfo"], env=self.environment, capture_output=True).returncode == 0

    def _log(self):
        return "\n".join(path.read_text()[-2000:] for path in self.directory.glob("slurm*.log"))

    def stop(self) -> None:
        """End the jobs, then the daemons by their pid files; nothing is left running."""
        if self._answers():
            subprocess.run(["scancel", "--user=root"], env=self.environment, check=False)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not self.run("squeue", "--noheader"), 30)
        for name in DAEMONS:
            _end(self.directory / f"{name}.pid")
        shutil.rmtree(self.directory, ignore_errors=True)


def _end(pid_file):
    if pid_file.exists():
        pid = int(pid_file.read_text())
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not _runs(pid), 30, lambda: f"{pid_file} is still running")


def _runs(pid):
    """Whether a process is there and not only waiting to be collected by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
