"""Attacks on running jobs.  After each, the same command must finish, with the bits of the undisturbed run.

An attack is a function of its `Plan`: which job, on how many ranks, by which writer, at which moment, and on
how many ranks the job goes on.  It returns what happened; whatever must not happen raises AssertionError.  An
attack that came when the job had already ended is `late`: that is no failure, and the result must be right.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jobs
import launch
import numpy as np

STOPPED, REFUSED, LATE = "stopped with a checkpoint", "refused in one line", "came too late"
KILLED, SURVIVED = "killed", "not disturbed"
MOMENTS_OF_WRITING = (
    "dataset created",
    "before the seal",
    "after the seal",
    "before synchronising",
    "before a rename",
    "after a rename",
    "before a removal",
    "after a removal",
)
MOMENTS_OF_WORK = ("between steps", "a sweep of the prior", "a sweep of the labels")
MOMENTS_OF_SAVING = ("before a rename", "before synchronising", "before the seal")
SIZE = 4  # MB of the small disks


@dataclass(frozen=True)
class Plan:
    """Where and when: `share` (0 to 1) says which of the times that the moment comes."""

    kind: str
    job: str
    writer: str
    ranks: int
    then: int
    moment: str
    share: float
    rank: int

    def __str__(self):
        return (
            f"{self.kind}: {self.job} by {self.writer} on {self.ranks} ranks, at {self.moment!r} "
            f"({self.share:.3f}) of rank {self.rank}, then on {self.then}"
        )


class Attack:
    """One attack in a directory of its own."""

    def __init__(self, bench: jobs.Bench, plan: Plan, directory: Path):
        self.bench, self.plan = bench, plan
        self.reference = bench.reference(plan.job, plan.writer)
        self.room = directory
        self.output = directory / "out"
        directory.mkdir()
        bench.begin(plan.job, plan.writer, self.output)

    def fault(self, action: str) -> dict:
        """The fault for this plan's moment, counted in the undisturbed run."""
        plan = self.plan
        counts = self.bench.counts[plan.job, plan.writer][min(plan.rank, 1)]
        count = max(1, round(plan.share * counts[plan.moment]))
        shared = {"moment": plan.moment, "count": count, "rank": plan.rank, "room": str(self.room)}
        return shared | {"action": action}

    @property
    def met(self) -> bool:
        return (self.room / "met").exists()

    def start(self, fault, extra=()):
        return self.bench.start(self.plan.job, self.plan.writer, self.output, self.plan.ranks, fault, extra)

    def attacked(self, action: str, extra=()) -> launch.Finished:
        """Run with a fault to the end, however it ends; no process may stay behind."""
        process = self.start(self.fault(action), extra)
        done = launch.finish(process, jobs.PATIENCE)
        gone(process)
        return done

    def paused(self):
        """A job that waits at the moment, or None where it ended before."""
        process = self.start(self.fault("pause"))
        while not self.met and process.poll() is None:
            time.sleep(0.01)
        return process if self.met else None

    def go(self) -> None:
        (self.room / "go").touch()

    def again(self, extra=(), ranks=None) -> launch.Finished:
        """The same command."""
        plan = self.plan
        return self.bench.run(plan.job, plan.writer, self.output, ranks or plan.then, None, extra)

    def same(self, said: str = "") -> None:
        """The same command finishes with the same bits; `said`: words that it must say."""
        done = self.again()
        assert done.code == 0, f"went on with code {done.code}: {done.stderr[-3000:]}"
        assert said in done.stderr, f"{said!r} was not said: {done.stderr[-3000:]}"
        different = jobs.differences(self.reference, self.output)
        assert not different, "; ".join(different)


def gone(process) -> None:
    """All processes of a job have ended, whoever of them was killed."""
    end = time.monotonic() + jobs.PATIENCE
    while launch.alive(process):
        if time.monotonic() > end:
            launch.kill(process)
            raise AssertionError("ranks went on for ever without their launcher")
        time.sleep(0.02)


def one_line(done, code=2) -> None:
    """Bad luck that the user can mend: exit code 2, one line, no traceback."""
    assert done.code == code, f"code {done.code}: {done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert len([s for s in done.stderr.splitlines() if s.startswith(("mpi-potts: ", "rank "))]) >= 1, (
        done.stderr
    )


