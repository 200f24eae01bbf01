"""One convex function A(beta) = log C(beta) through all simulated means and variances of S(z).

A' is the mean and A'' the variance, so with f = log A'' any f at all gives a valid pair of curves:

    variance(beta) = exp f(beta),        mean(beta) = m_0 + integral of exp f from beta[0] to beta.

f is a cubic spline with many equally spaced knots in a stretched coordinate t and a penalty on its second
differences (P-splines, Eilers and Marx 1996).  Near the transition the variance changes over a width that
shrinks with the lattice, elsewhere over widths of order one; t = asinh((beta - c) / w) sees both alike: it is
linear within w of the peak c and logarithmic in the distance outside.  Neither is known.  Widths w are tried
from the whole grid downwards, each with peaks c from that of the last curve, or from beta_crit where the grid
may have left the peak out, to both sides, as far as the data allow.  The curve is the mean over all these, by
their probabilities, and its error has their differences: near a transition a sparse grid does not tell how
high and how sharp the peak is, and the best of the solutions alone would not know that (rms z of 2 to 5).

The coefficients minimise the weighted squares of

    (mean_i - mean(beta_i)) / se_i      and      (variance_i - exp f(beta_i)) / (exp f(beta_i) r_i)

plus the penalty, by Gauss-Newton steps.  The errors se_i and r_i are computed from the *fitted* variance and
from the autocorrelation time of the neighbouring chains, so that a point that came out small by chance does
not gain weight; the caution against that in the errors of single chains is taken back first.  The
penalty is chosen by restricted maximum likelihood, which is the probability of w and c.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .. import arithmetic
from ..model.low_temperature import Anchor

# Knots lie this far apart in t; each knot interval is divided into cells for integration and for the table.
_SPACING = 0.25
_FEWEST_PIECES = 20
_FIT_CELLS = 4
_TABLE_CELLS = 16
_GUESS_CELLS = 4
# Errors change slowly but where betas were simulated close together, and are tabulated at every so manieth
# node, at the simulated betas and in their middles.
_ERROR_EVERY = 4

# Penalties that are tried, and widths w as fractions of the grid's length.
_DECADES = np.array([1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7])
_PENALTIES = np.sort(np.append(_DECADES, _DECADES[:-1] * np.sqrt(10.0)))
_FACTORS = np.array([np.sqrt(np.sqrt(10.0)), np.sqrt(10.0)])
_NEARBY = np.concatenate([1.0 / _FACTORS[::-1], [1.0], _FACTORS])
_NARROWING = 0.4
_NARROWEST = 1e-4
_AROUND = 3

# Solutions are tried until their scores are so much above the least; then the most probable are kept, so many
# at most, and none that has less than this of the probability of the first.
_HOPELESS = 8.0
_MOST_STEPS_ASIDE = 5
_STRIDE = 1.6
_MOST_MEMBERS = 16
_RARE = 0.01

# Gauss-Newton: steps at most; those that would better the weighted squares by less than this, of which an
# error of the data's own size is 1, are not worth another; the step at which the penalty is settled, the
# largest change of f in one step, and the largest excess of a sample variance over the fit that pulls with
# its full weight.
_MOST_STEPS = 40
_SMALL = 1e-3
_FREEZE = 8
_LARGEST_CHANGE = 2.0
_LARGEST_RATIO = 9.0

# Residuals beyond this are outliers: a chain that was in the wrong phase all the time, unknown to itself.
_OUTLIER = 5.0

# Variances below exp of this are zero.
_LOWEST = -100.0

# The errors of an anchor are at least this: of log C itself, of the mean in sds, and of the variance's ratio.
_SMALLEST = 1e-3

# What the data do not determine (a variance where S never moved) stays near the first guess.
_RIDGE = 1e-5

# The standard errors that come with the data are worth this many residuals in saying how large errors are.
_TRUST = 10.0

# Gauss and Legendre's nodes and weights on (0, 1).
_NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])
_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0


class Peak(NamedTuple):
    """Where the variance of S is largest, with a standard error, and over what width it may change there."""

    beta: float
    error: float
    width: float


@dataclass(frozen=True)
class Estimates:
    """Means and variances at the grid points (n,), and the errors that a fitted variance V makes of

        Var(mean) = V mean_relative + mean_absolute
        Var(variance) / V^2 = variance_relative (2 + step^2 / V) + variance_absolute / V^2

    where step^2 / V is the excess over normal S when S moves by rare jumps of `step`, as in the ordered
    phase.  Rows that were not `simulated` were composed.  The `anchor`, if there is one, knows the integral
    of the mean from beta[0] to a beta within.  What is known of the `peak` of the variance before any data:
    where it is, within what, and its least width.
    """

    beta: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    mean_relative: np.ndarray
    mean_absolute: np.ndarray
    variance_relative: np.ndarray
    variance_absolute: np.ndarray
    step: float
    simulated: np.ndarray
    anchor: Anchor | None = None
    peak: Peak | None = None

    def errors(self, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of the means, and relative ones of the variances, if S has this `variance`."""
        mean = variance * self.mean_relative + self.mean_absolute
        relative = self.variance_relative * (
            2 + self.step * self.step / variance
        ) + self.variance_absolute / (variance * variance)
        return np.sqrt(mean), np.sqrt(relative)


