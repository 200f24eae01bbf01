"""Weights, tolerance and resampling against hand-computed cases and the definitions by brute force."""

import numpy as np
import pytest

from mpi_potts.kernels import windows as closed_form
from mpi_potts.smc import weights
from mpi_potts.smc.distances import Expected
from mpi_potts.smc.weights import Reason

COUNTED = weights.Counted()


class Direct:
    """`weights.Distances` by the definition, from the whole (N, M) array."""

    scale = COUNTED

    def __init__(self, distance: np.ndarray):
        self.distance = distance
        many = distance.size > weights.FEW_PAIRS
        self.fractions = weights.FRACTIONS if many else weights.ONE_FRACTION
        self.size = distance.size

    def counts(self, tolerances):
        return (self.distance[:, :, None] < tolerances).sum(axis=1)

    def narrow(self, bracket):
        pass

    def refine(self, value, target, bracket, held):
        return weights.refine(self, value, target, bracket, held)

    def pairs(self, bracket):
        lower, upper = bracket.ends
        particle, m = np.nonzero((self.distance >= lower) & (self.distance < upper))
        order = np.argsort(self.distance[particle, m], kind="stable")
        return self.distance[particle, m][order], particle[order]

    def farthest(self):
        return float(np.nextafter(self.distance.max(), np.inf))


def ess_at(distance, value, epsilon):
    return weights.ess(value * (distance < epsilon).sum(axis=1))


def first_solution_below(distance, value, target, top):
    """The definition: try every tolerance at which a count changes, downwards until one misses."""
    tolerances = np.nextafter(np.unique(distance[distance < top]), np.inf)
    missed = [e for e in tolerances if ess_at(distance, value, e) < target]
    return tolerances[tolerances > max(missed, default=0.0)][0]


def first_solution_above(distance, value, target, low):
    tolerances = np.nextafter(np.unique(distance[distance >= low]), np.inf)
    return next(e for e in tolerances if ess_at(distance, value, e) >= target)


def just_above(distance):
    return float(np.nextafter(distance, np.inf))


def equal(n):
    return np.full(n, 1.0 / n)


def test_ess_of_equal_weights_is_their_number_and_of_one_weight_is_one():
    assert weights.ess(equal(7)) == pytest.approx(7.0, rel=1e-15)
    assert weights.ess(np.array([0.0, 3.0, 0.0])) == 1.0
    assert weights.ess(np.array([0.5, 0.25, 0.25])) == pytest.approx(1 / 0.375, rel=1e-15)
    assert weights.ess(np.zeros(3)) == 0.0


def test_ess_does_not_underflow():
    assert weights.ess(np.array([1e-200, 1e-200])) == 2.0


def test_incremental_weight_divides_by_the_count_of_that_time():
    weight, old, new = np.array([0.5, 0.3, 0.2, 0.0]), np.array([4, 3, 1, 0]), np.array([2, 3, 0, 9])
    updated = weights.normalise(COUNTED.per_count(weight, old) * new)
    np.testing.assert_allclose(updated, np.array([0.25, 0.3, 0.0, 0.0]) / 0.55, rtol=1e-15)


def test_a_population_without_weight_is_an_error_and_never_nan():
    with pytest.raises(RuntimeError, match="no particle can go on"):
        weights.normalise(np.zeros(3))


def test_tolerance_of_a_case_worked_by_hand():
    # Nearest distances of four particles with one replicate each: ESS(eps) is the number of particles inside.
    distance = np.array([[1.0], [2.0], [3.0], [4.0]])
    found = weights.solve(Direct(distance), equal(4), 0.75 * 4, np.inf, 0.0, np.inf)
    assert found.epsilon == just_above(3.0) and found.ess == 3.0 and found.reason == Reason.SOLVED
    assert found.count.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("n, m", [(3, 1), (5, 4), (40, 7), (200, 20)])
@pytest.mark.parametrize("seed", range(5))
def test_tolerance_is_the_first_solution_on_the_way_down(n, m, seed):
    random = np.random.default_rng(seed)
    distance = np.abs(random.normal(random.normal(0, 2, (n, 1)), 1.0, (n, m)))
    top = 2.5
    value = COUNTED.per_count(equal(n), (distance < top).sum(axis=1).clip(1))
    target = 0.9 * ess_at(distance, value, top)
    found = weights.solve(Direct(distance), value, target, top, 0.0, np.inf)
    expected = first_solution_below(distance, value, target, top)
    largest = distance[distance < top].max()
    # Few particles: where only all that was counted reaches the target, one step is taken, if it leaves any.
    if expected > largest and (distance < largest).any():
        expected = largest
    assert found.epsilon == expected
    assert found.reason == (Reason.SOLVED if abs(found.ess / target - 1) < 0.01 else Reason.STEP)
    assert found.ess == pytest.approx(ess_at(distance, value, found.epsilon), rel=1e-12)
    assert (found.count == (distance < found.epsilon).sum(axis=1)).all()


