"""The report on a study: its table and figures, from study.h5, as one page.

As in the paper's figures: true against estimated beta, effective sample sizes, CPU and elapsed times by
method; and the histograms of ranks, which are flat where the posterior is right.
"""

import base64
import io
from collections.abc import Callable
from html import escape
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from . import files, store, study
from .figures import DARK, DPI, LIGHT, MIDDLE, Drawing
from .figures import STYLE as FIGURE_STYLE
from .page import STYLE
from .pictures import panels
from .study import FORMAT, VERSION, Fits


def load(path: Path) -> tuple[dict, list[Fits]]:
    """Attributes of a study, and what each method found; on one rank."""
    attributes, arrays = store.read(path, FORMAT, VERSION)
    return attributes, study.from_arrays(arrays, attributes["rows"], attributes["draws"])


def write(path: Path, directory: Path | None = None) -> str:
    """Write study.html and its figures; returns what was written, in a line.  On one rank."""
    directory = path.parent if directory is None else directory
    attributes, fits = load(path)
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
    shown = "\n".join(
        f'<figure><img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(d.png).decode()}">'
        f"<figcaption>{escape(d.caption)}</figcaption></figure>"
        for name, d in drawn.items()
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n<h1>{escape(title)}</h1>\n<pre>{escape(table)}</pre>\n"
        f'<div class="row two">{shown}</div>\n<h2>Input</h2>\n<pre>{escape(attributes["input"])}</pre>\n'
        f"<pre>{escape(attributes['overrides'])}</pre>\n</body>\n</html>\n"
    )


def draw(fits: list[Fits], attributes: dict) -> dict[str, Drawing]:
    """Every figure, by name."""
    makers: dict[str, Callable[[list[Fits]], tuple[Figure, str]]] = {
        "beta": beta,
        "ess": ess,
        "times": times,
    }
    if attributes["calibrated"]:
        makers["ranks"] = lambda fits: ranks(fits, attributes["bins"])
    drawings = {}
    with matplotlib.rc_context(FIGURE_STYLE):
        for name, maker in makers.items():
            figure, caption = maker(fits)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
            drawings[name] = Drawing(buffer.getvalue(), caption)
    return drawings


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


def ess(fits: list[Fits]) -> tuple[Figure, str]:
    figure, (axes,) = panels(height=0.8 + 0.35 * len(fits))
    _boxes(axes, fits, [each.ess for each in fits], DARK)
    axes.set_xlabel("effective sample size of beta")
    return figure, "Effective sample sizes by method: range, middle half and median of the images (log axis)."


def times(fits: list[Fits]) -> tuple[Figure, str]:
    figure, axes = panels(2, 1.6 + 0.7 * len(fits), sharex=True)
    for panel, name, colour in zip(axes, ("cpu", "elapsed"), (DARK, MIDDLE)):
        _boxes(panel, fits, [getattr(each, name) for each in fits], colour)
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


def _boxes(axes, fits, values, colour):
    """For each method, the first at the top: range, middle half and median."""
    places = np.arange(len(fits))[::-1]
    low, lower, median, upper, high = np.array(
        [np.quantile(v, (0.0, 0.25, 0.5, 0.75, 1.0)) for v in values]
    ).T
    axes.hlines(places, low, high, color=colour, linewidth=1.0)
    axes.hlines(places, lower, upper, color=colour, linewidth=6.0)
    axes.plot(median, places, "|", color="white", markersize=8)
    axes.set_yticks(places, [each.name for each in fits])
    axes.set_ylim(-0.6, len(fits) - 0.4)
    axes.set_xscale("log")
