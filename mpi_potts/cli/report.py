"""`mpi-potts report RESULT.h5`: a page with figures, and maps of the labels, beside the result.

Of several numbers of labels, choice.h5, or of a study, study.h5: a page with its table and figures.  Of a
binding function, binding.h5: a page with its curves, beside the exact ones on a small lattice, or those of
another binding function (`--compare`).
"""

import importlib.util
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..runtime.parallel import Comm, on_root
from .say import say
from .target import file_of

INSTALL = "pip install 'mpi_potts[figures]'"


def execute(comm: Comm, config: None, options: Namespace) -> int:
    """Write the report on rank 0; the other ranks wait."""
    directory = None if options.output is None else Path(options.output)
    other = None if options.compare is None else Path(options.compare)
    say(comm, on_root(comm, _write, Path(options.target), directory, options.set, other))
    return 0


def after(comm: Comm, result: Path) -> None:
    """The report at the end of a run, or how to get it; collective."""
    say(comm, on_root(comm, lambda: _write(result) if drawable() else f"no report: {_missing()}"))


def drawable() -> bool:
    """Whether this installation has what the figures need."""
    return importlib.util.find_spec("matplotlib") is not None


def _write(
    path: Path,
    directory: Path | None = None,
    places: Sequence[str] = (),
    other: Path | None = None,
) -> str:
    """Write the report that a file of its kind has; returns what was written.  On one rank."""
    path = file_of(path)
    if not drawable():
        raise InputError(f"{path}: {_missing()}")
    from ..io import formats, reading
    from ..report import binding as binding_report
    from ..report import choice as choice_report
    from ..report import fit as fit_report
    from ..report import study as study_report

    content = reading.contents(path)
    kind = content.format
    if kind == formats.BINDING.name:
        return binding_report.write(content, directory, other)
    if other is not None:
        raise InputError(f"--compare {other}: {path} is a file of {kind!r}; a binding function is accepted")
    if kind == formats.CHOICE.name:
        return choice_report.write(content, directory)
    if kind == formats.STUDY.name:
        return study_report.write(content, directory)
    return fit_report.write(content, directory, places)


def _missing() -> str:
    return f"the figures need the package matplotlib, which is not installed: {INSTALL}"
