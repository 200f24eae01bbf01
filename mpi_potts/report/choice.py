"""The report on several numbers of labels, from choice.h5: their table and figure, as one page."""

from functools import partial
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..io import files
from ..io.reading import Content
from ..posterior.choice import Comparison, choice_of, directory_of
from ..posterior.result import load
from . import page
from .figures import DARK, MIDDLE, Drawing, render
from .pictures import panels

# Log evidences farther behind are not told apart in the figure.
FAR = 30.0


def write(content: Content, directory: Path | None = None) -> str:
    """Write choice.html and its figure; returns what was written, in a line.  On one rank."""
    choice = choice_of(content, load)
    directory = content.path.parent if directory is None else directory
    files.make_directory(directory)
    drawn = render({"evidence": partial(evidence, choice)})
    files.write_bytes(directory / "choice_evidence.png", drawn["evidence"].png)
    files.write_text(directory / "choice.html", html(content.path, choice, drawn))
    return f"{directory / 'choice.html'}: written, with choice_evidence.png"


def html(path: Path, choice: Comparison, drawn: dict[str, Drawing]) -> str:
    """One file with everything in it."""
    title = f"{path.parent.resolve().name}: how many labels?"
    head = ("labels", "log evidence", "behind", "probability", "criterion", "\u03b2", "warnings", "report")
    rows = (
        (
            k,
            page.with_error(value, error),
            f"{behind:.1f}",
            f"{probability:.3f}",
            f"{criterion:.1f}",
            page.with_error(beta, sd),
            warnings,
            f"{directory_of(Path(), k)}/report.html",
        )
        for k, value, error, behind, probability, criterion, beta, sd, warnings in choice.rows()
    )
    care = "" if choice.sure and not choice.warnings[choice.best] else " care"
    return page.document(
        title,
        f"<h1>{escape(title)}</h1>\n"
        f'<p class="answer">k = {choice.recommended}{"" if choice.sure else ", not surely"}</p>\n'
        f'<div class="box{care}">{escape(choice.words)}</div>\n'
        f'<div class="row two">{page.figures_of(drawn, *drawn)}</div>\n'
        f"{page.table(head, rows, numeric=range(7))}\n"
        f"<p>The evidence p(y | k) depends on the priors: vaguer ones of the noise speak for fewer labels. "
        f"The probability is that of each k if all were as probable before. The criterion is that of the "
        f"complete-data likelihood of the label map (ICL), rough and cheap. The choice is yours.</p>\n"
        f"<h2>Input</h2>\n<pre>{escape(choice.attributes['input'])}</pre>\n"
        f"<pre>{escape(choice.attributes['overrides'])}</pre>",
    )


def evidence(choice: Comparison) -> tuple[Figure, str]:
    """How far every k is behind the best, and the same of the cheap criterion."""
    figure, (axes,) = panels(height=3.0)
    k, cheap = choice.labels, choice.criterion.max() - choice.criterion
    # Linear near the best, logarithmic far from it.
    axes.set_yscale("symlog", linthresh=FAR)
    axes.errorbar(k, -choice.behind, 2.0 * choice.error, fmt="o-", color=DARK, capsize=3, label="evidence")
    axes.plot(k, -cheap, "s--", color=MIDDLE, ms=4, label="criterion")
    axes.axvline(choice.recommended, color="0.8", lw=6, zorder=0)
    axes.set(xlabel="number of labels k", ylabel="less than the largest", xticks=np.unique(k))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure, (
        f"Log evidence of every number of labels, below the largest, with two standard errors, and the "
        f"ICL criterion; beyond {FAR:.0f} on a logarithmic axis."
    )
