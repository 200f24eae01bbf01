"""Residuals of the right model are as they should be, and a misfit of the noise that moves beta is said."""

import numpy as np
import pytest
from fitting import image_of, run_fit, write_input

import mpi_potts as mp
from mpi_potts.estimation.predictive import FEWEST, predictive
from mpi_potts.kernels.residuals import COLUMNS
from mpi_potts.labels.chain import LabelChain
from mpi_potts.labels.residuals import residuals
from mpi_potts.lattice import MASKED, Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.posterior.cautions import misfit
from mpi_potts.runtime.parallel import ALONE

NAMES = ("skewness", "kurtosis", "correlation")


def brute_force(lattice, z, values, mean, sd, k):
    """The sums of `kernels.residuals`, pair by pair."""
    sums, e = np.zeros((k + 1, COLUMNS)), np.zeros(lattice.shape)
    inside = lattice.exists
    e[inside] = (values[inside] - mean[z[inside]]) / sd[z[inside]]
    for j in range(k):
        of_label = e[inside & (z == j)]
        sums[j, :5] = [(of_label**power).sum() for power in range(5)]
    for place in np.argwhere(inside):
        for step in lattice.offsets(int(place[0])):
            other = place + step
            if (other < 0).any() or (other >= lattice.shape).any() or not inside[tuple(other)]:
                continue
            one, two = z[tuple(place)], z[tuple(other)]
            sums[one if one == two else k, 5:] += [0.5, 0.5 * e[tuple(place)] * e[tuple(other)]]
    return sums


@pytest.mark.parametrize("neighbourhood", ["first", 8, "hexagonal"])
def test_sums_are_over_every_pixel_and_every_pair_once(neighbourhood):
    draw, k = np.random.default_rng(3), 3
    exists = draw.random((17, 23)) < 0.9
    lattice = Lattice((17, 23), neighbourhood, exists)
    values = draw.normal(size=(17, 23))
    chain = LabelChain(lattice, values, k, gaussian_noise(k, 0.0, 2.0, 3.0, 2.0), seed=1)
    chain.sweep(np.full(5, 0.3))
    found = residuals([chain], values, k)[0]
    exact = brute_force(lattice, chain.labels, values, *chain.values, k)
    assert np.allclose(found, exact, rtol=1e-10, atol=1e-9)
    assert found[:, 5].sum() == lattice.edges and found[:k, 0].sum() == lattice.sites
    assert not (found[k, :5]).any() and (chain.labels[~exists] == MASKED).all()


def test_moments_of_normal_residuals_are_those_that_are_stated():
    draw, n, pairs, repeats = np.random.default_rng(8), FEWEST, 5000, 4000
    e = draw.normal(size=(repeats, n))
    sums = np.zeros((repeats, 2, COLUMNS))
    sums[:, 0, :5] = np.stack([(e**power).sum(axis=1) for power in range(5)], axis=-1)
    sums[:, 0, 5] = pairs
    sums[:, 0, 6] = (draw.normal(size=(repeats, 2, pairs)).prod(axis=1)).sum(axis=1)
    found = predictive(sums)
    for name in NAMES:
        z = getattr(found, name)[:, 0, 0] / getattr(found, name)[:, 0, 1]
        assert abs(z.mean()) < 4.0 / np.sqrt(repeats), name
        # The standard error of the mean square, from the sample: kurtosis itself is not normal.
        assert abs((z * z).mean() - 1.0) < 4.0 * (z * z).std() / np.sqrt(repeats), name


def test_few_pixels_are_left_out():
    sums = np.ones((1, 3, COLUMNS)) * (FEWEST - 1)
    sums[:, 1] = FEWEST * np.array([1.0, 0.0, 1.0, 0.0, 3.0, 1.0, 0.5])
    found = predictive(sums)
    for name in NAMES:
        assert np.isnan(getattr(found, name)[0, 0]).all() and np.isfinite(getattr(found, name)[0, 1]).all()
    assert found.correlation[0, 1, 0] == 0.5


def posterior_state(values, k, noise, beta, seed, sweeps=200):
    chain = LabelChain(Lattice(values.shape), values, k, noise, seed=seed)
    chain.sweep(np.full(sweeps, beta))
    return residuals([chain], values, k)


