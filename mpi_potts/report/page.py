"""The page of a report: one HTML file with everything in it, readable at any width and in grey."""

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from html import escape
from itertools import count
from typing import Any

import numpy as np

from ..binding.function import Binding
from ..estimation.verdicts import settled
from ..lattice import GRAPH, in_words
from ..model.noise import named
from ..posterior.cautions import COARSE, FEW_DRAWS, flags_near
from .figures import Drawing
from .fit import Report

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 72rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .75rem; border-bottom: 1px solid #ccc; padding-bottom: .25rem; }
p { max-width: 46rem; }
.answer { font-size: 1.3rem; margin: .5rem 0; }
.box { border: 1px solid #bbb; border-left: 6px solid #2b6b3f; padding: .5rem .75rem; margin: 1rem 0; }
.box.care { border-left: 6px double #8a3b00; }
.box ul { margin: .25rem 0 0; padding-left: 1.25rem; }
.row { display: grid; gap: 1rem 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.row.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0 0 1rem; max-width: 40rem; }
img { width: 100%; height: auto; display: block; }
figcaption { font-size: .875rem; color: #444; margin-top: .25rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9375rem; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #e2e2e2;
  vertical-align: top; }
th { font-weight: 600; border-bottom-color: #999; }
td.n, th.n { text-align: right; white-space: nowrap; }
.two table { font-size: .875rem; }
.two th, .two td { padding-right: .75rem; }
@media (max-width: 34rem) {
  table, .two table { font-size: .8125rem; }
  th, td, .two th, .two td { padding-right: .5rem; }
  td.n { white-space: normal; }
}
pre { background: #f5f5f5; border: 1px solid #ddd; padding: .75rem; overflow-x: auto; font-size: .8125rem;
  line-height: 1.4; }
footer { margin: 2rem 0 1rem; font-size: .8125rem; color: #555; overflow-wrap: anywhere; }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } }
"""
# Two labels are nearly the same where their means differ by less than this part of their sd, and the sds too.
ALIKE = 0.25
# What the parts of an iteration of the SMC do.
PARTS = {
    "statistic": "label chain, S(z)",
    "adaptation": "tolerance and weights",
    "resampling": "resampling",
    "mutation": "moving the particles",
}


def html(report: Report, drawings: Mapping[str, Drawing], written: Iterable[str]) -> str:
    """The page; `written` are the names of the maps beside it."""
    title = f"{report.path.parent.resolve().name}: report of mpi_potts"
    return document(title, "\n".join(_body(report, drawings, list(written))))


def document(title: str, body: str) -> str:
    """One HTML file; the body is HTML already."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _body(report: Report, drawings: Mapping[str, Drawing], written: list[str]) -> Iterator[str]:
    """The parts of the page, from the answer down to the input."""
    found = report.result.attributes
    yield f"<h1>{escape(report.path.parent.resolve().name)}: {report.k} labels</h1>"
    yield (
        f'<p class="answer">&beta; = {found["beta_mean"]:.4f}, 95&nbsp;% between {found["beta_low"]:.4f} and '
        f"{found['beta_high']:.4f}</p>"
    )
    yield f"<p>{escape(_in_words(report))}</p>"
    yield _verdict(report)
    yield from _pictures(report, drawings, written)
    yield "<h2>The posterior of &beta;</h2>"
    yield row(figures_of(drawings, "beta", "draws"), figures_of(drawings, "binding"), kind="two")
    yield from _noise(report, drawings)
    yield from _smc(report, drawings)
    yield "<h2>Numbers</h2>"
    yield table(("quantity", "value", "in words"), numbers(report), numeric=(1,))
    yield from _input(report)


def _in_words(report: Report) -> str:
    """What was fitted and how, in a sentence."""
    found = report.result.attributes
    shape = " x ".join(map(str, found["shape"]))
    source = "" if report.image is None else f" from {report.image.source.name}"
    sites = "samples" if found["neighbourhood"] == GRAPH else "pixels"
    pixels = (
        f"{found['sites']} {sites} of {shape}"
        if found["sites"] < np.prod(found["shape"])
        else f"{shape} {sites}"
    )
    how = f"{found['method']}{' with pseudo-data' if found['pseudo_data'] else ''}"
    neighbours = in_words(found["neighbourhood"])
    return f"{pixels}{source}, {neighbours}, method {how}, seed {found['seed']}."


def _verdict(report: Report) -> str:
    """The box at the top: converged, or what to be careful with."""
    warnings = report.result.warnings
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    notes = f"<ul>{notes}</ul>" if notes else ""
    if not warnings:
        return f'<div class="box"><strong>{report.result.verdict}</strong>{notes}</div>'
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    return f'<div class="box care"><strong>To be read with care:</strong><ul>{items}</ul>{notes}</div>'


def _pictures(report: Report, drawings: Mapping[str, Drawing], written: list[str]) -> Iterator[str]:
    """The image, its label map and its uncertainty, and the names of the maps beside the page."""
    if not written and not {"image", "labels", "entropy"} & set(drawings):
        return
    yield "<h2>The image and its labels</h2>"
    yield row(*(figures_of(drawings, name) for name in ("image", "labels", "entropy")))
    if written:
        meaning = "label 1 to k, 0 where masked"
        if len(written) > 1:
            meaning += "; entropy in bits; probability of the label shown"
        yield f"<p>Maps beside this page: {escape(', '.join(written))} ({meaning}).</p>"


def row(*cells: str, kind: str = "") -> str:
    """Cells beside each other where there is room, else below."""
    inside = "".join(f"<div>{cell}</div>" for cell in cells if cell)
    return f'<div class="row {kind}">{inside}</div>'


def figures_of(drawings: Mapping[str, Drawing], *names: str) -> str:
    """Figures below each other, of those that were drawn."""
    figures = []
    for name in names:
        if name in drawings:
            data = base64.b64encode(drawings[name].png).decode()
            caption = escape(drawings[name].caption)
            figures.append(
                f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
    return "".join(figures)


def table(head: Iterable[str], rows: Iterable[Iterable[Any]], numeric: Collection[int] = ()) -> str:
    """A table; the columns `numeric` are set to the right."""

    def cells(tag: str, row: Iterable[Any]) -> str:
        marks = (' class="n"' if column in numeric else "" for column in count())
        return "".join(f"<{tag}{mark}>{escape(str(cell))}</{tag}>" for mark, cell in zip(marks, row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _noise(report: Report, drawings: Mapping[str, Drawing]) -> Iterator[str]:
    """The noise of every label, drawn and in numbers."""
    if not report.result.noise:
        return
    yield "<h2>The noise of every label</h2>"
    head = ("label", "share", *named(report.result.noise).symbols, "R-hat", "in words")
    numbers_of = table(head, noise_rows(report), numeric=range(len(head) - 1))
    yield row(figures_of(drawings, "noise"), numbers_of + figures_of(drawings, "residuals"), kind="two")
    if (np.diff(report.order) != 1).any():
        given = ", ".join(str(j + 1) for j in report.order)
        yield f"<p>Labels are numbered by their mean; in the input and the result these are {given}.</p>"


def noise_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Share, noise with standard deviations, and convergence, for each label."""
    arrays, noise = report.result.arrays, report.result.noise
    for j, share in enumerate(() if report.shares is None else report.shares):
        worst = max(arrays[f"diagnostics/{name}"][j, 0] for name in noise)
        draws = (noise[name][:, j] for name in named(noise).names)
        numbers = f"{share:.3f}", *(with_error(values.mean(), values.std()) for values in draws)
        words = ", ".join([settled(worst, report.result.attributes["chains"]), *_twins(report, j)])
        yield (str(j + 1), *numbers, f"{worst:.3f}", words)


def _twins(report: Report, j: int) -> Iterator[str]:
    """Labels with nearly the same noise as label j: fewer labels would explain the image as well."""
    noise = report.result.noise
    model = named(noise)
    near = model.apart(np.stack([noise[name].mean(axis=0) for name in model.names]), j) < ALIKE
    for i in np.flatnonzero(near & (np.arange(near.size) != j)):
        yield f"nearly the same as label {i + 1}"


def with_error(value: float, error: float) -> str:
    """A number and its standard deviation, to two digits of the latter."""
    if not (np.isfinite(error) and error > 0.0):
        return f"{value:.5g}"
    digits = int(1 - np.floor(np.log10(error)))
    if not 0 <= digits <= 9:
        return f"{value:.5g} \u00b1\u00a0{error:.2g}"
    return f"{value:.{digits}f} \u00b1\u00a0{error:.{digits}f}"


def numbers(report: Report) -> Iterator[tuple[str, str, str]]:
    """(quantity, value, what it means) of everything that has a diagnostic."""
    found, arrays = report.result.attributes, report.result.arrays
    yield (
        "beta, mean",
        f"{found['beta_mean']:.5f}",
        report.result.meaning,
    )
    yield "beta, standard deviation", f"{found['beta_sd']:.5f}", ""
    yield "beta, median", f"{found['beta_median']:.5f}", ""
    yield "beta, 95 % interval", f"{found['beta_low']:.5f} to {found['beta_high']:.5f}", _side(report)
    enough = "enough for the interval" if found["beta_ess"] >= FEW_DRAWS else "few: the interval is uncertain"
    yield "effective draws of beta", f"{found['beta_ess']:.0f}", enough
    for name, text in (("beta", "beta"), ("statistic", "S(z)")):
        if f"diagnostics/{name}" in arrays:
            rhat = arrays[f"diagnostics/{name}"][0]
            yield f"R-hat of {text}", f"{rhat:.3f}", settled(rhat, found["chains"])
    if found["binding"]:
        part = found["binding_error"] / found["beta_sd"] if found["beta_sd"] > 0 else np.inf
        word = "small" if part <= COARSE else "large"
        yield (
            "error of beta by the binding function",
            f"{found['binding_error']:.2g}",
            f"{word}: {100 * part:.0f} % of the sd",
        )
    if report.binding is not None:
        yield "betas of the binding function that are flagged", *_flagged(report.binding, found)
    if "trace/iteration" in arrays:
        yield "iterations of the SMC", str(arrays["trace/iteration"].size), found["stopped_because"]
        yield "last tolerance", f"{arrays['trace/epsilon'][-1]:.4g}", "pairs of neighbours"
        yield "last S(z)", f"{arrays['trace/statistic'][-1]:.0f}", f"of {found['edges']} pairs"
    if found["chains"]:
        yield "chains of labels", str(found["chains"]), ""
    for number, part in enumerate(arrays.get("exchange/acceptance", ())):
        yield f"proposals accepted, chain {number + 1}", f"{100 * part:.1f} %", ""
    yield "beta_crit", f"{report.transition:.5f}", "the phase transition of the prior"


def _flagged(binding: Binding, found: Mapping[str, Any]) -> tuple[str, str]:
    """How many betas of the grid are flagged, and how many of those that the posterior depends on."""
    near = flags_near(binding, found["beta_low"], found["beta_high"], found["beta_sd"])
    flagged = f"{np.count_nonzero(binding.flag)} of {binding.beta.size}"
    if near.size == 0:
        return flagged, "no beta of the grid lies near the posterior: more precompute.points would help"
    return flagged, f"{np.count_nonzero(near)} of the {near.size} near the posterior"


def _side(report: Report) -> str:
    """On which side of the phase transition the interval lies, in words."""
    found = report.result.attributes
    if found["beta_high"] < report.transition:
        return "below beta_crit: many small patches"
    return (
        "above beta_crit: one label dominates the prior"
        if found["beta_low"] > report.transition
        else "about beta_crit"
    )


def _smc(report: Report, drawings: Mapping[str, Drawing]) -> Iterator[str]:
    """The iterations of the SMC and where their time went."""
    if "iterations" not in drawings:
        return
    yield "<h2>The SMC</h2>"
    times = table(("part of the SMC", "seconds", "%"), timings(report), numeric=(1, 2))
    yield row(figures_of(drawings, "iterations"), times, kind="two")


def timings(report: Report) -> Iterator[tuple[str, str, str]]:
    """(part, seconds, per cent) of the SMC; what is in no part is compilation, files and waiting."""
    total = float(report.result.arrays["trace/seconds"].sum())
    parts = {name: report.result.arrays[f"timing/{name}/seconds"].sum() for name in PARTS}
    rows = {PARTS[name]: seconds for name, seconds in parts.items()}
    rows |= {"compilation, files, waiting": max(0.0, total - sum(parts.values())), "all": total}
    for text, seconds in rows.items():
        yield text, f"{seconds:.3g}", f"{100.0 * seconds / total:.0f}" if total > 0 else ""


def _input(report: Report) -> Iterator[str]:
    """The input of the fit, and what made the result."""
    found = report.result.attributes
    yield "<h2>The input</h2>"
    if found["overrides"]:
        yield f"<p>Changed by <code>--set</code>:</p><pre>{escape(found['overrides'])}</pre>"
    yield f"<pre>{escape(found['input'])}</pre>"
    made = f"{found['program']}, with {found['versions']}; result of {found['created']}"
    yield f"<footer>{escape(made)}, checksum {escape(found['checksum'])}</footer>"
