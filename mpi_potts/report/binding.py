"""The report on a binding function: mean and sd of S(z) over beta, from binding.h5, as one page.

The estimates are drawn with their standard errors over a line:

- the exact moments, where the lattice is small enough to count all its labellings (paper, figure 1);
- else the estimates of another binding function of the same lattice, joined by straight lines (figure 2);
- else the curve that fits use between the estimates.

Below each, what is left of the estimates when the line is taken away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..binding import file as binding_file
from ..binding.function import Binding
from ..errors import InputError
from ..io import files
from ..io.reading import Content
from ..lattice import GRAPH, Lattice
from ..model.exact import Exact
from ..model.transition import transition_of
from . import page
from .figures import DARK, MIDDLE, Drawing, render
from .pictures import panels

# Labellings of so many sites are counted in seconds at most.
SITES = 64
NODES = 1001


@dataclass(frozen=True, eq=False)
class Line:
    """Mean and sd of S(z) over ascending betas, between which they are joined by straight lines."""

    name: str
    beta: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    def covers(self, beta: np.ndarray) -> np.ndarray:
        """Which of the betas lie between the ends of the line."""
        return (beta >= self.beta[0]) & (beta <= self.beta[-1])

    def at(self, name: str, beta: np.ndarray) -> np.ndarray:
        """The mean or the sd, by its name, at betas between the ends."""
        return np.interp(beta, self.beta, getattr(self, name))


def write(content: Content, directory: Path | None = None, other: Path | None = None) -> str:
    """Write binding.html and its figure; returns what was written, in a line.  On one rank."""
    path = content.path
    directory = path.parent if directory is None else directory
    table = binding_file.binding_of(content)
    line = choose_line(table, path, other)
    drawn = render({"binding": partial(figure, table, line)})
    files.make_directory(directory)
    files.write_bytes(directory / "binding_function.png", drawn["binding"].png)
    files.write_text(directory / "binding.html", html(path, table, line, drawn))
    return f"{directory / 'binding.html'}: written, with binding_function.png; the line is {line.name}"


def choose_line(table: Binding, path: Path, other: Path | None = None) -> Line:
    """What the estimates are held against; a binding function of another lattice is refused."""
    if other is not None:
        return compared(table, path, other)
    if (known := exact(table)) is not None:
        beta = np.linspace(table.beta[0], table.beta[-1], NODES)
        return Line("exact", beta, *known.moments(beta))
    beta = np.union1d(np.linspace(table.beta[0], table.beta[-1], NODES), table.beta)
    return Line(f"the {table.interpolation} curve", beta, *table.moments(beta))


def compared(table: Binding, path: Path, other: Path) -> Line:
    """The estimates of another binding function of the same lattice."""
    second = binding_file.read_binding(other)
    for name in ("labels", "lattice"):
        if getattr(second, name) != getattr(table, name):
            raise InputError(
                f"--compare {other}: is for {name} = {getattr(second, name)}; a binding function for "
                f"{name} = {getattr(table, name)}, as {path}, is accepted"
            )
    name = f"linear between {second.beta.size} betas"
    return Line(name, second.beta, second.mean, second.sd)


def exact(table: Binding) -> Exact | None:
    """The exact distribution of S(z), on a whole lattice of few sites; a graph is not in the file."""
    if table.neighbourhood == GRAPH:
        return None
    lattice = Lattice(table.shape, table.neighbourhood)
    if lattice.digest != table.lattice or lattice.sites > SITES:
        return None
    try:
        return Exact(lattice, table.labels)
    except InputError:  # too many patterns
        return None


def deviations(table: Binding, line: Line, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(beta, estimate less line, standard error) of the mean or the sd, where the line is."""
    there = line.covers(table.beta)
    beta = table.beta[there]
    error = getattr(table, f"{name}_se")[there]
    return beta, getattr(table, name)[there] - line.at(name, beta), error


def figure(table: Binding, line: Line) -> tuple[Figure, str]:
    """Mean and sd of S(z) over beta with the line, and below each what is left without it."""
    drawn, axes = panels(4, 7.6, sharex=True, height_ratios=(3, 2, 3, 2))
    style = {"color": DARK, "ecolor": "0.55", "elinewidth": 0.7, "ls": "", "marker": "o"}
    style["ms"] = 3.0 if table.beta.size <= 200 else 1.4
    mean = 2.0 * table.edges / table.sites
    where = transition_of(len(table.shape), table.neighbourhood, mean, table.labels)
    for name, top, below in zip(("mean", "sd"), axes[::2], axes[1::2]):
        error = getattr(table, f"{name}_se")
        text = f"{table.beta.size} simulated betas, 2 standard errors"
        top.errorbar(table.beta, getattr(table, name), 2.0 * error, label=text, zorder=2, **style)
        top.plot(line.beta, getattr(line, name), color=MIDDLE, lw=1.4, label=line.name, zorder=3)
        beta, left, error = deviations(table, line, name)
        below.errorbar(beta, left, 2.0 * error, zorder=2, **style)
        below.axhline(0.0, color=MIDDLE, lw=1.4, zorder=3)
        top.set_ylabel(f"{name} of S(z)\n(pairs)")
        below.set_ylabel(f"{name} less\nline (pairs)")
    for panel in axes:
        panel.axvline(where, color="black", ls=":", lw=1.2, label=rf"$\beta_{{crit}}$ = {where:.3f}")
    axes[-1].set_xlabel(r"$\beta$ (inverse temperature)")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    drawn.align_ylabels(axes)
    kept = table.iterations - table.burn_in
    return drawn, (
        f"Mean and sd of S(z), the number of like pairs among {table.edges}: {kept} sweeps of "
        f"{table.sampler} at each beta, after {table.burn_in}. The line is {line.name}."
    )


def html(path: Path, table: Binding, line: Line, drawn: dict[str, Drawing]) -> str:
    """One file with everything in it."""
    shape = " x ".join(map(str, table.shape))
    title = f"{path.parent.resolve().name}: binding function of {shape} pixels, {table.labels} labels"
    numbers = page.table(("quantity", "value", "in words"), rows(table, line), numeric=(1,))
    body = page.row(page.figures_of(drawn, "binding"), numbers, kind="two")
    return page.document(title, f"<h1>{escape(title)}</h1>\n{body}")


def rows(table: Binding, line: Line) -> Iterator[tuple[str, str, str]]:
    """(quantity, value, what it means) for the table of the page."""
    yield "betas", str(table.beta.size), f"from {table.beta[0]:g} to {table.beta[-1]:g}"
    yield "sweeps at each", str(table.iterations), f"of {table.sampler}, {table.burn_in} of them left out"
    yield "largest tau", f"{table.tau.max():.1f}", "sweeps to forget a state"
    for name in ("mean", "sd"):
        beta, left, error = deviations(table, line, name)
        worst = int(np.abs(left).argmax())
        yield (
            f"{name} of S(z), farthest from the line",
            f"{left[worst]:+.4g}",
            f"at beta = {beta[worst]:.4g}, with standard error {error[worst]:.2g}",
        )
        spread = np.sqrt(np.mean((left / error)[error > 0.0] ** 2))
        words = "root mean square; 1 where the line is right and without noise of its own"
        yield f"{name}, distances in standard errors", f"{spread:.2f}", words
