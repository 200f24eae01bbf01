"""How likely S(x) is to fall near S(z), for a block of particles: the count of infinitely many replicates.

With S(x) given beta normal, of mean m and standard deviation s, the expected part of a particle's M
pseudo-statistics that are closer than eps to S is

    Phi((S + eps - m) / s) - Phi((S - eps - m) / s).

Here is its logarithm, less log(2 eps): the logarithm of the mean density of S(x) over the window.  What is
taken off is the same for all particles, and leaves the weights as they are; in its place there is a limit for
eps = 0, the density itself.

With d = |S - m| / s, h = eps / s, phi the normal density and R(x) = (1 - Phi(x)) / phi(x) Mills' ratio, three
forms lose no digits wherever they are used, and none overflows or vanishes however far S is:

- narrow windows, h max(d, 1) < NARROW: phi(d) times the mean of exp(-h^2 u^2 / 2) cosh(d h u) for u in
  (0, 1), by Gauss and Legendre's rule on six nodes, whose error is below 1e-15;
- S outside, d > h: phi(d - h) (R(d - h) - exp(-2 d h) R(d + h));
- S inside: 1 - phi(h - d) R(h - d) - phi(h + d) R(h + d).
"""

import numpy as np
from numba import njit

from .elementary import exp, log, log1p, mills

NARROW = 0.25
# exp(-FAR) and less is lost beside 1, and beside Mills' ratio of what is nearer.
FAR = 45.0
_LOG_ROOT_TWO_PI = 0.9189385332046727
_ROOT_TWO_PI = 2.5066282746310002

# Of the rule with six nodes on (-1, 1), those above 0, and their weights of sum 1.
_NODES = (0.2386191860831969, 0.6612093864662645, 0.932469514203152)
_WEIGHTS = (0.46791393457269104, 0.3607615730481386, 0.17132449237917036)


@njit(error_model="numpy", cache=True)
def _narrow(d, h):
    """log of the mean of exp(-h^2 u^2 / 2) cosh(d h u) over u in (0, 1)."""
    total = 0.0
    for j in range(3):
        t = h * _NODES[j]
        rise = exp(d * t)
        total += _WEIGHTS[j] * exp(-0.5 * t * t) * 0.5 * (rise + 1.0 / rise)
    return log(total)


@njit(error_model="numpy", cache=True)
def log_density(distance, sd, tolerance):
    """The logarithm of the mean density over a window; distance = |S - m| >= 0, sd > 0, tolerance >= 0."""
    d, h = distance / sd, tolerance / sd
    if h * (d if d > 1.0 else 1.0) < NARROW:
        return _narrow(d, h) - 0.5 * d * d - _LOG_ROOT_TWO_PI - log(sd)
    if d > h:
        near = d - h
        inside = mills(near)
        if 2.0 * d * h < FAR:
            inside -= exp(-2.0 * d * h) * mills(d + h)
        return log(inside) - 0.5 * near * near - _LOG_ROOT_TWO_PI - log(2.0 * tolerance)
    below, above = h - d, h + d
    outside = 0.0
    for x in (below, above):
        if 0.5 * x * x < FAR:
            outside += exp(-0.5 * x * x) * mills(x)
    return log1p(-outside / _ROOT_TWO_PI) - log(2.0 * tolerance)


@njit(error_model="numpy", cache=True)
def log_densities(out, rows, alive, statistic, tolerances):
    """out[i, k] : (n, K), for rows[i] = (m, s) and tolerances[k]; -inf where `alive` is not."""
    for i in range(rows.shape[0]):
        distance = abs(rows[i, 0] - statistic)
        for k in range(tolerances.size):
            out[i, k] = log_density(distance, rows[i, 1], tolerances[k]) if alive[i] else -np.inf


@njit(error_model="numpy", cache=True)
def accept(x, held, accepted, rows, new, uniform, statistic, tolerance):
    """Metropolis steps: row rows[j] of x takes over new[j] if log uniform < its log density - the one held.

    x : (n, 2), means and sds.  held : (n,), log densities of x.  accepted : (n,) bool, set where a proposal
    is taken.
    """
    for j in range(rows.size):
        i = rows[j]
        proposed = log_density(abs(new[j, 0] - statistic), new[j, 1], tolerance)
        if log(uniform[i]) < proposed - held[i]:
            x[i] = new[j]
            held[i] = proposed
            accepted[i] = True


def compile_all() -> None:
    """Call every kernel once, on one particle, with the types that the sampler uses."""
    x, one, yes = np.ones((1, 2)), np.ones(1), np.ones(1, dtype=bool)
    log_densities(np.zeros((1, 1)), x, yes, 0.0, one)
    accept(x, np.zeros(1), yes, np.zeros(1, dtype=np.int64), x, one, 0.0, 1.0)
