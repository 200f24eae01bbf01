"""The figures of a report, each a PNG with a caption; legible in grey and at the width of a telephone.

Nothing here depends on a display: figures are drawn by matplotlib's Agg canvas, without pyplot and its state.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..binding.function import Binding
from ..estimation.verdicts import FLAG_DISAGREE
from ..image import maps
from ..model.noise import named
from ..posterior.cautions import BETWEEN, CORRELATED, SKEWED, SURE, TAILED
from .fit import Report
from .pictures import WIDTH, Panel, entropy, image, label_map, panels

DPI = 200
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
DARK, MIDDLE, LIGHT = "#1f3b57", "#c0692b", "#b9cfe4"  # told apart by their lightness too
LINES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Drawing:
    """A figure as it is embedded: the bytes of a PNG, and what it shows in words."""

    png: bytes
    caption: str


def render(makers: Mapping[str, Callable[[], tuple[Figure, str] | None]]) -> dict[str, Drawing]:
    """The figures and captions that functions make, by name; of some there may be nothing to draw."""
    drawings = {}
    with matplotlib.rc_context(STYLE):
        for name, maker in makers.items():
            made = maker()
            if made is not None:
                buffer = io.BytesIO()
                made[0].savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
                drawings[name] = Drawing(buffer.getvalue(), made[1])
    return drawings


def draw(report: Report) -> dict[str, Drawing]:
    """Every figure for which the result has the data, by name, in the order of the page."""
    makers = {
        "image": image,
        "labels": label_map,
        "entropy": entropy,
        "beta": beta,
        "binding": binding,
        "noise": noise,
        "residuals": residuals,
        "iterations": iterations,
        "draws": draws,
    }
    return render({name: partial(maker, report) for name, maker in makers.items()})


# beta and the binding function


def beta(report: Report) -> tuple[Figure, str] | None:
    """The posterior of beta, with its interval and the phase transition."""
    found, arrays, known = report.result.attributes, report.result.arrays, ""
    figure, (axes,) = panels(height=3.2)
    span = _span(report)
    bins = np.linspace(*span, 61)
    if "density/beta" in arrays:
        axes.plot(arrays["density/beta"], arrays["density/value"], color=DARK, label="density")
    elif report.result.hidden:
        axes.hist(arrays["marginal/beta"], bins, density=True, color=LIGHT, label="marginal over the labels")
    if "posterior/beta" in arrays and "density/beta" not in arrays:
        text = "for the observed labels" if report.result.observed else "particles for the last S(z)"
        weight = arrays["posterior/weight"]
        axes.hist(
            arrays["posterior/beta"],
            bins,
            weights=weight,
            density=True,
            histtype="step",
            color=DARK,
            label=text,
        )
    if report.truth is not None:
        axes.axvline(report.truth.beta, color="black", ls=":", lw=1.5, label="truth")
        span = min(span[0], report.truth.beta), max(span[1], report.truth.beta)
        known = f" The image was simulated with beta = {report.truth.beta:.5g}."
    _mark(axes, report, span)
    axes.set(xlim=span, xlabel=r"$\beta$ (inverse temperature)", ylabel="posterior density")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure, (
        f"Posterior of beta: mean {found['beta_mean']:.5g}, 95 % between {found['beta_low']:.5g} and "
        f"{found['beta_high']:.5g}.{known} {_crit_words(report)}"
    )


def _crit_words(report: Report) -> str:
    """Where the phase transition is, and how that is known, for a caption."""
    known = {(2, "first"): "log(1 + sqrt(k))", (2, "hexagonal"): "exact"}
    how = known.get(report.neighbourhood, "estimated for this neighbourhood")
    return f"The phase transition is at beta_crit = {report.transition:.4f} ({how})."


def _span(report: Report) -> tuple[float, float]:
    """The betas to show: all draws, within a few standard deviations of the interval."""
    found = report.result.attributes
    names = [name for name in ("marginal/beta", "posterior/beta") if name in report.result.arrays]
    low = min(report.result.arrays[name].min() for name in names)
    high = max(report.result.arrays[name].max() for name in names)
    sd = max(found["beta_sd"], 1e-6)
    low, high = max(low, found["beta_low"] - 4.0 * sd), min(high, found["beta_high"] + 4.0 * sd)
    margin = 0.05 * (high - low) or sd
    return float(low - margin), float(high + margin)


def _mark(
    axes: Panel, report: Report, span: tuple[float, float], words: bool = True, height: float = 0.9
) -> None:
    """The 95 % interval as a band; beta_crit as a line, or an arrow where it is outside."""
    found, where = report.result.attributes, report.transition
    label = (lambda text: text) if words else (lambda text: None)
    band = {"color": "0.92", "lw": 0, "zorder": 0, "label": label("95 % interval")}
    axes.axvspan(found["beta_low"], found["beta_high"], **band)
    axes.axvline(found["beta_mean"], color="0.35", lw=0.8, label=label("mean"))
    if span[0] <= where <= span[1]:
        axes.axvline(where, color=MIDDLE, ls="--", lw=1.5, label=label(r"$\beta_{crit}$"))
    elif words:
        right = where > span[1]
        text = (
            rf"$\beta_{{crit}}$ = {where:.4f} $\rightarrow$"
            if right
            else rf"$\leftarrow$ $\beta_{{crit}}$ = {where:.4f}"
        )
        place = {"x": 0.99 if right else 0.01, "ha": "right" if right else "left"}
        axes.text(y=height, s=text, color=MIDDLE, transform=axes.transAxes, **place)


def binding(report: Report) -> tuple[Figure, str] | None:
    """Mean, its residuals, and sd of S(z) around the posterior, with two standard errors."""
    table = report.binding
    if table is None:
        return None
    low, high = _around(table, report.result.attributes)
    inside = (table.beta >= low) & (table.beta <= high)
    at, curve = table.beta[inside], np.linspace(low, high, 400)
    mean, sd = table.moments(curve)
    figure, axes = panels(3, 6.0, sharex=True)
    rows = (
        (axes[0], table.mean[inside], table.mean_se[inside], mean, "mean of S(z)"),
        (
            axes[1],
            table.mean[inside] - table.moments(at)[0],
            table.mean_se[inside],
            0 * mean,
            "mean less curve",
        ),
        (axes[2], table.sd[inside], table.sd_se[inside], sd, "sd of S(z)"),
    )
    flagged = table.flag[inside] & FLAG_DISAGREE > 0
    for panel, values, error, line, label in rows:
        # Over the points, which would hide it where they are dense.
        panel.plot(curve, line, color=DARK, lw=1.4, zorder=3, label=f"{table.interpolation} curve")
        style = {
            "color": "0.55",
            "ecolor": "0.65",
            "elinewidth": 0.8,
            "capsize": 2,
            "ls": "",
            "marker": "o",
            "ms": 2.5,
        }
        panel.errorbar(at, values, 2.0 * error, label="simulated, 2 standard errors", **style)
        if flagged.any():
            panel.plot(at[flagged], values[flagged], "x", color=MIDDLE, ms=6, label="starts disagree")
        # The mean rises: there is room below it on the right, and above it on the left.
        height = 0.06 if report.transition > high else 0.9
        _mark(panel, report, (low, high), words=panel is axes[0], height=height)
        panel.set_ylabel(f"{label}\n(pairs)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.align_ylabels(axes)
    axes[2].set(xlim=(low, high), xlabel=r"$\beta$ (inverse temperature)")
    return figure, (
        f"The binding function around the posterior: {inside.sum()} of {table.beta.size} betas, each "
        f"{table.iterations} sweeps. S(z) counts the pairs of neighbours with equal labels, of {table.edges}."
    )


def _around(binding: Binding, found: Mapping[str, Any]) -> tuple[float, float]:
    """An interval about the posterior's, wide enough for a dozen betas of the grid, inside the grid."""
    grid = binding.beta
    width = found["beta_high"] - found["beta_low"]
    low, high = found["beta_low"] - width, found["beta_high"] + width
    nearest = np.sort(np.abs(grid - found["beta_mean"]))[min(11, grid.size - 1)]
    low, high = min(low, found["beta_mean"] - nearest), max(high, found["beta_mean"] + nearest)
    return float(max(low, grid[0])), float(min(high, grid[-1]))