def test_residuals_of_posterior_states_are_those_of_the_model():
    """Images with noise drawn from the prior, and a state of their posterior: z-scores are standard."""
    draw, k, beta, prior = np.random.default_rng(5), 2, 0.6, (0.0, 1.0, 6.0, 3.0)
    noise, sums = gaussian_noise(k, *prior), []
    for number in range(120):
        z, _ = image_of(beta, [0.0, 0.0], [1.0, 1.0], (36, 36), number)
        mean = draw.normal(size=k)
        sd = np.sqrt(prior[3] / draw.gamma(prior[2], size=k))
        values = mean[z] + sd[z] * draw.normal(size=z.shape)
        sums.append(posterior_state(values, k, noise, beta, number)[0])
    found = predictive(np.array(sums))
    for rows in (*(getattr(found, name) for name in NAMES), found.neighbours[:, None]):
        z = (rows[..., 0] / rows[..., 1])[~np.isnan(rows[..., 0])]
        assert z.size > 100 and abs(z.mean()) < 4.0 / np.sqrt(z.size)
        assert abs((z * z).mean() - 1.0) < 4.0 * (z * z).std() / np.sqrt(z.size)


def averaged(e):
    """Over 3x3 pixels, with the variance of one."""
    around = np.pad(e, 1, mode="wrap")
    rows, columns = e.shape
    return sum(around[i : i + rows, j : j + columns] for i in range(3) for j in range(3)) / 3.0


def spread(signal):
    """A point spread of 0.6, and 0.1 to each neighbour."""
    p = np.pad(signal, 1, mode="edge")
    return 0.6 * signal + 0.1 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])


MISFITS = {
    "none": (lambda draw, n: draw.normal(size=n), None, ""),
    "t4": (lambda draw, n: draw.standard_t(4, n) / np.sqrt(2.0), None, "heavier tails"),
    "laplace": (lambda draw, n: draw.laplace(size=n) / np.sqrt(2.0), None, "heavier tails"),
    "flat": (lambda draw, n: draw.uniform(-1.0, 1.0, n) * np.sqrt(3.0), None, "shorter tails"),
    "skewed": (lambda draw, n: draw.gamma(4.0, size=n) / 2.0 - 2.0, None, "skewed"),
    "correlated": (lambda draw, n: averaged(draw.normal(size=n)), None, "correlated"),
    "spread": (lambda draw, n: draw.normal(size=n), spread, "correlated"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_misfit_that_moves_beta_is_said_and_gaussian_noise_is_silent(case):
    noise_of, blur, word = MISFITS[case]
    k, draw = 3, np.random.default_rng(2)
    z, _ = image_of(0.8, [-1.0, 0.0, 1.0], [0.3] * 3, (125, 125), 4)
    signal = z - 1.0
    values = (signal if blur is None else blur(signal)) + 0.3 * noise_of(draw, z.shape)
    sums = posterior_state(values, k, gaussian_noise(k, 0.0, 3.0, 1.0, 0.1), 0.8, seed=1)
    said = [*misfit(predictive(sums), "normal")]
    assert any(word in text for text in said) if word else said == []


def test_a_result_has_the_checks_of_every_chain(tmp_path):
    _, values = image_of(0.7, [-2.0, 0.0, 2.0], [0.5] * 3, (40, 40))
    path = write_input(tmp_path, values, final_sweeps=100, chains=2)
    quick = ("fit.method=path", "precompute.points=20", "precompute.iterations=60", "precompute.burn_in=20")
    run_fit(ALONE, path, tmp_path / "out", quick)
    result = mp.load(tmp_path / "out")
    assert result.arrays["predictive/pixels"].sum() == 2 * values.size
    for name in NAMES:
        assert result.arrays[f"predictive/{name}"].shape == (2, 3, 2)
    assert np.isfinite(result.arrays["predictive/neighbours"]).all()
    assert not any("noise" in text for text in result.warnings)


def test_a_label_without_pixels_has_no_shape():
    checks = predictive(np.zeros((2, 4, COLUMNS)))
    assert np.isnan(checks.skewness).all() and np.isnan(checks.kurtosis).all()
