"""The files of a fit: checkpoint, result, and the posterior for other programs.

All hold the settings that they are a function of, so that a file of another input is refused by the name of
what differs.  The checkpoint before the last is kept: one that was damaged on the disk does not lose the run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Damaged, InputError
from ..runtime.parallel import Comm, on_root
from . import files, reading, store
from .formats import CHECKPOINT, RESULT


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
    def lock(self) -> Path:
        """The lock that keeps a second job out of the directory."""
        return self.directory / ".fit.lock"

    def clear(self) -> None:
        """Remove whatever an earlier fit left here, so that the next one starts over."""
        for path in (self.result, self.posterior):
            path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove the checkpoints, once there is a result, and what a kill left of one."""
        for path in (self.checkpoint, self.previous, files.temporary_name(self.checkpoint)):
            path.unlink(missing_ok=True)


def _attributes(settings: dict[str, Any]) -> dict[str, Any]:
    return {"settings": json.dumps(settings, sort_keys=True)}


def check_settings(path: Path, attributes: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse a file of another input, naming the first thing that differs."""
    found, wanted = json.loads(attributes.get("settings", "{}")), json.loads(json.dumps(settings))
    # The priors of the noise last: they may follow from the image, and have a number for each label.
    for name in sorted(wanted, key=lambda name: name in ("prior.mean", "prior.variance")):
        if found.get(name) != wanted[name]:
            differs = f"was made with {name} = {found.get(name)}, the input has {wanted[name]}"
            if name == "image":  # of which only a digest is known
                differs = "was made of an image with other values than the one that the input names"
            if name == "binding":
                differs = "was made with another binding function than the one there now (more sweeps, say)"
            raise InputError(f"{path}: {differs}; use another output, or --fresh to start over")


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
    for path in (paths.checkpoint, paths.previous):
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
    """Whether the result of these settings is there; another one in its place is refused; on one rank."""
    if not paths.result.exists():
        return False
    try:
        attributes, _ = reading.read(paths.result, *RESULT, ())
    except Damaged as error:
        raise InputError(f"{error}; --fresh computes it again") from None
    check_settings(paths.result, attributes, settings)
    return paths.posterior.exists()


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
