"""How far the numbers of a fit can be trusted: R-hat and effective sizes, and the binding function's error.

An error d in the mean of S moves beta by d / Var(S | beta) where S is fixed, the slope of the mean being the
variance.  The labels of a hidden image follow beta, so it moves farther: an error d of the mean multiplies
p(beta | y) by exp(-d beta), which moves its mean by d Var(beta | y).
"""

import numpy as np

from ..binding.function import Binding
from ..estimation.diagnostics import of_draws
from ..labels.ensemble import Draws
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
    """The standard error of beta that the binding function brings; none where there is none."""
    if binding is None:
        return 0.0
    error, sd = binding.standard_errors(beta.mean)[0], binding.moments(beta.mean)[1]
    if hidden:
        return float(error * beta.sd * beta.sd)
    return float(error / (sd * sd)) if sd > 0.0 else np.inf
