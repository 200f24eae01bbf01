"""The grid of betas at which the prior is simulated.

The paper (section 4.1) draws its grid from the normal distribution around beta_crit with standard deviation
beta_crit / 2, truncated to be positive, which puts most of the work where S(z) changes most.  Draw i is a
function of the seed and of i alone, so that a grid of more points contains every point of a smaller one.

The two ends of the prior's interval are always on the grid and count among its points: no beta that the prior
allows is ever extrapolated.
"""

from collections.abc import Sequence

import numpy as np

from .. import arithmetic, rng
from ..errors import InputError
from ..lattice import Lattice
from ..model.transition import transition
from ..runtime import memory

KINDS = ("critical", "regular")

# The standard normal distribution function at -2.
BELOW_ZERO = 0.02275013194817921


def make_grid(
    kind: str | Sequence[float],
    points: int,
    lattice: Lattice,
    labels: int,
    interval: tuple[float, float],
    seed: int,
) -> np.ndarray:
    """(n,) ascending, unique betas: `points` of them, or those of the list `kind` and the interval's ends."""
    ends = _check_interval(interval)
    if not isinstance(kind, str):
        return np.unique(np.concatenate([ends, _check_list(kind)]))
    if kind not in KINDS:
        raise InputError(f"precompute.grid = {kind!r}: one of {KINDS} or a list of betas is accepted")
    if points < 2:
        raise InputError(f"precompute.points = {points}: at least 2, the ends of prior.beta, are accepted")
    memory.require(f"precompute.points = {points}", (points,), np.float64, copies=2)
    if kind == "regular":
        return np.linspace(ends[0], ends[1], points) + 0.0
    return np.unique(np.concatenate([ends, critical(points - 2, transition(lattice, labels), seed)]))


def critical(count: int, transition: float, seed: int) -> np.ndarray:
    """(count,) draws of N(transition, (transition / 2)^2) truncated to positive values, by inversion.

    Zero is two standard deviations below the mean, whatever the transition.
    """
    u = BELOW_ZERO + (1.0 - BELOW_ZERO) * rng.uniforms(rng.stream(seed, rng.Purpose.GRID), 0, count)
    # The smallest u may round to zero or just below it.
    return np.maximum(transition + arithmetic.normal_quantile(u) * (transition / 2), 0.0)


def _check_interval(interval: Sequence[float]) -> np.ndarray:
    ends = np.asarray(interval, dtype=np.float64) + 0.0
    if ends.shape != (2,) or not np.isfinite(ends).all() or not 0.0 <= ends[0] < ends[1]:
        raise InputError(f"prior.beta = {list(interval)}: two numbers 0 <= from < to are accepted")
    return ends


def _check_list(values: Sequence[float]) -> np.ndarray:
    betas = np.asarray(values, dtype=np.float64) + 0.0
    if betas.ndim != 1 or betas.size == 0:
        raise InputError(f"precompute.grid = {values!r}: one of {KINDS} or a list of betas is accepted")
    for beta in betas[~(np.isfinite(betas) & (betas >= 0.0))]:
        raise InputError(f"precompute.grid has {beta}: finite values from 0 upwards are accepted")
    unique, counts = np.unique(betas, return_counts=True)
    for beta in unique[counts > 1]:
        raise InputError(f"precompute.grid has {beta} more than once: distinct values are accepted")
    return betas
