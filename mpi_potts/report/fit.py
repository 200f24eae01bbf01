"""The report on a result: what the fit found, read again from its files, as a page, figures and maps.

Everything comes from result.h5.  The image and the binding function lie in files of their own; each is used
only if it is the very one of the fit, which the digests in the result tell.  What is left out is said on the
page.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..binding import file as binding_file
from ..binding.function import Binding
from ..config import inputs
from ..config.inputs import Config
from ..errors import InputError
from ..image import maps
from ..image.maps import Maps
from ..image.pixels import Image, load_image
from ..io import files, formats, reading
from ..io.reading import Content
from ..model.transition import transition_of
from ..posterior.result import Result, result_of
from ..slabs import slabs

PROBABILITY = "labels/probability"
# What `--set` may change of a result: where files lie now.
PLACES = ("image.path", "image.mask", "image.graph", "precompute.file")


@dataclass(frozen=True)
class KnownTruth:
    """What is known of an image that was simulated: its beta, and S(z) of its labels."""

    beta: float
    statistic: int


@dataclass(frozen=True, eq=False)
class Report:
    """What a page is made of: a result, and of the files it was made from those that are there and the same.

    result : without the label probabilities, and with the labels in ascending order of their mean
    order  : (k,) the numbers, from 0, that the labels have in the file
    shares : (k,) part of the pixels that has each label, by probability; None for observed labels
    notes  : what is left out of the report, each in a sentence
    """

    path: Path
    result: Result
    order: np.ndarray
    maps: Maps | None
    shares: np.ndarray | None
    image: Image | None
    binding: Binding | None
    notes: tuple[str, ...]
    truth: KnownTruth | None = None

    @property
    def k(self) -> int:
        """The number of labels."""
        return self.result.attributes["labels"]

    @property
    def neighbourhood(self) -> tuple[int, str]:
        """The dimensions of the lattice, and the name of its neighbourhood."""
        return len(self.result.attributes["shape"]), self.result.attributes["neighbourhood"]

    @property
    def transition(self) -> float:
        """The beta of the phase transition of the prior on this lattice."""
        found = self.result.attributes
        return transition_of(*self.neighbourhood, 2.0 * found["edges"] / found["sites"], self.k)


def report_of(content: Content, places: Sequence[str] = ()) -> Report:
    """What the page on a verified result is made of, with the files that belong to it; on one rank.

    places : `key=value` of files that lie elsewhere now.
    """
    if content.format != formats.RESULT.name:
        raise InputError(f"{content.path}: is a file of {content.format!r}; the result of a fit is accepted")
    result, order = _ascending(result_of(content, but=(PROBABILITY,)))
    settings = _settings(content.path, result, places)
    image, of_image = _image(settings, result)
    binding, of_binding = _binding(content.path, settings, result)
    shown, shares = _maps(content, result, order, image)
    notes = tuple(note for note in (of_image, of_binding) if note)
    truth = None if image is None else _truth(image.source, result)
    return Report(content.path, result, order, shown, shares, image, binding, notes, truth)


def _ascending(result: Result) -> tuple[Result, np.ndarray]:
    """The result with the noise of its labels in ascending order of its first parameter, the mean of Gaussian
    noise, and that order (k,)."""
    if not result.noise:
        return result, np.arange(result.attributes["labels"])
    location, arrays = next(iter(result.noise.values())), dict(result.arrays)
    order = np.argsort(location.mean(axis=0), kind="stable")
    for name, draws in result.noise.items():
        arrays[f"noise/{name}"] = draws[:, order]
        arrays[f"diagnostics/{name}"] = arrays[f"diagnostics/{name}"][order]
    for name in ("pixels", "skewness", "kurtosis", "correlation"):
        if f"predictive/{name}" in arrays:  # not in results written before there were any
            arrays[f"predictive/{name}"] = arrays[f"predictive/{name}"][:, order]
    return replace(result, arrays=arrays), order


def _settings(path: Path, result: Result, places: Sequence[str]) -> Config:
    """The input of the fit, its paths relative to where it lay, or to the result where that is not known."""
    for place in places:
        if place.partition("=")[0].strip() not in PLACES:
            raise InputError(f"--set {place}: a result is as it is; {', '.join(PLACES)} is accepted")
    attributes = result.attributes
    directory = Path(attributes.get("input_directory") or path.parent)
    changes = (*attributes["overrides"].splitlines(), *places)
    found = inputs.parse_stored(attributes["input"], directory / "input.toml", changes, path.parent)
    return replace(found, path=path)


def _image(settings: Config, result: Result) -> tuple[Image | None, str]:
    """The image of the fit, or why it is left out."""
    remedy = "--set image.path=FILE says where it is now"
    try:
        image = load_image(settings)
    except InputError as error:
        return None, f"The image is left out, and maps have no georeference: {error}; {remedy}"
    pixels = image.values if image.labels is None else image.labels
    if hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest() != result.settings["image"]:
        why = f"{settings.image.path} is not the image that was fitted"
        return None, f"The image is left out, and maps have no georeference: {why}; {remedy}"
    return image, ""


def _truth(source: Path, result: Result) -> KnownTruth | None:
    """The truth of an image that `simulate` made and that was fitted whole; None of any other file."""
    if source.suffix != ".h5":
        return None
    try:
        made, _ = reading.read(source, *formats.IMAGE, (), verify=False)
    except InputError:
        return None
    whole = made["lattice"] == result.settings["lattice"]
    return KnownTruth(made["beta"], made["statistic"]) if whole else None


def _binding(path: Path, settings: Config, result: Result) -> tuple[Binding | None, str]:
    """The binding function of the fit, or why it is left out; neither where the fit needed none."""
    attributes = result.attributes
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


def _maps(
    content: Content, result: Result, order: np.ndarray, image: Image | None
) -> tuple[Maps | None, np.ndarray | None]:
    """The maps, with labels from 1 in ascending order of their mean, and the share of every label."""
    k = order.size
    if result.labels is None:
        observed = None if image is None else image.labels
        return (None, None) if observed is None else (Maps(observed + np.uint8(1), k), None)
    number = np.zeros(k + 1, dtype=np.uint8)
    # -1, for masked pixels, is the last entry.
    number[order] = np.arange(1, k + 1)
    labels = number[result.labels]
    entropy, largest, shares = _uncertainty(content, labels > 0)
    return Maps(labels, k, entropy, largest), shares[order]


def _uncertainty(content: Content, exists: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entropy and largest probability of every pixel, nan where masked, and the mean of each probability."""
    shape = content.shapes[PROBABILITY][0]
    entropy, largest = np.full(exists.shape, np.nan, np.float32), np.full(exists.shape, np.nan, np.float32)
    total = np.zeros(shape[-1])
    # A large scene need not fit into memory.
    for rows in slabs(shape[0], math.prod(shape[1:])):
        there = exists[rows]
        probability = content.rows(PROBABILITY, np.arange(rows.start, rows.stop))[there]
        entropy[rows][there] = maps.entropy(probability)
        largest[rows][there] = probability.max(axis=-1)
        total += probability.sum(axis=0, dtype=np.float64)
    return entropy, largest, total / exists.sum()


def write(content: Content, directory: Path | None = None, places: Sequence[str] = ()) -> str:
    """Write report.html, its figures and the maps; returns what was written, in a line.  On one rank."""
    from . import figures, page  # matplotlib, which only some users have

    directory = content.path.parent if directory is None else directory
    report = report_of(content, places)
    files.make_directory(directory)
    report, written = _write_maps(report, directory)
    drawn = figures.draw(report)
    for name, figure in drawn.items():
        files.write_bytes(directory / f"figure_{name}.png", figure.png)
    files.write_text(directory / "report.html", page.html(report, drawn, [file.name for file in written]))
    listed = ", ".join([f"{len(drawn)} figures", *(file.name for file in written)])
    return "\n".join([f"{directory / 'report.html'}: written, with {listed}", *report.notes])


def _write_maps(report: Report, directory: Path) -> tuple[Report, list[Path]]:
    """The maps where there are any; a package that is missing for them is a note, not the end."""
    if report.maps is None:
        return report, []
    try:
        return report, maps.write_maps(report.maps, report.image, directory)
    except InputError as error:
        return replace(report, notes=(*report.notes, f"The maps are not written: {error}")), []
