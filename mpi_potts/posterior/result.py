"""What the files of the program hold, as plain objects with NumPy arrays: what `load` and the API return.

Who opens a result needs neither MPI nor a compiler: nothing here imports them, and a binding function, whose
curve is computed, brings its own code only where one is opened.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..estimation.verdicts import settled, verdict
from ..io import formats, reading
from ..io.reading import Content
from . import words
from .summary import Summary, of_particles

# The group of the draws of the noise in result.h5.
NOISE = "noise/"

# What is meant by a directory.
IN_DIRECTORY = ("result.h5", "choice.h5")

if TYPE_CHECKING:
    from ..binding.function import Binding
    from .choice import Comparison


@dataclass(frozen=True, eq=False, repr=False)
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

    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def method(self) -> str:
        """The method of the fit, as `fit.method` names it."""
        return self.attributes["method"]

    @property
    def stopped_because(self) -> str:
        """Why the fit ended, in words."""
        return self.attributes["stopped_because"]

    @property
    def hidden(self) -> bool:
        """Whether the labels were hidden and there are draws that are marginal over them."""
        return "marginal/beta" in self.arrays

    @property
    def observed(self) -> bool:
        """Whether the labels were observed."""
        return self.settings["image.kind"] == "labels"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the result is a function of, by the names of the input where they have one."""
        return json.loads(self.attributes["settings"])

    @property
    def _group(self) -> str:
        return "marginal" if self.hidden else "posterior"

    @property
    def beta(self) -> np.ndarray:
        """(n,) draws of the posterior of beta to quote."""
        return self.arrays[f"{self._group}/beta"]

    @cached_property
    def weight(self) -> np.ndarray:
        """(n,) the weights of `beta`, of sum 1."""
        n = self.beta.size
        return self.arrays.get(f"{self._group}/weight", np.full(n, 1.0 / n))

    @cached_property
    def summary(self) -> Summary:
        """The summary of the posterior to quote, as the file has it."""
        names = ("mean", "sd", "low", "median", "high", "ess")
        rhat = self.arrays["diagnostics/beta"][0] if "diagnostics/beta" in self.arrays else np.nan
        return Summary(**{name: self.attributes[f"beta_{name}"] for name in names}, rhat=float(rhat))

    @property
    def meaning(self) -> str:
        """What the posterior to quote is of, in words.

        An SMC of a hidden image without final sweeps has particles only.
        """
        if self.hidden:
            return "marginal over the labels"
        return "for the observed labels" if self.observed else "particles for the last S"

    @cached_property
    def particles(self) -> Summary | None:
        """The summary of the particles for the last S(z), where there is a marginal posterior beside them."""
        if not self.hidden or "posterior/beta" not in self.arrays:
            return None
        return of_particles(self.arrays["posterior/beta"], self.arrays["posterior/weight"])

    @property
    def noise(self) -> dict[str, np.ndarray]:
        """(n, k) draws of every parameter of the noise of every label, by the name that its model gives it;
        none where the labels were observed."""
        names = sorted(name for name in self.arrays if name.startswith(NOISE))
        return {name.removeprefix(NOISE): self.arrays[name] for name in names}

    @property
    def mu(self) -> np.ndarray | None:
        """(n, k) draws of the mean of every label."""
        return self.arrays.get("noise/mean")

    @property
    def sigma(self) -> np.ndarray | None:
        """(n, k) draws of the sd of every label."""
        return self.arrays.get("noise/sd")

    @property
    def labels(self) -> np.ndarray | None:
        """(shape) the most probable label from 0, -1 where masked."""
        return self.arrays.get("labels/map")

    @property
    def probability(self) -> np.ndarray | None:
        """(shape, k) the probability of every label."""
        return self.arrays.get("labels/probability")

    @cached_property
    def trace(self) -> dict[str, np.ndarray]:
        """The iterations of the SMC, by column."""
        return {
            name.removeprefix("trace/"): values
            for name, values in self.arrays.items()
            if name.startswith("trace/")
        }

    @cached_property
    def diagnostics(self) -> dict[str, str]:
        """R-hat in words of everything that has one, by its name."""
        return dict(self._verdicts())

    def _verdicts(self) -> Iterator[tuple[str, str]]:
        chains = self.attributes["chains"]
        for name, text in (("beta", "beta"), ("statistic", "S(z)"), ("mean", "mu"), ("sd", "sigma")):
            rows = self.arrays.get(f"diagnostics/{name}", np.empty((0, 2)))
            if rows.ndim == 1:
                yield text, settled(rows[0], chains)
            else:
                yield from (
                    (f"{text} of label {j + 1}", settled(row[0], chains)) for j, row in enumerate(rows)
                )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before quoting the numbers, each a sentence."""
        return tuple(self.attributes["warnings"].splitlines())

    @property
    def verdict(self) -> str:
        """Whether the fit has converged, in words; empty where warnings stand in the way of saying so."""
        found = (values for name, values in self.arrays.items() if name.startswith("diagnostics/"))
        return verdict(self.warnings, words.rhats(found))

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

    def by_chain(self, name: str) -> np.ndarray:
        """Draws (chains, n, ...) of a dataset in which the chains follow each other."""
        values = self.arrays[name]
        return values.reshape(self.attributes["chains"], -1, *values.shape[1:])

    def __str__(self) -> str:
        return "\n".join(words.of_result(self))

    def __repr__(self) -> str:
        shown = ("method", "stopped_because", "summary", "particles", "diagnostics", "warnings")
        return f"Result({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


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


def result_of(content: Content, but: tuple[str, ...] = ()) -> Result:
    """The result that a verified file holds, without the datasets `but`."""
    content.require(formats.RESULT)
    return Result(content.attributes, content.arrays(name for name in content.shapes if name not in but))


def simulated_of(content: Content) -> Simulated:
    """The synthetic image that a verified file of `simulate` holds."""
    content.require(formats.IMAGE)
    found, arrays = content.attributes, content.arrays(("values", "labels"))
    noise = tuple(found["mean"]), tuple(found["sd"])
    return Simulated(
        arrays["values"], arrays["labels"], found["beta"], *noise, found["seed"], found["number"]
    )


def _choice_of(content: Content) -> "Comparison":
    from .choice import choice_of

    return choice_of(content, load)


def _binding_of(content: Content) -> "Binding":
    # numba comes with it, which results and images do not need.
    from ..binding.file import binding_of

    return binding_of(content)


READERS: dict[str, Callable[[Content], "Binding | Comparison | Result | Simulated"]] = {
    formats.BINDING.name: _binding_of,
    formats.RESULT.name: result_of,
    formats.IMAGE.name: simulated_of,
    formats.CHOICE.name: _choice_of,
}


def load(path: str | os.PathLike) -> "Binding | Comparison | Result | Simulated":
    """What a file holds; of a directory, its result.h5 or choice.h5.  Not collective: who calls it reads."""
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in IN_DIRECTORY if (path / name).exists()), path / IN_DIRECTORY[0])
    content = reading.contents(path)
    if content.format not in READERS:
        accepted = ", ".join(map(repr, READERS))
        raise InputError(f"{content.path}: is a file of {content.format!r}; {accepted} is accepted")
    return READERS[content.format](content)
