"""Small real jobs, how they end undisturbed, and whether another end is the same.

Every job checkpoints whenever it can.  The undisturbed run of a job, on two ranks, is made once, in a
directory that all attacks share, and counts how often each rank came to each moment.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import h5py
import launch
import numpy as np

from mpi_potts.io import reading
from mpi_potts.lattice import Lattice
from mpi_potts.model.simulate import simulate_image

CHILD = Path(__file__).with_name("child.py")
PATIENCE = 300  # seconds, for any one run: only a job that hangs reaches it

GRID = """
[precompute]
grid = "regular"
points = 7
iterations = 14
burn_in = 4
"""
INPUT = """
seed = 5
[image]
path = "image.npy"
[prior]
beta = [0.0, 1.3]
mean = { mean = 0.0, sd = 10.0 }
variance = { shape = 1.0, scale = 0.1 }
[fit]
chains = 2
final_sweeps = 40
final_burn_in = 8
[smc]
particles = 40
replicates = 8
alpha = 0.9
label_sweeps = 10
max_iterations = 7
[exchange]
iterations = 40
burn_in = 10
auxiliary_sweeps = 3
[run]
checkpoint_minutes = 1e-9
"""
STUDY = """
seed = 3
[image]
shape = [9, 9]
[prior]
beta = [0.0, 1.2]
mean = { mean = [-2.0, 0.0, 2.0], sd = 0.1 }
variance = { shape = 50.0, scale = 32.0 }
[fit]
final_sweeps = 20
final_burn_in = 4
[smc]
particles = 30
replicates = 8
alpha = 0.9
label_sweeps = 6
max_iterations = 4
[simulate]
images = 3
sweeps = 20
[study]
methods = ["path", "smc-abc"]
draws = 9
[run]
checkpoint_minutes = 1e-9
"""

# An adaptive grid of a moment.
SHORT = ("precompute.accuracy=3.0", "precompute.iterations=16")


@dataclass(frozen=True)
class Job:
    """A command on an input; `changes` are its --set; `needs`: the job whose files it begins with."""

    name: str
    command: str
    input: str = "input.toml"
    changes: tuple[str, ...] = ()
    needs: str | None = None

    @property
    def checkpoints(self) -> bool:
        """Whether it leaves a checkpoint.h5 in its output."""
        return self.command in ("fit", "run")


JOBS = {
    job.name: job
    for job in (
        Job("precompute", "precompute"),
        Job("fit", "fit", needs="precompute"),
        Job("exchange", "fit", changes=("fit.method=exchange", "fit.chains=3")),
        Job("run", "run", changes=("fit.method=path",)),
        Job("adaptive", "run", changes=("fit.method=path", "precompute.grid=adaptive", *SHORT)),
        Job("study", "study", input="study.toml"),
    )
}


@dataclass
class Bench:
    """The inputs, and the undisturbed runs made so far: {(job, writer): counts of moments by rank}."""

    directory: Path
    counts: dict = field(default_factory=dict)

    def __post_init__(self):
        lattice = Lattice((10, 11), "first", None)
        noise = np.array([[-1.0, 0.0, 1.0], [0.4, 0.4, 0.4]])
        _, values = simulate_image(lattice, 3, 0.8, noise, 11, 0, 200)
        np.save(self.directory / "image.npy", values)
        (self.directory / "input.toml").write_text(INPUT + GRID)
        (self.directory / "study.toml").write_text(STUDY + GRID)

    def reference(self, name: str, writer: str) -> Path:
        """The output of the undisturbed run."""
        output = self.directory / f"undisturbed-{name}-{writer}"
        if (name, writer) not in self.counts:
            self.begin(name, writer, output)
            counts = self.directory / f"counts-{name}-{writer}"
            done = self.run(name, writer, output, 2, {"counts": str(counts)})
            if done.code != 0:
                raise AssertionError(f"the undisturbed run of {name} failed:\n{done.stderr[-3000:]}")
            each = [json.loads(counts.with_name(f"{counts.name}.{rank}").read_text()) for rank in range(2)]
            self.counts[name, writer] = each
        return output

    def begin(self, name: str, writer: str, output: Path) -> None:
        """An output directory with what the job needs."""
        output.mkdir(parents=True)
        if JOBS[name].needs:
            for file in self.reference(JOBS[name].needs, "gather").glob("binding*.h5"):
                shutil.copy(file, output)

    def arguments(self, name: str, writer: str, output: Path) -> list:
        job = JOBS[name]
        changes = [f"run.writer={writer}", *job.changes]
        sets = [part for change in changes for part in ("--set", change)]
        return [job.command, self.directory / job.input, "--output", output, "--quiet", *sets]

    def start(self, name, writer, output, ranks, fault, extra=(), **environment):
        """Start the job as one that will be attacked."""
        arguments = [*self.arguments(name, writer, output), *extra]
        return launch.start(arguments, ranks, program=[str(CHILD)], FAULT=json.dumps(fault), **environment)

    def run(self, name, writer, output, ranks, fault=None, extra=()):
        """Run the job to its end."""
        fault = fault or {"rank": -1, "action": ""}
        return launch.finish(self.start(name, writer, output, ranks, fault, extra), PATIENCE)


def differences(one: Path, other: Path) -> list[str]:
    """What is not the same in two output directories: names of files, datasets but for times, checksums."""
    only = sorted(names(one) ^ names(other))
    found = [f"{name} is in one of them only" for name in only]
    for name in sorted(names(one) & names(other)):
        if name.endswith((".h5", ".nc")):
            found += [f"{name}: {what}" for what in _compare(one / name, other / name)]
    return found


def names(directory: Path) -> set[str]:
    """The files below a directory, which may change while this looks."""
    found = ((place, name) for place, _, files in os.walk(directory) for name in files)
    return {os.path.relpath(os.path.join(place, name), directory) for place, name in found}


def _compare(one, other):
    if one.suffix == ".h5":
        sums = [reading.contents(path).attributes["checksum"] for path in (one, other)]  # verified
        if sums[0] != sums[1]:
            yield "the checksums differ"
    arrays, others = _arrays(one), _arrays(other)
    for name in sorted(set(arrays) | set(others)):
        if name.endswith("seconds"):
            continue
        if name not in arrays or name not in others:
            yield f"{name} is in one of them only"
        elif arrays[name].tobytes() != others[name].tobytes():
            yield f"{name} differs"


def _arrays(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
        )
    return found
