"""What the files of the program hold, as plain objects with NumPy arrays: what `load` and the API return."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..binding import file as binding_file
from ..binding.function import Binding
from ..errors import InputError
from ..estimation.diagnostics import settled
from ..io import fit_file, store
from ..model import simulate
from ..runtime.parallel import Comm, on_root
from .summary import Summary, given_labels, meaning, quoted


@dataclass(frozen=True, eq=False)
class Result:
    """What a fit found.  Of n draws, k labels and an image of some shape; None where there is no such thing.

    beta, weight  : (n,) the posterior of beta to quote: marginal over the labels of a hidden image (without
                    final sweeps, for the last S(z)), else for the observed labels; the weights sum to 1
    summary       : its mean, sd, low and high (95 %), median, ess and rhat
    particles     : the summary of the particles for the last S(z), as in the paper (arrays["posterior/beta"])
    mu, sigma     : (n, k) mean and sd of the noise of every label
    labels        : (shape) int16, the most probable label from 0, -1 where masked
    probability   : (shape, k) float32, of every label
    trace         : the iterations of the SMC by column: epsilon, ess, acceptance, statistic, ...
    diagnostics   : in words, by quantity: "converged", "chains disagree", ...
    warnings      : what to know before quoting the numbers, each a sentence; docs/warnings.md has them all
    arrays, attributes : everything in the file, by the names of docs/files.md
    """

    method: str
    stopped_because: str
    beta: np.ndarray = field(repr=False)
    weight: np.ndarray = field(repr=False)
    summary: Summary
    particles: Summary | None
    mu: np.ndarray | None = field(repr=False)
    sigma: np.ndarray | None = field(repr=False)
    labels: np.ndarray | None = field(repr=False)
    probability: np.ndarray | None = field(repr=False)
    trace: dict[str, np.ndarray] = field(repr=False)
    diagnostics: dict[str, str]
    warnings: tuple[str, ...]
    arrays: dict[str, np.ndarray] = field(repr=False)
    attributes: dict[str, Any] = field(repr=False)

    @property
    def mean(self) -> float:
        """Posterior mean of beta."""
        return self.summary.mean

    @property
    def sd(self) -> float:
        """Posterior standard deviation of beta."""
        return self.summary.sd

    @property
    def interval(self) -> tuple[float, float]:
        """The central 95 % of the posterior of beta."""
        return self.summary.low, self.summary.high

    @property
    def input(self) -> str:
        """The input file that says the same, in TOML."""
        return self.attributes["input"]

    def __str__(self) -> str:
        return "\n".join(_page(self))


def _page(result) -> Iterator[str]:
    yield f"{result.method}: {result.stopped_because}"
    yield f"beta, {meaning(result.attributes, result.arrays)}  {result.summary}"
    if result.particles is not None:
        yield f"beta, particles for the last S  {result.particles}"
    for j in range(0 if result.mu is None else result.mu.shape[1]):
        mu, sigma = result.mu[:, j], result.sigma[:, j]
        share = result.probability[result.labels >= 0, j].mean(dtype=np.float64)
        yield (
            f"label {j + 1}: share {share:.3f}, mean {mu.mean():.5g} +- {mu.std():.2g}, "
            f"sd {sigma.mean():.5g} +- {sigma.std():.2g}"
        )
    yield from (f"warning: {text}" for text in result.warnings)


@dataclass(frozen=True, eq=False)
class Simulated:
    """A synthetic image and its truth: values (nan where masked) and labels (uint8, 255 where masked)."""

    values: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    beta: float
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    seed: int
    number: int


def read_result(comm: Comm, path: Path) -> Result:
    """A result on every rank; collective."""
    attributes, shapes = on_root(comm, store.contents, path)

    def one(name):
        return store.read(path, fit_file.RESULT, fit_file.RESULT_VERSION, (name,), verify=False)[1][name]

    # One by one, because an array goes to the other ranks as it is, whatever its size.
    return result_of(attributes, {name: on_root(comm, one, name) for name in shapes})


def result_of(attributes: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
    """A result from the content of its file."""
    group = "marginal" if "marginal/beta" in arrays else "posterior"
    beta = arrays[f"{group}/beta"]
    return Result(
        method=attributes["method"],
        stopped_because=attributes["stopped_because"],
        beta=beta,
        weight=arrays.get(f"{group}/weight", np.full(beta.size, 1.0 / beta.size)),
        summary=quoted(attributes, arrays),
        particles=given_labels(arrays),
        mu=arrays.get("noise/mean"),
        sigma=arrays.get("noise/sd"),
        labels=arrays.get("labels/map"),
        probability=arrays.get("labels/probability"),
        trace={name.removeprefix("trace/"): a for name, a in arrays.items() if name.startswith("trace/")},
        diagnostics=dict(_words(attributes, arrays)),
        warnings=tuple(attributes["warnings"].splitlines()),
        arrays=arrays,
        attributes=attributes,
    )


def _words(attributes, arrays) -> Iterator[tuple[str, str]]:
    """(quantity, R-hat in words) of all that has one."""
    chains = attributes["chains"]
    for name, text in (("beta", "beta"), ("statistic", "S(z)"), ("mean", "mu"), ("sd", "sigma")):
        rows = arrays.get(f"diagnostics/{name}", np.empty((0, 2)))
        if rows.ndim == 1:
            yield text, settled(rows[0], chains)
        else:
            yield from ((f"{text} of label {j + 1}", settled(row[0], chains)) for j, row in enumerate(rows))


def read_image(path: Path) -> Simulated:
    """A synthetic image of `simulate`."""
    found, arrays = store.read(path, simulate.FORMAT, simulate.VERSION)
    noise = tuple(found["mean"]), tuple(found["sd"])
    return Simulated(
        arrays["values"], arrays["labels"], found["beta"], *noise, found["seed"], found["number"]
    )


def _read_any_result(path):
    return result_of(*store.read(path, fit_file.RESULT, fit_file.RESULT_VERSION))


READERS: dict[str, Callable[[Path], Binding | Result | Simulated]] = {
    binding_file.FORMAT: binding_file.read_binding,
    fit_file.RESULT: _read_any_result,
    simulate.FORMAT: read_image,
}


def load(path: str | os.PathLike) -> Binding | Result | Simulated:
    """What a file holds; of a directory, its result.h5.  Not collective: whoever calls it reads."""
    path = Path(path)
    path = path / "result.h5" if path.is_dir() else path
    kind = store.contents(path)[0]["format"]
    if kind not in READERS:
        raise InputError(f"{path}: is a file of {kind!r}; {', '.join(map(repr, READERS))} is accepted")
    return READERS[kind](path)
