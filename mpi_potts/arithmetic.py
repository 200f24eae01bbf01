"""Arithmetic on arrays with the same bits on every CPU: what numpy and its libraries leave to the machine.

numpy's exp, log, power, sinh and the like take other code on every kind of CPU, its `@` and `linalg` are
those of a library that does too, and the C library's functions behind `math` differ likewise.  Whatever goes
into a result is computed by these instead (the rules of the house refuse the others); `+ - * /`, `sqrt`,
`sum`, `cumsum`, comparisons and sorting are the same everywhere and stay numpy's.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .kernels import elementary, fourier, linear
from .slabs import slabs

# A number gives a number, an array an array of its shape.
Real = TypeVar("Real", float, np.ndarray)


def _each(fill: Callable[[np.ndarray, np.ndarray], Any], x: float | np.ndarray) -> Any:
    """Let a kernel fill an array of the shape of x, element by element; of a number, return a number."""
    x = np.asarray(x, dtype=np.float64)
    out = np.empty(x.shape)
    fill(x.reshape(-1), out.reshape(-1))
    return out if x.ndim else float(out)


def exp(x: Real) -> Real:
    """e**x of a number or of every element of an array."""
    return _each(elementary.fill_exp, x)


def expm1(x: Real) -> Real:
    """e**x - 1 of a number or of every element of an array, exact also near 0."""
    return _each(elementary.fill_expm1, x)


def log(x: Real) -> Real:
    """The natural logarithm of a number or of every element of an array: -inf at 0, nan below."""
    return _each(elementary.fill_log, x)


def log1p(x: Real) -> Real:
    """log(1 + x) of a number or of every element of an array, exact also near 0."""
    return _each(elementary.fill_log1p, x)


def power(x: float | np.ndarray, y: float | np.ndarray) -> Any:
    """x**y for x > 0, of numbers or of arrays whose shapes broadcast."""
    return exp(np.multiply(y, log(np.asarray(x))))


def sinh(x: Real) -> Real:
    """The hyperbolic sine of a number or of every element of an array."""
    rise = expm1(np.abs(x))
    return np.copysign(0.5 * (rise + rise / (rise + 1.0)), x)


def asinh(x: Real) -> Real:
    """The inverse of `sinh`, of a number or of every element of an array."""
    size = np.abs(x)
    square = size * size
    return np.copysign(log1p(size + square / (1.0 + np.sqrt(square + 1.0))), x)


def hypot(x: float | np.ndarray, y: float | np.ndarray) -> Any:
    """sqrt(x**2 + y**2) of numbers or of arrays whose shapes broadcast."""
    return np.sqrt(x * x + y * y)


def log_gamma(x: float | np.ndarray) -> Any:
    """The logarithm of the gamma function of numbers > 0."""
    return _each(elementary.fill_log_gamma, x)


def interp(x: Any, nodes: np.ndarray, values: np.ndarray) -> Any:
    """Linear interpolation of values (n,) at ascending nodes (n,), constant beyond them, as `np.interp`."""
    x = np.asarray(x, dtype=np.float64)
    i = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, max(nodes.size - 2, 0))
    j = np.minimum(i + 1, nodes.size - 1)
    width = nodes[j] - nodes[i]
    # Between equal nodes nothing is asked for but the ends themselves.
    slope = (values[j] - values[i]) / np.where(width > 0.0, width, 1.0)
    inside = values[i] + slope * (x - nodes[i])
    return np.where(x <= nodes[0], values[0], np.where(x >= nodes[-1], values[-1], inside))[()]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product of a (m, l), or (l,), with b (l, n), or (l,), as `a @ b`."""
    left, right = np.atleast_2d(_plain(a)), _plain(b)
    out = np.empty(left.shape[:1] + right.shape[1:])
    (linear.apply if right.ndim == 1 else linear.product)(left, right, out)
    return out.reshape(np.shape(a)[:-1] + right.shape[1:])


