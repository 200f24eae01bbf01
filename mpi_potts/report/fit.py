"""The report on a result: what the fit found, read again from its files, as a page, figures and maps.

Everything comes from result.h5.  The image and the binding function lie in files of their own; each is used
only if it is the very one of the fit, which the digests in the result tell.  What is left out is said on the
page.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..binding import file as binding_file
from ..binding.function import Binding
from ..config import inputs
from ..config.inputs import Config
from ..errors import InputError
from ..image import maps
from ..image.maps import Maps
from ..image.pixels import Image, load_image
from ..io import files, fit_file, store
from ..lattice import Lattice
from ..model.simulate import FORMAT as SIMULATED
from ..model.simulate import VERSION as SIMULATED_VERSION
from ..model.transition import transition

# Probabilities are read this many values at a time: a large scene need not fit into memory.
SLAB = 1 << 24
# What `--set` may change of a result: where files lie now.
PLACES = ("image.path", "image.mask", "precompute.file")


@dataclass(frozen=True)
class Truth:
    """What a simulated image was made with: beta, and S(z) of its labels."""

    beta: float
    statistic: int


@dataclass(frozen=True, eq=False)
class Result:
    """A result file, and of the files it was made from those that are still there and the same.

    arrays : all datasets but labels/probability, labels in ascending order of their mean
    order  : (k,) the numbers, from 0, that the labels have in the file
    shares : (k,) part of the pixels that has each label, by probability; None for observed labels
    notes  : what is left out of the report, each in a sentence
    """

    path: Path
    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]
    order: np.ndarray
    maps: Maps | None
    shares: np.ndarray | None
    image: Image | None
    binding: Binding | None
    notes: tuple[str, ...]
    truth: Truth | None = None

    @property
    def labels(self) -> int:
        return self.attributes["labels"]

    @property
    def hidden(self) -> bool:
        """Whether the labels were hidden and there are draws marginal over them."""
        return "marginal/beta" in self.arrays

    @property
    def observed(self) -> bool:
        """Whether the labels were observed."""
        return _fitted(self.attributes)["image.kind"] == "labels"

    @cached_property
    def lattice(self) -> Lattice:
        """The lattice without its mask, which says where the transition is."""
        return Lattice(tuple(self.attributes["shape"]), self.attributes["neighbourhood"])

    @property
    def transition(self) -> float:
        return transition(self.lattice, self.labels)

    def chains(self, name: str) -> np.ndarray:
        """Draws (chains, n, ...) of a dataset in which the chains follow each other."""
        values = self.arrays[name]
        return values.reshape(self.attributes["chains"], -1, *values.shape[1:])


def load(path: Path, places: Sequence[str] = ()) -> Result:
    """Read a result and what belongs to it; on one rank.

    places : `key=value` of files that lie elsewhere now.
    """
    attributes, shapes = store.contents(path)
    if attributes["format"] != fit_file.RESULT:
        raise InputError(f"{path}: is a file of {attributes['format']!r}; the result of a fit is accepted")
    names = [name for name in shapes if name != "labels/probability"]
    _, arrays = store.read(path, fit_file.RESULT, fit_file.RESULT_VERSION, names, verify=False)
    order = np.arange(attributes["labels"])
    if "noise/mean" in arrays:
        order = np.argsort(arrays["noise/mean"].mean(axis=0), kind="stable")
        for name in ("noise/mean", "noise/sd"):
            arrays[name] = arrays[name][:, order]
        for name in ("diagnostics/mean", "diagnostics/sd"):
            arrays[name] = arrays[name][order]
    settings = _settings(path, attributes, places)
    image, of_image = _image(settings, attributes)
    binding, of_binding = _binding(path, settings, attributes)
    shown, shares = _maps(path, arrays, shapes, order, image)
    notes = tuple(note for note in (of_image, of_binding) if note)
    truth = None if image is None else _truth(image.source, attributes)
    return Result(path, attributes, arrays, order, shown, shares, image, binding, notes, truth)


def _settings(path, attributes, places) -> Config:
    """The input of the fit, its paths relative to where it lay, or to the result where that is not known."""
    for place in places:
        if place.partition("=")[0].strip() not in PLACES:
            raise InputError(f"--set {place}: a result is as it is; {', '.join(PLACES)} is accepted")
    directory = Path(attributes.get("input_directory") or path.parent)
    changes = (*attributes["overrides"].splitlines(), *places)
    found = inputs.parse_stored(attributes["input"], directory / "input.toml", changes, path.parent)
    return replace(found, path=path)


def _image(settings, attributes) -> tuple[Image | None, str]:
    """The image of the fit, or why it is left out."""
    remedy = "--set image.path=FILE says where it is now"
    try:
        image = load_image(settings)
    except InputError as error:
        return None, f"The image is left out, and maps have no georeference: {error}; {remedy}"
    pixels = image.values if image.labels is None else image.labels
    if hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest() != _fitted(attributes)["image"]:
        why = f"{settings.image.path} is not the image that was fitted"
        return None, f"The image is left out, and maps have no georeference: {why}; {remedy}"
    return image, ""


def _truth(source, attributes) -> Truth | None:
    """That of an image by `simulate`, fitted whole; none where the file is of another kind."""
    if source.suffix != ".h5":
        return None
    try:
        made, _ = store.read(source, SIMULATED, SIMULATED_VERSION, (), verify=False)
    except InputError:
        return None
    whole = made["lattice"] == _fitted(attributes)["lattice"]
    return Truth(made["beta"], made["statistic"]) if whole else None


def _fitted(attributes):
    return json.loads(attributes["settings"])


def _binding(path, settings, attributes) -> tuple[Binding | None, str]:
    """The binding function of the fit, or why it is left out; neither where the fit needed none."""
    if not attributes["binding"]:
        return None, ""
    candidates = [path.parent / "binding.h5", settings.precompute.file]
    reasons = []
    for candidate in filter(None, candidates):
        try:
            found = binding_file.read_binding(candidate, attributes["interpolation"])
        except InputError as error:
            reasons.append(str(error))
            continue
        if found.digest == attributes["binding"]:
            return found, ""
        reasons.append(f"{candidate} is not the one that the fit used")
    return None, f"The binding function is left out: {'; '.join(reasons)}"


def _maps(path, arrays, shapes, order, image) -> tuple[Maps | None, np.ndarray | None]:
    """The maps, with labels from 1 in ascending order of their mean, and the share of every label."""
    k = order.size
    if "labels/map" not in arrays:
        observed = None if image is None else image.labels
        return (None, None) if observed is None else (Maps(observed + np.uint8(1), k), None)
    number = np.zeros(k + 1, dtype=np.uint8)
    # -1, for masked pixels, is the last entry.
    number[order] = np.arange(1, k + 1)
    labels = number[arrays["labels/map"]]
    exists = labels > 0
    entropy, largest, shares = _uncertainty(path, shapes["labels/probability"][0], exists)
    return Maps(labels, k, entropy, largest), shares[order]


def _uncertainty(path, shape, exists):
    """Entropy and largest probability of every pixel, nan where masked, and the mean of each probability."""
    entropy, largest = np.full(exists.shape, np.nan, np.float32), np.full(exists.shape, np.nan, np.float32)
    total = np.zeros(shape[-1])
    step = max(1, SLAB // int(np.prod(shape[1:])))
    for first in range(0, shape[0], step):
        rows = np.arange(first, min(first + step, shape[0]))
        name, kind = "labels/probability", (fit_file.RESULT, fit_file.RESULT_VERSION)
        there = exists[rows]
        probability = store.read_rows(path, *kind, {name: rows})[name][there]
        entropy[rows[0] : rows[-1] + 1][there] = maps.entropy(probability)
        largest[rows[0] : rows[-1] + 1][there] = probability.max(axis=-1)
        total += probability.sum(axis=0, dtype=np.float64)
    return entropy, largest, total / exists.sum()


def write(path: Path, directory: Path | None = None, places: Sequence[str] = ()) -> str:
    """Write report.html, its figures and the maps; returns what was written, in a line.  On one rank."""
    from . import figures, page  # matplotlib, which only some users have

    directory = path.parent if directory is None else directory
    result = load(path, places)
    files.make_directory(directory)
    result, written = _write_maps(result, directory)
    drawn = figures.draw(result)
    for name, figure in drawn.items():
        files.write_bytes(directory / f"figure_{name}.png", figure.png)
    files.write_text(directory / "report.html", page.html(result, drawn, [file.name for file in written]))
    listed = ", ".join([f"{len(drawn)} figures", *(file.name for file in written)])
    return "\n".join([f"{directory / 'report.html'}: written, with {listed}", *result.notes])


def _write_maps(result, directory) -> tuple[Result, list[Path]]:
    """The maps where there are any; a package that is missing for them is a note, not the end."""
    if result.maps is None:
        return result, []
    try:
        return result, maps.write_maps(result.maps, result.image, directory)
    except InputError as error:
        return replace(result, notes=(*result.notes, f"The maps are not written: {error}")), []
