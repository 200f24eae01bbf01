"""Which binding file answers an input whose grid is adaptive, and the copy of it that a fit keeps.

A file names the requests that it answers: digests of all that its search was a function of.  It may be shared
by images of one lattice and grows with each, so a fit keeps it as it was when the fit began."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..binding import file as binding_file
from ..binding import library
from ..binding.chains import OfAnother, check_identity, identity_of
from ..binding.compute import BindingPaths, choose_sampler
from ..config.inputs import Config
from ..errors import Damaged, Foreign, InputError
from ..io import files
from ..lattice import Lattice
from .base import Problem


def request_of(config: Config, lattice: Lattice, image: str) -> str:
    """64 hex digits of all that an adaptive binding function is a function of; on one rank.

    image : digests of its data, if any
    """
    keys, fit = config.precompute, config.fit
    asked: dict[str, Any] = {
        "lattice": lattice.digest,
        "labels": config.model.labels,
        "seed": config.seed,
        "image": image,
        "accuracy": keys.accuracy,
        "points": keys.points,
        "iterations": keys.iterations,
        "starts": keys.starts,
        "sampler": keys.sampler,
        "beta": list(config.prior.beta),
    }
    if named := library.longer_than_recipe(lattice, config.model.labels, keys.library):
        asked["library"] = named
    if image:
        asked |= {"prior": asdict(config.prior), "chains": fit.chains, "start": str(fit.start)}
        asked |= {"warm_up": config.smc.warm_up, "crossing": fit.crossing, "sort_labels": fit.sort_labels}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def data_of(problem: Problem | None) -> str:
    """Digests of the pixels of an image, and of the labels to start from where these are a file's."""
    return "" if problem is None else problem.facts.digest + (problem.facts.start or "")


def answered(path: Path, request: str) -> bool:
    """Whether a binding file has the answer already; on one rank."""
    if not path.exists():
        return False
    try:
        attributes = binding_file.read_settings(path)[0]
    except Damaged:
        return False
    return request in str(attributes.get("answers", "")).split()


def belongs(config: Config, lattice: Lattice) -> bool:
    """Whether the binding file that is there, if any, is of this lattice, k and sampler; on one rank."""
    path = BindingPaths.of(config).binding
    try:
        check_belongs(config, lattice, path)
    except OfAnother:
        return False
    return True


def check_belongs(config: Config, lattice: Lattice, path: Path) -> None:
    """Refuse a binding file of another lattice, k or sampler; its seed may be any, and stays.  On one
    rank."""
    try:
        attributes = binding_file.read_settings(path)[0] if path.exists() else None
    except Foreign as error:  # any file may have been named
        raise InputError(f"{error}; it is not overwritten: remove it, or name another file") from None
    except Damaged:  # it will be written again
        return
    if attributes is not None:
        sampler = choose_sampler(config.precompute, lattice, config.model.labels, attributes["sampler"])
        keys = config.model.labels, sampler, attributes["seed"]
        check_identity(path, attributes, identity_of(lattice, *keys))


def is_there(config: Config, lattice: Lattice, problem: Problem | None, path: Path) -> bool:
    """Whether a binding file answers the input; one of another lattice, k or sampler is refused.  On one
    rank."""
    check_belongs(config, lattice, path)
    return answered(path, request_of(config, lattice, data_of(problem)))


def taken_by(config: Config) -> Path:
    """Where a fit keeps the binding function that it began with; the file itself where none is shared."""
    return config.output / "binding.h5"


def of_fit(problem: Problem, fresh: bool = False) -> Path:
    """The binding file of a fit that computes none; on one rank.

    It is the one that an earlier fit of the output began with, unless the one that the input names answers
    the input and the other does not, or all starts over.
    """
    config = problem.config
    named, taken = BindingPaths.of(config).binding, taken_by(config)
    if config.precompute.grid != "adaptive" or taken == named:
        return named
    request = request_of(config, problem.lattice, data_of(problem))
    if answered(taken, request):
        return taken
    return named if fresh or not _whole(taken) or answered(named, request) else taken


def begun_with(problem: Problem, fresh: bool = False) -> Path:
    """The same, kept in the output so that it is found again; on one rank."""
    named, taken = of_fit(problem, fresh), taken_by(problem.config)
    if problem.config.precompute.grid != "adaptive" or named == taken or not named.exists():
        return named
    take(named, taken)
    return taken


def _whole(path: Path) -> bool:
    try:
        return path.exists() and bool(binding_file.read_settings(path))
    except (Damaged, Foreign):
        return False


def take(shared: Path, taken: Path) -> None:
    """Keep a shared binding function as it is now: it grows with other images, and a fit that goes on, or is
    asked for again, must find the one that it began with.  On one rank."""
    files.make_directory(taken.parent)
    files.write_bytes(taken, shared.read_bytes())
