"""The numbers of an outcome that are formulas: how far an error of the binding function moves beta."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from bindings import binding_of

from mpi_potts.estimation import quadrature
from mpi_potts.estimation.verdicts import FLAG_DISAGREE
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.gaussian import GaussianNoise
from mpi_potts.posterior.cautions import between_phases, coarse_grain, flagged
from mpi_potts.posterior.precision import binding_error, shifted
from mpi_potts.posterior.summary import Summary

LATTICE, K = Lattice((3, 4)), 2
GRID = np.linspace(0.0, 1.5, 1501)


def binding():
    """The exact moments, each mean with the same standard error."""
    return binding_of(LATTICE, K, GRID, *Exact(LATTICE, K).moments(GRID), mean_se=np.full(GRID.size, 0.02))


def posterior(log_normaliser):
    """Mean and sd of beta given an image of labels 0 and 1 with noise of sd 0.7, by all labellings."""
    y = np.array([[0.1, 0.3, 1.2, 1.4], [0.0, -0.3, 0.8, 1.6], [0.5, 0.4, 0.2, 0.9]])
    labellings = [np.array(z).reshape(LATTICE.shape) for z in product(range(K), repeat=LATTICE.sites)]
    statistic = np.array([LATTICE.statistic(z) for z in labellings])
    likelihood = np.array([-(((y - z) / 0.7) ** 2).sum() / 2 for z in labellings])
    joint = np.exp(np.multiply.outer(GRID, statistic) - log_normaliser[:, None] + likelihood)
    density = joint.sum(axis=1)
    mean = np.average(GRID, weights=density)
    return mean, np.sqrt(np.average((GRID - mean) ** 2, weights=density))


def test_an_error_of_the_mean_moves_the_beta_of_a_hidden_image_as_far_as_is_said():
    exact, table = Exact(LATTICE, K).log_normaliser(GRID), binding()
    mean, sd = posterior(exact)
    error = table.standard_errors(mean)[0]
    moved = mean - posterior(exact + error * GRID)[0]
    summary = Summary(mean, sd, mean, mean, mean, 1.0, 1.0)
    assert binding_error(table, summary, hidden=True) == pytest.approx(moved, rel=0.02)


def test_without_a_binding_function_there_is_no_such_error():
    assert binding_error(None, Summary(0.5, 0.1, 0.3, 0.5, 0.7, 1.0, 1.0), hidden=True) == 0.0


def test_pixels_far_from_all_others_are_named_where_rounding_would_show():
    lattice = Lattice((200, 200))
    values = np.random.default_rng(0).normal(size=lattice.shape)
    for far, names in ((10.0, False), (1e8, True)):
        values[0, 0] = far
        said = list(coarse_grain(GaussianNoise.grain(values), np.array([1.0, 0.7])))
        assert [("label 2" in text, "image.nodata" in text) for text in said] == [(True, True)] * names


@pytest.mark.parametrize("r", [0.3, 1.0])
def test_the_error_of_the_binding_function_is_in_the_draws(r):
    n, sd = 40_000, 0.02
    beta = 0.8 + sd * np.random.default_rng(3).normal(size=(2, n))
    found = shifted(beta, r * sd, (0.0, 1.6), 5)
    # A standard deviation of 80,000 draws is known to 1 / sqrt(160,000) of itself.
    assert found.std() == pytest.approx(sd * np.sqrt(1.0 + r * r), rel=5 / 400)
    assert found.mean() == pytest.approx(0.8, abs=5 * 0.03 / np.sqrt(2 * n))
    # Each draw has a shift of its own, whatever follows it.
    assert np.array_equal(found[:, :100], shifted(beta[:, :100], r * sd, (0.0, 1.6), 5))
    assert abs(np.corrcoef(found[0] - beta[0], found[1] - beta[1])[0, 1]) < 5 / np.sqrt(n)


def test_draws_stay_in_the_prior_and_without_an_error_where_they_are():
    beta = np.random.default_rng(4).random((2, 5000))
    found = shifted(beta, 0.7, (0.0, 1.0), 5)
    assert 0.0 <= found.min() and found.max() <= 1.0
    # A uniform distribution that is reflected stays uniform: mean 1/2, variance 1/12.
    assert found.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * found.size))
    for error in (0.0, np.inf):
        assert shifted(beta, error, (0.0, 1.0), 5) is beta


@pytest.mark.parametrize("r", [0.01, 0.5, 1.0, 3.0])
def test_a_density_is_widened_by_an_error(r):
    sd = 0.02
    plain = lambda beta: -0.5 * ((beta - 0.8) / sd) ** 2  # noqa: E731
    found = quadrature.density(quadrature.widened(plain, (0.0, 1.6), r * sd), (0.0, 1.6))
    assert found.moments() == pytest.approx((0.8, sd * np.sqrt(1.0 + r * r)), rel=1e-4)


def test_a_density_at_the_end_of_the_prior_is_reflected():
    plain = lambda beta: -20.0 * beta  # noqa: E731
    found = quadrature.density(quadrature.widened(plain, (0.0, 1.0), 0.05), (0.0, 1.0))
    draws = np.random.default_rng(6).exponential(1 / 20.0, 200_000)
    moved = np.abs(draws + 0.05 * np.random.default_rng(7).normal(size=draws.size))
    assert found.moments()[0] == pytest.approx(moved.mean(), abs=5 * moved.std() / np.sqrt(moved.size))


def two_phases(labels):
    """A binding function with phases 400 pairs apart, between which S jumps at beta = 0.9."""
    grid = np.linspace(0.0, 1.3, 2601)
    ordered = 1.0 / (1.0 + np.exp(-400.0 * (grid - 0.9)))
    mean = 300.0 + 800.0 * grid + 400.0 * ordered
    sd = np.sqrt(800.0 + 400.0 * 400.0 * ordered * (1.0 - ordered))
    return binding_of(Lattice((32, 32)), labels, grid, mean, sd, mean_se=np.ones(grid.size))


def between(labels, beta, error):
    """What is said of a posterior mean there, where the error of beta is so many posterior sds."""
    binding = two_phases(labels)
    width = 1.0 / float(binding.moments(beta)[1])
    found = Summary(beta, width, beta - 2 * width, beta, beta + 2 * width, 1000.0, 1.0)
    return list(between_phases(binding, found, error * width))


def test_an_s_in_the_gap_of_a_first_order_transition_says_how_uncertain_its_error_is():
    (said,) = between(6, 0.9, 0.3)
    assert "between the two phases" in said and "twice" in said
    assert len(between(6, 0.898, 0.3)) == 1
    assert between(6, 0.9, 0.1) == []  # small enough
    assert between(4, 0.9, 0.3) == []  # no phases of their own
    assert between(6, 0.5, 0.3) == between(6, 0.85, 0.3) == between(6, 0.95, 0.3) == []


def test_errors_of_the_mean_and_of_log_c_are_twice_as_large_in_the_gap_alone():
    beta = np.array([0.5, 0.85, 0.898, 0.9, 0.95])
    gap, none = two_phases(6), two_phases(4)
    ratio = gap.standard_errors(beta)[0] / none.standard_errors(beta)[0]
    assert ratio == pytest.approx([1.0, 1.0, 2.0, 2.0, 1.0], rel=0.01)
    ratio = gap.log_normaliser_error(beta) / none.log_normaliser_error(beta)
    assert ratio == pytest.approx([1.0, 1.0, 2.0, 2.0, 1.0], rel=0.01)


def test_starts_that_disagree_are_said_unless_others_near_outweigh_them():
    beta, n = np.linspace(0.0, 1.5, 16), 16
    near = Summary(0.7, 0.05, 0.6, 0.7, 0.8, 1000.0, 1.0)  # with an sd: five betas, 0.5 to 0.9 but the ends
    flag, draws = np.zeros(n), np.full(n, 4000)
    curve = partial(binding_of, LATTICE, K, beta, *Exact(LATTICE, K).moments(beta), tau=np.full(n, 5.0))
    assert list(flagged(curve(flag=flag, draws=draws), near)) == []
    flag[8] = FLAG_DISAGREE
    (said,) = flagged(curve(flag=flag, draws=draws), near)
    assert "a random and an ordered start" in said and "(1 betas)" in said
    draws[8] = 800
    assert list(flagged(curve(flag=flag, draws=draws), near)) == []
    flag[7] = FLAG_DISAGREE
    assert "(2 betas)" in next(flagged(curve(flag=flag, draws=draws), near))
