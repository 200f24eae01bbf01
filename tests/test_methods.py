"""Every method gives the posterior: exact for observed labels, the same for hidden images."""

import numpy as np
import pytest
from bindings import binding_of
from fitting import image_of, options, run_fit, same_bits, write_input
from method_cases import CONTINUED, TINY, Impatient, sets

from mpi_potts.cli import fit
from mpi_potts.cli.inspect import describe
from mpi_potts.config import inputs
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.estimation import quadrature, regression
from mpi_potts.io import formats, reading
from mpi_potts.labels import ensemble
from mpi_potts.labels.observed import ObservedLabels
from mpi_potts.lattice import Lattice
from mpi_potts.methods import rejection
from mpi_potts.methods.base import Problem, check_method, method_of, needs_binding
from mpi_potts.methods.pseudolikelihood import PseudolikelihoodPhase
from mpi_potts.methods.surrogate import not_normal
from mpi_potts.model.exact import Exact
from mpi_potts.model.pseudolikelihood import Pseudolikelihood
from mpi_potts.posterior.result import Result
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

GRID = np.linspace(0.0, 1.3, 2601)
FEW = {"exchange.iterations": 1200, "exchange.burn_in": 200, "exchange.auxiliary_sweeps": 30}


def exact_binding(lattice, labels, exact):
    """The binding function with exact moments: what is left is the error of the method."""
    beta = np.linspace(0.0, 1.3, 400)
    none = np.full(beta.size, 1e-9)
    return binding_of(lattice, labels, beta, *exact.moments(beta), mean_se=none, sd_se=none)


def test_an_s_between_two_phases_is_said_not_to_be_normal():
    """Phases 400 pairs apart, between which S jumps at beta = 0.9, and elsewhere S that is nearly normal."""
    beta = np.linspace(0.0, 1.3, 2601)
    ordered = 1.0 / (1.0 + np.exp(-400.0 * (beta - 0.9)))
    mean = 300.0 + 800.0 * beta + 400.0 * ordered
    sd = np.sqrt(800.0 + 400.0 * 400.0 * ordered * (1.0 - ordered))
    binding = binding_of(Lattice((32, 32)), 3, beta, mean, sd)
    (said,) = not_normal(binding, 300.0 + 800.0 * 0.9 + 120.0, (0.0, 1.3))
    assert "not normal" in said and 'fit.method = "path"' in said
    assert list(not_normal(binding, 300.0 + 800.0 * 0.5, (0.0, 1.3))) == []


@pytest.fixture(scope="module", params=[2, 3])
def observed(request, tmp_path_factory):
    """An 8 x 8 image of labels, its exact posterior (mean, sd), and a function that fits it."""
    k = request.param
    directory = tmp_path_factory.mktemp("observed")
    labels, _ = image_of(0.6, [0.0] * k, [1.0] * k, shape=(8, 8), number=k)
    path = write_input(directory, labels, kind="labels", labels=k, chains=2)
    lattice = Lattice((8, 8), "first", None)
    exact = Exact(lattice, k)
    statistic = lattice.statistic(labels)
    truth = quadrature.Density(GRID, exact.posterior(statistic, GRID))
    binding = exact_binding(lattice, k, exact)

    def fitted(method, name=None, **keys):
        keys = {name.replace("__", "."): value for name, value in keys.items()}
        output = directory / (name or method)
        settings = inputs.load(path, sets({"fit.method": method} | keys), output)
        settings, image, _ = fit.read_image(settings)
        given = binding if needs_binding(settings) else None
        problem = Problem.of(settings, image, lattice, given)
        with Control() as control:
            fit.fit_image(ALONE, problem, control, options())
        return reading.read(output / "result.h5", *formats.RESULT)

    return truth, fitted, statistic, exact, labels


def check_mean_and_sd(truth, beta, weight, size, slack=0.0):
    """Within four standard errors of `size` independent draws, and `slack` sd for a known approximation."""
    mean, sd = truth.moments()
    found = (beta * weight).sum()
    spread = np.sqrt((weight * (beta - found) ** 2).sum())
    assert abs(found - mean) < (4.0 / np.sqrt(size) + slack) * sd
    assert abs(spread / sd - 1.0) < 4.0 / np.sqrt(2.0 * size) * 1.5 + slack


