"""The evidence p(y | k) of a number of labels, from parts that chains of labels estimate.

For any values beta* and theta* of beta and the noise (Chib 1995),

    log p(y) = log p(y | beta*, theta*) + log p(beta*, theta*) - log p(beta*, theta* | y).

**The likelihood** has a path of its own: with the noise held, C(b, y) = sum_z exp(b S(z)) prod_i p(y_i |
z_i, theta*) is known at b = 0, where pixels are independent, and d/db log C(b, y) = E[S | y, theta*, b].
With log C of the prior by the binding function, likewise from b = 0, where C = k^n,

    log p(y | beta*, theta*) = sum_i log (1/k) sum_j p(y_i | theta*_j)
                               + int_0^beta* E[S | y, theta*, b] db - (log C(beta*) - n log k).

No label empties or changes its name on this path, and nothing is drawn from a vague prior.

**The ordinate** is a product, label by label, with the noise of those before it held (Chib's reduced runs):

    p(theta*_j | theta*_1 ... theta*_(j-1), y) = E[p(theta*_j | pixels of label j)],
    p(beta* | theta*, y) = E[p(beta* | S(z))],

each over draws of z of a run of its own, where p(theta*_j | pixels) / p(theta*_j) = p(pixels | theta*_j) /
p(pixels).  Where the priors are the same for all labels, so is the posterior under the k! names of labels, of
which a chain may see one; p(theta*_j | pixels) is therefore averaged over all labels that are not held yet.

**The point** is made of draws of high density, E[p(theta_j | pixels of label j)] over other draws; labels
where this rests on most draws are held first.  A superfluous label, which wanders, comes last: its density is
wider than that given its pixels, and a mean that rests on few draws would make the ordinate too small, and
the evidence too large.

The integral is by Gauss's three points on each of PANELS equal parts; what that leaves out is told by
Hermite's cubics through the same means, whose slopes are the variances of S.
"""

import numpy as np

from .. import arithmetic
from .autocorrelation import integrated_time

# At which the probabilities of models are averaged over the errors of their evidence.
POINTS = 4096

PANELS = 6
NODES = 3 * PANELS
# Draws on which a mean has to rest.
FEW = 10.0
_AWAY = float(np.sqrt(0.6))
_NODES = np.array([-_AWAY, 0.0, _AWAY])
_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 9.0


def nodes(beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Where E[S | y, b] is wanted for its integral from 0 to beta, and with which weights."""
    half = 0.5 * beta / PANELS
    centre = half * (2.0 * np.arange(PANELS) + 1.0)
    return (centre[:, None] + half * _NODES).ravel(), np.tile(half * _WEIGHTS, PANELS)


def path(beta: float, mean: np.ndarray, variance: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """The integral of the mean of S from 0 to beta, and its standard error, from estimates at the nodes."""
    at, weight = nodes(beta)
    total = float((weight * mean).sum())
    sampling = float((weight * weight * error * error).sum())
    # The cubics, and beyond the first and the last node a parabola.
    step, rise = np.diff(at), np.diff(variance)
    inner = (0.5 * step * (mean[1:] + mean[:-1]) - step * step * rise / 12.0).sum()
    first, last = at[0], beta - at[-1]
    ends = first * (mean[0] - 0.5 * first * variance[0]) + last * (mean[-1] + 0.5 * last * variance[-1])
    missed = total - float(inner + ends)
    return total, float(np.sqrt(sampling + missed * missed))


def probabilities(log_evidence: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(m,) those of the models after the data, if all were as probable before: their mean over normal errors
    of the evidence, at points of a Kronecker sequence."""
    m = log_evidence.size
    steps = np.sqrt(np.array(_primes(m), dtype=np.float64))
    place = np.arange(POINTS)[:, None] * steps + 0.5
    values = log_evidence + error * arithmetic.normal_quantile(
        np.clip(place - np.floor(place), 1e-9, 1.0 - 1e-9).ravel()
    ).reshape(POINTS, m)
    weight = arithmetic.exp(values - values.max(axis=1, keepdims=True))
    return (weight / weight.sum(axis=1, keepdims=True)).mean(axis=0)


def _primes(count: int) -> list[int]:
    """The first primes."""
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def effective(logs: np.ndarray) -> np.ndarray:
    """How many of the last axis of exp(logs) (..., n) its mean rests on: (sum w)^2 / sum w^2."""
    weight = arithmetic.exp(logs - logs.max(axis=-1, keepdims=True))
    total = weight.sum(axis=-1)
    return total * total / (weight * weight).sum(axis=-1)


def log_mean(logs: np.ndarray) -> tuple[float, float]:
    """log of the mean of exp(logs) (n,), draws of a chain, and its standard error.

    A mean that rests on fewer than FEW draws may be anything near the largest: its error is that of the
    logarithms themselves.
    """
    top = logs.max()
    draws = arithmetic.exp(logs - top)
    mean = float(draws.mean())
    relative = float(draws.std()) / mean
    error = relative * float(np.sqrt(integrated_time(draws) / logs.size))
    if float(effective(logs)) < FEW:
        error = max(error, float(logs.std()))
    return float(top + arithmetic.log(mean)), error


def averaged(ratios: np.ndarray, free: np.ndarray, label: int, exchangeable: bool) -> np.ndarray:
    """(n,) the logarithms whose mean `log_mean` is to take, of one label: from ratios (n, k) of its values
    for the pixels of every label, those of all labels that are free where they are exchangeable."""
    if not exchangeable:
        return ratios[:, label]
    some = ratios[:, free]
    top = some.max(axis=1)
    return top + arithmetic.log(arithmetic.exp(some - top[:, None]).mean(axis=1))
