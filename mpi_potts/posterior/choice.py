"""Which of several numbers of labels an image speaks for: the evidence of each, side by side.

With the same probability for every k a priori, p(k | y) is proportional to the evidence p(y | k).  The priors
are part of it: a label more must explain more than its prior spreads over what is not seen, so that vaguer
priors of the noise speak for fewer labels.  That is as it should be where the priors say what is known, and a
reason to look at them where the choice is close.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..io import formats
from ..io.reading import Content
from .result import Result

# The choice is sure where the next is this far behind, in natural logarithms, when errors have taken twice
# their part: odds of 20 to 1.
SURE, ERRORS = 3.0, 2.0

COLUMNS = (
    "labels",
    "log_evidence",
    "error",
    "behind",
    "probability",
    "criterion",
    "beta",
    "beta_sd",
    "warnings",
)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several numbers of labels, each with its fit, and what they are worth; all (m,), in ascending order.

    labels       : the numbers k
    log_evidence : log p(y | k), and `error`, its standard error
    probability  : of each k, if all were as probable before, the errors of the evidence averaged over
    criterion    : the integrated complete-data likelihood (ICL) of the label map, cheap and rough
    beta, beta_sd : posterior mean and sd of beta with k labels
    warnings     : the number of warnings of each fit
    results      : the fits themselves by k, read when they are asked for
    recommended  : the k of the largest evidence; `sure` says whether another may be as good
    table, words : all that in text
    """

    labels: np.ndarray
    log_evidence: np.ndarray
    error: np.ndarray
    probability: np.ndarray
    criterion: np.ndarray
    beta: np.ndarray
    beta_sd: np.ndarray
    warnings: np.ndarray
    attributes: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[int], Result] | None = None

    @cached_property
    def results(self) -> dict[int, Result]:
        """The fit of every k."""
        if self.read is None:
            raise ValueError("the fits of a choice are in its directory, which is not known")
        return {int(k): self.read(int(k)) for k in self.labels}

    @cached_property
    def best(self) -> int:
        """The place of the largest evidence; of one that is hardly known, what it surely is counts."""
        return int(np.argmax(self.log_evidence - ERRORS * self.error))

    @property
    def recommended(self) -> int:
        """The k of the largest evidence."""
        return int(self.labels[self.best])

    @cached_property
    def behind(self) -> np.ndarray:
        """(m,) how far the log evidence of each is behind the largest."""
        return self.log_evidence[self.best] - self.log_evidence

    @property
    def _errors(self) -> np.ndarray:
        """(m,) the standard errors of `behind`."""
        best = self.error[self.best]
        return np.sqrt(self.error * self.error + best * best)

    @cached_property
    def rivals(self) -> tuple[int, ...]:
        """The numbers that may be as good as the recommended one, errors counted."""
        near = (self.behind < SURE + ERRORS * self._errors) & (np.arange(self.labels.size) != self.best)
        return tuple(self.labels[near].tolist())

    @property
    def sure(self) -> bool:
        """Whether no other number is as good, errors counted."""
        return not self.rivals

    @property
    def words(self) -> str:
        """The recommendation, and how sure it is."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        k, others = self.recommended, np.delete(np.arange(self.labels.size), self.best)
        second = int(others[np.argmin(self.behind[others])])
        ahead = (
            f"the log evidence of k = {k} is {self.behind[second]:.1f} +- {self._errors[second]:.1f} "
            f"above that of k = {self.labels[second]}"
        )
        if self.sure:
            yield f"The image speaks for k = {k} labels: {ahead}, the next."
        else:
            listed = ", ".join(map(str, self.rivals))
            yield f"k = {k} labels have the largest evidence, but k = {listed} may be as good: {ahead}."
        if self.warnings[self.best]:
            yield (
                f"The fit with k = {k} has {self.warnings[self.best]} warning(s), to be read first: where "
                f"noise is not as the model has it, or chains are in modes of their own, the evidence may "
                f"ask for labels that are not there."
            )
        elif k == int(self.labels.max()):
            yield f"More than {k} were not tried: do."

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """A row for every k, by COLUMNS."""
        for i, k in enumerate(self.labels.tolist()):
            yield (
                k,
                float(self.log_evidence[i]),
                float(self.error[i]),
                float(self.behind[i]),
                float(self.probability[i]),
                float(self.criterion[i]),
                float(self.beta[i]),
                float(self.beta_sd[i]),
                int(self.warnings[i]),
            )

    @property
    def table(self) -> str:
        """The rows in text."""
        head = f"{'labels':>6} {'log evidence':>14} {'+-':>6} {'behind':>8} {'prob.':>6} {'criterion':>12}"
        lines = [f"{head} {'beta':>8} {'sd':>8} {'warnings':>8}"]
        for k, value, error, behind, probability, criterion, beta, sd, warnings in self.rows():
            lines.append(
                f"{k:>6} {value:>14.1f} {error:>6.2f} {behind:>8.1f} {probability:>6.3f} {criterion:>12.1f} "
                f"{beta:>8.4f} {sd:>8.4f} {warnings:>8}"
            )
        return "\n".join(lines)

    @property
    def csv(self) -> str:
        """The rows as comma-separated values."""
        return "\n".join([",".join(COLUMNS), *(",".join(map(repr, row)) for row in self.rows())]) + "\n"

    def arrays(self) -> dict[str, np.ndarray]:
        """The datasets of choice.h5."""
        return {name: np.array([row[i] for row in self.rows()]) for i, name in enumerate(COLUMNS)}

    def __str__(self) -> str:
        return f"{self.table}\n{self.words}"

    def __repr__(self) -> str:
        return f"Comparison(recommended={self.recommended}, sure={self.sure}, labels={self.labels.tolist()})"


def directory_of(output: Path, labels: int) -> Path:
    """Where the fit with so many labels lies."""
    return output / f"labels_{labels}"


def choice_of(content: Content, load: Callable[[Path], Any]) -> Comparison:
    """The choice that a verified file holds."""
    content.require(formats.CHOICE)
    arrays, home = content.arrays(), content.path.parent
    kept = ("labels", "log_evidence", "error", "probability", "criterion", "beta", "beta_sd", "warnings")
    return Comparison(
        **{name: arrays[name] for name in kept},
        attributes=content.attributes,
        read=lambda k: load(directory_of(home, k)),
    )
