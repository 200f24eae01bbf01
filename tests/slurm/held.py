"""The program, held at one point of its first start until a signal comes: a test need not be quicker than it.

The file `hold` names what of `Control` is asked for, and at which time of asking every rank waits; before it
does, it leaves a file `held.PID`.
"""

import itertools
import os
import runpy
import sys
import time
from pathlib import Path

from mpi_potts.runtime import signals

signals.listen()  # as __main__ does, before anything takes time

from mpi_potts.runtime.control import Control  # noqa: E402


def held(original, number):
    """The same function, which waits for a signal when it is called for this time."""
    calls = itertools.count(1)

    def waits(control, *arguments):
        if next(calls) == number:
            Path(f"held.{os.getpid()}").touch()
            while control.signalled is None:
                time.sleep(0.02)
        return original(control, *arguments)

    return waits


if "SLURM_RESTART_COUNT" not in os.environ:
    name, number = Path("hold").read_text().split()
    if name == "stop":
        Control.stop = property(held(Control.stop.fget, int(number)))
    else:
        setattr(Control, name, held(getattr(Control, name), int(number)))
sys.argv[0] = "mpi-potts"
runpy.run_module("mpi_potts", run_name="__main__", alter_sys=True)
