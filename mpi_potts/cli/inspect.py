"""`mpi-potts inspect FILE.h5`: what is in a file of this program, in a page; its checksum is verified.

posterior.nc, which other programs read, has no checksum: its draws are summed up.
"""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..estimation.verdicts import FLAG_COMPOSED, FLAG_DISAGREE, FLAG_SHORT
from ..io import formats, reading
from ..posterior import words
from ..posterior.result import Result
from ..posterior.summary import of_chains
from ..runtime.parallel import Comm, on_root
from .say import say
from .target import file_of

FEW = 1 << 20  # values: datasets up to this size are summarised, larger ones only named
HIDDEN = ("format", "version", "checksum", "input")
WIDTH = 100


def execute(comm: Comm, config: None, options: Namespace) -> int:
    """Print a page about the file, once."""
    say(comm, on_root(comm, _describe_any, Path(options.target)))
    return 0


def _describe_any(path: Path) -> str:
    path = file_of(path)
    return describe_draws(path) if path.suffix == ".nc" else describe(path)


def describe_draws(path: Path) -> str:
    """posterior.nc: how many draws there are, and beta in a line."""
    from ..estimation.diagnostics import bulk_size, split_rhat  # numba comes with these

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    beta = reading.read_array(path, "posterior/beta")
    if beta.ndim != 2:
        raise InputError(f"{path}: posterior/beta has shape {list(beta.shape)}; (chain, draw) is accepted")
    chains, draws = beta.shape
    found = of_chains(beta, split_rhat(beta), bulk_size(beta))
    return (
        f"{path}: equally weighted draws for other programs, {chains} chain(s) of {draws}\n\n"
        f"  beta  {found}\n\n  `arviz.from_netcdf` opens it; result.h5 of the same fit has everything else"
    )


def describe(path: Path) -> str:
    """The page: what it is, its attributes, its datasets with their range, and the input it came from."""
    content = reading.contents(path)
    attributes, datasets = content.attributes, content.shapes
    kind, version = attributes["format"], attributes["version"]
    shown = {name: value for name, value in attributes.items() if name not in HIDDEN and value != ""}
    lines = [f"{path}: {kind}, version {version}, {path.stat().st_size / 1e6:.3g} MB, checksum right", ""]
    lines += [f"  {name:<20} {_short(value)}" for name, value in shown.items()]
    small = [name for name, (shape, _) in datasets.items() if np.prod(shape, dtype=float) <= FEW]
    arrays = content.arrays(small)
    lines += ["", f"  {'dataset':<26} {'shape':<18} {'type':<5} values"]
    for name, (shape, dtype) in datasets.items():
        summary = summarise(arrays[name]) if name in arrays else "(many)"
        lines.append(f"  {name:<26} {' x '.join(map(str, shape)) or 'one':<18} {dtype:<5} {summary}")
    lines += _findings(attributes, arrays)
    if attributes.get("input"):
        text = str(attributes["input"]).splitlines()
        lines += ["", "input:", *(f"  {line}" for line in text if line.strip() and line.strip()[0] != "#")]
    return "\n".join(lines)


def summarise(array: np.ndarray) -> str:
    """The values themselves where there are few, else their range and mean."""
    if array.dtype.kind not in "biuf":
        return _short(array.tolist())
    if array.size <= 4:
        return ", ".join(f"{value:.6g}" for value in array.ravel().tolist())
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        return "no finite value"
    text = f"{finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"
    missing = array.size - finite.size
    return f"{text}, {missing} not finite" if missing else text


def _short(value: Any) -> str:
    """A value on one line of limited width."""
    value = f"{value:.6g}" if isinstance(value, float) else value
    text = " ".join(str(value).split())
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _findings(attributes: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[str]:
    """What a user wants to know first: the posterior of beta, and what to be careful with."""
    found = [*_posteriors(attributes, arrays), *_flags(arrays)]
    return ["", *(f"  {line}" for line in found)] if found else []


def _posteriors(attributes: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """beta of a result as `run` prints it, and its warnings."""
    if attributes["format"] != formats.RESULT.name or "beta_mean" not in attributes:
        return
    result = Result(attributes, arrays)
    yield from words.of_beta(result)
    yield from (f"warning: {text}" for text in result.warnings)


def _flags(arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """How many betas of a binding function are flagged, and why."""
    if "flag" not in arrays or "beta" not in arrays:
        return
    for bit, text in (
        (FLAG_DISAGREE, "the starts disagree"),
        (FLAG_SHORT, "the chain is short against tau"),
        (FLAG_COMPOSED, "it was composed of other lattices"),
    ):
        betas = arrays["beta"][(arrays["flag"] & bit) > 0]
        if betas.size:
            span = f"{betas.min():.4g} to {betas.max():.4g}"
            yield f"{betas.size} of {arrays['beta'].size} betas flagged: {text} ({span})"