# Noise


def noise(report: Report) -> tuple[Figure, str] | None:
    """The histogram of the pixels under the fitted mixture, and where every label is and how wide below."""
    if not report.result.noise:
        return None
    model = named(report.result.noise)
    draws = [report.result.noise[name] for name in model.names]
    values = np.stack([of_parameter.mean(axis=0) for of_parameter in draws])
    centre, width = values[0], model.widths(values)
    k = centre.size
    figure, (top, below) = panels(
        2, 3.6 + 0.16 * min(k, 12), sharex=True, height_ratios=(3, 0.6 + 0.25 * min(k, 12))
    )
    if report.image is None:
        span = float((centre - 4 * width).min()), float((centre + 4 * width).max())
    else:
        pixels = report.image.pixels
        span = tuple(np.quantile(pixels, (0.0005, 0.9995)).tolist())
        top.hist(pixels, np.linspace(*span, 81), density=True, color="0.85", label="pixels")
    x = np.linspace(*span, 500)
    parts = report.shares * model.pdf(values, x)
    top.plot(x, parts.sum(axis=1), color="black", lw=1.4, label="mixture")
    tones = maps.colours(k) / 255.0 * 0.85
    for j in range(k):
        text = f"label {j + 1}" if k <= 6 else None
        top.plot(x, parts[:, j], color=tones[j], ls=LINES[j % len(LINES)], lw=1.2, label=text)
    top.set(ylabel="density", ylim=(0.0, None))
    # Above the axes: inside, it would hide a part of the histogram.
    figure.legend(*top.get_legend_handles_labels(), loc="outside upper center", ncols=4 if k > 3 else 5)
    _noise_rows(below, draws[0], width, tones)
    below.set_xlim(span)
    what = "The pixels and the" if report.image is not None else "The"
    return figure, (
        f"{what} fitted mixture: every label's {model.title} distribution, at the posterior means of "
        f"{' and '.join(model.symbols)}, times its share. Below: {model.symbols[0]} with its 95 % interval "
        f"(dot and thick bar), plus and minus the standard deviation (thin)."
    )


