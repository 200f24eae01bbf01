"""The files of a fit: checkpoint, result, and the posterior for other programs.

All hold the settings that they are a function of, so that a file of another input is refused by the name of
what differs.  The checkpoint before the last is kept: one that was damaged on the disk does not lose the run.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Damaged, InputError
from ..runtime.parallel import Comm, on_root
from . import files, reading, store
from .formats import CHECKPOINT, RESULT

# Settings that only say how long chains are.
LENGTHS = ("fit.final_sweeps", "fit.max_sweeps", "fit.target", "exchange.iterations")


@dataclass(frozen=True)
class FitPaths:
    """Where the files of one fit are, in its output directory."""

    directory: Path

    @property
    def result(self) -> Path:
        """What the fit found; its presence says that the fit is done."""
        return self.directory / "result.h5"

    @property
    def posterior(self) -> Path:
        """The draws for other programs."""
        return self.directory / "posterior.nc"

    @property
    def checkpoint(self) -> Path:
        """Where the fit stood when it was last saved."""
        return self.directory / "checkpoint.h5"

    @property
    def previous(self) -> Path:
        """The checkpoint before the last."""
        return self.directory / "checkpoint.previous.h5"

    @property
    def end(self) -> Path:
        """Where the chains of a finished fit ended: a checkpoint from which a longer one goes on."""
        return self.directory / "end.h5"

    @property
    def lock(self) -> Path:
        """The lock that keeps a second job out of the directory."""
        return self.directory / ".fit.lock"

    def clear(self) -> None:
        """Remove whatever an earlier fit left here, so that the next one starts over."""
        for path in (self.result, self.posterior, self.end):
            path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove the checkpoints, once there is a result, and what a kill left of one."""
        for path in (self.checkpoint, self.previous, files.temporary_name(self.checkpoint)):
            path.unlink(missing_ok=True)


def _attributes(settings: dict[str, Any]) -> dict[str, Any]:
    return {"settings": json.dumps(settings, sort_keys=True)}