# At a moment of one rank


def _at_moment(action, codes, outcome):
    def attack(a: Attack) -> str:
        done = a.attacked(action)
        if codes and a.met:
            assert done.code in codes, f"code {done.code}: {done.stderr[-3000:]}"
        elif a.met:
            assert done.code != 0, "a killed job said that it was done"
        a.same()
        return outcome if done.code else LATE

    return attack


# At any time: the clock decides, not the program


def _at_any_time(strike):
    def attack(a: Attack) -> str:
        fault = a.fault("") | {"rank": -1}
        process, started = a.start(fault), time.monotonic()
        # Loading the libraries is most of a short job: from the first sign of work on.
        before = set(jobs._names(a.output))
        while process.poll() is None and set(jobs._names(a.output)) == before:
            time.sleep(0.005)
        waited = time.monotonic() - started
        time.sleep(a.plan.share * min(2.0, waited))
        if process.poll() is None:
            strike(process, a.plan.rank)
        done = launch.finish(process, jobs.PATIENCE)
        gone(process)
        a.same()
        return KILLED if done.code not in (0, 75) else STOPPED if done.code else LATE

    return attack


def _kill_one(process, rank):
    pids = launch.ranks(process)
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[rank % len(pids)], signal.SIGKILL)


def _signal_one(number):
    def strike(process, rank):
        pids = launch.ranks(process)
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[rank % len(pids)], number)

    return strike


def _launcher(number):
    return lambda process, _: process.send_signal(number)


# Disks and directories


