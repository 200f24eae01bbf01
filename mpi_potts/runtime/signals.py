"""Signals that come before the program is ready for them, or when it has nothing more to do.

Loading the libraries takes seconds, and a scheduler may send its warning then.  This module loads nothing, so
that `__main__` can start to listen at once; `control` asks what was heard.

At its end Python puts back what the system does by default, which is to kill, and MPI is closed only then.  A
warning so late would turn the exit code of a job that is done, or stopped with a checkpoint, into a failure.
"""

import atexit
import signal

heard: list[str] = []


def listen() -> None:
    """Note SIGUSR1 from now on, instead of dying of it; from the end of the program on, ignore it."""
    signal.signal(signal.SIGUSR1, _note)
    atexit.register(signal.signal, signal.SIGUSR1, signal.SIG_IGN)


def _note(number, _frame):
    heard.append(signal.Signals(number).name)
