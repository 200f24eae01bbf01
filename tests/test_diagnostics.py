"""R-hat and effective sizes: near 1 and n for independent draws, far from them where chains disagree."""

import importlib

import numpy as np
import pytest

from mpi_potts.estimation.diagnostics import bulk_size, of_draws, split_rhat, tail_size
from mpi_potts.estimation.verdicts import LARGEST_RHAT


def test_independent_chains_agree():
    draws = np.random.default_rng(1).normal(size=(4, 1000))
    # With m = 8 halves of n = 500, B / (n W) has mean (m - 1) / m / n about 0.002: R-hat is near 1.001.
    assert 0.999 < split_rhat(draws) < 1.01
    # The estimate of tau = 1 has an error of about sqrt(12 / n), 5 %, to either side.
    assert 0.8 * draws.size < bulk_size(draws) < 1.25 * draws.size


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
    assert bulk_size(draws[None]) == pytest.approx(n / 9.0, rel=4 * 0.07)


def walks(generator, shape, rho):
    """Chains with autocorrelation rho."""
    x, noise = np.zeros(shape), generator.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


KINDS = {
    "independent": lambda g, shape: g.normal(size=shape),
    "correlated": lambda g, shape: walks(g, shape, 0.9),
    "antithetic": lambda g, shape: walks(g, shape, -0.7),
    "heavy tails": lambda g, shape: g.standard_cauchy(shape),
    "ties": lambda g, shape: g.integers(0, 5, shape).astype(float),
    "other scales": lambda g, shape: g.normal(size=shape) * (1 + np.arange(shape[0]))[:, None],
    "drift": lambda g, shape: walks(g, shape, 0.99) + np.linspace(0.0, 5.0, shape[1]),
    "apart": lambda g, shape: g.normal(size=shape) + 3.0 * np.arange(shape[0])[:, None],
}


@pytest.mark.filterwarnings("ignore")  # other people's
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 200), (2, 4), (2, 11), (2, 501), (4, 1000)])
def test_all_three_are_those_of_arviz(kind, shape):
    arviz = importlib.import_module("arviz")
    draws = KINDS[kind](np.random.default_rng(list(shape)), shape)
    rhat, bulk, tail = of_draws(draws)
    # Sums of n numbers in another order: n roundings of 1e-16 each, and cancellation in the covariances.
    assert bulk == pytest.approx(float(arviz.ess(draws, method="bulk")), rel=1e-9)
    assert tail == pytest.approx(float(arviz.ess(draws, method="tail")), rel=1e-9)
    if len(draws) > 1:  # of one chain ArviZ gives none
        assert rhat == pytest.approx(float(arviz.rhat(draws)), rel=1e-9)


def test_chains_of_other_scales_disagree_and_their_tails_are_worth_less():
    draws = np.random.default_rng(6).normal(size=(2, 2000)) * np.array([[1.0], [3.0]])
    assert split_rhat(draws) > LARGEST_RHAT
    assert tail_size(draws) < 0.1 * bulk_size(draws)
