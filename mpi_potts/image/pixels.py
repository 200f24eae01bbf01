"""The image: pixel values y, which pixels exist, and the lattice they stand on, or the graph of samples.

Everything that cannot be segmented is refused here, by name and position: a pixel that is not a number, an
image without contrast, a band or a region that is not there.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.inputs import Config
from ..errors import InputError
from ..graph import LARGEST_POWER, Graph
from ..lattice import MASKED, Lattice
from ..runtime import memory
from . import readers
from .places import Georeference

LARGEST_VALUE = 1e150  # the square of a pixel must be a number


@dataclass(frozen=True, eq=False)
class Image:
    """An image as the methods need it.

    values : float64 array of the lattice's shape, finite, 0 where masked
    mask   : bool array of that shape, True where the pixel exists, or None where all do
    labels : for kind = "labels", uint8 array of 0..k-1 with 255 where masked; else None
    offset : the first row and column (and plane) in the file, after cropping
    tags   : TIFF tags that place the file on the earth
    place  : where the first pixel of the file and its neighbours lie, if the file says it
    notes  : what the file may have been taken for by mistake, each in a sentence
    start  : (n,) uint8, labels 0..k-1 of the pixels that exist to start from, where fit.start names a file
    """

    values: np.ndarray
    mask: np.ndarray | None
    labels: np.ndarray | None
    source: Path
    offset: tuple[int, ...]
    tags: dict[int, Any] = field(default_factory=dict)
    place: Georeference | None = None
    notes: tuple[str, ...] = ()
    start: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, columns and, in a volume, planes."""
        return self.values.shape

    @property
    def pixels(self) -> np.ndarray:
        """(n,) values of the pixels that exist, in raster order."""
        return self.values.ravel() if self.mask is None else self.values[self.mask]


def load_image(config: Config) -> Image:
    """Read the image that the input file names, and refuse what cannot be segmented."""
    keys = config.image
    if keys.path is None:
        raise InputError(
            f"{config.path}: image.path is missing; this command needs the name of an image file"
        )
    contents = _read(config, "path", banded=bool(keys.band or keys.ndvi))
    values, exists = _plane(config, contents)
    exists = _apply_mask_file(config, exists, contents.place)
    region = _region(config, values.shape)
    values, exists = values[region], exists[region]
    if keys.shape is not None and keys.shape != values.shape:
        raise InputError(
            f"{config.path}: image.shape = {list(keys.shape)}: {keys.path} has {list(values.shape)}"
        )
    offset = tuple(part.start for part in region)
    _check_pixels(config, values, exists, offset)
    values = np.where(exists, values, 0.0)
    labels = _labels(config, values, exists) if keys.kind == "labels" else None
    if labels is None:
        _check_contrast(config, values[exists])
    # The labels of a map are the indices of its palette.
    notes = (f"{keys.path}: {contents.note}",) if contents.note and labels is None else ()
    mask = None if exists.all() else exists
    return Image(values, mask, labels, keys.path, offset, contents.tags, contents.place, notes)


def _read(config, key, **how):
    """The file that a key of [image] names; what is wrong with it is said with the name of the key."""
    try:
        return readers.read(getattr(config.image, key), config.image.dataset, **how)
    except InputError as error:
        raise InputError(f"{config.path}: image.{key}: {error}") from None


def _refusal(config, key, what):
    """An InputError that says what is wrong with the file that a key of [image] names."""
    return InputError(f"{config.path}: image.{key}: {getattr(config.image, key)}: {what}")


def with_start(config: Config, image: Image) -> Image:
    """The image with the labels that fit.start names a file of, if it does."""
    path = config.fit.start
    if isinstance(path, str):
        return image
    try:
        contents = readers.read(path, "labels")
    except InputError as error:
        raise InputError(f"{config.path}: fit.start: {error}") from None
    labels = _single(config, contents)
    if labels.shape != image.shape:
        raise InputError(
            f"{config.path}: fit.start: {path}: has shape {list(labels.shape)}; {list(image.shape)}, that of "
            f"the image, is accepted"
        )
    if image.place is not None and contents.place is not None:
        if apart := image.place.shifted(image.offset).unlike(contents.place, image.shape):
            raise InputError(
                f"{config.path}: fit.start: {path}: lies elsewhere than {image.source}: it {apart}"
            )
    k, exists = config.model.labels, np.ones(image.shape, bool) if image.mask is None else image.mask
    wrong = exists & ~np.isin(labels, np.arange(1, k + 1))
    if wrong.any():
        position = np.argwhere(wrong)[0]
        raise InputError(
            f"{config.path}: fit.start: {path}: pixel {position.tolist()} has label "
            f"{labels[tuple(position)]}; 1 to {k} (model.labels) is accepted, and where masked anything"
        )
    return replace(image, start=(labels[exists] - 1).astype(np.uint8))


