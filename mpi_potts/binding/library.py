"""Binding functions of small boxes, from which those of other lattices are composed, and the file that keeps
them.

A reference box of a kind of lattice and a k has one recipe, seed included, so that what the library keeps is
what would be computed again: with a library or without, the same bits.  The library is one file of moments,
by default in the user's cache directory.  Where it cannot be written, nothing is kept.

`mpi-potts precompute --library FILE` makes the references of an input longer.  They are no longer those of
the recipe, so they are taken only from a file that the input names, `precompute.library`, as it names its
image: from the user's own, of which no input says anything, those of the recipe alone are taken."""

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


class Kept(NamedTuple):
    """What is known of a reference box: its moments, and the sweeps at each beta that they are from."""

    columns: dict[str, np.ndarray]
    sweeps: int


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
            known[name] = new[name] = _Reference(comm, box, labels).kept()
    if new:
        on_root(comm, _keep, path, new)
    return on_root(comm, _compose, lattice, labels, [known[_name(box, labels)] for box in boxes])


def longer_than_recipe(lattice: Lattice, labels: int, path: Path | None) -> str:
    """64 hex digits of the references of a lattice, where some in the library are not those of the recipe;
    else nothing.  On one rank."""
    known = _read(path, [_name(box, labels) for box in references(lattice)])
    if all(kept.sweeps <= SWEEPS for kept in known.values()):
        return ""
    result = hashlib.sha256()
    for name in sorted(known):
        result.update(f"{name} {known[name].sweeps} ".encode())
        for column in COLUMNS:
            result.update(np.ascontiguousarray(known[name].columns[column]).tobytes())
    return result.hexdigest()


def improve(
    comm: Comm,
    lattice: Lattice,
    labels: int,
    path: Path,
    interval: tuple[float, float],
    accuracy: float,
    sweeps: int,
    progress: Callable[[str], None],
) -> tuple[float, str]:
    """Collective.  Lengthen the references until a lattice is composed to an accuracy, in posterior sds, at
    all betas of an interval but those near the transition; returns the error reached, and what keeps it from
    the accuracy, in words.

    sweeps : of one chain, at most; none are added once the error no longer falls with them.
    """
    boxes = references(lattice)
    if not boxes:
        raise InputError(
            "--library: this lattice is not composed from others (a graph, or narrow or ragged); leave it out"
        )
    known = on_root(comm, _read, path, [_name(box, labels) for box in boxes])
    references_of = [_Reference(comm, box, labels, known.get(_name(box, labels))) for box in boxes]
    last, limit = math.inf, ""
    while True:
        found = [reference.kept() for reference in references_of]
        composed = on_root(comm, _compose, lattice, labels, found)
        error = _worst(composed, transition(lattice, labels), interval)
        least = min(kept.sweeps for kept in found)
        progress(f"library: error {error:.2g} of {accuracy:g}, {least} sweeps at each beta")
        if error <= accuracy:
            break
        if least >= sweeps:
            limit = f"precompute.iterations = {sweeps}"
            break
        if error > FALLS * last:
            limit = "what small boxes leave out, which more sweeps do not lower"
            break
        last = error
        growth = min(max((error / accuracy) * (error / accuracy), 1.5), 4.0)
        for reference in references_of:
            reference.sweeps = max(reference.sweeps, min(math.ceil(growth * reference.sweeps), sweeps))
    on_root(comm, _write, path, {_name(box, labels): each for box, each in zip(boxes, found)})
    return error, limit


def _worst(composed: Composed, critical: float, interval: tuple[float, float]) -> float:
    """The largest error of composed means, in sds of S(z), on an interval without the transition."""
    inside = (composed.beta >= interval[0]) & (composed.beta <= interval[1])
    inside &= np.abs(composed.beta - critical) > NEAR * critical
    return float((composed.mean_se / np.maximum(composed.sd, 1.0))[inside].max(initial=0.0))


