"""Attacks on running jobs.  After each, the same command must finish, with the bits of the undisturbed run.

An attack is a function of its `Plan`: which job, on how many ranks, by which writer, at which moment, and on
how many ranks the job goes on.  It returns what happened; whatever must not happen raises AssertionError.  An
attack that came when the job had already ended is `late`: that is no failure, and the result must be right.
"""

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import jobs
import launch
import numpy as np
from places import damage, fill, lockable, mountable, read_only, small_disk

STOPPED, REFUSED, LATE = "stopped with a checkpoint", "refused in one line", "came too late"
KILLED, SURVIVED = "killed", "not disturbed"


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


def at_moment(action, codes, outcome):
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


def at_any_time(strike):
    def attack(a: Attack) -> str:
        fault = a.fault("") | {"rank": -1}
        process, started = a.start(fault), time.monotonic()
        # Loading the libraries is most of a short job: from the first sign of work on.
        before = jobs.names(a.output)
        while process.poll() is None and jobs.names(a.output) == before:
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


def kill_one(process, rank):
    pids = launch.ranks(process)
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[rank % len(pids)], signal.SIGKILL)


def signal_one(number):
    def strike(process, rank):
        pids = launch.ranks(process)
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[rank % len(pids)], number)

    return strike


def launcher(number):
    return lambda process, _: process.send_signal(number)


# Disks and directories


def disk_fills(a: Attack) -> str:
    """The disk is full from some moment on; then there is room again."""
    if not mountable():
        done = a.attacked("full")
        if done.code:
            one_line(done)
        a.same()
        return REFUSED if done.code else LATE
    with small_disk(a.output, a.room / "kept"):
        process = a.paused()
        if process is not None:
            fill(a.output)
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


def damaged(how):
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


def other_input(make, name):
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


def another_image(a):
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
