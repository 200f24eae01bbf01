"""The binding function as a file: what `function.py` needs, and the chains of S(z) it was computed from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io import store
from ..io.rows import Rows
from ..runtime.parallel import Comm
from .function import ARRAYS, Binding

FORMAT, VERSION = "mpi_potts binding", 1
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
) -> None:
    """Write the columns (n,), which every rank has whole, and the chains (n, starts, iterations) in rows."""
    datasets = {name: columns[name] for name in ARRAYS} | {"statistic": statistic}
    store.write(comm, path, FORMAT, VERSION, settings, datasets, writer)


def read_settings(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Read attributes and grid of a binding file and verify them; on one rank."""
    attributes, arrays = _read(path, ("beta",))
    return attributes, arrays["beta"]


def read_binding(path: Path, interpolation: str = "smooth") -> Binding:
    """Read a binding function and verify its checksum; on one rank."""
    attributes, arrays = _read(path, ARRAYS)
    fields: dict[str, Any] = {**arrays} | {name: attributes[name] for name in SETTINGS}
    return Binding(**fields, interpolation=interpolation)


def _read(path: Path, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    attributes, arrays = store.read(path, FORMAT, VERSION, names)
    missing = [name for name in SETTINGS if name not in attributes]
    if missing:
        raise InputError(f"{path}: not a whole binding file, {', '.join(missing)} is missing")
    return attributes, arrays