def mountable() -> bool:
    """Whether small disks can be made here."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as place:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
            return False
        return subprocess.run(["umount", place], capture_output=True).returncode == 0


@contextlib.contextmanager
def small_disk(a: Attack):
    """The output directory on a disk of a few MB, with what was in it."""
    kept = a.room / "kept"
    a.output.rename(kept)
    a.output.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "tmpfs", a.output], check=True)
    try:
        shutil.copytree(kept, a.output, dirs_exist_ok=True)
        yield
        shutil.rmtree(kept)
        shutil.copytree(a.output, kept)
    finally:
        subprocess.run(["umount", "-l", a.output], check=True)
    a.output.rmdir()
    kept.rename(a.output)


def _fill(directory):
    """Take all that is left of the disk."""
    with open(directory / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        for piece in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(piece)) == piece:
                    pass


def disk_fills(a: Attack) -> str:
    """The disk is full from some moment on; then there is room again."""
    if not mountable():
        done = a.attacked("full")
        if done.code:
            one_line(done)
        a.same()
        return REFUSED if done.code else LATE
    with small_disk(a):
        process = a.paused()
        if process is not None:
            _fill(a.output)
            a.go()
            done = launch.finish(process, jobs.PATIENCE)
            gone(process)
            if done.code:
                one_line(done)
            (a.output / "filler").unlink()
        a.same()
    return REFUSED if process is not None and done.code else LATE


def directory_removed(a: Attack) -> str:
    """The output directory is removed while the job is at work in it; what it began with is put back."""
    process = a.paused()
    if process is not None:
        # Moved away first: the other ranks go on to write.
        a.output.rename(a.room / "removed")
        shutil.rmtree(a.room / "removed", ignore_errors=True)
        a.go()
        done = launch.finish(process, jobs.PATIENCE)
        gone(process)
        if done.code:
            one_line(done)
        shutil.rmtree(a.output, ignore_errors=True)
        a.bench.begin(a.plan.job, a.plan.writer, a.output)
    a.same()
    return REFUSED if process is not None and done.code else LATE


@contextlib.contextmanager
def read_only(directory: Path):
    """Nothing can be made or renamed in a directory; root needs more than its mode."""
    # The other ranks go on: a directory may be gone before its turn comes.
    places = [*(p for p in directory.rglob("*") if p.is_dir()), directory]
    change, back = ("+i", "-i") if os.geteuid() == 0 else ("a-w", "u+w")
    program = "chattr" if os.geteuid() == 0 else "chmod"
    codes = [subprocess.run([program, change, place], capture_output=True).returncode for place in places]
    if codes[-1]:
        raise OSError(f"{directory} cannot be made read-only here")
    try:
        yield
    finally:
        for place in places:
            subprocess.run([program, back, place], capture_output=True)


def lockable(directory: Path) -> bool:
    """Whether a directory can be made read-only here."""
    try:
        with read_only(directory):
            return not os.access(directory, os.W_OK) or os.geteuid() == 0
    except OSError:
        return False


def directory_read_only(a: Attack) -> str:
    """The output directory becomes read-only while the job is at work, and writable again."""
    if not lockable(a.room):
        return directory_removed(a)
    process = a.paused()
    if process is not None:
        with read_only(a.output):
            a.go()
            done = launch.finish(process, jobs.PATIENCE)
            gone(process)
            if done.code:
                one_line(done)
            else:  # it had written everything
                return LATE
    a.same()
    return REFUSED if process is not None else LATE


# Damage


def damage(path: Path, how: str, share: float) -> None:
    data = bytearray(path.read_bytes())
    if how == "emptied":
        data = data[:0]
    elif how == "truncated":
        data = data[: int(share * (len(data) - 1))]
    else:
        # Not among the blanks after the seal, which nobody reads.
        place = 512 + int(share * (len(data) - 513))
        data[place] ^= 1 << int(8 * share) % 8
    path.write_bytes(data)


def _damaged(how):
    def attack(a: Attack) -> str:
        """Killed, and the newest thing to go on from is damaged: the one before is used, and it says so."""
        done = a.attacked("kill all")
        found = sorted(
            (p for p in a.output.rglob("*.h5") if "checkpoint.h5" in p.name or "parts" in p.parent.name),
            key=lambda p: p.stat().st_mtime_ns,
        )
        if done.code == 0 or not found:
            a.same()
            return LATE
        damage(found[-1], how, a.plan.share)
        a.same(said=f"{found[-1].name}: ")
        return "the one before it is used"

    return attack


# Locks and other inputs


def stale_lock(a: Attack) -> str:
    """The lock files of a job that was killed are in the way of nobody."""
    done = a.attacked("kill all")
    for lock in (".fit.lock", ".binding.lock"):
        if (a.output / lock).exists() or (a.reference / lock).exists():
            (a.output / lock).write_text("host elsewhere, process 1, since 2001-01-01 00:00:00\n")
    a.same()
    return KILLED if done.code else LATE


def two_jobs(a: Attack) -> str:
    """A second job in the same output is refused; the first does not notice."""
    process = a.paused()
    if process is None:
        a.same()
        return LATE
    second = a.again()
    a.go()
    first = launch.finish(process, jobs.PATIENCE)
    one_line(second)
    assert "another job is at work here" in second.stderr, second.stderr
    assert first.code == 0, first.stderr
    a.same()
    return REFUSED


def _other_input(make, name):
    def attack(a: Attack) -> str:
        """Killed; another input in the same output is refused by the name of what differs; then the same."""
        done = a.attacked("kill all")
        there = [p for p in a.output.rglob("*.h5") if not (a.plan.job == "fit" and "binding" in p.name)]
        if not there:  # it was killed before there was anything to go on from: any input may begin here
            a.same()
            return LATE
        other = a.again(make(a))
        one_line(other)
        assert name in other.stderr, f"{name!r} is not named: {other.stderr}"
        a.same()
        return REFUSED if done.code else LATE

    return attack


def _another_image(a):
    values = np.load(a.bench.directory / "image.npy")
    values[0, 0] += 1.0
    np.save(a.room / "other.npy", values)
    return ["--set", f"image.path={a.room / 'other.npy'}"]


def time_limit(a: Attack) -> str:
    """The clock is at --max-hours from the start: every run takes a step, and says that it is not done."""
    for _ in range(3):
        done = a.again(["--max-hours", "1e-6"])
        if done.code == 0:
            break
        assert done.code == 75, f"code {done.code}: {done.stderr[-3000:]}"
        assert "--max-hours" in done.stderr and "run the same command again" in done.stderr
    a.same()
    return STOPPED


@dataclass(frozen=True)
class Kind:
    attack: Callable[[Attack], str]
    moments: tuple[str, ...] = MOMENTS_OF_WRITING + MOMENTS_OF_WORK
    jobs: tuple[str, ...] = tuple(jobs.JOBS)
    latest: float = 1.0  # the largest share


KINDS = {
    "kill -9 of one rank": Kind(_at_moment("kill", (), KILLED)),
    "kill -9 of all": Kind(_at_moment("kill all", (), KILLED)),
    "kill -9 of mpirun": Kind(_at_moment("mpirun kill", (), KILLED)),
    "kill -9 of one rank, any time": Kind(_at_any_time(_kill_one)),
    "kill -9 of all, any time": Kind(_at_any_time(lambda process, _: launch.kill(process))),
    "kill -9 of mpirun, any time": Kind(_at_any_time(_launcher(signal.SIGKILL))),
    "SIGTERM to mpirun": Kind(_at_moment("mpirun term", (), KILLED)),
    "SIGTERM to one rank": Kind(_at_moment("term", (0, 75), STOPPED)),
    "SIGUSR1 to mpirun": Kind(_at_moment("mpirun usr1", (0, 75), STOPPED)),
    "SIGUSR1 to one rank": Kind(_at_moment("usr1", (0, 75), STOPPED)),
    "SIGUSR1 to one rank, any time": Kind(_at_any_time(_signal_one(signal.SIGUSR1))),
    "the disk fills": Kind(disk_fills, MOMENTS_OF_WORK, latest=0.9),
    "directory removed": Kind(directory_removed, MOMENTS_OF_WORK, latest=0.9),
    "directory read-only": Kind(directory_read_only, MOMENTS_OF_WORK, latest=0.9),
    "checkpoint truncated": Kind(_damaged("truncated"), MOMENTS_OF_SAVING, latest=0.9),
    "checkpoint with a changed bit": Kind(_damaged("changed"), MOMENTS_OF_SAVING, latest=0.9),
    "checkpoint emptied": Kind(_damaged("emptied"), MOMENTS_OF_SAVING, latest=0.9),
    "stale lock": Kind(stale_lock),
    "two jobs": Kind(two_jobs, MOMENTS_OF_WORK, ("precompute", "fit", "exchange", "run")),
    "another seed": Kind(
        _other_input(lambda a: ["--set", "seed=6"], "seed"),
        ("after a rename",),
        ("precompute", "fit", "exchange", "run"),
    ),
    "another input": Kind(
        _other_input(lambda a: ["--set", "prior.beta=[0.0, 1.2]"], "prior.beta"),
        ("after a rename",),
        ("fit", "exchange"),
    ),
    "another image": Kind(_other_input(_another_image, "image"), ("after a rename",), ("fit", "exchange")),
    "the time limit": Kind(time_limit),
}


def draw(seed: int, number: int, kind: str | None = None, **fixed) -> Plan:
    """Attack `number` of a random series; kinds in turn, so that each has its share."""
    names = list(KINDS)
    kind = kind or names[number % len(names)]
    dice = random.Random(f"{seed}/{number}/{kind}")
    ranks = dice.choice((2, 3))
    drawn = {
        "job": dice.choice(KINDS[kind].jobs),
        "writer": dice.choice(("mpio", "gather")),
        "ranks": ranks,
        "then": dice.choice((1, 2, 3)),
        "moment": dice.choice(KINDS[kind].moments),
        "share": dice.uniform(0.0, KINDS[kind].latest),
        "rank": dice.randrange(ranks),
    }
    return Plan(kind=kind, **drawn | fixed)


def possible(bench: jobs.Bench, plan: Plan) -> Plan:
    """The same at a rank and a moment that the job comes to: another rank, or else another moment."""
    bench.reference(plan.job, plan.writer)
    counts = bench.counts[plan.job, plan.writer]
    for moment in (plan.moment, *KINDS[plan.kind].moments):
        for rank in (plan.rank, 0, 1):
            if counts[min(rank, 1)][moment]:
                return replace(plan, moment=moment, rank=rank)
    return plan


def carry_out(bench: jobs.Bench, plan: Plan, directory: Path) -> tuple[str, int]:
    """Attack; one that comes too late is tried again, earlier.  What happened, and how often it was tried."""
    for tries in range(1, 4):
        plan = possible(bench, plan)
        place = directory / f"try{tries}"
        outcome = KINDS[plan.kind].attack(Attack(bench, plan, place))
        shutil.rmtree(place)
        if outcome != LATE:
            break
        plan = replace(plan, share=plan.share / 2)
    return outcome, tries
