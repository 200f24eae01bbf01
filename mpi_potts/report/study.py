"""The report on a study: its table and figures, from study.h5, as one page.

As in the paper's figures: true against estimated beta; the distribution of the error of beta (figure 4, where
SMC-ABC runs with two values of M); effective sample sizes, CPU and elapsed times by method; and the
histograms of ranks, which are flat where the posterior is right.
"""

from functools import partial
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..io import files, reading
from ..io.formats import STUDY
from ..io.reading import Content
from ..study import scores as study
from ..study.scores import Fits
from . import page
from .figures import DARK, LIGHT, MIDDLE, Drawing, render
from .pictures import Panel, panels

# The method that others are held against: without a tolerance, and exact up to the binding function.
REFERENCE = "path"


def fits_of(content: Content) -> list[Fits]:
    """What each method found in the study of a verified file; on one rank."""
    content.require(STUDY)
    reading.refuse_older(content.path, content.attributes, STUDY.version, "without ranks of the noise")
    return study.from_arrays(content.arrays(), content.attributes["rows"])


def write(content: Content, directory: Path | None = None) -> str:
    """Write study.html and its figures; returns what was written, in a line.  On one rank."""
    path, attributes = content.path, content.attributes
    directory = path.parent if directory is None else directory
    fits = fits_of(content)
    files.make_directory(directory)
    rows = [study.scores(each, attributes["bins"], attributes["calibrated"]) for each in fits]
    drawn = draw(fits, attributes)
    for name, figure in drawn.items():
        files.write_bytes(directory / f"study_{name}.png", figure.png)
    files.write_text(directory / "study.html", html(path, study.table(rows), attributes, drawn))
    return f"{directory / 'study.html'}: written, with {len(drawn)} figures"


def html(path: Path, table: str, attributes: dict, drawn: dict[str, Drawing]) -> str:
    """One file with everything in it."""
    title = f"{path.parent.resolve().name}: a study of {attributes['images']} images"
    return page.document(
        title,
        f"<h1>{escape(title)}</h1>\n<pre>{escape(table)}</pre>\n"
        f'<div class="row two">{page.figures_of(drawn, *drawn)}</div>\n'
        f"<h2>Input</h2>\n<pre>{escape(attributes['input'])}</pre>\n"
        f"<pre>{escape(attributes['overrides'])}</pre>",
    )


def draw(fits: list[Fits], attributes: dict) -> dict[str, Drawing]:
    """Every figure, by name."""
    makers = {maker.__name__: partial(maker, fits) for maker in (beta, errors, ess, times)}
    if attributes["calibrated"]:
        makers["ranks"] = partial(ranks, fits, attributes["bins"])
    return render(makers)


def beta(fits: list[Fits]) -> tuple[Figure, str]:
    """A panel for each method: the posterior mean and 95 % interval against the truth."""
    figure, axes = panels(len(fits), 2.1 * len(fits), sharex=True)
    for each, panel in zip(fits, axes):
        low, high = each.quantiles[:, 0], each.quantiles[:, -1]
        span = [min(each.truth.min(), low.min()), max(each.truth.max(), high.max())]
        panel.plot(span, span, color="0.6", linewidth=0.8)
        panel.vlines(each.truth, low, high, color=LIGHT, linewidth=1.2)
        panel.plot(each.truth, each.mean, ".", color=DARK, markersize=4)
        panel.set(title=each.name, ylabel="estimated beta")
    axes[-1].set_xlabel("true beta")
    return (
        figure,
        "True against estimated beta: posterior means and 95 % intervals, one panel for each method.",
    )


def posterior_error(fits: Fits) -> np.ndarray:
    """(n, draws) draws of beta less the true one."""
    return fits.sample - fits.truth[:, None]


