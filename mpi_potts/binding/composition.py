"""log C of a lattice composed from lattices of moderate size.

On a box with free boundaries log C is a bulk term for every site, a term for every piece of its boundary, and
one for its corners (in a volume also one for its edges), up to what vanishes exponentially with the sides
measured in correlation lengths:

    plane    log C = H W f(beta) + (H + W) e(beta) + c(beta)
    volume   log C = D H W f(beta) + (D H + H W + W D) e(beta) + (D + H + W) g(beta) + c(beta).

The terms need not be known one by one.  The counts of a lattice are those of a few reference boxes with
weights w_i, so that log C = sum w_i log C_i, and its derivatives, the mean and the variance of S(z), follow
with the same weights.  A masked lattice has two counts, its sites and the pairs of neighbours that it misses
at its boundary; its corners are not counted.

Errors are of three kinds.  Those of the reference curves add up with the squares of the weights.  What the
composition leaves out, most of all near the transition, is judged by a second composition from smaller boxes:
a part of their difference counts as an error.  At the transition itself terms grow as sites and as sides
times the logarithm of the side; how much of these is left out, in that difference, is known, and counts where
the difference is more than noise.  And a mask's boundary is not the flat side of a box: a part of the
boundary's term counts as an error for each site at a step, and for each neighbour that is missed across a
hole one pixel wide.

A lattice that is narrower than the smaller of the boxes, or so ragged that its sites miss as many neighbours
as those of such a lattice, is not composed: all boxes agree there, and none is like it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import arithmetic
from ..lattice import GRAPH, Lattice
from .function import Binding

# Sides of the reference boxes by dimensions, the smaller ones for lattices of fewer sites than `MANY`.
MANY = 200_000
SIDES = {2: ((16, 32, 64, 128), (32, 64, 128, 256)), 3: ((6, 8, 12, 16, 24), (8, 12, 16, 24, 40))}
# Of the difference between two compositions, from larger and from smaller boxes, what the former may leave
# out.
SMALLER = 0.25
# Terms that grow with the logarithm of the side count where the difference is more than so many of its
# errors, with so many times the difference at most.
SHOWS, MOST = 2.0, 3.0
# Of the term of a missing neighbour, what a site that misses neighbours along several axes may have besides:
# seen are 0.0 to 0.15 below the transition and 0.0 to 0.4 beyond, once 0.66 next to it (balls, discs, holes).
# And each neighbour that is missed across a single pixel: 0.0 to 0.44, once 0.73 (1 % of a plane missing at
# random, 4 and 8 neighbours).
STEP, HOLE = 0.25, 0.4
# Errors of neighbouring betas of one reference curve are not independent: a composed row counts as fewer.
CORRELATED = 1.25
# What was simulated and what was composed agree within so many standard errors; else those of the latter
# are made so large that they are within `REACHED`.
AGREE, REACHED = 4.0, 2.0


@dataclass(frozen=True)
class Composed:
    """Moments of S(z) with standard errors at some betas, each an array (n,)."""

    beta: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    mean_se: np.ndarray
    sd_se: np.ndarray

    def with_errors(self, times: float) -> "Composed":
        """The same moments with errors so many times as large."""
        return replace(self, mean_se=times * self.mean_se, sd_se=times * self.sd_se)


@dataclass(frozen=True)
class CompositionCheck:
    """What was simulated on a lattice beside what was composed for it, each an array (n,): how far the means
    are apart, their errors, and the sd of S."""

    beta: np.ndarray
    apart: np.ndarray
    simulated_se: np.ndarray
    composed_se: np.ndarray
    sd: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """The distances in standard errors."""
        return self.apart / np.maximum(arithmetic.hypot(self.simulated_se, self.composed_se), 1e-9)

    @property
    def widening(self) -> float:
        """By how much all errors of what was composed must be larger, so that it agrees."""
        least, own = np.maximum(self.composed_se, 1e-9), self.simulated_se
        reach = self.apart / REACHED
        needed = np.sqrt(np.maximum(reach * reach - own * own, least * least)) / least
        return float(np.where(self.z > AGREE, needed, 1.0).max())

    def __str__(self) -> str:
        agree = "agrees" if self.z.max() <= AGREE else "does not agree"
        sds = float((self.apart / self.sd).max())
        return (
            f"a run on this lattice {agree} with what was composed: at most {sds:.2g} posterior sds of beta "
            f"apart, {self.z.max():.1f} standard errors"
        )


def references(lattice: Lattice) -> tuple[Lattice, ...]:
    """The boxes from which a lattice can be composed, the smallest first; none where it cannot."""
    if lattice.neighbourhood == GRAPH:
        return ()
    sides = SIDES[lattice.dimensions][lattice.sites >= MANY]
    boxes = tuple(Lattice((side,) * lattice.dimensions, lattice.neighbourhood) for side in sides)
    terms = lattice.dimensions + 1 if _is_box(lattice) else 2
    return boxes if _wide(lattice, boxes[-terms]) else ()


def _wide(lattice: Lattice, box: Lattice) -> bool:
    """Whether a lattice is as wide as a box, and no more ragged."""
    of_lattice, of_box = (missing / sites for sites, missing in map(_mask_counts, (lattice, box)))
    return min(lattice.shape) >= min(box.shape) and (_is_box(lattice) or of_lattice <= of_box)


def weights(lattice: Lattice, boxes: Sequence[Lattice]) -> tuple[np.ndarray, np.ndarray]:
    """(boxes,) weights of the boxes in the lattice: of the largest that its terms take, and of the next."""
    counts = _box_counts if _is_box(lattice) else _mask_counts
    table, wanted = np.array([counts(box) for box in boxes]), counts(lattice)
    terms, last = wanted.size, len(boxes)
    return _solve(table, wanted, last - terms), _solve(table, wanted, last - terms - 1)


def boundary_weights(lattice: Lattice, boxes: Sequence[Lattice], best: np.ndarray) -> np.ndarray:
    """(boxes,) weights of the boxes in what the boundary may have besides the term of flat sides: a part of
    that term for each site at a step, of the lattice and of the boxes, and for each neighbour across a hole;
    zero for a box."""
    if _is_box(lattice):
        return np.zeros(len(boxes))
    table, one = np.array([_mask_counts(box) for box in boxes]), np.array([0.0, 1.0])
    steps = _steps(lattice) + abs(float(np.sum(best * [_steps(box) for box in boxes])))
    across = _holes(lattice) * lattice.degree / lattice.dimensions
    return _solve(table, one, len(boxes) - one.size) * (STEP * steps + HOLE * across)


def _is_box(lattice: Lattice) -> bool:
    return lattice.mask is None and lattice.neighbourhood != "hexagonal"


def _steps(lattice: Lattice) -> int:
    """Sites that miss a neighbour along more than one axis."""
    exists = lattice.exists
    axes = np.zeros(exists.shape, dtype=np.uint8)
    for axis in range(exists.ndim):
        along, count = np.moveaxis(exists, axis, 0), np.moveaxis(axes, axis, 0)
        missing = np.ones(along.shape, dtype=bool)
        missing[1:-1] = ~(along[:-2] & along[2:])
        count += missing
    return int(np.count_nonzero(exists & (axes > 1)))


def _holes(lattice: Lattice) -> int:
    """Single sites that are missing between two along an axis, and single ones between two that are."""
    exists, found = np.pad(lattice.exists, 1), 0
    for axis in range(exists.ndim):
        along = np.moveaxis(exists, axis, 0)
        before, here, after = along[:-2], along[1:-1], along[2:]
        found += int(np.count_nonzero((before == after) & (before != here)))
    return found


def _solve(table: np.ndarray, wanted: np.ndarray, first: int) -> np.ndarray:
    """Weights of as many boxes as there are terms, from number `first` on, with which counts are as
    wanted."""
    taken = slice(first, first + wanted.size)
    found, scale = np.zeros(len(table)), table[taken][-1]
    found[taken], _ = arithmetic.solve(np.ascontiguousarray((table[taken] / scale).T), wanted / scale)
    return found


def _box_counts(lattice: Lattice) -> np.ndarray:
    """The elementary symmetric polynomials of the sides, the product first, then one less to the constant."""
    sums = [1.0]
    for side in lattice.shape:
        sums = [a + b * side for a, b in zip([*sums, 0.0], [0.0, *sums])]
    return np.array(sums[::-1])


def _mask_counts(lattice: Lattice) -> np.ndarray:
    """Sites, and neighbours that the sites miss."""
    return np.array([float(lattice.sites), lattice.degree * lattice.sites - 2.0 * lattice.edges])


def _of_logarithms(
    lattice: Lattice, boxes: Sequence[Lattice], best: np.ndarray, other: np.ndarray, term: int
) -> float:
    """What the best composition leaves out of a term (0 sites, 1 boundary) times the logarithm of the side,
    in its difference to the other."""

    def grows(of: Lattice) -> float:
        return float(_mask_counts(of)[term]) * arithmetic.log(float(of.sites))

    known, wanted = np.array([grows(box) for box in boxes]), grows(lattice)
    left_out, between = wanted - float(np.sum(best * known)), float(np.sum((best - other) * known))
    # A lattice of the size of a box is composed of itself by both.
    return 0.0 if abs(left_out) < 1e-9 * wanted else min(abs(left_out) / max(abs(between), 1e-300), MOST)


def compose(lattice: Lattice, curves: Sequence[Binding], beta: np.ndarray) -> Composed:
    """Moments of S(z) on a lattice from the binding functions of its references, at betas within theirs."""
    boxes = references(lattice)
    best, other = weights(lattice, boxes)
    moments = [curve.moments(beta) for curve in curves]
    errors = [curve.standard_errors(beta) for curve in curves]

    def total(weight: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([w * part for w, part in zip(weight, parts)], axis=0)

    def left_out(parts: Sequence[np.ndarray], squares: Sequence[np.ndarray], term: int) -> np.ndarray:
        difference = best - other
        seen, noise = np.abs(total(difference, parts)), np.sqrt(total(difference * difference, squares))
        at_transition = _of_logarithms(lattice, boxes, best, other, term)
        return np.maximum(SMALLER * seen, at_transition * (seen - SHOWS * noise))

    means = [mean for mean, _ in moments]
    variances = [sd * sd for _, sd in moments]
    squares = [se * se for se, _ in errors], [4.0 * v * se * se for v, (_, se) in zip(variances, errors)]
    mean, variance = total(best, means), total(best, variances)
    mean_error, variance_error = (total(best * best, each) for each in squares)
    left, left_variance = left_out(means, squares[0], 1), left_out(variances, squares[1], 0)
    boundary = boundary_weights(lattice, boxes, best)
    steps, steps_variance = total(boundary, means), total(boundary, variances)
    mean_se = CORRELATED * np.sqrt(mean_error + left * left + steps * steps)
    variance_se = CORRELATED * np.sqrt(
        variance_error + left_variance * left_variance + steps_variance * steps_variance
    )
    # Differences of large numbers may leave nothing: as much as the largest box has for its number of edges.
    least = variances[-1] * (lattice.edges / boxes[-1].edges) / 4.0
    variance_se = np.where(variance < least, np.maximum(variance_se, least), variance_se)
    sd = np.sqrt(np.maximum(variance, least))
    return Composed(beta, mean, sd, mean_se, variance_se / (2.0 * sd))
