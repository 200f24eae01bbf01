"""The program from Python: `precompute`, `fit` and `simulate`, as on the command line, and `load`.

Each call is collective over `comm` (all ranks by default): every rank makes the same call and has the same
answer, of which rank 0's arguments count.  The work is done by the same code as that of the commands, from
an input file written from the keywords, so the same settings and seed give the same bits.

That code keeps checkpoints and results in files.  With `output` they stay there, and a call that was stopped
goes on from them; without, they lie in a temporary directory that is removed.
"""

import contextlib
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .binding import file as binding_file
from .binding.function import Binding
from .cli import choice as choice_command
from .cli import fit as fit_command
from .cli import precompute as precompute_command
from .cli import simulate as simulate_command
from .config import inputs, keywords
from .config.inputs import Config
from .config.schema import is_word
from .errors import InputError
from .io import files, formats, reading
from .io.fit_file import FitPaths
from .kernels import compiling
from .lattice import Lattice
from .methods.base import Problem, needs_binding
from .posterior.choice import Comparison
from .posterior.result import Result, Simulated, simulated_of
from .runtime import parallel
from .runtime.control import Control
from .runtime.parallel import Comm, on_root

ARRAYS = ("image", "mask", "graph", "start")  # arguments that may be arrays


def precompute(
    shape: tuple[int, ...] | None = None,
    *,
    image: Any = None,
    output: str | os.PathLike | None = None,
    comm: Comm | None = None,
    quiet: bool = True,
    fresh: bool = False,
    max_hours: float | None = None,
    **keys: Any,
) -> Binding:
    """The binding function of a lattice: of a `shape`, or of an image (array or path) with its mask.

    Keywords are keys of the input file, first of all `[precompute]`: points, grid, iterations, burn_in, ...
    """
    with _session("precompute", comm, output, quiet, fresh, max_hours) as session:
        settings = session.configure({"shape": shape} | keys, image)
        settings, lattice, problem = precompute_command.for_what(session.comm, settings)
        return precompute_command.obtain(
            session.comm, settings, lattice, session.control, quiet, fresh, problem
        )


def fit(
    image: Any,
    *,
    binding: Binding | str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    comm: Comm | None = None,
    quiet: bool = True,
    fresh: bool = False,
    max_hours: float | None = None,
    **keys: Any,
) -> Result | Comparison:
    """Fit the hidden Potts model to an image, an array or a path; with several numbers of labels, as in
    labels=[2, 3, 4], fit each of them, and tell which the image speaks for.

    binding : a binding function of the image's lattice, or the path of one; computed where it is left out
    keys    : keys of the input file, first of all `[fit]`: labels, beta, mean, variance, method, ...
    """
    with _session("fit", comm, output, quiet, fresh, max_hours) as session:
        settings = session.configure(keys, image, binding)
        found = _choose(session, settings, binding) if settings.choices else _fit(session, settings, binding)
        if session.comm.rank == 0 and not quiet:
            print(found, flush=True)
        return found


def _fit(session: "_Session", settings: Config, binding: Any) -> Result:
    """Collective.  One fit, with its binding function."""
    comm = session.comm
    problem = fit_command.pose(comm, settings)
    settings, lattice = problem.config, problem.lattice
    if needs_binding(settings):
        problem = replace(problem, binding=session.binding(settings, lattice, binding, problem))
    # Where the input lies is where its image will: a report finds it there.
    settings = replace(settings, path=session.directory / "input.toml")
    problem = replace(problem, config=settings)
    if binding is None:
        for _ in fit_command.fit_until_it_suffices(comm, problem, session.control, session.options):
            pass  # what it says is in the result
    else:
        fit_command.fit_image(comm, problem, session.control, session.options)
    on_root(comm, session.keep_arrays)
    return _read_result(comm, FitPaths(settings.output).result)


