"""Fit the Potts model to one image by the method that the input names.

This is the driver: it owns the checkpoints and the order of things, and no formula.  What a fit is a function
of is in `Problem.settings`; where it stands is in the method's `Fit`, of which a checkpoint holds every
array.  Checkpoints are written between iterations and between slices of chains, where the ranks meet anyway.
"""

import sys
import time
from typing import Protocol

from ..errors import Interrupted
from ..io import fit_file
from ..io.fit_file import FitPaths
from ..runtime.parallel import Comm, agree, on_root
from ..runtime.progress import Live
from . import needs
from .base import Fit, Problem, method_of


class Asked(Protocol):
    """Who may ask a fit to stop: the signals and the clock of this job (`Control`), or other ranks."""

    def agreed(self, comm: Comm) -> bool:
        """Collective.  Whether to stop here."""

    def interrupted(self, where: str) -> Interrupted:
        """The exception that says where the fit can be continued from."""


class Saver:
    """Writes a checkpoint when it is due, and stops the run when it is time to."""

    def __init__(self, fit: Fit, paths: FitPaths, control: Asked):
        self._fit, self._paths, self._control = fit, paths, control
        self._settings = fit.problem.settings
        self._interval = 60.0 * fit.problem.config.run.checkpoint_minutes
        self._next = time.monotonic() + self._interval

    def between(self) -> None:
        """Collective.  To be called wherever the fit can be continued from."""
        comm = self._fit.comm
        stop = self._control.agreed(comm)
        if stop or agree(comm, comm.rank == 0 and time.monotonic() >= self._next):
            self._write()
        if stop:
            raise self._control.interrupted(str(self._paths.checkpoint))

    def _write(self) -> None:
        fit = self._fit
        writer = fit.problem.config.run.writer
        fit_file.write_checkpoint(fit.comm, self._paths, self._settings, fit.pack(), writer)
        self._next = time.monotonic() + self._interval


def run(comm: Comm, problem: Problem, paths: FitPaths, control: Asked, quiet: bool) -> Fit:
    """Collective.  Fit the image from the start or from a checkpoint to the end.

    Raises Interrupted, with a checkpoint written, where it was asked to stop.
    """
    needs.check_fit(comm, problem.config, problem.lattice)
    live = Live(comm, quiet)
    path, notes = on_root(comm, fit_file.find_checkpoint, paths, problem.settings)
    for note in notes if comm.rank == 0 else ():
        print(note, file=sys.stderr, flush=True)  # also where progress is not wanted
    problem.compile(comm)
    fit = method_of(problem.config).fit(comm, problem)
    if path is not None:
        fit.resume(path)
        if on_root(comm, fit_file.begins_again, path, problem.settings):
            fit.begin_again()
        else:
            live.say(f"{path}: continued after {fit.where}")
    saver = Saver(fit, paths, control)
    for _ in fit.advance(live, quiet):
        saver.between()
    fit.conclude()
    return fit
