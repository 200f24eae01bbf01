"""A result in a few lines, for the screen: at the end of a fit, and of one that was loaded from its file."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..estimation.verdicts import verdict

if TYPE_CHECKING:  # numba comes with the one, and the other imports this module
    from ..methods.base import Fit
    from .outcome import Outcome
    from .result import Result


def of_outcome(found: "Outcome") -> str:
    """What a fit found, as `mpi-potts fit` and `run` print it."""
    fit, lines = found.fit, [found.fit.headline()]
    if found.marginal is not None:
        lines.append(f"beta, marginal over the labels  {found.marginal}")
    if found.particles is not None:
        of_what = "particles for the last S" if fit.problem.hidden else "for the observed labels "
        lines.append(f"beta, {of_what}  {found.particles}")
    if fit.problem.binding is not None:
        error = f"{found.binding_error:.2g}"
        contained = "" if found.marginal is not None or fit.density is not None else "not "
        lines.append(f"  {contained}in this sd: the binding function's own standard error of beta, {error}")
    if found.marginal is not None:
        lines += _noise_table(found)
    lines += _crossed(fit)
    said = verdict(found.warnings, rhats(found.diagnostics.values()))
    return "\n".join(lines + [f"warning: {text}" for text in found.warnings] + ([said] if said else []))


def _crossed(fit: "Fit") -> Iterator[str]:
    """How the chains came out of modes of their own, where they were in any."""
    if fit.chains is not None and fit.chains.restarted:
        yield (
            f"  {fit.chains.restarted} of {fit.chains.count} chain(s) began again after the burn-in, in a "
            f"mode of greater evidence"
        )
    if fit.chains is not None and fit.chains.tempered:
        yield "  the chains are tempered: they were in different modes after the burn-in"


def rhats(diagnostics: Iterable[np.ndarray]) -> Iterator[float]:
    """R-hat of everything that has one: the first number of every row of diagnostics."""
    return (float(row[0]) for rows in diagnostics for row in np.atleast_2d(rows))


def _noise_table(found: "Outcome") -> Iterator[str]:
    """A heading and a line for each label: its share, its noise, and the largest R-hat of the latter."""
    draws, rhat = found.draws, found.diagnostics
    if draws is None or found.shares is None:
        return
    heads = " ".join(f"{name:>12} {'+-':>9}" for name in draws.noise)
    yield f"{'label':>7} {'share':>7} {heads} {'R-hat':>7}"
    for j, share in enumerate(found.shares):
        of_label = [values[:, :, j] for values in draws.noise.values()]
        numbers = " ".join(f"{values.mean():>12.5g} {values.std():>9.2g}" for values in of_label)
        worst = max(rhat[name][j, 0] for name in draws.noise)
        yield f"{j + 1:>7} {share:>7.3f} {numbers} {worst:>7.3f}"


def of_result(result: "Result") -> Iterator[str]:
    """The lines that printing a loaded result gives."""
    yield f"{result.method}: {result.stopped_because}"
    yield from of_beta(result)
    yield from _of_noise(result)
    yield from (f"warning: {text}" for text in result.warnings)
    yield from filter(None, [result.verdict])


def of_beta(result: "Result") -> Iterator[str]:
    """The posterior of beta to quote, and that of the particles for the last S(z) beside it."""
    yield f"beta, {result.meaning}  {result.summary}"
    if result.particles is not None:
        yield f"beta, particles for the last S  {result.particles}"


def _of_noise(result: "Result") -> Iterator[str]:
    """A line for each label of a hidden image: its share and its noise."""
    if not result.noise or result.labels is None or result.probability is None:
        return
    for j in range(result.probability.shape[-1]):
        share = result.probability[result.labels >= 0, j].mean(dtype=np.float64)
        of_label = {name: values[:, j] for name, values in result.noise.items()}
        numbers = (f"{name} {values.mean():.5g} +- {values.std():.2g}" for name, values in of_label.items())
        yield f"label {j + 1}: share {share:.3f}, {', '.join(numbers)}"