def test_path_sampling_of_observed_labels_is_the_exact_posterior(observed):
    truth, fitted, *_ = observed
    attributes, arrays = fitted("path", fit__final_sweeps=4000)
    mean, sd = truth.moments()
    # By quadrature of an exact table: only the interpolation between its 400 betas is left.
    assert attributes["beta_mean"] == pytest.approx(mean, abs=1e-3 * sd)
    assert attributes["beta_sd"] == pytest.approx(sd, rel=1e-3)
    for name, probability in (("low", 0.025), ("median", 0.5), ("high", 0.975)):
        assert attributes[f"beta_{name}"] == pytest.approx(truth.quantiles(probability), abs=2e-3 * sd)
    check_mean_and_sd(truth, arrays["posterior/beta"], arrays["posterior/weight"], 4000)
    on_grid = np.interp(arrays["density/beta"], GRID, truth.value)
    np.testing.assert_allclose(arrays["density/value"], on_grid, atol=2e-3 * truth.value.max())


def gaussian_posterior(exact, statistic):
    """The posterior where S is normal with its exact moments: what the auxiliary model gives."""
    mean, sd = exact.moments(GRID)
    density = np.exp(-0.5 * ((statistic - mean) / sd) ** 2) / sd
    return quadrature.Density(GRID, density / np.trapezoid(density, GRID))


def test_the_synthetic_likelihood_of_observed_labels_is_the_gaussian_one(observed):
    truth, fitted, statistic, exact, _ = observed
    attributes, _ = fitted("synthetic")
    expected = gaussian_posterior(exact, statistic).moments()
    assert attributes["beta_mean"] == pytest.approx(expected[0], abs=2e-3 * expected[1])
    assert attributes["beta_sd"] == pytest.approx(expected[1], rel=2e-3)
    # S is not quite Gaussian on 64 pixels.
    assert attributes["beta_mean"] == pytest.approx(truth.moments()[0], abs=0.2 * truth.moments()[1])


def test_smc_abc_of_observed_labels_is_the_posterior(observed):
    truth, fitted, statistic, exact, _ = observed
    _, arrays = fitted("smc-abc", smc__particles=4000, smc__replicates=100)
    beta, weight = arrays["posterior/beta"], arrays["posterior/weight"]
    # Resampled particles are not independent: half of the ESS, and the last tolerance.
    size = 0.5 / (weight**2).sum()
    assert size > 500.0
    check_mean_and_sd(gaussian_posterior(exact, statistic), beta, weight, size, 0.05)
    # S is not quite Gaussian on 64 pixels.
    check_mean_and_sd(truth, beta, weight, size, 0.2)


@pytest.mark.parametrize("sampler, start", [("gibbs", "current"), ("swendsen-wang", "random")])
def test_exchange_of_observed_labels_is_the_exact_posterior(observed, sampler, start):
    truth, fitted, *_ = observed
    keys = {name.replace(".", "__"): value for name, value in FEW.items()}
    keys |= {"exchange__auxiliary_sampler": sampler, "exchange__auxiliary_start": start}
    attributes, arrays = fitted("exchange", sampler, **keys)
    rhat, size, _ = arrays["diagnostics/beta"]
    assert rhat < 1.1 and size > 100.0
    check_mean_and_sd(truth, arrays["posterior/beta"], arrays["posterior/weight"], size)
    assert (np.abs(arrays["exchange/acceptance"] - 0.44) < 0.12).all()
    assert attributes["binding"] == ""


@pytest.mark.parametrize("adjust", ["false", "true"])
def test_rejection_of_observed_labels_is_the_posterior(observed, adjust):
    truth, fitted, *_ = observed
    keys = {"rejection__draws": 60_000, "rejection__quantile": 0.02 if adjust == "false" else 0.1}
    _, arrays = fitted("rejection", f"rejection-{adjust}", rejection__adjust=adjust, **keys)
    weight = arrays["posterior/weight"]
    # The Gaussian auxiliary model, and a tolerance that is not zero.
    check_mean_and_sd(truth, arrays["posterior/beta"], weight, 1.0 / (weight**2).sum(), 0.15)
    assert arrays["posterior/beta"].min() >= 0.0 and arrays["posterior/beta"].max() <= 1.3
    assert (
        np.abs(arrays["posterior/statistic"] - arrays["trace/statistic"]) <= arrays["trace/epsilon"]
    ).all()


def test_rejection_with_pseudo_data_and_no_tolerance_is_the_exact_posterior(observed):
    truth, fitted, *_ = observed
    keys = {"rejection__tolerance": 0, "rejection__draws": 5_000, "pseudo_data__burn_in": 30}
    _, arrays = fitted("rejection", "rejection-data", fit__pseudo_data="true", **keys)
    check_mean_and_sd(
        truth, arrays["posterior/beta"], arrays["posterior/weight"], arrays["posterior/beta"].size
    )
    assert (arrays["posterior/statistic"] == arrays["trace/statistic"]).all()