def lattice_of(config: Config, image: Image | None = None) -> Lattice:
    """The lattice of the image, or of image.shape (and image.mask) where no image is given; or the graph."""
    if image is not None:
        shape, mask = image.shape, image.mask
    elif config.image.shape is None:
        raise InputError(f"{config.path}: image.shape is missing; 2 or 3 integers are accepted, of a graph 1")
    else:
        shape = config.image.shape
        memory.require(f"{config.path}: image.shape = {list(shape)}", shape, np.uint8, copies=2)
        mask = None if config.image.mask is None else _apply_mask_file(config, np.ones(shape, dtype=bool))
    if config.image.graph is not None:
        return _graph(config, shape, mask)
    try:
        return Lattice(shape, str(config.model.neighbourhood), mask)
    except InputError as error:
        raise InputError(f"{config.path}: {error}") from None


def _graph(config, shape, mask):
    """The graph of the samples, of which there are shape[0]."""
    pairs = _read(config, "graph").array
    try:
        graph = Graph(shape[0], pairs, mask)
    except InputError as error:
        raise _refusal(config, "graph", error) from None
    beta = config.prior.beta
    if not config.prior.left_to_lattice and beta[1] * graph.most > LARGEST_POWER:
        largest = LARGEST_POWER / graph.most
        raise InputError(
            f"{config.path}: prior.beta = {list(beta)}: up to {largest:.4g} is accepted, as a "
            f"sample of image.graph has {graph.most} neighbours"
        )
    return graph


def _plane(config, contents):
    """One value for each pixel, float64, and which pixels exist: the band, or the vegetation index of two."""
    keys = config.image
    nodata = contents.nodata if keys.nodata is None else keys.nodata
    if keys.ndvi is None:
        band = _band(config, contents, keys.band, "band")
        return _dimensions(config, _scaled(config, band)), _dimensions(config, ~_is_nodata(band, nodata))
    red, nir = (_band(config, contents, getattr(keys.ndvi, name), f"ndvi.{name}") for name in ("red", "nir"))
    exists = ~(_is_nodata(red, nodata) | _is_nodata(nir, nodata))
    red, nir = _scaled(config, red), _scaled(config, nir)
    # Without light there is no index, and so no pixel.
    exists &= red != -nir
    index = np.zeros(red.shape)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused with its place
        np.divide(nir - red, nir + red, out=index, where=exists)
    return _dimensions(config, index), _dimensions(config, exists)


def _scaled(config, band):
    """What the numbers of a band mean: float64, in which no integer of a file overflows."""
    keys, band = config.image, band.astype(np.float64)
    return band if (keys.scale, keys.offset) == (1.0, 0.0) else band * keys.scale + keys.offset


def _band(config, contents, number, key):
    array, path = contents.array, config.image.path
    if not contents.banded:
        if number not in (None, 1):
            raise InputError(f"{config.path}: image.{key} = {number}: {path} has one band; 1 is accepted")
        return array
    count = array.shape[-1]
    if number is None and count > 1:
        raise InputError(
            f"{config.path}: image.band is missing; {path} has {count} bands, 1 to {count} is accepted, as "
            f"in --set image.band={count}"
        )
    number = number or 1
    if number > count:
        raise InputError(
            f"{config.path}: image.{key} = {number}: {path} has {count} bands, 1 to {count} is accepted"
        )
    return array[..., number - 1]


