"""Stops, errors and progress, as the operating system and the log see them."""

import io
import os
import signal
import subprocess
import sys
import time

import launch
import pytest

from mpi_potts.errors import InputError
from mpi_potts.runtime import control, parallel, progress

SCRIPT = """
import os, sys, time
from mpi4py import MPI
from mpi_potts.runtime import parallel
from mpi_potts.errors import InputError, Interrupted
comm = MPI.COMM_WORLD
parallel.MEETING = 1.0
try:
    with parallel.abort_on_error(comm):
        {body}
        comm.Barrier()
except InputError as error:
    os.write(1, f"together: {{error}}\\n".encode())  # one write: lines of several ranks do not mix
    sys.exit(parallel.exit_code(error))
"""


def run(body, ranks=3):
    command = [*launch.mpirun(ranks), sys.executable, "-c", SCRIPT.format(body=body)]
    return subprocess.run(command, env=launch.environment(), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "body, code, words",
    [
        ("if comm.rank == 1: raise RuntimeError('a defect')", 1, "RuntimeError: a defect"),
        ("if comm.rank == 2: raise InputError('a bad key')", 2, "rank 2: a bad key"),
        ("if comm.rank == 1: sys.exit(3)", 3, "rank 1"),
        ("if comm.rank == 0: raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_an_error_on_one_rank_ends_all(body, code, words):
    done = run(body)
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_an_input_error_on_all_ranks_is_no_abort():
    done = run("raise InputError('a bad key')")
    assert done.returncode == 2
    assert done.stdout.count("together: a bad key") == 3
    assert "MPI_ABORT" not in done.stderr


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_a_launcher_of_another_mpi_is_refused(monkeypatch, name):
    for other in parallel.LAUNCHERS:
        monkeypatch.delenv(other, raising=False)
    parallel.check_launcher(parallel.ALONE)
    monkeypatch.setenv(name, "4")
    with pytest.raises(InputError, match=rf"started 4 ranks \({name}\) but MPI has 1"):
        parallel.check_launcher(parallel.ALONE)
    monkeypatch.setenv(name, "1")
    parallel.check_launcher(parallel.ALONE)


# Py_AtExit is where mpi4py closes MPI: Python itself is no longer there.
ENDING = """
import ctypes
from mpi_potts.runtime import signals
ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).getchar)
signals.listen()
print("listening", flush=True)
"""


def caught(pid, number):
    """Whether a process has a handler of its own for a signal."""
    with open(f"/proc/{pid}/status") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return int(mask, 16) >> (number - 1) & 1


def test_a_warning_while_mpi_is_closed_does_not_change_the_exit_code():
    process = subprocess.Popen(
        [sys.executable, "-c", ENDING],
        env=launch.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "listening\n"
        end = time.monotonic() + 60
        while caught(process.pid, signal.SIGUSR1) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGUSR1)
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_a_signal_raises_a_flag_and_the_handler_is_put_back(number):
    before = signal.getsignal(number)
    with control.Control() as asked:
        assert not asked.stop
        os.kill(os.getpid(), number)
        assert asked.stop and asked.agreed(parallel.ALONE)
        assert number.name in str(asked.interrupted("a part"))
    assert signal.getsignal(number) is before


def test_a_second_interrupt_from_the_keyboard_ends_at_once():
    with control.Control(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_the_clock_stops_before_the_hours_are_over(monkeypatch):
    now = control._PROGRAM_STARTED
    asked = control.Control(max_hours=10.0)
    for seconds, late in ((0.0, False), (36000.0 - 121.0, False), (36000.0 - 119.0, True), (40000.0, True)):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: now + seconds)
        assert asked.stop == late
    assert not control.Control(max_hours=None).stop


def test_the_hours_count_from_the_start_of_the_process():
    program = (
        "import time; time.sleep(0.5); from mpi_potts.runtime import control; print(control._process_age())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=launch.environment(), capture_output=True, text=True, timeout=60
    )
    assert 0.5 <= float(done.stdout) < 60, done.stderr


def test_a_log_has_lines_now_and_then_with_rate_and_remaining_time(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    log = io.StringIO()
    with progress.Progress(parallel.ALONE, "precompute", 1000, "sweeps", stream=log) as shown:
        for _ in range(1000):
            clock[0] += 1.0
            shown.advance(1)
    lines = log.getvalue().splitlines()
    assert 18 <= len(lines) <= 21
    assert lines[9].split() == "precompute: 50.0 % 1.00 sweeps/s 0:08:20 done, 0:08:20 left".split()
    assert lines[-1].startswith("precompute: 100.0 %")


def test_quiet_says_nothing():
    log = io.StringIO()
    with progress.Progress(parallel.ALONE, "x", 10, quiet=True, stream=log) as shown:
        shown.advance(10)
        shown.say("a note")
    assert log.getvalue() == ""


def test_a_terminal_has_a_bar_on_one_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    with progress.Progress(parallel.ALONE, "precompute", 4, "betas", stream=screen) as shown:
        for _ in range(4):
            shown.advance(1)
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().count("\r") == 5
    assert "#" * progress.WIDTH in screen.getvalue()
