"""Binding functions of small boxes, from which those of other lattices are composed, and the file that keeps
them.

A reference box of a kind of lattice and a k has one recipe, seed included, so that what the library keeps is
what would be computed again: with a library or without, the same bits.  `mpi-potts precompute --library`
makes the references of an input longer; then they are no longer those of the recipe, and the results that
follow say so by the digest of their binding function.

The library is one file of moments, `precompute.library`, by default in the user's cache directory.  Where it
cannot be written, nothing is kept."""

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Damaged, Foreign, InputError
from ..io import files, reading, store
from ..io.formats import LIBRARY
from ..lattice import Lattice
from ..model.potts import Sampler
from ..model.transition import transition
from ..runtime.parallel import ALONE, Comm, merge_rows, on_root, warm_up
from .adaptive import pilot_grid
from .chains import Chain, identity_of
from .composition import Composed, compose, references
from .estimates import moments_of
from .function import ARRAYS, Binding
from .work import SliceLength, lengthen

# The recipe of a reference box.
POINTS, SWEEPS, SEED = 41, 300, 0
COLUMNS = (*ARRAYS, "draws")
# Longer references lower the error of what is composed of them to this part or less, or it is of other kinds.
FALLS = 0.9
# Nearer to the transition than this part of beta_crit, terms that are left out matter, however long the
# chains.
NEAR = 0.05


def highest(lattice: Lattice, labels: int) -> float:
    """The largest beta of a pilot: far in the ordered phase."""
    return max(4.0, 2.5 * transition(lattice, labels))


