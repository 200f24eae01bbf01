"""The kinds of attack: at which moments and on which jobs each makes sense, and how they are drawn."""

import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jobs
import launch
from attacks import (
    KILLED,
    LATE,
    STOPPED,
    Attack,
    Plan,
    another_image,
    at_any_time,
    at_moment,
    damaged,
    directory_read_only,
    directory_removed,
    disk_fills,
    kill_one,
    launcher,
    other_input,
    signal_one,
    stale_lock,
    time_limit,
    two_jobs,
)

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


@dataclass(frozen=True)
class Kind:
    attack: Callable[[Attack], str]
    moments: tuple[str, ...] = MOMENTS_OF_WRITING + MOMENTS_OF_WORK
    jobs: tuple[str, ...] = tuple(jobs.JOBS)
    latest: float = 1.0  # the largest share


KINDS = {
    "kill -9 of one rank": Kind(at_moment("kill", (), KILLED)),
    "kill -9 of all": Kind(at_moment("kill all", (), KILLED)),
    "kill -9 of mpirun": Kind(at_moment("mpirun kill", (), KILLED)),
    "kill -9 of one rank, any time": Kind(at_any_time(kill_one)),
    "kill -9 of all, any time": Kind(at_any_time(lambda process, _: launch.kill(process))),
    "kill -9 of mpirun, any time": Kind(at_any_time(launcher(signal.SIGKILL))),
    "SIGTERM to mpirun": Kind(at_moment("mpirun term", (), KILLED)),
    "SIGTERM to one rank": Kind(at_moment("term", (0, 75), STOPPED)),
    "SIGUSR1 to mpirun": Kind(at_moment("mpirun usr1", (0, 75), STOPPED)),
    "SIGUSR1 to one rank": Kind(at_moment("usr1", (0, 75), STOPPED)),
    "SIGUSR1 to one rank, any time": Kind(at_any_time(signal_one(signal.SIGUSR1))),
    "the disk fills": Kind(disk_fills, MOMENTS_OF_WORK, latest=0.9),
    "directory removed": Kind(directory_removed, MOMENTS_OF_WORK, latest=0.9),
    "directory read-only": Kind(directory_read_only, MOMENTS_OF_WORK, latest=0.9),
    "checkpoint truncated": Kind(damaged("truncated"), MOMENTS_OF_SAVING, latest=0.9),
    "checkpoint with a changed bit": Kind(damaged("changed"), MOMENTS_OF_SAVING, latest=0.9),
    "checkpoint emptied": Kind(damaged("emptied"), MOMENTS_OF_SAVING, latest=0.9),
    "stale lock": Kind(stale_lock),
    "two jobs": Kind(two_jobs, MOMENTS_OF_WORK, ("precompute", "fit", "exchange", "run")),
    "another seed": Kind(
        other_input(lambda a: ["--set", "seed=6"], "seed"),
        ("after a rename",),
        ("precompute", "fit", "exchange", "run"),
    ),
    "another input": Kind(
        other_input(lambda a: ["--set", "prior.beta=[0.0, 1.2]"], "prior.beta"),
        ("after a rename",),
        ("fit", "exchange"),
    ),
    "another image": Kind(other_input(another_image, "image"), ("after a rename",), ("fit", "exchange")),
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