def test_tolerance_of_many_distances_is_a_crossing_of_the_target():
    random = np.random.default_rng(1)
    distance = np.abs(random.normal(random.uniform(-30, 30, (1000, 1)), 1.0, (1000, 50)))
    value = COUNTED.per_count(equal(1000), np.full(1000, 50))
    found = weights.solve(Direct(distance), value, 970.0, np.inf, 0.0, np.inf)
    below = distance[distance < found.epsilon].max()
    assert found.reason == Reason.SOLVED and found.epsilon == just_above(below)
    assert ess_at(distance, value, found.epsilon) >= 970.0 > ess_at(distance, value, below)


def test_tolerance_passes_equal_distances_together():
    # Integer statistics: many distances are the same, also more than are sorted at once.
    random = np.random.default_rng(2)
    distance = np.abs(np.round(random.normal(random.uniform(-9, 9, (2000, 1)), 2.0, (2000, 40))))
    value = COUNTED.per_count(equal(2000), np.full(2000, 40))
    found = weights.solve(Direct(distance), value, 1940.0, np.inf, 0.0, np.inf)
    assert found.epsilon == just_above(np.floor(found.epsilon))
    assert (found.count == (distance < found.epsilon).sum(axis=1)).all()
    assert ess_at(distance, value, found.epsilon) >= 1940.0
    assert ess_at(distance, value, np.floor(found.epsilon)) < 1940.0