def _both(attributes: dict[str, Any], settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a file and those of the input, as JSON has them."""
    return json.loads(attributes.get("settings", "{}")), json.loads(json.dumps(settings))


def lengthened(attributes: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether the input asks for what a file has, and for more of it: what it has is then the beginning."""
    found, wanted = _both(attributes, settings)
    return found != wanted and _as_long(found, wanted) and _but_for(found, wanted, LENGTHS)


def widened(attributes: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether the input differs from a file by a wider prior of beta, and by what may follow from it."""
    found, wanted = _both(attributes, settings)
    old, new = found.get("prior.beta"), wanted.get("prior.beta")
    if old is None or new is None or old == new or not new[0] <= old[0] < old[1] <= new[1]:
        return False
    return _but_for(found, wanted, (*LENGTHS, "prior.beta", "binding", "precompute.interpolation"))


def _but_for(found: dict[str, Any], wanted: dict[str, Any], names: Iterable[str]) -> bool:
    return all(found.get(name) == wanted[name] for name in wanted if name not in names)


def _as_long(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether the input asks for no less than a file has, and in the same way."""
    sweeps, asked = found.get("fit.final_sweeps"), wanted.get("fit.final_sweeps")
    if isinstance(sweeps, str) != isinstance(asked, str):
        return False  # with a target burn-in is found out, without it is not
    numbers = ["exchange.iterations", "fit.max_sweeps" if isinstance(asked, str) else "fit.final_sweeps"]
    if any((found.get(name) or 0) > (wanted.get(name) or 0) for name in numbers):
        return False
    if not isinstance(asked, str):
        return True
    old, new = found["fit.target"], wanted["fit.target"]
    looser = new["rhat"] > old["rhat"], new["ess"] < old["ess"], new["map_error"] > old["map_error"]
    return not any(looser)


def check_settings(path: Path, attributes: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse a file of another input, naming the first thing that differs."""
    found, wanted = _both(attributes, settings)
    # The priors of the noise last: they may follow from the image, and have a number for each label.
    for name in sorted(wanted, key=lambda name: name in ("prior.mean", "prior.variance")):
        if found.get(name) != wanted[name]:
            differs, way = _differs(name, found.get(name), wanted[name]), ""
            if name == "image":  # of which only a digest is known
                differs = "was made of an image with other values than the one that the input names"
            if name == "binding":
                differs = "was made with another binding function than the one there now (more sweeps, say)"
            if name in LENGTHS and not _as_long(found, wanted):
                way = "ask for at least as much to go on with it, "
            elif name in LENGTHS:
                way = "the end of its chains was not kept (run.keep_end): "
            raise InputError(f"{path}: {differs}; {way}use another output, or --fresh to start over")


def _differs(name: str, found: Any, wanted: Any) -> str:
    """The first thing in which a setting differs, a table's by its key."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        key = next(key for key in wanted if found.get(key) != wanted[key])
        return _differs(f"{name}.{key}", found.get(key), wanted[key])
    return f"was made with {name} = {found}, the input has {wanted}"


def write_checkpoint(
    comm: Comm, paths: FitPaths, settings: dict[str, Any], datasets: dict[str, Any], writer: str
) -> None:
    """Write a checkpoint beside the one before it; collective."""
    attributes = _attributes(settings)
    store.write(comm, paths.checkpoint, *CHECKPOINT, attributes, datasets, writer, previous=paths.previous)


def find_checkpoint(
    paths: FitPaths, settings: dict[str, Any], remove: bool = True
) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and notes about one that is not; on one rank.

    A damaged one is removed, or the next checkpoint would push it over the whole one before it; but not by
    who only looks (`remove` false).
    """
    notes = []
    for path in (paths.checkpoint, paths.previous, paths.end):
        if not path.exists():
            continue
        try:
            attributes, _ = reading.read(path, *CHECKPOINT, ())
        except Damaged as error:
            if remove:
                files.discard(path)
            older = path == paths.checkpoint and paths.previous.exists()
            instead = f"{paths.previous}, the one before it, is used" if older else "the fit starts over"
            notes.append(f"{error}; removed, {instead}")
            continue
        reading.refuse_older(path, attributes, CHECKPOINT.version, "whose sums depended on the CPU")
        if path == paths.end and widened(attributes, settings):
            notes.append(
                f"{path}: prior.beta is wider than it was, so all draws begin again; the labels that chains "
                f"had at their end are their start (--fresh starts from the image)"
            )
        elif not lengthened(attributes, settings):
            check_settings(path, attributes, settings)
        return path, notes
    return None, notes


def read_checkpoint(path: Path, rows: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
    """Rows `rows` of the datasets `names` of a checkpoint that `find_checkpoint` found."""
    return reading.read_rows(path, *CHECKPOINT, dict.fromkeys(names, rows))


def read_group(path: Path, group: str) -> dict[str, np.ndarray]:
    """The whole datasets of one group of a checkpoint, by their names inside it; on one rank."""
    content = reading.contents(path)
    content.require(CHECKPOINT)
    arrays = content.arrays(name for name in content.shapes if name.startswith(f"{group}/"))
    return {name.removeprefix(f"{group}/"): values for name, values in arrays.items()}


def finished(paths: FitPaths, settings: dict[str, Any]) -> bool:
    """Whether the result of these settings is there; on one rank.

    One that can be continued to them is not; any other in its place is refused.
    """
    if not paths.result.exists():
        return False
    try:
        attributes, _ = reading.read(paths.result, *RESULT, ())
    except Damaged as error:
        raise InputError(f"{error}; --fresh computes it again") from None
    if paths.end.exists() and (lengthened(attributes, settings) or widened(attributes, settings)):
        return False
    check_settings(paths.result, attributes, settings)
    return paths.posterior.exists()


def begins_again(path: Path, settings: dict[str, Any]) -> bool:
    """Whether only the labels of a checkpoint that `find_checkpoint` found are of use; on one rank."""
    return widened(reading.contents(path).attributes, settings)


def write_end(
    comm: Comm, paths: FitPaths, settings: dict[str, Any], datasets: dict[str, Any], writer: str
) -> None:
    """Keep where the chains of a fit ended; collective."""
    store.write(comm, paths.end, *CHECKPOINT, _attributes(settings), datasets, writer)


def write_result(
    comm: Comm,
    paths: FitPaths,
    settings: dict[str, Any],
    attributes: dict[str, Any],
    datasets: dict[str, Any],
    posterior: dict[str, np.ndarray],
    writer: str,
) -> None:
    """Write posterior.nc, then result.h5, whose presence says that the fit is done; collective.

    posterior : on rank 0, arrays (chain, draw) or (chain, draw, label).
    """
    on_root(comm, lambda: store.write_draws(paths.posterior, posterior))
    everything = _attributes(settings) | attributes
    store.write(comm, paths.result, *RESULT, everything, datasets, writer)
    on_root(comm, paths.forget)
