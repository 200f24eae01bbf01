"""R-hat and effective sizes: near 1 and n for independent draws, far from them where chains disagree."""

import numpy as np
import pytest

from mpi_potts.estimation.diagnostics import effective_size, split_rhat
from mpi_potts.estimation.verdicts import LARGEST_RHAT


def test_independent_chains_agree():
    draws = np.random.default_rng(1).normal(size=(4, 1000))
    # With m = 8 halves of n = 500, B / (n W) has mean (m - 1) / m / n about 0.002: R-hat is near 1.001.
    assert 0.999 < split_rhat(draws) < 1.01
    # tau of white noise is 1; Geyer's sequence cuts it within a few times 1 / sqrt(n).
    assert 0.8 * draws.size < effective_size(draws) <= draws.size


def test_chains_in_two_places_disagree():
    draws = np.random.default_rng(2).normal(size=(2, 500))
    draws[1] += 3.0
    assert split_rhat(draws) > 1.5


def test_a_drift_within_one_chain_shows():
    draws = np.random.default_rng(3).normal(size=(1, 500)) + np.linspace(0.0, 3.0, 500)
    assert split_rhat(draws) > LARGEST_RHAT


def test_a_chain_with_outliers_cannot_hide_a_disagreement():
    generator = np.random.default_rng(4)
    draws = generator.standard_cauchy(size=(2, 2000))
    draws[1] += 2.0
    assert split_rhat(draws) > LARGEST_RHAT


@pytest.mark.parametrize(
    "draws, expected", [(np.ones((2, 10)), 1.0), (np.repeat([[1.0], [2.0]], 10, 1), np.inf)]
)
def test_draws_that_do_not_move(draws, expected):
    assert split_rhat(draws) == expected


def test_too_few_draws_have_no_rhat():
    assert np.isnan(split_rhat(np.ones((2, 3))))


def test_correlated_draws_are_worth_less():
    generator, rho, n = np.random.default_rng(5), 0.8, 20000
    draws = np.zeros(n)
    for t in range(1, n):
        draws[t] = rho * draws[t - 1] + generator.normal()
    # tau = (1 + rho) / (1 - rho) = 9; its estimate has relative error about sqrt(12 * 9 / n) = 7 %.
    assert effective_size(draws[None]) == pytest.approx(n / 9.0, rel=4 * 0.07)