def _choose(session: "_Session", settings: Config, binding: Any) -> Comparison:
    """Collective.  A fit for every number of labels, and what speaks for each."""
    if binding is not None:
        raise InputError(f"{session.call}: binding: to be left out where labels has several numbers")
    comm, found, results = session.comm, [], {}
    for each in on_root(comm, choice_command.inputs_of, settings):
        results[each.model.labels] = _fit(session, each, None)
        found.append(choice_command.evidence_of(comm, each, session.options))
    return replace(choice_command.write(comm, settings, found), read=results.__getitem__)


def simulate(
    shape: tuple[int, ...],
    *,
    output: str | os.PathLike | None = None,
    comm: Comm | None = None,
    quiet: bool = True,
    fresh: bool = False,
    max_hours: float | None = None,
    **keys: Any,
) -> tuple[Simulated, ...]:
    """Synthetic images with known truth.

    Keywords are keys of the input file, first of all `[simulate]`: images, beta, mean, sd, sweeps.
    """
    with _session("simulate", comm, output, quiet, fresh, max_hours) as session:
        settings = session.configure({"shape": shape} | keys)
        simulate_command.execute(session.comm, settings, session.options)
        lattice = on_root(session.comm, simulate_command.lattice_to_simulate, settings)
        paths = [simulate_command.plan(settings, lattice, n).path for n in range(settings.simulate.images)]
        return tuple(on_root(session.comm, _read_image, path) for path in paths)


def _read_result(comm: Comm, path: Path) -> Result:
    """A result on every rank; collective."""
    content = on_root(comm, reading.contents, path)
    content.require(formats.RESULT)
    # One by one, because an array goes to the other ranks as it is, whatever its size.
    arrays = {name: on_root(comm, lambda name=name: content.arrays([name])[name]) for name in content.shapes}
    return Result(content.attributes, arrays)


def _read_image(path: Path) -> Simulated:
    """A synthetic image that was just written; on one rank."""
    return simulated_of(reading.contents(path))


@dataclass(frozen=True, eq=False)
class _Session:
    """One call: its ranks, a temporary directory of rank 0 for arrays, and the directory of the results."""

    name: str
    comm: Comm
    room: Path
    output: Path | None
    control: Control
    options: SimpleNamespace

    @property
    def call(self) -> str:
        """The name of the call, as messages have it."""
        return f"mpi_potts.{self.name}"

    @property
    def directory(self) -> Path:
        """Where the results are written, for good or for a while."""
        return self.room / "output" if self.output is None else self.output

    def configure(self, keys: dict[str, Any], image: Any = None, binding: Any = None) -> Config:
        """The input that the keywords say; on every rank that of rank 0."""
        return on_root(self.comm, self._configure, keys, image, binding)

    def _configure(self, keys: dict[str, Any], image: Any, binding: Any) -> Config:
        """The input that the keywords say, with arrays saved as files; on one rank."""
        tables = keywords.to_tables(self.name, keys)
        place = tables.setdefault("image", {})
        arrays = {"path": ("image", image)}
        arrays |= {name: (name, place.pop(name, None)) for name in ("mask", "graph")}
        for key, (name, given) in arrays.items():
            if given is not None:
                place[key] = self._file(name, given)
        if self.name == "fit" and image is None:
            raise InputError(f"{self.call}: image is None; an array or the name of a file is accepted")
        start = tables.get("fit", {}).get("start")
        if start is not None and not (isinstance(start, str) and is_word(start)):
            tables["fit"]["start"] = self._file("start", start)
        self._place_binding(tables, binding)
        text = keywords.to_toml(self.call, tables)
        found = inputs.parse(text, self.room / "input.toml", output=self.directory)
        if self.output is not None:
            return found
        # Nobody will go on from these files.
        kept = {"precompute": {"keep_states": False}, "run": {"keep_end": False}}
        return found.with_keys(kept)

    def _file(self, name: str, given: Any) -> str:
        """The name of an image file as the input has it: an array is saved first."""
        if isinstance(given, str | os.PathLike):
            return os.path.abspath(given)
        array = np.asarray(given)
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name}: holds values of type {array.dtype}; real numbers are accepted")
        np.save(self.room / f"{name}.npy", array, allow_pickle=False)
        return f"{name}.npy"

    def _place_binding(self, tables: dict[str, Any], binding: Any) -> None:
        """Put the name of a file that has the binding function into the input; refuse what contradicts it."""
        asked, named = set(tables.get("precompute", ())), isinstance(binding, str | os.PathLike)
        if "file" in asked:
            raise InputError(f"{self.call}: precompute.file: output is accepted to write, binding to read")
        if binding is not None and asked - ({"interpolation"} if named else set()):
            names = ", ".join(f"precompute.{name}" for name in sorted(asked))
            raise InputError(f"{self.call}: {names}: to be left out where a binding function is given")
        if named:
            tables.setdefault("precompute", {})["file"] = os.path.abspath(binding)

    def binding(self, settings: Config, lattice: Lattice, given: Any, problem: Problem) -> Binding:
        """The binding function to use; collective."""
        if given is None:
            quiet = self.options.quiet
            return precompute_command.obtain(
                self.comm, settings, lattice, self.control, quiet, problem=problem
            )
        if isinstance(given, Binding):
            return given
        form = settings.precompute.interpolation
        return on_root(self.comm, binding_file.read_binding, settings.precompute.file, form)

    def keep_arrays(self) -> None:
        """Put the arrays that were given beside the result that was made from them; on one rank."""
        if self.output is None:
            return
        for name in ARRAYS:
            saved = self.room / f"{name}.npy"
            if saved.exists():
                files.write_bytes(self.output / saved.name, saved.read_bytes())

    def in_words(self, error: Exception) -> str:
        """A message without the names of what is not the user's."""
        text = str(error)
        names = {self.room / "input.toml": self.call, self.directory / "input.toml": self.call}
        names |= {self.room / f"{name}.npy": name for name in ARRAYS}
        for path, name in names.items():
            text = text.replace(str(path), name)
        return text.replace("--fresh", "fresh=True").replace("--output", "output")


