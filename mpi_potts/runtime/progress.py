"""Progress on rank 0: a bar on a terminal, plain lines in a batch log, nothing with --quiet.

The rate and the remaining time come from this session's work alone, so that a continued run does not count
what an earlier one did as fast work of its own.
"""

import os
import sys
import time
from typing import TextIO

from .parallel import Comm

# Seconds between two drawings of a bar, and the least and greatest time between two lines of a log.
BAR_SECONDS = 0.2
LINE_SECONDS = 10.0
LONGEST_SILENCE = 600.0
# A line of a log is also due when this part of the work was done since the last.
LINE_STEP = 0.05
WIDTH = 30


class Progress:
    """Counts work done against `total`.  A context: the last line is written at its end."""

    def __init__(
        self,
        comm: Comm,
        label: str,
        total: float,
        unit: str = "",
        quiet: bool = False,
        stream: TextIO | None = None,
    ):
        self._stream = None if quiet or comm.rank > 0 else (stream or sys.stderr)
        self._label, self._total, self._unit = label, total, unit
        self._terminal = self._stream is not None and _on_terminal(self._stream)
        self._started = self._shown_at = time.monotonic()
        self._done = self._shown = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is None or self._done == 0:
            return
        self._show(time.monotonic())
        if self._terminal:
            print(file=self._stream, flush=True)

    def advance(self, amount: float, note: str = "") -> None:
        """Add `amount` of work; show it if it is time to."""
        self._done += amount
        now = time.monotonic()
        if self._stream is not None and self._due(now):
            self._show(now, note)

    def expect(self, total: float) -> None:
        """The work is now expected to be so much in all, what is done included."""
        self._total = total

    def say(self, text: str) -> None:
        """Write a line of its own, for what a user should know, above the bar where there is one."""
        if self._stream is not None:
            print(("\r\033[K" if self._terminal else "") + text, file=self._stream, flush=True)

    def _due(self, now):
        quiet = now - self._shown_at
        if self._terminal:
            return quiet >= BAR_SECONDS
        step = self._done - self._shown >= LINE_STEP * self._total
        return quiet >= LINE_SECONDS and (step or quiet >= LONGEST_SILENCE)

    def _show(self, now, note=""):
        if self._stream is None:
            return
        self._shown_at, self._shown = now, self._done
        seconds = max(now - self._started, 1e-9)
        rate = self._done / seconds
        part = min(self._done / self._total, 1.0) if self._total else 1.0
        left = (self._total - self._done) / rate if rate > 0 else 0.0
        text = (
            f"{100 * part:5.1f} %  {_scaled(rate)}{self._unit}/s  {clock(seconds)} done, {clock(left)} left"
        )
        text = f"{text}  {note}" if note else text
        if self._terminal:
            filled = int(part * WIDTH)
            print(
                f"\r\033[K{self._label} [{'#' * filled}{'.' * (WIDTH - filled)}] {text}",
                end="",
                file=self._stream,
            )
        else:
            print(f"{self._label}: {text}", file=self._stream)
        self._stream.flush()


def clock(seconds: float) -> str:
    """A duration as h:mm:ss."""
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _scaled(value):
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.2f}{prefix} "
    return f"{value:.2f} "


def _on_terminal(stream):
    """Whether a person is watching.  Open MPI gives its ranks a pipe: look at the launcher's own stream."""
    if stream.isatty():
        return True
    if stream is not sys.stderr or "OMPI_COMM_WORLD_RANK" not in os.environ:
        return False
    return os.path.realpath(f"/proc/{os.getppid()}/fd/2").startswith(("/dev/pts/", "/dev/tty"))


class Live:
    """One line for each step of an iteration: redrawn in place on a terminal, plain lines in a log."""

    def __init__(self, comm: Comm, quiet: bool = False, stream: TextIO | None = None):
        self._stream = None if quiet or comm.rank > 0 else (stream or sys.stderr)
        self._terminal = self._stream is not None and _on_terminal(self._stream)
        self._open = False

    def show(self, text: str) -> None:
        """Write the line of this step, on a terminal in the place of the line of the last step."""
        if self._stream is None:
            return
        print(
            f"\r\033[K{text}" if self._terminal else text,
            end="" if self._terminal else "\n",
            file=self._stream,
        )
        self._stream.flush()
        self._open = self._terminal

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self.close()
        if self._stream is not None:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """End the line of the last step, so that whatever is written next begins a new one."""
        if self._open:
            print(file=self._stream, flush=True)
        self._open = False
