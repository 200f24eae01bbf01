"""When kernels are compiled: numba does it at their first use, and keeps the result for later runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event


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