def test_tolerance_shrinks_even_where_one_step_loses_more_than_asked():
    distance = np.array([[0.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    value = COUNTED.per_count(equal(4), np.array([1, 1, 1, 1]))
    # Below 2.0 all four have one; below 1.0 only the first: ESS falls from 4 to 1, the target is 3.88.
    found = weights.solve(Direct(distance), value, 3.88, 2.0, 0.0, np.inf)
    assert found.epsilon == 1.0 and found.ess == 1.0 and found.reason == Reason.STEP
    # Nothing is left below: the tolerance stays and the population lives.
    value = COUNTED.per_count(np.array([1.0, 0.0, 0.0, 0.0]), found.count)
    stays = weights.solve(Direct(distance[:1]), value[:1], 0.97, found.epsilon, 0.0, np.inf)
    assert stays.epsilon == just_above(0.0) and stays.ess == 1.0


def test_tolerance_stops_at_its_floor():
    random = np.random.default_rng(3)
    distance = random.uniform(0, 0.3, (100, 10))
    found = weights.solve(Direct(distance), equal(100) / 10, 97.0, 2.0, 0.5, np.inf)
    assert found.epsilon == 0.5 and found.reason == Reason.FLOOR and (found.count == 10).all()


@pytest.mark.parametrize("seed", range(5))
def test_tolerance_rises_to_the_smallest_value_that_reaches_the_target_when_s_has_moved(seed):
    random = np.random.default_rng(seed)
    x = random.normal(random.normal(0, 0.3, (300, 1)), 1.0, (300, 10))
    count = (np.abs(x) < 2.0).sum(axis=1)
    weight = weights.normalise((count > 0).astype(float))
    value = COUNTED.per_count(weight, count)
    distance = np.abs(x - 3.0)
    target = 0.8 * weights.ess(weight)
    assert ess_at(distance, value, 2.0) < target
    found = weights.solve(Direct(distance), value, target, 2.0, 0.5, np.inf)
    assert found.reason == Reason.RISEN and found.epsilon > 2.0
    assert found.epsilon == first_solution_above(distance, value, target, 2.0)


@pytest.mark.parametrize("moved", [50.0, 1e6, -1e12, 1e300])
def test_s_far_beyond_every_pseudo_statistic_leaves_finite_weights(moved):
    random = np.random.default_rng(4)
    x = random.normal(random.uniform(-5, 5, (500, 1)), 1.0, (500, 20))
    count = (np.abs(x) < 0.5).sum(axis=1)
    weight = weights.normalise(random.random(500) * (count > 0))
    value = COUNTED.per_count(weight, count)
    distance = np.abs(x - moved)
    distance[value == 0.0] = np.inf
    direct = Direct(distance)
    direct.farthest = lambda: float(np.nextafter(distance[value > 0.0].max(), np.inf))
    found = weights.solve(direct, value, 0.97 * weights.ess(weight), 0.5, 0.1, np.inf)
    updated = weights.normalise(value * found.count)
    assert found.reason in (Reason.RISEN, Reason.BEST) and np.isfinite(found.epsilon)
    assert np.isfinite(updated).all() and updated.sum() == pytest.approx(1.0, rel=1e-12)


def test_where_no_tolerance_reaches_the_target_the_best_is_taken():
    # Weights in proportion to 1 / count: once all count the same, ESS is that of 1 / (1, 100).
    x = np.array([[0.0] * 99 + [9.0], [0.0] + [9.0] * 99])
    count = (x < 1.0).sum(axis=1)
    value = COUNTED.per_count(equal(2), count)
    found = weights.solve(Direct(np.abs(x - 1e4)), value, 1.94, 1.0, 0.5, np.inf)
    assert found.reason == Reason.BEST and 0.0 < found.ess < 1.94
    assert found.ess == weights.ess(value * found.count)


@pytest.mark.parametrize("scheme", weights.RESAMPLING)
def test_resampling_is_right_in_expectation(scheme):
    random = np.random.default_rng(5)
    n, repeats = 20, 5000
    weight = weights.normalise(random.random(n) ** 3)
    copies = np.zeros((repeats, n))
    for r in range(repeats):
        copies[r] = np.bincount(weights.ancestors(weight, random.random(n), scheme), minlength=n)
    error = np.maximum(copies.std(axis=0, ddof=1), 1.0 / np.sqrt(repeats)) / np.sqrt(repeats)
    # 60 comparisons: 4.5 standard errors happen by chance less than once in 2000 times.
    assert (np.abs(copies.mean(axis=0) - n * weight) < 4.5 * error).all()


@pytest.mark.parametrize("scheme", weights.RESAMPLING)
@pytest.mark.parametrize("n", [1, 2, 49, 1000])
def test_resampling_never_leaves_the_population_nor_takes_a_particle_without_weight(scheme, n):
    random = np.random.default_rng(6)
    for edge in (np.full(n, 2.0**-53), np.full(n, 1 - 2.0**-53), random.random(n)):
        weight = random.random(n)
        weight[::3] = 0.0
        weight[-1] = 0.0
        weight[n // 2] = 1.0
        ancestors = weights.ancestors(weights.normalise(weight), edge, scheme)
        assert ancestors.shape == (n,)
        assert (weight[ancestors] > 0.0).all()


@pytest.mark.parametrize("scheme", weights.RESAMPLING)
def test_a_surviving_particle_stays_in_its_slot(scheme):
    random = np.random.default_rng(7)
    ancestors = weights.ancestors(weights.normalise(random.random(100) ** 5), random.random(100), scheme)
    survivors = np.unique(ancestors)
    assert survivors.size < 100
    assert (ancestors[survivors] == survivors).all()


def test_residual_resampling_keeps_the_whole_copies():
    random = np.random.default_rng(8)
    weight = weights.normalise(random.random(50) ** 4)
    copies = np.bincount(weights.ancestors(weight, random.random(50), "residual"), minlength=50)
    assert (copies >= np.floor(50 * weight)).all() and copies.sum() == 50


@pytest.mark.parametrize("n", [49, 98, 103, 1000])
def test_residual_and_systematic_resampling_of_equal_weights_keep_everyone(n):
    uniform = np.random.default_rng(9).random(n)
    for scheme in ("residual", "systematic"):
        assert (weights.ancestors(equal(n), uniform, scheme) == np.arange(n)).all()


def test_weighted_moments_and_quantiles_are_those_of_repeated_values():
    value, times = np.array([3.0, 1.0, 2.0, 5.0]), np.array([2, 5, 1, 2])
    repeated = np.repeat(value, times)
    mean, sd = weights.moments(value, times / 10)
    assert mean == pytest.approx(repeated.mean(), rel=1e-14)
    assert sd == pytest.approx(repeated.std(), rel=1e-14)
    probabilities = np.array([0.0, 0.05, 0.45, 0.55, 0.75, 0.95, 1.0])
    expected = np.quantile(repeated, probabilities, method="inverted_cdf")
    assert (weights.quantiles(value, times / 10, probabilities) == expected).all()


def test_the_tolerance_is_held_where_enough_particles_are_left():
    generator = np.random.default_rng(8)
    x = generator.normal(size=(400, 1)) + generator.normal(size=(400, 20))
    near, far = np.abs(x), np.abs(x - 1.0)
    count = (near < 1.0).sum(axis=1)
    weight = np.where(count > 0, equal(400), 0.0)
    value, target = COUNTED.per_count(weight, count), 0.97 * weights.ess(weight)
    held = weights.solve(Direct(far), value, target, 1.0, 0.1, least=40.0)
    assert held.reason == Reason.HELD and held.epsilon == 1.0 and 40.0 <= held.ess < target
    # Where fewer are left than asked for, it rises just as far as is needed for them.
    risen = weights.solve(Direct(far), value, target, 1.0, 0.1, least=1.05 * held.ess)
    assert risen.reason == Reason.RISEN and risen.epsilon > 1.0
    assert risen.ess == pytest.approx(1.05 * held.ess, rel=0.02)
    assert risen.target == target


class Smooth:
    """`weights.Windows` of normal variables at `mean`, of sd 1, around S = 0."""

    scale, fractions = Expected(), weights.FEW_FRACTIONS

    def __init__(self, mean, alive=True):
        self.rows = np.stack([mean, np.ones(mean.size)], axis=1)
        self.alive = np.broadcast_to(alive, mean.shape).copy()
        self.asked = 0

    def counts(self, tolerances):
        out = np.empty((len(self.rows), tolerances.size))
        closed_form.log_densities(out, self.rows, self.alive, 0.0, tolerances)
        self.asked += tolerances.size
        return out

    def farthest(self):
        return float(np.abs(self.rows[:, 0]).max() + 8.0)

    def refine(self, value, target, bracket, held):
        return weights.interpolate(self, value, target, bracket)


EXPECTED = Expected()


@pytest.mark.parametrize("seed", range(2))
def test_tolerance_of_infinite_replicates_solves_for_its_target_in_few_looks(seed):
    mean = np.random.default_rng(seed).uniform(-25, 25, 1000)
    smooth, previous, weight = Smooth(mean), np.inf, equal(1000)
    value = EXPECTED.per_count(weight, np.zeros(1000))
    while True:
        smooth.asked, target = 0, 0.97 * weights.ess(weight)
        found = weights.solve(smooth, value, target, previous, 0.01, 100.0)
        assert found.epsilon < previous and found.ess >= target and smooth.asked < 20
        weight = weights.normalise(EXPECTED.times(value, found.count))
        assert weights.ess(weight) == pytest.approx(found.ess, rel=1e-12)
        if found.reason == Reason.FLOOR:
            break
        assert found.reason == Reason.SOLVED and found.ess == pytest.approx(target, rel=1e-8)
        previous = found.epsilon
    assert found.epsilon == 0.01
    # The mean over the window, to second order; the fourth is below (25 * 0.01)^4 / 120.
    density = np.exp(-0.5 * mean * mean) * (1.0 + (mean * mean - 1.0) * 0.01**2 / 6.0)
    np.testing.assert_allclose(weight, density / density.sum(), rtol=1e-4, atol=1e-300)


def test_weights_of_infinite_replicates_come_back_from_far_away():
    """S moves by 60 sds and back: no weight is lost on the way, and all are what they were."""
    mean, weight = np.linspace(-1, 1, 50), equal(50)
    here = Smooth(mean).counts(np.array([0.5]))[:, 0]
    away = Smooth(mean + 60.0).counts(np.array([0.5]))[:, 0]
    assert away.max() < -1600.0, "beyond the smallest float"
    moved = weights.normalise(EXPECTED.times(EXPECTED.per_count(weight, here), away))
    assert moved.min() > 0.0 and moved.max() > 0.8
    back = weights.normalise(EXPECTED.times(EXPECTED.per_count(moved, away), here))
    np.testing.assert_allclose(back, weight, rtol=1e-10)


def test_a_tolerance_of_infinite_replicates_rises_to_save_the_population():
    mean = np.random.default_rng(1).normal(0.0, 1.0, 400) + 40.0
    value = EXPECTED.per_count(equal(400), Smooth(mean - 40.0).counts(np.array([0.5]))[:, 0])
    found = weights.solve(Smooth(mean), value, 388.0, 0.5, 0.1, least=40.0)
    assert found.reason == Reason.RISEN and found.epsilon > 30.0 and 40.0 <= found.ess < 40.1
    held = weights.solve(Smooth(mean - 39.5), value, 388.0, 0.5, 0.1, least=40.0)
    assert held.reason == Reason.HELD and held.epsilon == 0.5 and 40.0 < held.ess < 388.0


def test_particles_without_weight_stay_without_under_infinite_replicates():
    weight = np.array([0.5, 0.5, 0.0])
    smooth = Smooth(np.zeros(3), alive=weight > 0.0)
    value = EXPECTED.per_count(weight, smooth.counts(np.array([1.0]))[:, 0])
    assert EXPECTED.times(value, smooth.counts(np.array([0.5]))[:, 0]).tolist() == [1.0, 1.0, 0.0]
    assert EXPECTED.times(np.full(3, -np.inf), np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_as_printed_a_particle_without_a_count_now_is_lost_and_0_by_0_is_0():
    weight, now, new = np.array([0.5, 0.3, 0.2]), np.array([4, 0, 1]), np.array([2, 0, 1])
    assert COUNTED.times(COUNTED.per_count(weight, now), new).tolist() == [0.25, 0.0, 0.2]
