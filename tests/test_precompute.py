"""precompute as a user runs it: killed, stopped, continued on other ranks, refused."""

import os
import signal
import time
from pathlib import Path

import launch
import numpy as np
import pytest

from mpi_potts.io import formats, reading

INPUT = """
seed = 3
[image]
shape = [33, 70]
[precompute]
grid = "critical"
points = 24
iterations = {iterations}
burn_in = 50
[run]
checkpoint_minutes = 0.001
"""


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "input.toml"
    path.write_text(INPUT.format(iterations=1500))
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The content in one go, on one rank."""
    directory = tmp_path_factory.mktemp("reference")
    (directory / "input.toml").write_text(INPUT.format(iterations=1500))
    done = launch.launch(["precompute", directory / "input.toml", "--output", directory / "out"], seconds=120)
    assert done.code == 0, done.stderr
    return content(directory / "out")


def content(output):
    attributes, arrays = reading.read(output / "binding.h5", *formats.BINDING)
    return attributes["checksum"], {name: values.tobytes() for name, values in arrays.items()}


def ranks_of(marker):
    """The processes that were started with this marker in their environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MPI_POTTS_TEST={marker}".encode() in path.read_bytes():
                yield int(path.parent.name)
        except OSError:
            continue


def kill_all(process, marker):
    """kill -9 for every process of one job; the launcher puts its ranks into groups of their own."""
    for pid in ranks_of(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate(timeout=30)


def wait_for_parts(output, process, more_than=0, seconds=60):
    """Until there is work to lose."""
    end = time.monotonic() + seconds
    while process.poll() is None and len(list((output / "binding.parts").glob("*.h5"))) <= more_than:
        assert time.monotonic() < end
        time.sleep(0.002)


def test_killed_at_any_moment_and_restarted_on_other_ranks_gives_the_same_bits(toml, tmp_path, reference):
    output = tmp_path / "out"
    command = ["precompute", toml, "--output", output, "--quiet"]
    kills = 0
    for ranks, delay in ((2, 0.0), (1, 0.05), (3, 0.21), (2, 0.4)):
        marker = f"{tmp_path}-{ranks}-{delay}"
        process = launch.start(command, ranks, MPI_POTTS_TEST=marker)
        wait_for_parts(output, process)
        time.sleep(delay)
        kills += process.poll() is None
        kill_all(process, marker)
    assert kills >= 1
    done = launch.launch(command, 3, seconds=120)
    assert done.code == 0, done.stderr
    assert content(output) == reference
    assert not (output / "binding.parts").exists()


def test_the_time_limit_stops_with_75_and_the_same_command_goes_on(toml, tmp_path, reference):
    output = tmp_path / "out"
    command = ["precompute", toml, "--output", output]
    stopped = launch.launch([*command, "--max-hours", "1e-6"], 2)
    assert stopped.code == 75, stopped.stderr
    assert "time limit" in stopped.said[-1] and "run the same command again" in stopped.said[-1]
    done = launch.launch(command, 1)
    assert done.code == 0 and "24 betas" in done.stdout
    assert content(output) == reference


def test_a_signal_stops_with_75_and_a_shorter_run_uses_what_is_there(toml, tmp_path, reference):
    output = tmp_path / "out"
    command = ["precompute", toml, "--output", output]
    process = launch.start([*command, "--set", "precompute.iterations=1000000"], 2)
    wait_for_parts(output, process, more_than=1)
    os.kill(process.pid, signal.SIGUSR1)
    stopped = launch.finish(process)
    assert stopped.code == 75, stopped.stderr
    assert "SIGUSR1" in stopped.said[-1]
    assert launch.launch(command, 3).code == 0
    assert content(output) == reference


def test_a_second_job_in_the_same_directory_is_refused(toml, tmp_path):
    toml.write_text(INPUT.format(iterations=200_000))
    command = ["precompute", toml, "--output", tmp_path / "out", "--quiet"]
    process = launch.start(command, 2, MPI_POTTS_TEST=str(tmp_path))
    try:
        wait_for_parts(tmp_path / "out", process)
        second = launch.launch(command, 1)
        assert second.code == 2
        assert len(second.said) == 1 and "another job is at work here" in second.said[0]
    finally:
        kill_all(process, str(tmp_path))


@pytest.mark.parametrize(
    "settings, words",
    [
        (["precompute.iterations=50"], "precompute.burn_in"),
        (["model.labels=1"], "model.labels = 1"),
        (["image.shape=[1,1]"], "no pair of neighbours"),
        (["prior.beta=[-1,1]"], "prior.beta"),
        (["precompute.grid=[-0.5]"], "precompute.grid"),
        (["precompute.pionts=5"], "points"),
    ],
)
def test_what_cannot_be_right_is_refused_in_one_line_and_nothing_is_written(toml, tmp_path, settings, words):
    changes = [part for setting in settings for part in ("--set", setting)]
    done = launch.launch(["precompute", toml, "--output", tmp_path / "out", *changes], launcher=False)
    assert done.code == 2, done.stderr
    assert len(done.said) == 1 and words in done.said[0]
    assert not (tmp_path / "out").exists()


def test_a_binding_file_that_cannot_be_right_is_refused_and_kept(toml, tmp_path):
    command = ["precompute", toml, "--output", tmp_path / "out", "--quiet", "--set", "precompute.points=3"]
    assert launch.launch(command, launcher=False).code == 0
    path = tmp_path / "out" / "binding.h5"
    whole = path.read_bytes()
    for data, change, words in (
        (whole, "seed=4", "seed = 3"),
        (whole, "model.neighbourhood=second", "neighbourhood = first"),
        (b"notes of mine\n" * 99, "seed=3", "not a file of mpi_potts"),
    ):
        path.write_bytes(data)
        done = launch.launch([*command, "--set", change], launcher=False)
        assert done.code == 2 and words in done.said[0] and "binding.h5" in done.said[0]
        assert path.read_bytes() == data
    path.write_bytes(whole)
    assert launch.launch([*command, "--set", "seed=4", "--fresh"], launcher=False).code == 0
    assert not np.array_equal(path.read_bytes(), whole)


def test_a_truncated_binding_file_is_written_again_with_the_same_content(toml, tmp_path):
    command = ["precompute", toml, "--output", tmp_path / "out", "--quiet", "--set", "precompute.points=3"]
    assert launch.launch(command, launcher=False).code == 0
    path = tmp_path / "out" / "binding.h5"
    before = reading.contents(path).attributes["checksum"]
    path.write_bytes(path.read_bytes()[:-100])
    done = launch.launch(command, launcher=False)
    assert done.code == 0 and "binding.h5: truncated" in done.stderr
    assert reading.contents(path).attributes["checksum"] == before


def test_an_output_that_cannot_be_written_is_refused(toml, tmp_path):
    (tmp_path / "file").write_text("")
    done = launch.launch(["precompute", toml, "--output", tmp_path / "file" / "out"], launcher=False)
    assert done.code == 2 and "cannot be written" in done.said[0]