def _dimensions(config, array):
    """The array with 2 or 3 dimensions, else refused; a volume of one plane becomes an image.

    Of a graph it has one, and a single column counts as that.
    """
    if config.image.graph is not None:
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1 or array.size == 0:
            what = (
                f"has shape {list(array.shape)}; one column of samples is accepted where image.graph is given"
            )
            raise _refusal(config, "path", what)
        return array
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or array.size == 0:
        raise _refusal(
            config,
            "path",
            f"has shape {list(array.shape)}; 2 or 3 dimensions are accepted, or 1 with image.graph",
        )
    return array


def _is_nodata(array, nodata):
    if nodata is None:
        return np.zeros(array.shape, dtype=bool)
    if np.isnan(nodata):
        return np.isnan(array)
    # In the precision of the file, in which a value such as -3.4e38 was written.
    return array == (array.dtype.type(nodata) if array.dtype.kind == "f" else nodata)


def _apply_mask_file(config, exists, place=None):
    """The pixels that exist and are not masked; a mask that lies elsewhere than the image is refused."""
    if config.image.mask is None:
        return exists
    contents = _read(config, "mask")
    mask = _single(config, contents)
    if mask.shape != exists.shape:
        raise _refusal(
            config, "mask", f"the mask has shape {list(mask.shape)}; {list(exists.shape)} is accepted"
        )
    if place is not None and contents.place is not None:
        if apart := place.unlike(contents.place, exists.shape):
            raise _refusal(config, "mask", f"lies elsewhere than {config.image.path}: it {apart}")
    return exists & (mask != 0) & ~np.isnan(mask)


def _single(config, contents):
    """The array of a file that goes with the image: without the axis of a single band, or of one column."""
    single = contents.banded or (config.image.graph is not None and contents.array.ndim == 2)
    return contents.array[..., 0] if single and contents.array.shape[-1] == 1 else contents.array


def _region(config, shape):
    """Slices of the part of the image that image.crop keeps: all of it where there is none."""
    crop = config.image.crop
    if crop is None:
        return tuple(slice(0, n) for n in shape)
    inside = len(crop) == 2 * len(shape) and all(stop <= n for stop, n in zip(crop[1::2], shape))
    if not inside:
        raise InputError(
            f"{config.path}: image.crop = {list(crop)}: {config.image.path} has shape {list(shape)}; "
            f"from, to inside it for each axis are accepted"
        )
    return tuple(slice(start, stop) for start, stop in zip(crop[::2], crop[1::2]))


def _check_pixels(config, values, exists, offset):
    if not exists.any():
        nodata = "nodata" if config.image.nodata is None else f"nodata = {config.image.nodata:g}"
        raise _refusal(config, "path", f"no pixel exists: all are masked or {nodata}")
    with np.errstate(invalid="ignore"):
        bad = exists & ~(np.abs(values) <= LARGEST_VALUE)
    if bad.any():
        position = np.argwhere(bad)[0]
        more = f" ({bad.sum() - 1} more)" if bad.sum() > 1 else ""
        raise _refusal(
            config,
            "path",
            f"pixel {(position + offset).tolist()} is {values[tuple(position)]}{more}; finite "
            f"numbers are accepted, or image.nodata = nan where such pixels do not exist",
        )


def _check_contrast(config, pixels):
    distinct = np.unique(pixels).size
    k = config.model.labels
    if distinct == 1:
        raise _refusal(
            config, "path", f"all pixels are {pixels[0]:g}; at least {k} different values are needed"
        )
    if distinct < k:
        raise _refusal(
            config, "path", f"has {distinct} different values; at least {k} (model.labels) are needed"
        )


def _labels(config, values, exists):
    """Labels 0..k-1 in the order of the values in the file, whatever integers these are."""
    k, pixels = config.model.labels, values[exists]
    distinct, index = np.unique(pixels, return_inverse=True)
    if (fraction := distinct != np.floor(distinct)).any():
        wrong = f'{distinct[fraction][0]:g} is not a label; image.kind = "labels" needs integers'
        raise _refusal(config, "path", wrong)
    if distinct.size > k:
        raise _refusal(
            config, "path", f"has {distinct.size} different labels; model.labels = {k} accepts at most {k}"
        )
    labels = np.full(values.shape, MASKED, dtype=np.uint8)
    labels[exists] = index
    return labels