def gram(a: np.ndarray) -> np.ndarray:
    """The (n, n) product a' a of a matrix a (m, n) with itself."""
    out = np.empty((a.shape[1],) * 2)
    linear.gram(_plain(a), out)
    return out


def solve(a: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """x (n,) or (n, m) with a x = right, and log |det a|; a singular a is an error."""
    x = np.array(right, dtype=np.float64, order="C")
    determinant = linear.eliminate(np.array(a, dtype=np.float64, order="C"), x.reshape(len(x), -1))
    if determinant == -np.inf:
        raise ArithmeticError("a system of linear equations is singular")
    return x, determinant


def solve_definite(a: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x (m, n) with a_i x_i = right_i for symmetric positive definite a (m, n, n), and (m,) log det a_i.

    Many at once take a sixth of the time.  What is not definite, by rounding say, is solved as any other.
    """
    x, determinants = np.empty(right.shape), np.empty(len(a))
    for first in range(0, len(a), linear.LANES):
        # The last lanes repeat a system where there are too few.
        taken = np.minimum(np.arange(first, first + linear.LANES), len(a) - 1)
        found, determinant = np.ascontiguousarray(right[taken].T), np.empty(linear.LANES)
        linear.eliminate_definite(np.ascontiguousarray(a[taken].transpose(1, 2, 0)), found, determinant)
        x[taken], determinants[taken] = found.T, determinant
    for i in np.flatnonzero(determinants == -np.inf):
        x[i], determinants[i] = solve(a[i], right[i])
    return x, determinants


def correlations(rows: np.ndarray) -> np.ndarray:
    """(n,) sum over rows (m, n) and places i of x_i x_(i + lag), for every lag."""
    out = np.empty(rows.shape[1])
    fourier.correlations(_plain(rows), out)
    return out


def _plain(a):
    return np.ascontiguousarray(a, dtype=np.float64)


# Wichura's algorithm AS 241 (1988): numerators and denominators of three rational functions, highest power
# first; the first is for the middle, in 0.425**2 - q**2, the others for the tails, in sqrt(-log p).
_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(coefficients, r):
    numerator, denominator = (np.zeros_like(r) for _ in range(2))
    for above, below in zip(*coefficients):
        numerator, denominator = numerator * r + above, denominator * r + below
    return numerator / denominator


def normal_quantile(p: np.ndarray) -> np.ndarray:
    """The standard normal's quantiles at p (n,) in (0, 1), to 1e-15."""
    p = np.asarray(p, dtype=np.float64)
    q = p - 0.5
    middle = q * _ratio(_MIDDLE, 0.180625 - q * q)
    r = np.sqrt(-log(np.minimum(p, 1.0 - p)))
    tail = np.copysign(np.where(r <= 5.0, _ratio(_TAIL, r - 1.6), _ratio(_FAR_TAIL, r - 5.0)), q)
    return np.where(np.abs(q) <= 0.425, middle, tail)


def sums_by(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """(3, groups) the numbers, sums and sums of squares of values (n,) of each group, added in their order.

    As np.bincount has them, without its copies of all groups, and of the squares.
    """
    sums = np.zeros((3, groups))
    for part in slabs(values.size):
        add_by(sums, group[part], values[part])
    return sums


def add_by(sums: np.ndarray, group: np.ndarray, values: np.ndarray) -> None:
    """Add to sums (3, groups) the numbers, sums and sums of squares of some more values, one by one."""
    where = group.astype(np.intp, copy=False)
    sums[0] += np.bincount(where, minlength=sums.shape[1])
    np.add.at(sums[1], where, values)
    np.add.at(sums[2], where, values * values)


def groups(thresholds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n,) uint8 the number of thresholds, ascending, that are not above each of the values."""
    group = np.empty(values.size, np.uint8)
    for part in slabs(values.size):
        group[part] = np.searchsorted(thresholds, values[part], side="right")
    return group
