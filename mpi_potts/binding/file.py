"""The binding function as a file: what `function.py` needs, and the chains of S(z) it was computed from."""

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io import reading, store
from ..io.formats import BINDING
from ..io.reading import Content
from ..io.rows import Rows
from ..runtime.parallel import Comm
from .function import ARRAYS, OPTIONAL, Binding

SETTINGS = (
    "labels",
    "shape",
    "neighbourhood",
    "sites",
    "edges",
    "lattice",
    "sampler",
    "iterations",
    "burn_in",
    "seed",
    "starts",
)


def write_binding(
    comm: Comm,
    path: Path,
    settings: dict[str, Any],
    columns: dict[str, np.ndarray],
    statistic: Rows,
    writer: str = "auto",
    done: np.ndarray | None = None,
) -> None:
    """Write the columns (n,), which every rank has whole, and the chains (n, starts, iterations) in rows.

    Of the optional columns those are written that are there: `draws` (n,), and the numbers of an `anchor`.
    done : (n, starts) sweeps of each chain, where they are not all as long
    """
    names = (*ARRAYS, *(name for name in OPTIONAL if name in columns))
    datasets = {name: columns[name] for name in names} | {"statistic": statistic}
    datasets |= {} if done is None else {"done": done}
    store.write(comm, path, *BINDING, settings, datasets, writer)


def read_settings(path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray | None]:
    """Read attributes and grid of a binding file and verify them; on one rank.

    Of one that has grown also the sweeps (n, starts) of every chain, else None: `iterations` says it for all.
    """
    content = reading.contents(path)
    content.require(BINDING)
    _settings(path, content.attributes)
    names = ("beta", "done") if "done" in content.shapes else ("beta",)
    arrays = content.arrays(names)
    return content.attributes, arrays["beta"], arrays.get("done")


def read_binding(path: Path, interpolation: str = "smooth") -> Binding:
    """Read a binding function and verify its checksum; on one rank."""
    return binding_of(reading.contents(path), interpolation)


def binding_of(content: Content, interpolation: str = "smooth") -> Binding:
    """The binding function that a verified file holds; on one rank."""
    content.require(BINDING)
    settings = _settings(content.path, content.attributes)
    names = (*ARRAYS, *(name for name in OPTIONAL if name in content.shapes))
    fields: dict[str, Any] = {**content.arrays(names), **settings}
    return Binding(**fields, interpolation=interpolation)


def _settings(path: Path, attributes: dict[str, Any]) -> dict[str, Any]:
    """What a binding function was computed from; a file in which some of it is missing is refused."""
    missing = [name for name in SETTINGS if name not in attributes]
    if missing:
        raise InputError(f"{path}: not a whole binding file, {', '.join(missing)} is missing")
    return {name: attributes[name] for name in SETTINGS}
