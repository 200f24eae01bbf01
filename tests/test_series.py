"""Moments of correlated chains: right on chains whose moments are known, and honest about their errors."""

import numpy as np
import pytest

from mpi_potts.estimation.autocorrelation import integrated_time, moments
from mpi_potts.estimation.verdicts import FLAG_DISAGREE, FLAG_SHORT

MEAN, SD = 5000, 300


def autoregressive(rows, n, tau, seed):
    """(rows, n) integers of normal chains with rho_j = rho^j, so that tau = (1 + rho) / (1 - rho)."""
    rho = (tau - 1) / (tau + 1)
    noise = np.random.default_rng(seed).normal(size=(n, rows))
    noise[1:] *= np.sqrt(1 - rho**2)
    for t in range(1, n):
        noise[t] += rho * noise[t - 1]
    return np.rint(MEAN + SD * noise.T).astype(np.int64)


@pytest.mark.parametrize("tau", [1, 3, 10])
def test_the_autocorrelation_time_of_a_long_chain_is_recovered(tau):
    x = autoregressive(1, 100000, tau, seed=tau)[0]
    # Sokal's relative error with a window of 3 tau.
    assert integrated_time(x) == pytest.approx(tau, rel=4 * np.sqrt((12 * tau + 2) / x.size))


def test_several_chains_have_the_time_of_one():
    chains = autoregressive(8, 5000, 6, seed=9)
    assert integrated_time(chains) == pytest.approx(6, rel=4 * np.sqrt(74 / chains.size))


@pytest.mark.parametrize("tau", [1, 2, 5, 10, 20])
def test_standard_errors_are_calibrated_on_five_hundred_sweeps(tau):
    results = [moments(x) for x in autoregressive(1000, 500, tau, seed=tau)]
    mean_z = np.array([(m.mean - MEAN) / m.mean_se for m in results])
    sd_z = np.array([(m.sd - SD) / m.sd_se for m in results])
    # Student's t with about 500 / tau degrees of freedom: a little heavier than normal where tau is large.
    beyond_two = 0.0455 + 0.002 * tau
    allowance = 4 * np.sqrt(beyond_two / len(results))
    for z in (mean_z, sd_z):
        assert np.mean(np.abs(z) > 2) == pytest.approx(beyond_two, abs=allowance)
        assert np.mean(np.abs(z) > 4) < 0.001 * tau + 0.001
    bias = np.mean([m.sd**2 for m in results]) / SD**2 - 1
    assert abs(bias) < 4 * np.sqrt((tau + 1 / tau) / 500 / len(results)) + 0.01


def test_the_moments_are_those_of_the_definition():
    x = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]) + 10**12
    result = moments(x)
    assert result.mean == x.mean()
    assert result.sd**2 == pytest.approx(x.var() * x.size / (x.size - result.tau), rel=1e-12)


def test_sums_are_exact_for_the_largest_statistics():
    x = np.array([4 * 10**6, 0] * 5000)
    result = moments(x)
    assert result.mean == 2 * 10**6
    assert result.sd == pytest.approx(2e6, rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 500])
@pytest.mark.parametrize("starts", [1, 2])
def test_a_constant_chain_has_the_errors_of_what_it_cannot_exclude(n, starts):
    result = moments(np.full((starts, n), 31000))
    size = n * starts
    assert (result.mean, result.sd, result.tau) == (31000, 0, 1)
    assert result.mean_se >= 1 / size
    assert result.sd_se >= 1 / np.sqrt(size)
    assert result.flag == (FLAG_SHORT if size < 50 else 0)


@pytest.mark.parametrize("chain", [[7], [7, 9], [7, 9, 8], [7, 9, 8, 7], [[7], [9]], [[7, 8], [900, 901]]])
def test_the_shortest_chains_give_finite_moments_and_are_flagged(chain):
    result = moments(np.array(chain))
    assert np.isfinite([result.mean, result.sd, result.mean_se, result.sd_se, result.tau]).all()
    assert result.mean == np.mean(chain)
    assert result.flag & FLAG_SHORT


def test_a_rare_event_that_was_not_seen_is_within_the_errors():
    # One pixel differs from its four neighbours with probability p at each sweep.
    n, p = 500, 1 / 500
    result = moments(np.full(n, 1000))
    assert abs(result.mean - (1000 - 4 * p)) <= 2 * result.mean_se
    assert abs(result.sd - 4 * np.sqrt(p * (1 - p))) <= 2 * result.sd_se


def test_two_starts_that_agree_are_pooled():
    flags, z = [], []
    for pair in autoregressive(1000, 500, 5, seed=2).reshape(500, 2, 500):
        result = moments(pair)
        flags.append(result.flag)
        z.append((result.mean - MEAN) / result.mean_se)
        assert result.mean == pair.mean()
    assert np.mean(np.array(flags) & FLAG_DISAGREE) < 0.01
    assert np.std(z) == pytest.approx(1, abs=0.15)


def test_two_starts_in_different_phases_are_flagged_and_their_errors_contain_both():
    disordered, ordered = autoregressive(2, 500, 3, seed=4)
    result = moments(np.stack([disordered, ordered + 4000]))
    assert result.flag & FLAG_DISAGREE
    assert result.mean_se >= 1900
    for phase in (disordered, ordered + 4000):
        assert abs(result.mean - phase.mean()) <= result.mean_se
        assert abs(result.sd - phase.std()) <= result.sd_se


def test_a_chain_shorter_than_fifty_autocorrelation_times_is_flagged():
    x = autoregressive(1, 20000, 10, seed=7)[0]
    assert moments(x).flag == 0
    assert moments(x[:200]).flag == FLAG_SHORT


def test_moments_do_not_depend_on_the_other_chains_computed_beside_them():
    chains = autoregressive(3, 500, 4, seed=5)
    assert moments(chains[1]) == moments(chains[1].copy()) == moments(chains[1][None])


def test_two_phases_of_a_large_volume_do_not_overflow():
    """Two starts of 512^3 voxels that are 2e8 like pairs apart: the sum of squares is beyond 64 bits."""
    chains = np.stack([np.full(1000, 10**8), np.full(1000, 3 * 10**8)]) + np.arange(1000) % 7
    found = moments(chains)
    assert found.flag & FLAG_DISAGREE and found.mean == pytest.approx(2e8, rel=1e-6)
    assert found.sd == pytest.approx(1e8, rel=1e-6)