def default_path() -> Path:
    """The library of this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "mpi_potts" / "library.h5"


def compose_pilot(comm: Comm, lattice: Lattice, labels: int, path: Path | None) -> Composed | None:
    """Collective.  Coarse moments of S(z) on a lattice from its references; None where it has none."""
    boxes = references(lattice)
    if not boxes:
        return None
    known = on_root(comm, _read, path, [_name(box, labels) for box in boxes])
    new = {}
    for box in boxes:
        name = _name(box, labels)
        if name not in known:
            known[name] = new[name] = _Reference(comm, box, labels).columns()
    if new:
        on_root(comm, _keep, path, new)
    return on_root(comm, _compose, lattice, labels, [known[_name(box, labels)] for box in boxes])


def improve(
    comm: Comm,
    lattice: Lattice,
    labels: int,
    path: Path,
    interval: tuple[float, float],
    accuracy: float,
    sweeps: int,
    progress: Callable[[str], None],
) -> float:
    """Collective.  Lengthen the references until a lattice is composed to an accuracy, in posterior sds, at
    all betas of an interval but those near the transition; returns the error reached.

    sweeps : of one chain, at most; none are added once the error no longer falls with them.
    """
    boxes = references(lattice)
    if not boxes:
        raise InputError(
            "--library: this lattice is not composed from others (a graph, or narrow or ragged); leave it out"
        )
    references_of = [_Reference(comm, box, labels) for box in boxes]
    last = math.inf
    while True:
        columns = [reference.columns() for reference in references_of]
        composed = on_root(comm, _compose, lattice, labels, columns)
        error = _worst(composed, transition(lattice, labels), interval)
        progress(f"library: error {error:.2g} of {accuracy:g}, {references_of[0].sweeps} sweeps at each beta")
        if error <= accuracy or references_of[0].sweeps >= sweeps or error > FALLS * last:
            break
        last = error
        growth = min(max((error / accuracy) * (error / accuracy), 1.5), 4.0)
        for reference in references_of:
            reference.sweeps = min(math.ceil(growth * reference.sweeps), sweeps)
    new = {_name(box, labels): each for box, each in zip(boxes, columns)}
    on_root(comm, _write, path, new)
    return error


def _worst(composed: Composed, critical: float, interval: tuple[float, float]) -> float:
    """The largest error of composed means, in sds of S(z), on an interval without the transition."""
    inside = (composed.beta >= interval[0]) & (composed.beta <= interval[1])
    inside &= np.abs(composed.beta - critical) > NEAR * critical
    return float((composed.mean_se / np.maximum(composed.sd, 1.0))[inside].max(initial=0.0))


def _compose(lattice: Lattice, labels: int, columns: Sequence[dict[str, np.ndarray]]) -> Composed:
    boxes = references(lattice)
    curves = [_binding(box, labels, each) for box, each in zip(boxes, columns)]
    grid = pilot_grid(transition(lattice, labels), highest(lattice, labels), POINTS)
    return compose(lattice, curves, grid)


def _name(box: Lattice, labels: int) -> str:
    return f"{'x'.join(map(str, box.shape))}-{box.neighbourhood}-{labels}"


def _binding(box: Lattice, labels: int, columns: dict[str, np.ndarray]) -> Binding:
    fields: dict[str, Any] = {**columns, **identity_of(box, labels, "swendsen-wang", SEED)}
    return Binding(**fields, iterations=SWEEPS, burn_in=0, starts="both")


class _Reference:
    """The chains of a reference box, one at every beta, from the start of its phase; a rank has some of them.

    sweeps : that each shall have
    """

    def __init__(self, comm: Comm, box: Lattice, labels: int):
        """Collective.  By the recipe, with nothing simulated yet."""
        self._comm, self._box, self.sweeps = comm, box, SWEEPS
        self._sampler, self._critical = Sampler(box, labels, "swendsen-wang"), transition(box, labels)
        self._grid = pilot_grid(self._critical, highest(box, labels), POINTS)
        self._chains: dict[float, Chain] = {}
        warm_up(comm, lambda: self._lengthened(Chain.of_length(1), 0.1, 1))

    def columns(self) -> dict[str, np.ndarray]:
        """Collective.  The moments at every beta, from chains as long as they shall be."""
        index, rows = np.arange(self._comm.rank, POINTS, self._comm.size), []
        for beta in self._grid[index].tolist():
            old = self._chains.get(beta, Chain.of_length(0))
            room = Chain.of_length(self.sweeps, old.statistic[: old.done], old.packed)
            chain = self._chains[beta] = self._lengthened(room, beta, self.sweeps)
            found, draws = moments_of({"any": chain.statistic}, self._box.degree)
            rows.append((beta, *(getattr(found, name) for name in ARRAYS[1:]), draws))
        table = np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS))
        return dict(zip(COLUMNS, merge_rows(self._comm, index, table, POINTS).T.copy()))

    def _lengthened(self, chain: Chain, beta: float, sweeps: int) -> Chain:
        kind = "random" if beta < self._critical else "ordered"
        for _ in lengthen(self._sampler, SEED, beta, kind, chain, sweeps, SliceLength()):
            pass
        chain.close(keep=True)
        return chain


def _read(path: Path | None, names: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """The columns of those references that the library has; on one rank."""
    content = None if path is None else _open(path)
    if content is None:
        return {}
    there = [name for name in names if f"{name}/beta" in content.shapes]
    arrays = content.arrays([f"{name}/{column}" for name in there for column in COLUMNS])
    return {name: {column: arrays[f"{name}/{column}"] for column in COLUMNS} for name in there}


def _open(path: Path) -> reading.Content | None:
    """A library that is there and whole; a damaged one can be computed again, what is none is refused."""
    if not path.exists():
        return None
    try:
        content = reading.contents(path)
        content.require(LIBRARY)
    except Foreign as error:  # any file may have been named
        raise InputError(f"{error}; it is not overwritten: remove it, or name another") from None
    except Damaged:
        return None
    return content


def _keep(path: Path | None, new: dict[str, dict[str, np.ndarray]]) -> None:
    """Add references to the library, if it can be written; on one rank."""
    if path is None:
        return
    with contextlib.suppress(InputError, OSError):  # what it would save is little
        _write(path, new)


def _write(path: Path, new: dict[str, dict[str, np.ndarray]]) -> None:
    """Add references to the library; on one rank."""
    files.make_directory(path.parent)
    with files.locked(ALONE, path.with_name(f".{path.stem}.lock"), wait=True):
        content = _open(path)
        arrays = {} if content is None else content.arrays()
        arrays |= {f"{name}/{column}": v for name, columns in new.items() for column, v in columns.items()}
        store.write(ALONE, path, *LIBRARY, {}, arrays, "gather")