def test_smc_with_pseudo_data_is_the_exact_posterior(observed):
    truth, fitted, *_ = observed
    keys = {"pseudo_data__burn_in": 20, "smc__particles": 400, "smc__replicates": 20, "smc__alpha": 0.8}
    attributes, arrays = fitted("smc-abc", "smc-data", fit__pseudo_data="true", **keys)
    weight = arrays["posterior/weight"]
    assert attributes["binding"] == "" and attributes["pseudo_data"]
    # Resampled particles are not independent: half of the ESS, and the last tolerance.
    check_mean_and_sd(truth, arrays["posterior/beta"], weight, 0.5 / (weight**2).sum(), 0.1)


def test_the_pseudolikelihood_is_the_product_of_conditionals(observed):
    _, fitted, statistic, _, labels = observed
    attributes, _ = fitted("pseudolikelihood")
    k = int(attributes["labels"])
    total = np.zeros(GRID.size)
    for (i, j), own in np.ndenumerate(labels):
        around = [
            labels[a, b]
            for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
            if 0 <= a < 8 and 0 <= b < 8
        ]
        n = np.bincount(around, minlength=k)
        total += GRID * n[own] - np.log(np.exp(np.multiply.outer(GRID, n)).sum(axis=1))
    density = np.exp(total - total.max())
    expected = quadrature.Density(GRID, density / np.trapezoid(density, GRID)).moments()
    assert attributes["beta_mean"] == pytest.approx(expected[0], abs=1e-3 * expected[1])
    assert attributes["beta_sd"] == pytest.approx(expected[1], rel=1e-3)
    assert "no likelihood" in attributes["warnings"]
    # The joint chains draw from the same density.
    surrogate = Pseudolikelihood(Lattice((8, 8), "first", None), k)
    phase = PseudolikelihoodPhase(surrogate, (0.0, 1.3), 0, 400, seed=1)
    beta = phase.run(0, ObservedLabels(labels, statistic), np.zeros(0), 0, 400, True).beta
    assert abs(beta.mean() - expected[0]) < 4.0 * expected[1] / np.sqrt(400)
    assert abs(beta.std() / expected[1] - 1.0) < 4.0 / np.sqrt(800)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A small hidden image, and the fits of it by the methods that have been asked for."""
    directory, found = tmp_path_factory.mktemp("image"), {}
    _, values = image_of(0.7, [-1.0, 1.0], [0.8, 0.8], shape=(20, 20), number=3)
    path = write_input(directory, values, labels=2, chains=2, final_sweeps=0)
    shared = {"precompute.file": f'"{directory / "binding.h5"}"', "precompute.iterations": 3000}

    def fitted(method):
        if method not in found:
            keys = FEW | shared | {"fit.method": method, "exchange.iterations": 3000}
            keys["fit.final_sweeps"] = 500 if method == "pseudolikelihood" else 3000
            found[method] = run_fit(ALONE, path, directory / method, sets(keys))
        return found[method]

    return fitted


@pytest.mark.parametrize("method", ["synthetic", "exchange", "smc-abc"])
def test_methods_agree_on_a_hidden_image(image, method):
    (_, one), (attributes, other) = image("path"), image(method)
    for name in ("beta", "statistic"):
        mean, error = zip(*(_mean_and_error(arrays, name) for arrays in (one, other)))
        assert abs(mean[0] - mean[1]) < 4.0 * np.hypot(*error), name
    sizes = [arrays["diagnostics/beta"][1] for arrays in (one, other)]
    ratio = other["marginal/beta"].std() / one["marginal/beta"].std()
    assert abs(np.log(ratio)) < 4.0 * np.sqrt(sum(1.0 / size for size in sizes))
    assert np.abs(one["noise/mean"].mean(axis=0) - other["noise/mean"].mean(axis=0)).max() < 0.05
    assert np.abs(one["labels/probability"] - other["labels/probability"]).max() < 0.15
    assert attributes["method"] == method


@pytest.mark.long
@pytest.mark.parametrize(
    "sampler, start, sweeps", [("gibbs", "current", 500), ("swendsen-wang", "random", 100)]
)
def test_exchange_at_full_length_agrees_with_path_near_the_transition(tmp_path, sampler, start, sweeps):
    _, values = image_of(0.95, [-1.0, 0.0, 1.0], [0.5, 0.5, 0.5], shape=(48, 48), number=9)
    path = write_input(tmp_path, values, chains=2, final_sweeps=6000)
    keys = {"precompute.file": f'"{tmp_path / "binding.h5"}"', "precompute.iterations": 2000}
    keys |= {"exchange.iterations": 4000, "exchange.burn_in": 500, "exchange.auxiliary_sweeps": sweeps}
    keys |= {"exchange.auxiliary_sampler": sampler, "exchange.auxiliary_start": start}
    fits = [run_fit(ALONE, path, tmp_path / m, sets(keys | {"fit.method": m})) for m in ("path", "exchange")]
    mean, error = zip(*(_mean_and_error(arrays, "beta") for _, arrays in fits))
    assert abs(mean[0] - mean[1]) < 4.0 * np.hypot(*error)


def _mean_and_error(arrays, name):
    draws = arrays[f"marginal/{name}"]
    return draws.mean(), draws.std() / np.sqrt(arrays[f"diagnostics/{name}"][1])


def test_a_hidden_image_by_pseudolikelihood_has_the_same_datasets_as_by_path(image):
    (_, path), (_, cheap) = image("path"), image("pseudolikelihood")
    assert set(path) == set(cheap)
    assert np.abs(cheap["labels/probability"].sum(axis=-1) - 1.0).max() < 1e-6
    assert cheap["diagnostics/beta"][0] < 1.1
    # The noise hardly depends on beta: its posteriors are those of path sampling, in every draw.
    for name in ("noise/mean", "noise/sd"):
        spread = path[name].std(axis=0)
        assert (np.abs(cheap[name].mean(axis=0) - path[name].mean(axis=0)) < spread).all()
        assert (np.abs(cheap[name] - path[name].mean(axis=0)) < 8.0 * spread).all()


def test_smc_with_pseudo_data_fits_a_hidden_image_without_a_binding_function(tmp_path):
    _, values = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(12, 12), number=3)
    path = write_input(tmp_path, values, labels=2, final_sweeps=0, max_iterations=8)
    keys = {"fit.pseudo_data": "true", "smc.particles": 60, "smc.replicates": 10, "pseudo_data.burn_in": 10}
    attributes, arrays = run_fit(ALONE, path, tmp_path / "out", sets(keys))
    assert not (tmp_path / "out" / "binding.h5").exists()
    assert "marginal/beta" not in arrays and attributes["binding"] == ""
    assert abs(arrays["posterior/weight"].sum() - 1.0) < 1e-12
    assert "beta, particles for the last S  " in str(Result(attributes, arrays))
    assert "beta, particles for the last S  " in describe(tmp_path / "out" / "result.h5")


@pytest.mark.parametrize("replicates, said", [(10, True), (50, False), ("infinite", False)])
def test_few_replicates_are_warned_of_where_labels_are_hidden(tmp_path, replicates, said):
    labels, values = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(12, 12), number=3)
    for kind, image in (("observations", values), ("labels", labels)):
        path = write_input(tmp_path, image, labels=2, kind=kind, final_sweeps=0, max_iterations=3)
        keys = {"smc.replicates": replicates, "smc.particles": 60}
        attributes, _ = run_fit(ALONE, path, tmp_path / kind / str(replicates), sets(keys))
        assert ("replicates are few" in attributes["warnings"]) == (said and kind == "observations")


def test_infinite_replicates_of_simulated_images_are_refused(tmp_path):
    labels, _ = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(12, 12), number=3)
    path = write_input(tmp_path, labels, labels=2, kind="labels")
    config = inputs.load(path, ("smc.replicates=infinite", "fit.pseudo_data=true"))
    with pytest.raises(InputError, match=r'smc\.replicates = "infinite": an integer .*pseudo_data = true'):
        check_method(config)
    plain = inputs.load(path, ("smc.replicates=infinite",))
    method = method_of(plain)
    check_method(plain)
    assert "infinite replicates" in method.sizes(plain)
    (name,) = (name for name in method.memory(plain, 1) if "replicates" in name)
    finite = inputs.load(path, ("smc.replicates=2",))
    assert method.memory(plain, 2)[name] == next(iter(method.memory(finite, 2).values()))


@pytest.mark.parametrize("method, kind, keys", CONTINUED)
def test_a_continued_fit_has_the_same_bits(tmp_path, monkeypatch, method, kind, keys):
    labels, values = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(9, 11), number=3)
    image = labels if kind == "labels" else values
    path = write_input(tmp_path, image, labels=2, kind=kind, chains=2, final_sweeps=25)
    keys = sets(TINY | keys | {"fit.method": method})
    _, whole = run_fit(ALONE, path, tmp_path / "whole", keys)
    # Slices of a few steps: the split must change nothing.
    for module in (ensemble, rejection):
        monkeypatch.setattr(module, "SLICE_SITES", 1000)
    for steps in (0, 2):
        with pytest.raises(Interrupted):
            run_fit(ALONE, path, tmp_path / "stopped", keys, control=Impatient(steps))
        assert (tmp_path / "stopped" / "checkpoint.h5").exists()
    _, continued = run_fit(ALONE, path, tmp_path / "stopped", keys)
    assert same_bits(whole, continued) == []


@pytest.mark.parametrize(
    "kind, keys, named",
    [
        ("observations", {"fit.method": "rejection"}, "observed labels"),
        ("observations", {"fit.method": "path", "fit.final_sweeps": 0}, "fit.final_sweeps = 0"),
        ("labels", {"fit.method": "exchange", "fit.pseudo_data": "true"}, "fit.pseudo_data"),
        ("labels", {"exchange.burn_in": 100_000}, "exchange.burn_in"),
        ("labels", TINY | {"fit.method": "rejection", "rejection.tolerance": 1e-9}, "rejection.tolerance"),
    ],
)
def test_what_a_method_cannot_do_is_refused_by_name(tmp_path, kind, keys, named):
    labels, values = image_of(0.7, [-1.0, 1.0], [0.5, 0.5], shape=(9, 11), number=3)
    path = write_input(tmp_path, labels if kind == "labels" else values, labels=2, kind=kind)
    with pytest.raises(InputError, match=named):
        run_fit(ALONE, path, tmp_path / "out", sets(keys))
    assert not (tmp_path / "out" / "result.h5").exists()


@pytest.mark.parametrize("centre", [0.0, 1e-7, 0.7123, 1.0])
@pytest.mark.parametrize("sd", [1e-6, 0.01, 10.0])
def test_quadrature_finds_a_density_of_any_width(centre, sd):
    found = quadrature.density(lambda b: -0.5 * ((b - centre) / sd) ** 2, (0.0, 1.0))
    grid = np.linspace(max(0.0, centre - 12 * sd), min(1.0, centre + 12 * sd), 100_001)
    value = np.exp(-0.5 * ((grid - centre) / sd) ** 2)
    truth = quadrature.Density(grid, value / np.trapezoid(value, grid))
    spread = truth.moments()[1]
    np.testing.assert_allclose(found.moments(), truth.moments(), rtol=0, atol=1e-3 * spread)
    p = np.array([0.025, 0.5, 0.975])
    np.testing.assert_allclose(found.quantiles(p), truth.quantiles(p), rtol=0, atol=2e-3 * spread)


def test_the_adjustment_undoes_a_line_and_stays_in_the_prior():
    offset = np.linspace(-3.0, 3.0, 41)
    logit = 0.4 + 0.7 * offset
    beta = 0.2 + 0.9 / (1.0 + np.exp(-logit))
    moved = regression.adjust(beta, offset, regression.epanechnikov(np.abs(offset), 3.0), (0.2, 1.1))
    np.testing.assert_allclose(moved, 0.2 + 0.9 / (1.0 + np.exp(-0.4)), rtol=1e-12)
    assert regression.adjust(beta, 0.0 * offset, np.ones(41), (0.2, 1.1)) == pytest.approx(beta)


@pytest.mark.parametrize("shape, neighbourhood, k", [((7, 9), "second", 4), ((4, 5, 6), "second", 5)])
def test_the_pseudolikelihood_of_any_lattice_is_the_product_of_conditionals(shape, neighbourhood, k):
    generator = np.random.default_rng(4)
    lattice = Lattice(shape, neighbourhood, generator.random(shape) < 0.8)
    labels = np.where(lattice.exists, generator.integers(0, k, shape), 255).astype(np.uint8)
    beta, total = np.array([0.0, 0.3, 1.1]), np.zeros(3)
    for site in np.argwhere(lattice.exists):
        n = np.zeros(k)
        for step in np.concatenate([lattice.half_offsets, -lattice.half_offsets]):
            other = site + step
            if ((other >= 0) & (other < shape)).all() and lattice.exists[tuple(other)]:
                n[labels[tuple(other)]] += 1
        total += beta * n[labels[tuple(site)]] - np.log(np.exp(np.multiply.outer(beta, n)).sum(axis=1))
    found = Pseudolikelihood(lattice, k).log_density(labels, lattice.statistic(labels))(beta)
    np.testing.assert_allclose(found, total, rtol=1e-12)
