"""How far the numbers of a fit can be trusted: R-hat and effective sizes, and the binding function's error.

An error d in the mean of S moves beta by d / Var(S | beta) where S is fixed, the slope of the mean being the
variance.  The labels of a hidden image follow beta, so it moves farther: an error d of the mean multiplies
p(beta | y) by exp(-d beta), which moves its mean by d Var(beta | y).
"""

import numpy as np

from .. import rng
from ..binding.function import Binding
from ..estimation.diagnostics import of_draws
from ..labels.ensemble import Draws
from ..methods.joint_chains import error_of_beta
from ..rng import Purpose
from .summary import Summary


def diagnostics(draws: Draws) -> dict[str, np.ndarray]:
    """(R-hat, bulk and tail effective size) of beta; of hidden images also of S(z), and (k, 3) of each
    parameter of the noise."""
    found = {"beta": np.array(of_draws(draws.beta))}
    if not draws.noise:
        return found
    found["statistic"] = np.array(of_draws(draws.statistic))
    for name, values in draws.noise.items():
        found[name] = np.array([of_draws(of_label) for of_label in np.moveaxis(values, 2, 0)])
    return found


def binding_error(binding: Binding | None, beta: Summary, hidden: bool) -> float:
    """The standard error of beta that the binding function brings; none where there is none.

    beta : its summary without this error
    """
    if binding is None:
        return 0.0
    if hidden:
        return float(binding.standard_errors(beta.mean)[0] * beta.sd * beta.sd)
    return error_of_beta(binding, beta.mean)


def shifted(beta: np.ndarray, error: float, interval: tuple[float, float], seed: int) -> np.ndarray:
    """Draws (chains, n), each moved by a normal of its own with the sd `error`, reflected into the interval.

    So the draws have the error of the binding function in them.  Shifts of curves would not do: a chain whose
    curve changes from sweep to sweep averages over the errors.
    """
    if not 0.0 < error < np.inf:
        return beta
    low, high = interval
    width, n = high - low, beta.shape[1]
    streams = [rng.stream(seed, Purpose.BINDING_SHIFT, chain) for chain in range(len(beta))]
    moved = beta + error * np.stack([rng.normals(stream, 0, n) for stream in streams])
    place = np.mod(moved - low, 2.0 * width)
    return low + np.minimum(place, 2.0 * width - place)
