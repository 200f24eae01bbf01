"""When kernels are compiled: numba does it at their first use, and keeps the result for later runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

SAYING = "compiling kernels (about a minute, once)"


class _Listener(event.Listener):
    """Calls a function at the first compilation; a kernel from the cache is none."""

    def __init__(self, tell: Callable[[], None]):
        self._tell, self._told = tell, False

    def on_start(self, event):
        if not self._told:
            self._told = True
            self._tell()

    def on_end(self, event):
        pass


@contextmanager
def announced(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` before the first kernel that is compiled here, if there is one."""
    with event.install_listener("numba:compile", _Listener(tell)):
        yield


class _Stopwatch(event.Listener):
    """Adds up the seconds of compilations; one inside another counts once."""

    def __init__(self):
        self.seconds, self._depth, self._started = 0.0, 0, 0.0

    def on_start(self, event):
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def on_end(self, event):
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started


@contextmanager
def measured() -> Iterator[_Stopwatch]:
    """An object whose `seconds` are those spent on compiling here."""
    watch = _Stopwatch()
    with event.install_listener("numba:compile", watch):
        yield watch