def _noise_rows(axes: Panel, location: np.ndarray, width: np.ndarray, tones: np.ndarray) -> None:
    """Where a label is, from draws (n, k), with a 95 % interval, plus and minus its width; a row for each."""
    low, high = np.quantile(location, (0.025, 0.975), axis=0)
    centre = location.mean(axis=0)
    rows = np.arange(1, centre.size + 1)
    axes.hlines(rows, centre - width, centre + width, color=tones, lw=1.2)
    axes.hlines(rows, low, high, color=tones, lw=5)
    axes.plot(centre, rows, "o", color="black", ms=3.5)
    axes.set(xlabel="pixel value", ylabel="label", ylim=(centre.size + 0.7, 0.3))
    axes.set_yticks(np.unique(np.linspace(1, centre.size, min(centre.size, 12)).round()))


def residuals(report: Report) -> tuple[Figure, str] | None:
    """Skewness, kurtosis and correlation of residuals against what the noise model allows."""
    arrays = report.result.arrays
    if "predictive/skewness" not in arrays:
        return None
    titles = ("skewness", "excess kurtosis", "correlation of\nneighbours")
    rows = [_over_chains(arrays[f"predictive/{name}"]) for name in ("skewness", "kurtosis", "correlation")]
    rows[2] = np.concatenate([rows[2], _over_chains(arrays["predictive/neighbours"][:, None])])
    limits = ((SKEWED,) * report.k, (TAILED,) * report.k, (CORRELATED,) * report.k + (BETWEEN,))
    figure = Figure(figsize=(WIDTH, 1.5 + 0.28 * min(report.k + 1, 20)), layout="constrained")
    places = [*map(str, range(1, report.k + 1)), "all"]
    for axes, title, values, limit in zip(figure.subplots(1, 3, sharey=True), titles, rows, limits):
        at = np.arange(len(values))
        bound = np.maximum(limit, SURE * np.nan_to_num(values[:, 1]))
        axes.barh(at, 2.0 * bound, left=-bound, color="0.92", label="no warning")
        axes.barh(at, 4.0 * values[:, 1], left=-2.0 * values[:, 1], color=LIGHT, label="95 % of the model")
        axes.plot(values[:, 0], at, "o", color="black", ms=4, label="residuals")
        axes.axvline(0.0, color="0.35", lw=0.8)
        axes.set(title=title, ylim=(report.k + 0.6, -0.6))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    figure.axes[0].set(ylabel="label", yticks=np.arange(report.k + 1), yticklabels=places)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure, (
        "Is the noise as the model has it? Skewness, kurtosis and correlation of what the last states of the "
        "chains leave of the image (points), against where the model has 95 % of them; labels of few pixels "
        "are left out. Beyond the grey, beta may be off by more than its interval: a warning says what to do."
    )


