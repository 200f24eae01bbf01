"""Pictures of an image and of its maps, each with its scale and pixel numbers."""

from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..image import maps
from .fit import Report

WIDTH = 5.2  # inches: at the width of a telephone its letters are still read
# Axes of matplotlib, whose own annotations refuse arrays that it takes.
Panel = Any
PIXELS = 1600  # of the longer side: more are not seen


def panels(count: int = 1, height: float = 3.0, **settings: Any) -> tuple[Figure, list[Panel]]:
    """A figure of `count` panels below each other; `height` of all, in inches."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(count, 1, squeeze=False, **settings)
    return figure, axes.ravel().tolist()


def _shown(values: np.ndarray) -> tuple[np.ndarray, int, str]:
    """What is drawn: the middle plane of a volume, every step-th pixel; the step, and words for it."""
    words = ""
    if values.ndim == 3:
        words = f" Plane {values.shape[2] // 2 + 1} of {values.shape[2]} is shown."
        values = values[:, :, values.shape[2] // 2]
    step = -(-max(values.shape) // PIXELS)
    return values[::step, ::step], step, words


def _in_rows(values: np.ndarray) -> np.ndarray:
    """A hexagonal plane in half pixels: two for each, and the odd rows one to the right."""
    rows, columns = values.shape
    shifted = np.ma.masked_all((rows, 2 * columns + 1), values.dtype)
    for row in range(2):
        shifted[row::2, row : row + 2 * columns] = np.ma.repeat(values[row::2], 2, axis=1)
    return shifted


def _picture(
    report: Report, values: np.ndarray, settings: dict[str, Any], label: str
) -> tuple[Figure, Any, str]:
    """One map with its scale below; pixel numbers along the axes are those of the image's file."""
    shown, step, words = _shown(values)
    rows, columns = shown.shape
    height = float(np.clip(0.88 * WIDTH * rows / columns, 1.2, 1.5 * WIDTH)) + 1.0
    figure, (axes,) = panels(height=height)
    top, left = (0, 0) if report.image is None else report.image.offset[:2]
    extent = (left - 0.5, left + columns * step - 0.5, top + rows * step - 0.5, top - 0.5)
    if report.neighbourhood == (2, "hexagonal") and step == 1:
        shown, words = _in_rows(shown), f"{words} Every second row is shifted by half a pixel."
        extent = (extent[0], extent[1] + 0.5, *extent[2:])
    drawn = axes.imshow(np.ma.masked_invalid(shown), extent=extent, interpolation="nearest", **settings)
    axes.set(xlabel="column (pixel)", ylabel="row (pixel)", facecolor="white")
    axes.grid(False)
    axes.locator_params(nbins=6)
    # A long, narrow image has its scale where it is long.
    wide = columns > 0.6 * rows
    bar = figure.colorbar(
        drawn,
        ax=axes,
        location="bottom" if wide else "right",
        label=label,
        fraction=0.06,
        aspect=36,
        pad=0.02,
    )
    return figure, bar, words


def image(report: Report) -> tuple[Figure, str] | None:
    """The image as it was fitted, in grey."""
    if report.image is None or report.image.labels is not None or report.image.values.ndim == 1:
        return None
    source = report.image
    values = source.values if source.mask is None else np.where(source.mask, source.values, np.nan)
    low, high = np.quantile(source.pixels, (0.005, 0.995))
    settings = {"cmap": "gray", "vmin": low, "vmax": high if high > low else None}
    figure, bar, words = _picture(report, values, settings, "pixel value")
    bar.ax.locator_params(nbins=6)
    masked = " White: masked." if source.mask is not None else ""
    return (
        figure,
        f"The image; the 0.5 % darkest and brightest pixels at the ends of the scale.{masked}{words}",
    )


def label_map(report: Report) -> tuple[Figure, str] | None:
    """The most probable label of every pixel, or the observed one."""
    if report.maps is None or report.maps.labels.ndim == 1:
        return None
    k, labels = report.k, report.maps.labels
    settings = {"cmap": ListedColormap(maps.colours(k) / 255.0), "vmin": 0.5, "vmax": k + 0.5}
    figure, bar, words = _picture(report, np.ma.masked_equal(labels, 0), settings, "label, by ascending mean")
    bar.set_ticks(np.unique(np.linspace(1, k, min(k, 12)).round().astype(int)))
    bar.ax.tick_params(length=0)
    masked = " White: masked." if (labels == 0).any() else ""
    what = "The most probable label of each pixel" if report.result.hidden else "The observed labels"
    return figure, f"{what}.{masked}{words}"


def entropy(report: Report) -> tuple[Figure, str] | None:
    """How uncertain the label of every pixel is."""
    if report.maps is None or report.maps.entropy is None or report.maps.labels.ndim == 1:
        return None
    largest = float(np.log2(report.k))
    settings = {"cmap": "gray_r", "vmin": 0.0, "vmax": largest}
    values = np.ma.masked_invalid(report.maps.entropy)
    figure, bar, words = _picture(report, values, settings, "entropy (bits)")
    ticks = [*np.arange(0.0, largest - 0.25, 0.5), largest]
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    return figure, (
        f"Uncertainty: the entropy of the label probabilities. White is certain; black, {largest:.3g} bits, "
        f"is where all {report.k} labels are equally probable.{words}"
    )
