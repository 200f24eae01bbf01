"""When to stop: the clock first, signals second.

`--max-hours` is counted from the start of the program.  Some sites deliver no signal before they kill a job,
so the clock alone must be enough; SIGUSR1, SIGTERM and ctrl-C, where they come, only raise a flag that is
looked at between sweeps; a second ctrl-C ends the program at once.  They may reach some ranks only: whoever
stops on a flag must make the ranks agree (`Control.agreed`).
"""

import os
import signal
import threading
import time
from typing import Any

from ..errors import Interrupted
from . import signals
from .parallel import Comm, agree

# What is kept back of the hours for writing the last checkpoint: this part of them, and at most so many
# seconds.
RESERVE = 0.05
LONGEST_RESERVE = 120.0

_SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


def _process_age() -> float:
    """Seconds since this process began; loading the libraries counts against the hours as well."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except OSError:  # only Linux tells
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


_PROGRAM_STARTED = time.monotonic() - _process_age()


class Control:
    """Knows whether it is time to stop.  A context: the handlers of the signals are put back at its end."""

    def __init__(self, max_hours: float | None = None):
        self.signalled: str | None = signals.heard[0] if signals.heard else None
        self._deadline = None
        if max_hours is not None:
            seconds = 3600.0 * max_hours
            self._deadline = _PROGRAM_STARTED + seconds - min(RESERVE * seconds, LONGEST_RESERVE)
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Control":
        # Python lets its first thread alone listen; a caller in another one has only the clock.
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number, _frame):
        name = signal.Signals(number).name
        if number == signal.SIGINT and self.signalled == name:
            raise KeyboardInterrupt
        self.signalled = name

    @property
    def late(self) -> bool:
        """Whether the time limit is near."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    @property
    def stop(self) -> bool:
        """Whether this rank should stop: it had a signal, or the time limit is near."""
        return self.signalled is not None or self.late

    @property
    def reason(self) -> str:
        """Why this rank stops, in words for the message to the user."""
        if self.signalled is not None:
            return f"{self.signalled} received"
        return "the time limit (--max-hours) is near" if self.late else "another rank was asked to stop"

    def agreed(self, comm: Comm) -> bool:
        """Whether any rank should stop: the same answer on every rank."""
        return agree(comm, self.stop)

    def interrupted(self, where: str) -> Interrupted:
        """The exception to raise once everything is written at `where`: it says why, and how to go on."""
        return Interrupted(f"stopped: {self.reason}; {where} is written, run the same command again to go on")
