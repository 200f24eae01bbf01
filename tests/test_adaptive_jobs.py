"""An adaptive binding function as a user runs it: killed, stopped, continued on other ranks, shared by
jobs."""

import os
import signal
import time

import launch
import numpy as np
import pytest
from fitting import image_of
from test_precompute import kill_all, wait_for_parts

from mpi_potts.io import formats, reading

INPUT = """
seed = 4
[image]
path = "image.npy"
[model]
labels = 3
[prior]
beta = [0.0, 1.3]
mean = { mean = 0.0, sd = 10.0 }
variance = { shape = 1.0, scale = 0.1 }
[precompute]
accuracy = 0.03
[fit]
method = "path"
chains = 2
final_sweeps = 60
final_burn_in = 50
[run]
checkpoint_minutes = 0.001
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """An input and two images of one lattice."""
    directory = tmp_path_factory.mktemp("images")
    (directory / "input.toml").write_text(INPUT)
    for number, name in enumerate(("image", "other")):
        _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(40, 30), number=number)
        np.save(directory / f"{name}.npy", values)
    return directory


def command(directory, output, *more):
    return ["run", directory / "input.toml", "--output", output, "--quiet", *more]


@pytest.fixture(scope="module")
def reference(directory):
    """The content in one go, on one rank."""
    done = launch.launch(command(directory, directory / "reference"), seconds=240)
    assert done.code == 0, done.stderr
    return content(directory / "reference")


def content(output):
    """Checksums of the binding function and of the result: equal ones are equal results."""
    return tuple(
        reading.read(output / name, *kind, ())[0]["checksum"]
        for name, kind in (("binding.h5", formats.BINDING), ("result.h5", formats.RESULT))
    )


def wait_for_binding(output, process, seconds):
    """Until there is a binding function, and a fit to lose."""
    end = time.monotonic() + seconds
    while process.poll() is None and not (output / "binding.h5").exists():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_killed_while_it_grows_and_after_it_and_continued_on_other_ranks(directory, tmp_path, reference):
    output, kills = tmp_path / "out", 0
    for ranks, wait in ((2, wait_for_parts), (3, wait_for_binding)):
        marker = f"{tmp_path}-{ranks}"
        process = launch.start(command(directory, output), ranks, MPI_POTTS_TEST=marker)
        wait(output, process, seconds=120)
        kills += process.poll() is None
        kill_all(process, marker)
    assert kills >= 1 and (output / "binding.h5").exists()
    done = launch.launch(command(directory, output), 1, seconds=240)
    assert done.code == 0, done.stderr
    assert content(output) == reference


def test_stopped_by_time_or_signal_it_ends_with_75_and_the_same_command_goes_on(
    directory, tmp_path, reference
):
    output = tmp_path / "out"
    stopped = launch.launch(command(directory, output, "--max-hours", "1e-6"), 2, seconds=240)
    assert stopped.code == 75, stopped.stderr
    assert "time limit" in stopped.said[-1] and "run the same command again" in stopped.said[-1]
    there = len(list((output / "binding.parts").glob("*.h5")))
    endless = ["--set", "precompute.accuracy=1e-5", "--set", "precompute.iterations=10000000"]
    process = launch.start(command(directory, output, *endless), 1)
    wait_for_parts(output, process, more_than=there, seconds=120)
    os.kill(process.pid, signal.SIGUSR1)
    again = launch.finish(process, seconds=240)
    assert again.code == 75 and "SIGUSR1" in again.said[-1], again.stderr
    done = launch.launch(command(directory, output), 3, seconds=240)
    assert done.code == 0, done.stderr
    assert content(output) == reference


def test_two_jobs_at_once_share_a_file_and_both_are_answered(directory, tmp_path):
    path = tmp_path / "shared.h5"
    share, commands = ["--set", f"precompute.file={path}"], []
    for name in ("image", "other"):
        change = [*share, "--set", f"image.path={directory / name}.npy"]
        commands.append(["precompute", *command(directory, tmp_path / name, *change)[1:]])
    for job in [launch.start(each) for each in commands]:
        done = launch.finish(job, seconds=240)
        assert done.code == 0, done.stderr
    attributes, arrays = reading.read(path, *formats.BINDING)
    assert len(attributes["answers"].split()) == 2 and (arrays["done"].sum(axis=1) > 0).all()
    before = path.read_bytes()
    for each in commands:
        assert launch.launch(each, launcher=False, seconds=240).code == 0
    assert path.read_bytes() == before