def _over_chains(rows: np.ndarray) -> np.ndarray:
    """(k, 2) means over the chains of rows (chains, k, 2) in which there may be gaps."""
    known = ~np.isnan(rows)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


# What happened on the way


def iterations(report: Report) -> tuple[Figure, str] | None:
    """S(z), the tolerance, the effective sample size and the acceptance over the iterations of the SMC."""
    arrays = report.result.arrays
    if "trace/iteration" not in arrays:
        return None
    at, resampled = arrays["trace/iteration"], arrays["trace/resampled"] > 0
    rows = (
        ("statistic", "S(z) (pairs)", 1.0),
        ("epsilon", "tolerance $\\epsilon$\n(pairs)", 1.0),
        ("ess", "ESS (particles)", 1.0),
        ("acceptance", "accepted (%)", 100.0),
    )
    figure, axes = panels(len(rows), 6.6, sharex=True)
    for panel, (name, label, scale) in zip(axes, rows):
        values = scale * arrays[f"trace/{name}"]
        panel.plot(at, values, "-o", color=DARK, ms=2.5, lw=1.0)
        panel.plot(at[resampled], values[resampled], "D", color=MIDDLE, ms=4.5, label="resampled")
        panel.set_ylabel(label)
    finite = arrays["trace/epsilon"][np.isfinite(arrays["trace/epsilon"])]
    if finite.size and finite.min() > 0.0:
        axes[1].set_yscale("log")
    for panel in axes[2:]:
        panel.set_ylim(0.0, None)
    if resampled.any():
        axes[2].legend(loc="best")
    if report.truth is not None and not report.result.observed:
        axes[0].axhline(report.truth.statistic, color="black", ls=":", lw=1.5, label="true S(z)")
        axes[0].legend(handles=axes[0].get_lines()[-1:], loc="best")
    axes[-1].set_xlabel("iteration of the SMC")
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    figure.align_ylabels(axes)
    words = "" if report.truth is None else f" The true labels have S(z) = {report.truth.statistic}."
    return figure, (
        f"The SMC over its {at.size} iterations, which stopped because: "
        f"{report.result.attributes['stopped_because']}.{words}"
    )


def draws(report: Report) -> tuple[Figure, str] | None:
    """beta and S(z) of every chain over the final sweeps."""
    if not report.result.hidden:
        return None
    figure, axes = panels(2, 3.8, sharex=True)
    names = (("marginal/beta", r"$\beta$"), ("marginal/statistic", "S(z) (pairs)"))
    for panel, (name, label) in zip(axes, names):
        chains = report.result.by_chain(name)
        shades = np.linspace(0.1, 0.65, len(chains))
        for number, (values, shade) in enumerate(zip(chains, shades)):
            text = f"chain {number + 1}" if 1 < len(chains) <= 6 else None
            panel.plot(np.arange(1, values.size + 1), values, lw=0.5, color=str(shade), alpha=0.8, label=text)
        panel.set_ylabel(label)
    if 1 < len(report.result.by_chain("marginal/beta")) <= 6:
        legend = axes[0].legend(loc="upper right", ncols=3)
        for line in legend.get_lines():
            line.set_linewidth(2.0)
    axes[-1].set_xlabel("sweep, after the burn-in")
    figure.align_ylabels(axes)
    return (
        figure,
        "The draws behind the marginal posterior: level and without drift where the chains have settled.",
    )
