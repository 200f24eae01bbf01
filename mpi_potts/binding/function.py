"""The binding function: mean and standard deviation of S(z) given beta (paper, sections 3 and 4.1).

The precomputation leaves estimates of both at the betas of a grid.  Between them there are two forms:

- `linear`, the paper's: mean and sd each by linear interpolation of the estimates;
- `smooth`: since p(z | beta) = exp(beta S(z)) / C(beta), with A(beta) = log C(beta),

      A'(beta) = E[S | beta],      A''(beta) = Var[S | beta] > 0,

  so one convex function explains every mean and every variance.  `smooth.py` fits it.

Both give `log_normaliser`, the integral of the mean (path sampling).  It is the absolute log C(beta) where
the grid starts at beta = 0, since C(0) = k^n; otherwise it is log C(beta) - log C(beta[0]).  Nothing is ever
extrapolated.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from .. import arithmetic
from ..errors import InputError
from ..estimation.verdicts import FLAG_COMPOSED, FLAG_DISAGREE
from ..lattice import degree
from ..model.low_temperature import Anchor
from ..model.transition import first_order_of, transition_of
from .smooth import Estimates, Peak, Smooth

INTERPOLATIONS = ("smooth", "linear")
ARRAYS = ("beta", "mean", "sd", "mean_se", "sd_se", "tau", "flag")
# What came later, and is left out of files and of the digest where it says nothing of its own.
OPTIONAL = ("draws", "anchor")

# How well beta_crit is known, relatively: exactly in some planes, roughly elsewhere, a graph's hardly.
_KNOWN = {(2, "first"): 0.01, (2, "hexagonal"): 0.01, (1, "graph"): 0.3}
_GUESSED = 0.05

# S has two phases where its variance, in the mean over two posterior sds to either side of beta, is less than
# this part of that at beta: 1 were it normal, 0.48 half way between two phases, 0.82 with a tenth in one.
TWO_PHASES = 0.75
# There the mean rests on few passages of chains from phase to phase, and the errors of chains are too small
# by this factor: 16 searches at 64x64, k = 10, S / |E| = 0.58, lie around their mean with a root mean square
# z of 0.9 with it.
PASSAGES = 2.0

# The table for kernels has at least this many nodes.
_NODES = 2048


@dataclass(frozen=True, eq=False)
class Binding:
    """Estimates (n,) on the ascending grid `beta`, and what they were computed from.

    `flag` has bit 1 where the starts disagree, bit 2 where the chain is short against tau, and bit 4 where
    the row was not simulated on this lattice but composed of others: its errors are then its own, absolute,
    and never made smaller.  `draws` counts the sweeps behind each row, of all starts together and without
    their burn-in; None stands for as many everywhere as `iterations` says.  `anchor` is what is known at a
    large beta without any simulation.  `lattice` is the digest of the lattice; `starts` says from which
    states the chains began.
    """

    beta: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    mean_se: np.ndarray
    sd_se: np.ndarray
    tau: np.ndarray
    flag: np.ndarray
    labels: int
    shape: tuple[int, ...]
    neighbourhood: str
    sites: int
    edges: int
    lattice: str
    sampler: str
    iterations: int
    burn_in: int
    seed: int
    starts: str
    interpolation: str = "smooth"
    draws: np.ndarray | None = None
    anchor: Anchor | None = None

    def __post_init__(self) -> None:
        for name in ARRAYS:
            dtype = np.int64 if name == "flag" else np.float64
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=dtype))
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        if self.draws is not None:
            draws = np.array(self.draws, dtype=np.int64)
            # As many everywhere as the settings say is what no array means.
            usual = draws.shape == self.beta.shape and (draws == self._usual_draws).all()
            object.__setattr__(self, "draws", None if usual else draws)
        if self.anchor is not None:
            object.__setattr__(self, "anchor", Anchor(*map(float, self.anchor)))
        self._check()

    def _check(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise InputError(
                f"precompute.interpolation = {self.interpolation!r}: one of {INTERPOLATIONS} is accepted"
            )
        if self.beta.ndim != 1 or self.beta.size == 0:
            raise InputError("the binding function has no grid points")
        for name in ARRAYS:
            values = getattr(self, name)
            if values.shape != self.beta.shape or not np.isfinite(values).all():
                raise InputError(f"the binding function's {name} is not {self.beta.size} finite numbers")
        if self.beta[0] < 0.0 or not (np.diff(self.beta) > 0.0).all():
            raise InputError("the binding function's beta must ascend from 0 or more, without repeats")
        if self.draws is not None and (
            self.draws.shape != self.beta.shape or (self.draws < np.where(self.composed, 0, 1)).any()
        ):
            raise InputError(f"the binding function's draws is not {self.beta.size} numbers of sweeps")
        if self.anchor is not None and not self.anchor.possible:
            raise InputError(f"the binding function's anchor {tuple(self.anchor)} cannot be")

    @property
    def _usual_draws(self) -> int:
        return max(1, self.iterations - self.burn_in) * (2 if self.starts == "both" else 1)

    @property
    def counted(self) -> np.ndarray:
        """(n,) counted sweeps of all starts together, behind each row."""
        return np.full(self.beta.shape, self._usual_draws) if self.draws is None else self.draws

    @property
    def composed(self) -> np.ndarray:
        """(n,) bool: rows that were not simulated on this lattice."""
        return self.flag & FLAG_COMPOSED > 0

    def moments(self, beta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of S at `beta` (any shape)."""
        return self._curve.moments(self._inside(beta))

    def standard_errors(self, beta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of the mean and of the standard deviation at `beta`."""
        inside = self._inside(beta)
        mean_se, sd_se = self._curve.standard_errors(inside)
        mean_se = np.where(self.between_phases(inside), PASSAGES * mean_se, mean_se)
        return np.maximum(mean_se, self._apart(inside)), sd_se

    def between_phases(self, beta: ArrayLike) -> np.ndarray:
        """Where S given beta is in either of the two phases of a first-order transition.

        Phases D pairs apart, of weights w and 1 - w, have w = 1 / (1 + exp(D (b - beta_c))) up to what each
        varies by itself, so that the mean of S rises by D over a few 1 / D, and its variance is
        D^2 w (1 - w).  With sd that of S at beta, the mean rises from beta - 2 / sd to beta + 2 / sd by 4 sd
        where S is normal, and in the gap by D, which is 2 sd half way.
        """
        inside = self._inside(beta)
        if not first_order_of(len(self.shape), self.labels):
            return np.zeros(inside.shape, dtype=bool)
        sd = np.maximum(self.moments(inside)[1], 1e-9)
        low, high = (np.clip(inside + side / sd, self.beta[0], self.beta[-1]) for side in (-2.0, 2.0))
        rise = self.moments(high)[0] - self.moments(low)[0]
        return rise < TWO_PHASES * sd * sd * (high - low)

    def _apart(self, beta: np.ndarray) -> np.ndarray:
        """The least error of the mean between rows whose starts disagree, but at a first-order transition.

        One start of all these chains may be right, so that errors as large as their distance do not fall with
        the number of rows.  At the transition both phases are, and the curves on both sides say more of them.
        """
        disagree = self.flag & FLAG_DISAGREE > 0
        if self.interpolation == "linear" or not (disagree[1:] & disagree[:-1]).any():
            return np.zeros(beta.shape)
        left = np.clip(np.searchsorted(self.beta, beta, side="right") - 1, 0, self.beta.size - 2)
        counts, peak = disagree[left] & disagree[left + 1], self._peak
        if first_order_of(len(self.shape), self.labels):
            counts &= np.abs(beta - peak.beta) > peak.error
        return np.where(counts, arithmetic.interp(beta, self.beta, self.mean_se), 0.0)

    def log_normaliser(self, beta: ArrayLike) -> np.ndarray:
        """log C(beta) where the grid starts at 0, else log C(beta) - log C(beta[0])."""
        return self._curve.log_normaliser(self._inside(beta)) + self._origin

    def log_normaliser_error(self, beta: ArrayLike) -> np.ndarray:
        """Standard error of `log_normaliser` at `beta`."""
        inside = self._inside(beta)
        error = self._curve.log_normaliser_error(inside)
        return np.where(self.between_phases(inside), PASSAGES * error, error)

    @cached_property
    def table(self) -> np.ndarray:
        """(4, nodes): beta (ascending, from end to end), log_normaliser, mean and variance of S, for kernels.

        The nodes are those of the curve itself, divided, so they are dense where it bends.
        """
        own = self._curve.beta
        pieces = -(-_NODES // max(1, own.size - 1))
        steps = own[:-1, None] + np.diff(own)[:, None] * (np.arange(pieces) / pieces)
        nodes = np.append(steps.ravel(), own[-1])
        mean, sd = self.moments(nodes)
        return np.stack([nodes, self.log_normaliser(nodes), mean, sd * sd])

    @cached_property
    def digest(self) -> str:
        """64 hex digits that identify every number and setting."""
        result = hashlib.sha256(b"binding 1")
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in OPTIONAL and value is None:
                continue
            text = (
                value.astype(value.dtype.newbyteorder("<")).tobytes()
                if isinstance(value, np.ndarray)
                else repr(value).encode()
            )
            result.update(f" {item.name} {len(text)} ".encode() + text)
        return result.hexdigest()

    @property
    def _origin(self) -> float:
        return self.sites * arithmetic.log(self.labels) if self.beta[0] == 0.0 else 0.0

    @cached_property
    def _curve(self) -> "Linear | Smooth":
        if self.interpolation == "linear" or self.beta.size == 1:
            return Linear(self.beta, self.mean, self.sd, self.mean_se, self.sd_se)
        return Smooth(self._estimates())

    def _estimates(self) -> Estimates:
        """What the smooth form is fitted to: estimates, with errors that do not follow their own noise."""
        step = degree(len(self.shape), self.neighbourhood, self.sites, self.edges)
        mean, variance = self.mean.copy(), self.sd * self.sd
        mean_variance, sd_variance = self.mean_se * self.mean_se, self.sd_se * self.sd_se
        moved, composed = variance > 0.0, self.composed
        # Relative to the longest chain, so that equal chains are as if nothing were said of them.
        draws = np.maximum(self.counted, 1) / max(1, self.counted.max())
        # S that never moved in n sweeps has errors of the order 1/n.
        rare = np.minimum(1.0, np.maximum(self.mean_se / step, 1e-12))
        # The errors of a chain alone are those of a larger variance; here the fitted one takes its place.
        caution = _caution(self.sd, self.sd_se)
        mean_relative = np.where(moved, mean_variance / np.where(moved, caution * variance, 1.0), rare)
        variance_relative = 4 * sd_variance / (caution * caution * (2 * variance + step * step))
        variance_relative = np.where(moved, variance_relative, rare)
        # What neighbouring chains have in common is not their errors but the sweeps that one draw takes.
        seen = moved & ~composed
        mean_relative = np.where(composed, 0.0, _steady(mean_relative * draws, seen) / draws)
        variance_relative = np.where(composed, 0.0, _steady(variance_relative * draws, seen) / draws)
        # Where the starts disagree, the errors are those of the two phases and belong to that point alone; so
        # do those of a row that was composed.
        alone = composed | (self.flag & FLAG_DISAGREE > 0)
        mean_absolute = np.where(alone | ~moved, mean_variance, 0.0)
        variance_absolute = np.where(alone, 4 * variance * sd_variance, 0.0)
        least = np.where(composed, 1e-12 * step * step, 0.0)
        mean_absolute = np.maximum(mean_absolute, least)
        variance_absolute = np.maximum(variance_absolute + 2 * composed * sd_variance * sd_variance, least)
        if self.beta[0] == 0.0:
            # Independent labels: exact, so with errors that are nothing beside the others.
            mean[0] = self.edges / self.labels
            variance[0] = self.edges * (self.labels - 1) / (self.labels * self.labels)
            mean_relative[0], variance_relative[0] = 1e-10, 1e-8
            mean_absolute[0] = variance_absolute[0] = 0.0
        return Estimates(
            beta=self.beta,
            mean=mean,
            variance=variance,
            mean_relative=mean_relative,
            mean_absolute=mean_absolute,
            variance_relative=variance_relative,
            variance_absolute=variance_absolute,
            step=step,
            simulated=~composed,
            anchor=self._reached_anchor,
            peak=self._peak,
        )

    @property
    def _peak(self) -> Peak:
        """The variance of S is largest near beta_crit, the farther away the more neighbours are missing."""
        mean = 2.0 * self.edges / self.sites
        crit = transition_of(len(self.shape), self.neighbourhood, mean, self.labels)
        missing = max(0.0, 1.0 - mean / degree(len(self.shape), self.neighbourhood, self.sites, self.edges))
        known = _KNOWN.get((len(self.shape), self.neighbourhood), _GUESSED)
        return Peak(crit, known * crit + 2.0 * missing, max(missing, 1e-4))

    @property
    def _reached_anchor(self) -> Anchor | None:
        """The anchor, where the grid holds it to the other end, beta = 0; its log C counted from there."""
        if self.anchor is None or self.beta[0] != 0.0 or self.anchor.beta > self.beta[-1]:
            return None
        return self.anchor._replace(log_normaliser=self.anchor.log_normaliser - self._origin)

    def _inside(self, value: ArrayLike) -> np.ndarray:
        beta = np.asarray(value, dtype=np.float64)
        inside = (beta >= self.beta[0]) & (beta <= self.beta[-1])
        if not inside.all():
            wrong = beta[~inside].flat[0]
            raise InputError(
                f"beta = {wrong} is outside the binding function's grid, [{self.beta[0]}, {self.beta[-1]}]"
            )
        return beta


def _caution(sd: np.ndarray, sd_se: np.ndarray) -> np.ndarray:
    """(n,) by how much the variance, of which a chain took its errors, is larger than the one that it found.

    It is larger by its own standard error r, relatively (`estimation/autocorrelation.py`), and r became r (1
    + r) in the error that was kept.  A variance below its own error tells nothing of r: 2 at most.
    """
    kept = 2.0 * sd_se / np.maximum(sd, 1e-300)
    return np.minimum((1.0 + np.sqrt(1.0 + 4.0 * kept)) / 2.0, 2.0)


def _steady(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(n,) medians over seven neighbours of the values that were seen; the gaps by the nearest that were.

    A value far above its neighbours keeps its own: that chain wandered slowly, between two phases perhaps.
    """
    if not seen.any():
        return values
    known = np.flatnonzero(seen)
    own = np.maximum(values[known], 1e-12)
    medians = np.median(sliding_window_view(np.pad(own, 3, mode="edge"), 7), axis=1)
    steady = np.where(own > 3.0 * medians, own, medians)
    return arithmetic.exp(arithmetic.interp(np.arange(len(values)), known, arithmetic.log(steady)))


class Linear:
    """The paper's form: estimates joined by straight lines, log C by the integral of the joined means."""

    def __init__(
        self, beta: np.ndarray, mean: np.ndarray, sd: np.ndarray, mean_se: np.ndarray, sd_se: np.ndarray
    ) -> None:
        self.beta, self.mean, self.sd = beta, mean, sd
        self.mean_se, self.sd_se = mean_se, sd_se
        step = np.diff(beta)
        self.slope = np.append(np.diff(mean) / step, 0.0)
        self.integral = np.append(0.0, np.cumsum(step * (mean[1:] + mean[:-1]) / 2))
        # Each mean enters the integral with half the length of its two intervals; the last of them with its
        # own.
        before, after = np.append(0.0, step), np.append(step, 0.0)
        inner, last = (before + after) / 2 * mean_se, before / 2 * mean_se
        full = np.append(0.0, np.cumsum(inner * inner))
        self.error = np.sqrt(full[:-1] + last * last)

    def moments(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of S at each beta."""
        left, t = self._locate(beta)
        right = np.minimum(left + 1, self.beta.size - 1)
        mean, sd = (x.take(left) * (1 - t) + x.take(right) * t for x in (self.mean, self.sd))
        return mean, sd

    def standard_errors(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the two neighbouring estimates as weighted; the error of the chord is not included."""
        left, t = self._locate(beta)
        right = np.minimum(left + 1, self.beta.size - 1)
        mean, sd = (arithmetic.hypot((1 - t) * se[left], t * se[right]) for se in (self.mean_se, self.sd_se))
        return mean, sd

    def log_normaliser(self, beta: np.ndarray) -> np.ndarray:
        """The integral of the mean from the first beta of the grid to each beta."""
        left, _ = self._locate(beta)
        h = beta - self.beta[left]
        return self.integral[left] + h * (self.mean[left] + h * self.slope[left] / 2)

    def log_normaliser_error(self, beta: np.ndarray) -> np.ndarray:
        """Standard error of `log_normaliser` at each beta."""
        return arithmetic.interp(beta, self.beta, self.error)

    def _locate(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The interval of each beta, and how far along it beta lies, from 0 to 1."""
        left = np.clip(np.searchsorted(self.beta, beta, side="right") - 1, 0, max(0, self.beta.size - 2))
        length = np.append(np.diff(self.beta), 1.0)
        return left, (beta - self.beta[left]) / length[left]