def errors(fits: list[Fits]) -> tuple[Figure, str]:
    """The error of all draws; and of the means, as their distance from path sampling where there is one."""
    exact = next((each for each in fits if each.name == REFERENCE), None)
    others = [] if exact is None else [each for each in fits if (each.mean != exact.mean).any()]
    both = exact is not None and len(others) > 0
    figure, axes = panels(1 + both, 1.0 + 0.32 * (len(fits) + both * len(others)) + 0.5 * both)
    _boxes(axes[0], fits, [posterior_error(each).ravel() for each in fits], DARK)
    axes[0].set_xlabel(r"$\beta$ drawn less true $\beta$")
    caption = "Error of beta in the draws of all images: range, middle half and median."
    if exact is not None and both:
        _boxes(axes[1], others, [np.abs(each.mean - exact.mean) / exact.sd for each in others], MIDDLE)
        axes[1].set_xscale("log")
        axes[1].set_xlabel(f"distance of the mean from that of {REFERENCE}, in its sd")
        caption += (
            f" Below: how far the posterior mean of each image is from that of {REFERENCE}, which has no "
            f"tolerance (log axis)."
        )
    axes[0].axvline(0.0, color="black", linewidth=1.2, linestyle=":", zorder=0)
    return figure, caption


def ess(fits: list[Fits]) -> tuple[Figure, str]:
    """Effective sample sizes of beta, a row for each method."""
    figure, (axes,) = panels(height=0.8 + 0.35 * len(fits))
    _boxes(axes, fits, [each.ess for each in fits], DARK)
    axes.set_xscale("log")
    axes.set_xlabel("effective sample size of beta")
    return figure, "Effective sample sizes by method: range, middle half and median of the images (log axis)."


def times(fits: list[Fits]) -> tuple[Figure, str]:
    """CPU and elapsed times for one image, a panel each."""
    figure, axes = panels(2, 1.6 + 0.7 * len(fits), sharex=True)
    for panel, name, colour in zip(axes, ("cpu", "elapsed"), (DARK, MIDDLE)):
        _boxes(panel, fits, [getattr(each, name) for each in fits], colour)
        panel.set_xscale("log")
        panel.set_xlabel(f"{'CPU' if name == 'cpu' else 'elapsed'} time for one image (s)")
        panel.tick_params(labelbottom=True)
    caption = "CPU and elapsed times by method, as run: range, middle half and median (log axes)."
    return figure, caption


def ranks(fits: list[Fits], most: int) -> tuple[Figure, str]:
    """A panel for each method, with the range in which 95 % of the bins should lie."""
    figure, axes = panels(len(fits), 1.4 * len(fits) + 0.4, sharex=True)
    for each, panel in zip(fits, axes):
        bins = study.number_of_bins(each.truth.size, each.draws + 1, most)
        counts = study.histogram(each.rank, each.draws, bins)
        width, expected = (each.draws + 1) / bins, each.truth.size / bins
        spread = 1.96 * np.sqrt(expected * (1.0 - 1.0 / bins))
        panel.axhspan(expected - spread, expected + spread, color="0.85")
        panel.bar(np.arange(bins) * width, counts, width, align="edge", color=LIGHT, edgecolor=DARK)
        panel.set(title=each.name, ylabel="images")
    axes[-1].set_xlabel(f"rank of the true beta among {fits[0].draws} draws")
    return figure, "Ranks of the true beta; grey: where 95 % of the bins of a right posterior lie."


def _boxes(axes: Panel, fits: list[Fits], values: list[np.ndarray], colour: str) -> None:
    """For each method, the first at the top: range, middle half and median."""
    places = np.arange(len(fits))[::-1]
    low, lower, median, upper, high = np.array(
        [np.quantile(v, (0.0, 0.25, 0.5, 0.75, 1.0)) for v in values]
    ).T
    axes.hlines(places, lower, upper, color=LIGHT, linewidth=8.0)
    axes.hlines(places, low, high, color=colour, linewidth=1.0)
    axes.plot(median, places, "|", color=colour, markersize=11, markeredgewidth=2.0)
    _rows(axes, fits)


def _rows(axes: Panel, fits: list[Fits]) -> None:
    """The names of the methods, the first at the top."""
    axes.set_yticks(np.arange(len(fits))[::-1], [each.name for each in fits])
    axes.set_ylim(-0.6, len(fits) - 0.4)