@contextlib.contextmanager
def _session(
    name: str,
    comm: Comm | None,
    output: str | os.PathLike | None,
    quiet: bool,
    fresh: bool,
    max_hours: float | None,
) -> Iterator[_Session]:
    """The context of one call: its own communicator, its temporary directory, and errors in one line.

    Collective.
    """
    if comm is None:
        parallel.check_launcher(parallel.WORLD)
        comm = parallel.WORLD
    options = SimpleNamespace(quiet=quiet, fresh=fresh, max_hours=max_hours)
    with parallel.abort_on_error(comm, passing=(BaseException,)), contextlib.ExitStack() as stack:
        comm = stack.enter_context(parallel.private(comm))
        place = on_root(comm, _checked, name, comm.size, output, max_hours, parallel.one_node(comm))
        temporary = tempfile.TemporaryDirectory
        room = on_root(comm, lambda: Path(stack.enter_context(temporary(prefix="mpi_potts-"))))
        control = Control(max_hours)
        if comm.rank == 0 and not quiet:
            tell = partial(print, compiling.SAYING, file=sys.stderr, flush=True)
            stack.enter_context(compiling.announced(tell))
        if place is not None:
            # Signals are heard only where there is a checkpoint to write.
            stack.enter_context(control)
        session = _Session(name, comm, room, place, control, options)
        try:
            yield session
        except InputError as error:
            raise type(error)(session.in_words(error)) from None


def _checked(
    name: str, size: int, output: str | os.PathLike | None, max_hours: Any, one_node: bool
) -> Path | None:
    """The directory of the results, or None; what cannot work is refused by its name.  On one rank."""
    call = f"mpi_potts.{name}"
    if max_hours is not None and not (isinstance(max_hours, int | float) and 0 < max_hours < math.inf):
        raise InputError(f"{call}: max_hours = {max_hours!r}: a positive number is accepted")
    if output is not None:
        return Path(output)
    if max_hours is not None:
        raise InputError(f"{call}: max_hours = {max_hours}: output is needed for the checkpoint")
    if not one_node:
        raise InputError(f"{call}: {size} ranks on several nodes need output, a directory that they share")
    return None
