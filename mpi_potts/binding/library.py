"""Binding functions of small boxes, from which those of other lattices are composed, and the file that keeps
them.

A reference box of a kind of lattice and a k has one recipe, seed included, so that what the library keeps is
what would be computed again: with a library or without, the same bits.  `mpi-potts precompute --library`
makes the references of an input longer; then they are no longer those of the recipe, and the results that
follow say so by the digest of their binding function.

The library is one file of moments, `precompute.library`, by default in the user's cache directory.  Where it
cannot be written, nothing is kept."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Damaged, InputError
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
    curves, new = [], {}
    for box in boxes:
        name = _name(box, labels)
        columns = known.get(name)
        if columns is None:
            columns = new[name] = _simulate(comm, box, labels)
        curves.append(_binding(box, labels, columns))
    if new:
        on_root(comm, _keep, path, new)
    grid = pilot_grid(transition(lattice, labels), highest(lattice, labels), POINTS)
    return on_root(comm, compose, lattice, curves, grid)


def _name(box: Lattice, labels: int) -> str:
    return f"{'x'.join(map(str, box.shape))}-{box.neighbourhood}-{labels}"


def _binding(box: Lattice, labels: int, columns: dict[str, np.ndarray]) -> Binding:
    fields: dict[str, Any] = {**columns, **identity_of(box, labels, "swendsen-wang", SEED)}
    return Binding(**fields, iterations=SWEEPS, burn_in=0, starts="both")


def _simulate(comm: Comm, box: Lattice, labels: int) -> dict[str, np.ndarray]:
    """Collective.  The recipe: one chain at every beta, from the start of its phase."""
    sampler, critical = Sampler(box, labels, "swendsen-wang"), transition(box, labels)
    grid = pilot_grid(critical, highest(box, labels), POINTS)
    warm_up(comm, lambda: _chain(sampler, float(grid[0]), "random", 1))
    index = np.arange(comm.rank, POINTS, comm.size)
    rows = []
    for beta in grid[index].tolist():
        kind = "random" if beta < critical else "ordered"
        found, draws = moments_of({kind: _chain(sampler, beta, kind, SWEEPS)}, box.degree)
        rows.append((beta, *(getattr(found, name) for name in ARRAYS[1:]), draws))
    table = merge_rows(comm, index, np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS)), POINTS)
    return dict(zip(COLUMNS, table.T.copy()))


def _chain(sampler: Sampler, beta: float, kind: str, sweeps: int) -> np.ndarray:
    chain = Chain.of_length(sweeps)
    for _ in lengthen(sampler, SEED, beta, kind, chain, sweeps, SliceLength()):
        pass
    return chain.statistic


def _read(path: Path | None, names: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """The columns of those references that the library has; on one rank."""
    if path is None or not path.exists():
        return {}
    try:
        content = reading.contents(path)
        content.require(LIBRARY)
    except Damaged:  # it can be computed again
        return {}
    there = [name for name in names if f"{name}/beta" in content.shapes]
    arrays = content.arrays([f"{name}/{column}" for name in there for column in COLUMNS])
    return {name: {column: arrays[f"{name}/{column}"] for column in COLUMNS} for name in there}


def _keep(path: Path | None, new: dict[str, dict[str, np.ndarray]]) -> None:
    """Add references to the library, if it can be written; on one rank."""
    if path is None:
        return
    try:
        files.make_directory(path.parent)
        with files.locked(ALONE, path.with_name(f".{path.stem}.lock"), wait=True):
            arrays = _everything(path)
            arrays |= {
                f"{name}/{column}": v for name, columns in new.items() for column, v in columns.items()
            }
            store.write(ALONE, path, *LIBRARY, {}, arrays, "gather")
    except (InputError, OSError):
        return  # what it would save is little


def _everything(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    try:
        content = reading.contents(path)
        content.require(LIBRARY)
        return content.arrays()
    except Damaged:
        return {}
