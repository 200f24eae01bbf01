"""The Gaussian noise: draws in the kernel against the formulas, exact moments, and degenerate data."""

import numpy as np
import pytest
from scipy import stats

from mpi_potts import rng
from mpi_potts.errors import InputError
from mpi_potts.kernels.gaussian import draw_noise
from mpi_potts.kernels.variates import gamma, normal
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.rng import Purpose

STREAM = rng.stream(11, Purpose.NOISE)


def keys(n):
    return [rng.key(STREAM, i) for i in range(n)]


def test_normals_are_normal():
    x = [normal(2, 0, *key) for key in keys(4000)]
    assert stats.kstest(x, "norm").pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.05, 0.6, 1.0, 2.5, 40.0, 5e5])
def test_gammas_have_their_distribution(shape):
    x = np.array([gamma(shape, 1, 2, *key) for key in keys(4000)])
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > 1e-4


def test_draws_are_addressed_by_sweep_and_label():
    (a0, a1), (b0, b1) = keys(2)
    values = {gamma(3.0, label, 2, k0, k1) for label in range(4) for k0, k1 in ((a0, a1), (b0, b1))}
    assert len(values) == 8
    assert gamma(3.0, 2, 2, a0, a1) in values


def drawn(priors, y, z, centre, sd, n):
    """n draws of (mean, sd) given labels, from sums about `centre`, each with the same current sd."""
    k = priors.labels
    centre = np.asarray(centre, dtype=np.float32).astype(float)
    masks = [z == j for j in range(k)]
    totals = np.array([[m.sum(), (y[m] - c).sum(), ((y[m] - c) ** 2).sum()] for m, c in zip(masks, centre)])
    result = np.empty((n, 2, k))
    for i, (k0, k1) in enumerate(keys(n)):
        mean, spread = np.zeros(k), sd.copy()
        draw_noise(totals, centre, priors.rows(), mean, spread, k0, k1)
        result[i] = mean, spread
    return result


def mean_posterior(priors, number, total, variance):
    """Mean and variance of mu_j given sigma_j**2, as the paper has them: by precisions."""
    data, prior = number / variance, priors.mean_sd**-2.0
    return (total / variance + priors.mean * prior) / (data + prior), 1.0 / (data + prior)


def test_kernel_draws_follow_the_formulas():
    """mu_j against its normal; sigma_j^2, given the mu_j drawn with it, against its inverse gamma."""
    data = np.random.default_rng(1)
    z = np.repeat([0, 1, 2], [40, 7, 0])
    y = np.array([2.0, -1.0, 0.0])[z] + data.normal(size=z.size)
    priors = gaussian_noise(
        3, [0.0, 1.0, 5.0], [10.0, 0.3, 2.0], shape=[1.0, 3.0, 4.0], scale=[0.01, 2.0, 6.0]
    )
    sd = np.array([0.9, 1.4, 0.5])
    draws = drawn(priors, y, z, np.array([1.7, -0.2, 0.4]), sd, 3000)
    number = np.bincount(z, minlength=3)
    mean, variance = mean_posterior(priors, number, np.bincount(z, weights=y, minlength=3), sd**2)
    for j in range(3):
        mu, sigma = draws[:, 0, j], draws[:, 1, j]
        assert stats.kstest(mu, stats.norm(mean[j], np.sqrt(variance[j])).cdf).pvalue > 1e-4
        square = ((y[z == j, None] - mu) ** 2).sum(axis=0)
        shape, scale = priors.shape[j] + number[j] / 2, priors.scale[j] + square / 2
        u = stats.invgamma.cdf(sigma**2 / scale, shape)
        assert stats.kstest(u, "uniform").pvalue > 1e-4


def test_an_empty_label_draws_from_its_prior():
    priors = gaussian_noise(2, mean=3.0, mean_sd=0.5, shape=4.0, scale=6.0)
    draws = drawn(priors, np.zeros(5), np.zeros(5, int), np.zeros(2), np.ones(2), 3000)
    assert stats.kstest(draws[:, 0, 1], stats.norm(3.0, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 1, 1] ** 2, stats.invgamma(4.0, scale=6.0).cdf).pvalue > 1e-4


def test_degenerate_sums_give_finite_positive_noise():
    priors = gaussian_noise(4, shape=[1e-3, 1.0, 1.0, 1e-3], scale=[1e-3, 1e-12, 0.01, 0.01])
    totals = np.array([[0, 0, 0], [1e6, 0, 0], [1e6, 1e-3, -1e-12], [1, 1e5, 1e10]], dtype=float)
    mean, sd = np.zeros(4), np.array([1e12, 1e-12, 1e-12, 1.0])
    for k0, k1 in keys(200):
        draw_noise(totals, np.array([0.0, 5.0, -3.0, 0.0]), priors.rows(), mean, sd, k0, k1)
        assert np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0).all()


def test_standardised_priors_are_those_of_standardised_data():
    priors = gaussian_noise(2, mean=[1.0, 4.0], mean_sd=2.0, shape=3.0, scale=8.0)
    y, centre, unit = np.array([1.0, 2.5, 7.0]), 3.0, 2.0
    mean, variance = mean_posterior(priors, 3, y.sum(), 4.0)
    scaled = priors.standardised(centre, unit)
    scaled_mean, scaled_variance = mean_posterior(scaled, 3, ((y - centre) / unit).sum(), 4.0 / unit**2)
    assert np.allclose(scaled_mean * unit + centre, mean) and np.allclose(scaled_variance * unit**2, variance)
    square = ((y - 2.0) ** 2).sum()
    assert np.array_equal(scaled.shape, priors.shape)
    assert np.allclose(priors.scale + square / 2, (scaled.scale + square / unit**2 / 2) * unit**2)


def test_exchangeable_means_equal_for_all_labels():
    assert gaussian_noise(3).exchangeable
    assert not gaussian_noise(3, mean=[0.0, 1.0, 2.0]).exchangeable
    assert not gaussian_noise(2, scale=[0.01, 0.02]).exchangeable


@pytest.mark.parametrize("wrong", [{"mean": [1, 2]}, {"mean_sd": 0.0}, {"shape": -1.0}, {"scale": np.nan}])
def test_impossible_priors_are_refused(wrong):
    with pytest.raises(InputError, match="prior"):
        gaussian_noise(3, **wrong)