def _compose(lattice: Lattice, labels: int, known: Sequence[Kept]) -> Composed:
    boxes = references(lattice)
    curves = [_binding(box, labels, each) for box, each in zip(boxes, known)]
    grid = pilot_grid(transition(lattice, labels), highest(lattice, labels), POINTS)
    return compose(lattice, curves, grid)


def _name(box: Lattice, labels: int) -> str:
    return f"{'x'.join(map(str, box.shape))}-{box.neighbourhood}-{labels}"


def _binding(box: Lattice, labels: int, kept: Kept) -> Binding:
    fields: dict[str, Any] = {**kept.columns, **identity_of(box, labels, "swendsen-wang", SEED)}
    return Binding(**fields, iterations=SWEEPS, burn_in=0, starts="both")


class _Reference:
    """The chains of a reference box, one at every beta, from the start of its phase; a rank has some of them.

    sweeps : that each shall have
    """

    def __init__(self, comm: Comm, box: Lattice, labels: int, kept: Kept | None = None):
        """Collective.  By the recipe, with nothing simulated yet but what is kept."""
        self._comm, self._box, self._kept = comm, box, kept
        self.sweeps = SWEEPS if kept is None else max(kept.sweeps, SWEEPS)
        self._sampler, self._critical = Sampler(box, labels, "swendsen-wang"), transition(box, labels)
        self._grid = pilot_grid(self._critical, highest(box, labels), POINTS)
        self._chains: dict[float, Chain] = {}
        warm_up(comm, lambda: self._lengthened(Chain.of_length(1), 0.1, 1))

    def kept(self) -> Kept:
        """Collective.  The moments at every beta, from chains as long as they shall be."""
        if self._kept is None or self._kept.sweeps < self.sweeps:
            self._kept = Kept(self._columns(), self.sweeps)
        return self._kept

    def _columns(self) -> dict[str, np.ndarray]:
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


def _read(path: Path | None, names: Sequence[str]) -> dict[str, Kept]:
    """Those references that the library has, of the user's own those of the recipe alone; on one rank."""
    content = None if path is None else _open(path)
    if content is None:
        return {}
    known = _known(content, [name for name in names if f"{name}/beta" in content.shapes])
    recipe = path == default_path()
    return {name: kept for name, kept in known.items() if kept.sweeps <= SWEEPS or not recipe}


def _known(content: reading.Content, names: Sequence[str]) -> dict[str, Kept]:
    arrays = content.arrays([f"{name}/{column}" for name in names for column in COLUMNS])
    sweeps = content.arrays([f"{name}/sweeps" for name in names if f"{name}/sweeps" in content.shapes])
    known = {}
    for name in names:
        columns = {column: arrays[f"{name}/{column}"] for column in COLUMNS}
        # Earlier versions did not keep it: what was counted of the longest chain is nearly all of it.
        known[name] = Kept(columns, int(sweeps.get(f"{name}/sweeps", columns["draws"].max())))
    return known


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


def _keep(path: Path | None, new: dict[str, Kept]) -> None:
    """Add references to the library, if it can be written; on one rank."""
    if path is None:
        return
    with contextlib.suppress(InputError, OSError):  # what it would save is little
        _write(path, new)


def _write(path: Path, new: dict[str, Kept]) -> None:
    """Add references to the library, but none in the place of a longer one; on one rank."""
    files.make_directory(path.parent)
    with files.locked(ALONE, path.with_name(f".{path.stem}.lock"), wait=True):
        content = _open(path)
        arrays = {} if content is None else content.arrays()
        there = [] if content is None else [name for name in new if f"{name}/beta" in content.shapes]
        known = {} if content is None else _known(content, there)
        for name, kept in new.items():
            if name in known and known[name].sweeps > kept.sweeps and path != default_path():
                continue
            arrays |= {f"{name}/{column}": values for column, values in kept.columns.items()}
            arrays[f"{name}/sweeps"] = np.array(kept.sweeps, dtype=np.int64)
        store.write(ALONE, path, *LIBRARY, {}, arrays, "gather")