class Coordinate:
    """t = asinh((beta - peak) / width) with the knots of a cubic spline equally spaced in it."""

    def __init__(self, low: float, high: float, peak: float, width: float) -> None:
        self.peak, self.width = peak, width
        self.low, self.high = self.forward(low), self.forward(high)
        self.pieces = max(_FEWEST_PIECES, int(np.ceil((self.high - self.low) / _SPACING)))
        self.density = self.pieces / (self.high - self.low)
        self.ends = low, high

    def forward(self, beta: arithmetic.Real) -> arithmetic.Real:
        """t of beta, a number or an array."""
        return arithmetic.asinh((beta - self.peak) / self.width)

    def cells(self, per_piece: int) -> np.ndarray:
        """The betas between cells of equal length in t, so many a knot interval, with the grid's own ends."""
        t = np.linspace(self.low, self.high, self.pieces * per_piece + 1)
        beta = self.peak + self.width * arithmetic.sinh(t)
        beta[[0, -1]] = self.ends
        return beta

    def basis(self, beta: np.ndarray) -> np.ndarray:
        """(len(beta), pieces + 3) values of the cubic B-splines at each beta."""
        piece, s = self._locate(beta)
        r, square, cube = 1 - s, s * s, s * s * s
        return self._spread(piece, (r * r * r, 3 * cube - 6 * square + 4, 3 * (s - cube + square) + 1, cube))

    def derivative(self, beta: np.ndarray) -> np.ndarray:
        """(len(beta), pieces + 3) derivatives of the cubic B-splines by beta."""
        piece, s = self._locate(beta)
        scale = 3 * self.density / arithmetic.hypot(self.width, beta - self.peak)
        square = s * s
        values = (-(1 - s) * (1 - s), 3 * square - 4 * s, 1 - 3 * square + 2 * s, square)
        return self._spread(piece, [scale * value for value in values])

    def _locate(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = (self.forward(beta) - self.low) * self.density
        piece = np.clip(u.astype(np.int64), 0, self.pieces - 1)
        return piece, u - piece

    def _spread(self, piece: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
        basis = np.zeros((len(piece), self.pieces + 3))
        for j, value in enumerate(values):
            basis[np.arange(len(piece)), piece + j] = value / 6
        return basis

    def penalty(self) -> np.ndarray:
        """The matrix S of the penalty c' S c, the sum of squared second differences."""
        differences = np.diff(np.eye(self.pieces + 3), n=2, axis=0)
        return arithmetic.gram(differences)


@dataclass(frozen=True)
class Solution:
    """theta at the minimum, the problem linearised there, its penalty lambda S, lambda, and its score.

    `trusted` has the residuals that say how large errors are: those of rows that were simulated.

    The score is minus twice the log probability: the smallest of several solutions is the most probable.
    """

    coordinate: Coordinate
    theta: np.ndarray
    residuals: np.ndarray
    slopes: np.ndarray
    penalty: np.ndarray
    weight: float
    score: float
    trusted: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of theta: that of the posterior whose prior is the penalty.

        Where the residuals are larger than their errors say, the errors are taken to be that much too small.
        """
        normal, one = arithmetic.gram(self.slopes), np.eye(len(self.theta))
        covariance, _ = arithmetic.solve(normal + _RIDGE * one + self.penalty, one)
        slopes, residuals = self.slopes[self.trusted], self.residuals[self.trusted]
        fitted = np.sum(arithmetic.product(slopes, covariance) * slopes)
        free = max(0.0, len(residuals) - fitted)
        return covariance * max(1.0, (np.sum(residuals * residuals) + _TRUST) / (free + _TRUST))


class LeastSquares:
    """The least-squares problem in one coordinate; theta = (m_0, c) with c the coefficients of f."""

    def __init__(self, data: Estimates, coordinate: Coordinate) -> None:
        self.data, self.coordinate = data, coordinate
        ends = [] if data.anchor is None else [data.anchor.beta]
        points = np.union1d(np.append(coordinate.cells(_FIT_CELLS), ends), data.beta)
        self.rows = np.searchsorted(points, data.beta)
        step = np.diff(points)[:, None]
        self.weights = (step * _WEIGHTS).ravel()
        self.nodes = coordinate.basis((points[:-1, None] + step * _NODES).ravel())
        self.basis = coordinate.basis(data.beta)
        if data.anchor is not None:
            self._tie(points, data.anchor)
        self.penalty = np.zeros((self.basis.shape[1] + 1,) * 2)
        self.penalty[1:, 1:] = coordinate.penalty()
        # The penalty's prior is on second differences, and flat in both ends: its determinant counts knots.
        self.prior = 2 * arithmetic.log(float(self.basis.shape[1] - 1))

    def _tie(self, points: np.ndarray, anchor: Anchor) -> None:
        """What the residuals at the anchor need: how much each node counts in the integral of the mean."""
        self.anchor_row = int(np.searchsorted(points, anchor.beta))
        self.anchor_basis = self.coordinate.basis(np.array([anchor.beta]))[0]
        inner = (points[:-1, None] + np.diff(points)[:, None] * _NODES).ravel()
        # The mean at b gains exp f(b') for each b' < b: exp f(b') is in the integral once for every b beyond.
        self.lever = np.maximum(anchor.beta - inner, 0.0)

    def start(self, beta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """theta with f close to the values `f` at `beta`, and the first mean as m_0."""
        basis = self.coordinate.basis(beta)
        level = np.diff(np.eye(basis.shape[1]), axis=0)
        normal = arithmetic.gram(basis) + 1e-3 * self.penalty[1:, 1:] + 1e-8 * arithmetic.gram(level)
        c, _ = arithmetic.solve(normal, arithmetic.product(f, basis))
        return np.append(self.data.mean[0], c)

    def linearise(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted residuals (2n,) and their negative derivatives (2n, len(theta))."""
        data, c = self.data, theta[1:]
        pieces = (self.weights * arithmetic.exp(arithmetic.product(self.nodes, c)))[:, None] * self.nodes
        steps = pieces.reshape(-1, len(_NODES), len(c)).sum(axis=1)
        whole = np.vstack([np.zeros(len(c)), np.cumsum(steps, axis=0)])
        slopes = whole[self.rows]
        # The B-splines sum to one, so the derivatives sum to the integral itself.
        mean = theta[0] + slopes.sum(axis=1)
        variance = arithmetic.exp(np.maximum(arithmetic.product(self.basis, c), _LOWEST))
        mean_se, relative = data.errors(variance)
        ratio = np.minimum(data.variance / variance - 1, _LARGEST_RATIO)
        residuals = np.concatenate([(data.mean - mean) / mean_se, ratio / relative])
        upper = np.column_stack([1 / mean_se, slopes / mean_se[:, None]])
        lower = np.column_stack([np.zeros(len(relative)), self.basis / relative[:, None]])
        slopes = np.vstack([upper, lower])
        if data.anchor is None:
            return residuals, slopes
        more, rows = self._at_anchor(theta, data.anchor, whole[self.anchor_row], pieces)
        return np.concatenate([residuals, more]), np.vstack([slopes, rows])

    def _at_anchor(
        self, theta: np.ndarray, anchor: Anchor, mean_slopes: np.ndarray, pieces: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (3,) of log C, mean and variance at the anchor, and their negative derivatives."""
        length = anchor.beta - self.data.beta[0]
        integral_slopes = (self.lever[:, None] * pieces).sum(axis=0)
        mean = theta[0] + mean_slopes.sum()
        integral = theta[0] * length + integral_slopes.sum()
        variance = arithmetic.exp(max(float((self.anchor_basis * theta[1:]).sum()), _LOWEST))
        # Errors as small as rounding's would drown everything else.
        sd = np.sqrt(variance)
        integral_se = max(anchor.error, _SMALLEST)
        mean_se = max(anchor.mean_error, _SMALLEST * sd)
        relative = max(anchor.variance_error / variance, _SMALLEST)
        residuals = np.array(
            [
                (anchor.log_normaliser - integral) / integral_se,
                (anchor.mean - mean) / mean_se,
                min(anchor.variance / variance - 1, _LARGEST_RATIO) / relative,
            ]
        )
        rows = np.vstack(
            [
                np.append(length, integral_slopes) / integral_se,
                np.append(1.0, mean_slopes) / mean_se,
                np.append(0.0, self.anchor_basis) / relative,
            ]
        )
        return residuals, rows

    def solve(self, theta: np.ndarray, penalties: np.ndarray = _PENALTIES) -> Solution:
        """Gauss-Newton steps to the minimum; where there are outliers, then again with these held down."""
        result = self._descend(theta, np.inf, penalties)
        if np.abs(result.residuals).max() > _OUTLIER:
            result = self._descend(result.theta, _OUTLIER, _PENALTIES)
        return result

    def _descend(self, theta: np.ndarray, outlier: float, penalties: np.ndarray) -> Solution:
        start, iteration, weight = theta, 0, 0.0
        while True:
            residuals, slopes = self.linearise(theta)
            # A residual beyond `outlier` gets an error so much larger that it is no farther than that.
            shrink = outlier / np.maximum(np.abs(residuals), outlier) if np.isfinite(outlier) else 1.0
            residuals, slopes = residuals * shrink, slopes * np.reshape(shrink, (-1, 1))
            step, best, score, gain = self._choose(theta, theta - start, residuals, slopes, penalties)
            weight, before = penalties[best], weight
            # Only the neighbours of the best penalty are tried again, and none once it should have settled.
            penalties = penalties[best] * (_NEARBY if iteration < _FREEZE else np.ones(1))
            change = np.abs(step[1:]).max()
            theta = theta + step * min(1.0, _LARGEST_CHANGE / max(change, 1e-300))
            iteration += 1
            if (gain < _SMALL and weight == before) or iteration == _MOST_STEPS:
                break
        held = 2 * np.sum(arithmetic.log(shrink))
        penalty, data = weight * self.penalty, self.data
        # A row that was composed of others vouches for its own errors, and for no one else's.
        own = np.tile(data.simulated, 2)
        trusted = np.flatnonzero(np.append(own, np.zeros(len(residuals) - own.size, dtype=bool)))
        return Solution(self.coordinate, theta, residuals, slopes, penalty, weight, score - held, trusted)

    def _choose(
        self,
        theta: np.ndarray,
        moved: np.ndarray,
        residuals: np.ndarray,
        slopes: np.ndarray,
        penalties: np.ndarray,
    ) -> tuple[np.ndarray, int, float, float]:
        """The step for the most probable of the penalties, its index, minus twice its log probability, and by
        how much the step betters the weighted squares."""
        product = arithmetic.product
        normal, gradient = arithmetic.gram(slopes), product(residuals, slopes)
        matrices = normal + _RIDGE * np.eye(len(theta)) + penalties[:, None, None] * self.penalty
        right = gradient - _RIDGE * moved - penalties[:, None] * product(self.penalty, theta)
        steps, determinants = arithmetic.solve_definite(matrices, right)
        squares = (residuals * residuals).sum() - 2 * product(steps, gradient)
        squares += (product(steps, normal) * steps).sum(axis=1)
        new = theta + steps
        squares += penalties * (product(new, self.penalty) * new).sum(axis=1)
        # The scale of the errors is integrated out, with a prior around 1 worth _TRUST residuals.
        scores = (len(residuals) - 3 + _TRUST) * arithmetic.log(np.maximum(squares, 0.0) + _TRUST)
        scores += determinants - (len(theta) - 3) * arithmetic.log(penalties) - self.prior
        best = int(np.argmin(scores))
        return steps[best], best, scores[best], float(product(steps[best], right[best]))


class Member(NamedTuple):
    """One of the solutions that the data allow, and its probability."""

    solution: Solution
    probability: float


def probable(data: Estimates) -> list[Member]:
    """The solutions that the data allow, the most probable first: narrowing widths, and peaks around each.

    A width is as probable as its best peak, whatever the number of peaks that were tried with it; a peak
    stands for those up to half way to the next.
    """
    families = _families(data)
    least = min(solution.score for family in families for solution in family)
    members = []
    for family in families:
        family.sort(key=lambda solution: solution.coordinate.peak)
        scores = np.array([solution.score for solution in family])
        peaks = np.array([solution.coordinate.peak for solution in family])
        steps = np.diff(peaks)
        reach = np.append(steps, 0.0) + np.append(0.0, steps) if steps.size else np.ones(1)
        share = arithmetic.exp((scores.min() - scores) / 2) * reach
        weights = arithmetic.exp((least - scores.min()) / 2) * share / share.sum()
        members += [Member(solution, weight) for solution, weight in zip(family, weights.tolist())]
    members.sort(key=lambda member: (-member.probability, member.solution.coordinate.width))
    kept = [m for m in members[:_MOST_MEMBERS] if m.probability > _RARE * members[0].probability]
    total = sum(member.probability for member in kept)
    return [Member(member.solution, member.probability / total) for member in kept]


def _families(data: Estimates) -> list[list[Solution]]:
    """Solutions by width: each with the peak of the one before it, then with peaks to both sides of that."""
    width = data.beta[-1] - data.beta[0]
    guess = _first_guess(data)
    families: list[list[Solution]] = []
    least, worse = np.inf, 0
    while not families or (worse < 2 and width > _narrowest(data, families[-1][0].coordinate.peak)):
        # The peak of the last curve, refined around its highest value as the coordinate narrows.
        peak = guess[0][np.argmax(guess[1])]
        first = _solve(data, peak, width, guess)
        # A grid that leaves out the peak has its largest value elsewhere.
        if data.peak is not None and data.beta[0] < data.peak.beta < data.beta[-1]:
            other = _solve(data, data.peak.beta, width, guess, first.weight * _NEARBY)
            first = min(first, other, key=lambda solution: solution.score)
        families.append([first])
        least, worse = min(least, first.score), worse + 1 if first.score > least + _HOPELESS else 0
        guess = _curve(first)
        width *= _NARROWING
    for family in families:
        if family[0].score < least + _HOPELESS:
            least = _walk(data, family, least)
    return families


def _narrowest(data: Estimates, peak: float) -> float:
    """The least width that betas around the peak can tell from others, or that a lattice of this size has."""
    place = int(np.searchsorted(data.beta, peak))
    gaps = np.diff(data.beta[max(0, place - _AROUND) : place + _AROUND])
    narrow = float(np.median(gaps)) / 4
    if data.peak is not None:
        narrow = min(narrow, data.peak.width)
    return max(narrow, _NARROWEST * float(data.beta[-1] - data.beta[0]))


def _walk(data: Estimates, family: list[Solution], least: float) -> float:
    """Add solutions with the peak to the left and to the right, as far as they are of any weight."""
    first = family[0]
    for direction in (-1, 1):
        last, step = first, first.coordinate.width
        for _ in range(_MOST_STEPS_ASIDE):
            peak = last.coordinate.peak + direction * step
            if last.score > least + _HOPELESS or not data.beta[0] <= peak <= data.beta[-1]:
                break
            last = _solve(data, peak, last.coordinate.width, _curve(last), last.weight * _NEARBY)
            family.append(last)
            least, step = min(least, last.score), step * _STRIDE
    return least


def _solve(
    data: Estimates,
    peak: float,
    width: float,
    guess: tuple[np.ndarray, np.ndarray],
    penalties: np.ndarray = _PENALTIES,
) -> Solution:
    """The solution with this peak and width, its score with the probability of the peak before any data."""
    problem = LeastSquares(data, Coordinate(data.beta[0], data.beta[-1], peak, width))
    solution = problem.solve(problem.start(*guess), penalties)
    if data.peak is None:
        return solution
    away = (peak - data.peak.beta) / data.peak.error
    return replace(solution, score=solution.score + away * away)


def _curve(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """beta and f of a solution."""
    beta = solution.coordinate.cells(_GUESS_CELLS)
    return beta, arithmetic.product(solution.coordinate.basis(beta), solution.theta[1:])


def _first_guess(data: Estimates) -> tuple[np.ndarray, np.ndarray]:
    """log A'' at some betas: the variances, and the slopes of the means where they are well known."""
    least = max(data.variance.max() * 1e-12, arithmetic.exp(_LOWEST))
    seen = data.variance > least
    step, rise = np.diff(data.beta), np.diff(data.mean)
    errors = data.errors(np.maximum(data.variance, least))[0]
    known = rise > 4 * arithmetic.hypot(errors[1:], errors[:-1])
    beta = np.concatenate([data.beta[seen], (data.beta[1:] - step / 2)[known]])
    f = arithmetic.log(np.concatenate([data.variance[seen], (rise / step)[known]]))
    if f.size == 0:
        return data.beta, arithmetic.log(data.step * data.step * data.variance_relative)
    return beta, f


class Smooth:
    """The mean of the probable curves, tabulated on cells in which the mean and f are cubic polynomials.

    Of A = sum of p_h A_h, with the probabilities p_h of the solutions, the mean and the variance of S are the
    same sums.  Errors are those of the solutions and the differences between them:
    sum of p_h (var_h + (value_h - value)^2).
    """

    def __init__(self, data: Estimates) -> None:
        members = probable(data)
        self.coordinate = members[0].solution.coordinate
        self.beta = self.coordinate.cells(_TABLE_CELLS)
        self.error_beta = np.union1d(self.beta[::_ERROR_EVERY], _among(data.beta[data.simulated]))
        step = np.diff(self.beta)
        curves = [_Tabulated(member.solution, self.beta, self.error_beta) for member in members]
        weights = [member.probability for member in members]
        mean = _mixed(weights, [curve.mean for curve in curves])
        variance = _mixed(weights, [curve.variance for curve in curves])
        slope = _mixed(weights, [curve.variance * curve.slope for curve in curves]) / variance
        f = arithmetic.log(variance)
        self.cubics = np.vstack([_cubic(step, mean, variance), _cubic(step, f, slope)])
        self.integral = _integral(step, mean, variance)
        self.mean_se, self.f_se, self.integral_se = (
            np.sqrt(
                _mixed(weights, [curve.errors[i] for curve in curves])
                + _scatter(weights, [curve.values[i] for curve in curves])
            )
            for i in range(3)
        )

    def moments(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of S at each beta."""
        cell, h = self._locate(beta)
        m0, m1, m2, m3, f0, f1, f2, f3 = (column.take(cell) for column in self.cubics)
        return m0 + h * (m1 + h * (m2 + h * m3)), arithmetic.exp((f0 + h * (f1 + h * (f2 + h * f3))) / 2)

    def standard_errors(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of the mean and of the standard deviation at each beta."""
        sd = self.moments(beta)[1]
        f_se = arithmetic.interp(beta, self.error_beta, self.f_se)
        return arithmetic.interp(beta, self.error_beta, self.mean_se), sd / 2 * f_se

    def log_normaliser(self, beta: np.ndarray) -> np.ndarray:
        """The integral of the mean from the first beta of the grid to each beta."""
        cell, h = self._locate(beta)
        m0, m1, m2, m3 = (column.take(cell) for column in self.cubics[:4])
        return self.integral.take(cell) + h * (m0 + h * (m1 / 2 + h * (m2 / 3 + h * m3 / 4)))

    def log_normaliser_error(self, beta: np.ndarray) -> np.ndarray:
        """Standard error of `log_normaliser` at each beta."""
        return arithmetic.interp(beta, self.error_beta, self.integral_se)

    def _locate(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cell of each beta, and the distance from its first node.

        Cells are equal in t, so no search is needed; at a node rounding may give the neighbour, which agrees.
        """
        coordinate = self.coordinate
        x = (beta - coordinate.peak) / coordinate.width
        t = np.copysign(arithmetic.log(np.abs(x) + np.sqrt(x * x + 1.0)), x)
        scale = _TABLE_CELLS * coordinate.density
        cell = np.clip(((t - coordinate.low) * scale).astype(np.int64), 0, len(self.beta) - 2)
        return cell, beta - self.beta[cell]


class _Tabulated:
    """One solution on the nodes of a table: mean, variance and the slope of f; and at the betas of the
    errors, its mean, f and integral of the mean (`values`) and the squares of their errors (`errors`)."""

    def __init__(self, solution: Solution, beta: np.ndarray, error_beta: np.ndarray) -> None:
        coordinate, c = solution.coordinate, solution.theta[1:]
        nodes = np.union1d(beta, error_beta)
        step = np.diff(nodes)
        inner = (nodes[:-1, None] + step[:, None] * _NODES).ravel()
        weights = (step[:, None] * _WEIGHTS).ravel()
        inner_basis, basis = coordinate.basis(inner), coordinate.basis(nodes)
        f = arithmetic.product(basis, c)
        variance = arithmetic.exp(f)
        inner_variance = arithmetic.exp(arithmetic.product(inner_basis, c))
        pieces = (weights * inner_variance)[:, None] * inner_basis
        slopes = np.cumsum(pieces.reshape(len(step), len(_NODES), -1).sum(axis=1), axis=0)
        slopes = np.column_stack([np.ones(len(basis)), np.vstack([np.zeros(len(c)), slopes])])
        mean = solution.theta[0] + slopes[:, 1:].sum(axis=1)
        own, at = np.searchsorted(nodes, beta), np.searchsorted(nodes, error_beta)
        self.mean, self.variance = mean[own], variance[own]
        self.slope = arithmetic.product(coordinate.derivative(beta), c)
        self.values = mean[at], f[at], _integral(step, mean, variance)[at]
        # By theta: the derivatives of the mean, of f and of the integral.
        variance_slopes = np.column_stack([np.zeros(len(basis)), variance[:, None] * basis])
        integral = _integral(step[:, None], slopes, variance_slopes)
        rows = (slopes, np.column_stack([np.zeros(len(basis)), basis]), integral)
        covariance = solution.covariance
        self.errors = [
            np.maximum(0.0, (arithmetic.product(some, covariance) * some).sum(axis=1))
            for some in (row[at] for row in rows)
        ]


def _among(beta: np.ndarray) -> np.ndarray:
    """Betas and the middles between them."""
    return np.concatenate([beta, (beta[1:] + beta[:-1]) / 2])


def _mixed(weights: list[float], values: list[np.ndarray]) -> np.ndarray:
    """The weighted sum, in the order of the list."""
    total = np.zeros(values[0].shape)
    for weight, value in zip(weights, values):
        total += weight * value
    return total


def _scatter(weights: list[float], values: list[np.ndarray]) -> np.ndarray:
    """The weighted mean of the squared distances from the weighted mean."""
    mean = _mixed(weights, values)
    return _mixed(weights, [(value - mean) * (value - mean) for value in values])


def _cubic(step: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(4, cells) coefficients of the cubics with these values and slopes at the ends of each cell."""
    chord = np.diff(value) / step
    second = (3 * chord - 2 * slope[:-1] - slope[1:]) / step
    third = (slope[:-1] + slope[1:] - 2 * chord) / (step * step)
    return np.stack([value[:-1], slope[:-1], second, third])


def _integral(step: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The integral up to each node of those cubics, from 0."""
    pieces = step * (value[:-1] + value[1:]) / 2 - step * step * (slope[1:] - slope[:-1]) / 12
    return np.concatenate([np.zeros((1, *pieces.shape[1:])), np.cumsum(pieces, axis=0)])
