"""Signals that come before the program is ready for them.

Loading the libraries takes seconds, and a scheduler may send its warning then.  This module loads nothing, so
that `__main__` can start to listen at once; `control` asks what was heard.
"""

import signal

heard: list[str] = []


def listen() -> None:
    """Note SIGUSR1 from now on, instead of dying of it."""
    signal.signal(signal.SIGUSR1, _note)


def _note(number, _frame):
    heard.append(signal.Signals(number).name)
