"""The binding function, against exact moments and log C on small lattices, from chains with a known tau."""

import dataclasses
import pickle
import time
from functools import cache
from types import SimpleNamespace

import ising
import numpy as np
import pytest
from bindings import binding_of
from scipy.interpolate import make_interp_spline

from mpi_potts import rng
from mpi_potts.binding.grid import make_grid
from mpi_potts.errors import InputError
from mpi_potts.estimation import autocorrelation
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.potts import Sampler
from mpi_potts.rng import Purpose

SWEEPS, TAU = 500, 3.0


@cache
def exact(side, labels):
    return Exact(Lattice((side, side)), labels)


def chain(model, beta, n, rng, tau=TAU):
    """(n,) draws of S from its exact distribution, repeated so that the autocorrelation time is tau."""
    cumulative = np.cumsum(model.probabilities(beta))
    draws = np.searchsorted(cumulative, rng.random(n) * cumulative[-1])
    fresh = rng.random(n) >= (tau - 1) / (tau + 1)
    fresh[0] = True
    return draws[np.maximum.accumulate(np.where(fresh, np.arange(n), 0))]


def tabulate(model, beta, columns, **settings):
    """The smooth binding function of estimates: mean, sd, their standard errors, tau and flag."""
    mean, sd, mean_se, sd_se, tau, flag = columns
    estimates = {"mean_se": mean_se, "sd_se": sd_se, "tau": tau, "flag": flag, "interpolation": "smooth"}
    return binding_of(model.lattice, model.labels, beta, mean, sd, **estimates | settings)


def simulate(model, beta, seed, n=SWEEPS, **settings):
    """A binding function from one chain of n draws at each beta."""
    rng = np.random.default_rng(seed)
    rows = [dataclasses.astuple(autocorrelation.moments(chain(model, b, n, rng))) for b in beta]
    return tabulate(model, beta, np.array(rows).T, **settings)


def linear(binding):
    return dataclasses.replace(binding, interpolation="linear")


def errors(binding, model, beta):
    """Differences of mean, sd and log C from the exact ones, (3, len(beta))."""
    mean, sd = binding.moments(beta)
    truth = model.moments(beta)
    log_c = model.log_normaliser(beta)
    if binding.beta[0] > 0:
        log_c = log_c - model.log_normaliser(binding.beta[0])
    return np.array([mean - truth[0], sd - truth[1], binding.log_normaliser(beta) - log_c])


def rms(x):
    return np.sqrt(np.mean(np.square(x), axis=-1))


FINE = np.linspace(0, 2, 401)


@pytest.mark.parametrize("side", [6, 8])
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_smooth_form_is_closer_to_the_truth_than_lines_through_the_same_simulations(side, labels):
    model = exact(side, labels)
    for points, bounds in ((16, (0.8, 0.7, 1.05)), (101, (0.45, 0.4, 1.05))):
        smooth, lines = [], []
        for seed in range(4):
            binding = simulate(model, np.linspace(0, 2, points), seed)
            smooth.append(rms(errors(binding, model, FINE)))
            lines.append(rms(errors(linear(binding), model, FINE)))
        assert (rms(np.transpose(smooth)) < bounds * rms(np.transpose(lines))).all()


def test_the_standard_errors_of_the_smooth_form_are_honest():
    z, beta = [], np.array([0.2, 0.6, 1.0, 1.2, 1.6])
    for labels in (2, 3, 5):
        model = exact(6, labels)
        for seed in range(25):
            binding = simulate(model, np.linspace(0, 2, 41), seed)
            mean_se, sd_se = binding.standard_errors(beta)
            scale = np.array([mean_se, sd_se, binding.log_normaliser_error(beta)])
            z.append(errors(binding, model, beta) / scale)
    # 75 simulations; the z of one curve at five betas are correlated, so each beta is taken by itself.
    spread = rms(np.moveaxis(z, 0, -1))
    allowance = 4 / np.sqrt(2 * len(z))
    assert (spread < 1 + allowance + 0.1).all()
    assert (spread > 1 - allowance - 0.25).all()
    assert np.abs(z).max() < 5


def test_linear_interpolation_joins_the_estimates():
    model = exact(6, 3)
    beta = np.linspace(0, 2, 11)
    binding = simulate(model, beta, 1, interpolation="linear")
    mean, sd = binding.moments(beta)
    assert np.array_equal(mean, binding.mean)
    assert np.array_equal(sd, binding.sd)
    middle = (beta[1:] + beta[:-1]) / 2
    assert np.allclose(binding.moments(middle)[0], (mean[1:] + mean[:-1]) / 2, rtol=1e-14)
    assert np.allclose(binding.moments(middle)[1], (sd[1:] + sd[:-1]) / 2, rtol=1e-14)
    mean_se, sd_se = binding.standard_errors(beta)
    assert np.allclose([mean_se, sd_se], [binding.mean_se, binding.sd_se], rtol=1e-12)


@pytest.mark.parametrize("interpolation", ["smooth", "linear"])
@pytest.mark.parametrize("low", [0.0, 0.3])
def test_the_mean_is_the_derivative_of_log_c_and_the_integral_of_the_variance(interpolation, low):
    binding = simulate(exact(6, 3), np.linspace(low, 2, 21), 1, interpolation=interpolation)
    beta, h = np.linspace(low + 0.0137, 1.987, 97), 1e-5
    slope = (binding.log_normaliser(beta + h) - binding.log_normaliser(beta - h)) / (2 * h)
    mean, sd = binding.moments(beta)
    assert np.allclose(slope, mean, rtol=1e-7)
    start = binding.log_normaliser(low)
    assert start == pytest.approx(36 * np.log(3) if low == 0 else 0, abs=1e-12)
    if interpolation == "smooth":
        rise = (binding.moments(beta + h)[0] - binding.moments(beta - h)[0]) / (2 * h)
        assert np.allclose(rise, sd**2, rtol=1e-5)


def test_the_exact_moments_at_zero_anchor_the_smooth_form():
    model = exact(8, 5)
    mean, sd = simulate(model, np.linspace(0, 2, 21), 3).moments(0.0)
    assert mean == pytest.approx(112 / 5, rel=1e-4)
    assert sd == pytest.approx(np.sqrt(112 * 0.2 * 0.8), rel=1e-3)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 7, 10])
@pytest.mark.parametrize("interval", [(0, 2), (0.3, 3), (0, 8), (2.5, 6), (9, 12)])
def test_few_points_and_ordered_phases_give_finite_increasing_curves(points, interval):
    model = exact(6, 3)
    binding = simulate(model, np.linspace(*interval, points), points)
    beta = np.linspace(binding.beta[0], binding.beta[-1], 201)
    mean, sd = binding.moments(beta)
    log_c = binding.log_normaliser(beta)
    assert np.isfinite([mean, sd, log_c, *binding.standard_errors(beta)]).all()
    assert (np.diff(mean) >= -1e-9).all()
    assert (sd >= 0).all()
    assert (np.abs(binding.moments(binding.beta)[0] - binding.mean) < 6 * binding.mean_se).all()


def test_a_single_point_is_a_constant():
    binding = simulate(exact(6, 3), np.array([0.7]), 1)
    assert binding.moments(0.7) == (binding.mean[0], binding.sd[0])
    assert binding.log_normaliser(0.7) == 0
    assert binding.table.shape == (4, 1)


def test_variances_of_zero_do_not_break_the_fit_elsewhere():
    model = exact(6, 2)
    binding = simulate(model, np.linspace(0, 8, 81), 2)
    assert (binding.sd == 0).sum() > 20
    assert (np.abs(errors(binding, model, FINE)[0]) < 1.0).all()
    assert abs(binding.moments(8.0)[0] - 60) < 0.1
    assert binding.moments(8.0)[1] < 0.1


def two_phases(beta, transition=1.4):
    """Mean and variance of an infinitely sharp first-order transition in a plane of 31000 edges."""
    ordered = beta > transition
    mean = np.where(ordered, 31000 - 7000 * np.exp(3 * (transition - beta)), 3100 * np.exp(beta))
    return mean, np.where(ordered, 21000 * np.exp(3 * (transition - beta)), 3100 * np.exp(beta))


def first_order(beta, split, flagged):
    """Chains at the jump; those of `split` saw the other phase: one of two starts (flagged), or always."""
    rng = np.random.default_rng(1)
    mean, variance = two_phases(beta)
    other, other_variance = two_phases(beta, np.inf)
    if flagged:
        gap = np.where(split, np.abs(other - mean) / 2, 0.0)
        mean = np.where(split, (mean + other) / 2, mean)
    else:
        gap = np.zeros(beta.size)
        mean, variance = np.where(split, other, mean), np.where(split, other_variance, variance)
    mean = mean + np.sqrt(variance * TAU / SWEEPS) * rng.normal(size=beta.size)
    sd = np.sqrt(variance * rng.gamma(SWEEPS / TAU, TAU / SWEEPS, beta.size))
    se, spread = sd * np.sqrt(TAU / SWEEPS), np.hypot(sd, gap)
    columns = (mean, spread, se + gap, se / 2 + spread - sd, np.full(beta.size, TAU), 1 * (gap > 0))
    model = SimpleNamespace(lattice=Lattice((125, 125)), labels=10)
    return tabulate(model, beta, columns)


@pytest.mark.parametrize("flagged", [True, False])
def test_a_jump_of_the_mean_and_chains_in_the_wrong_phase_leave_the_rest_of_the_curve_right(flagged):
    near = 1.4 + 0.3 * np.linspace(-1, 1, 200) ** 3
    beta = np.union1d(np.linspace(0.05, 2, 101), near)
    split = (beta > 1.4) & (beta < 1.4002)
    assert split.sum() >= 3
    binding = first_order(beta, split, flagged)
    away = np.linspace(0.1, 1.95, 500)
    away = away[np.abs(away - 1.4) > 0.02]
    mean, sd = binding.moments(away)
    truth, variance = two_phases(away)
    mean_se, sd_se = binding.standard_errors(away)
    assert rms((mean - truth) / mean_se) < 3
    assert rms((sd - np.sqrt(variance)) / sd_se) < 3
    assert rms(sd / np.sqrt(variance) - 1) < 0.02
    beta, log_c, mean, _ = binding.table
    cubic = (log_c[1:] + log_c[:-1]) / 2 - np.diff(beta) * np.diff(mean) / 8
    assert np.allclose(cubic, binding.log_normaliser((beta[1:] + beta[:-1]) / 2), rtol=0, atol=1e-3)


def test_two_thousand_points_are_fitted_in_about_a_second_and_evaluated_in_well_under_a_millisecond():
    model = exact(8, 2)
    beta = np.linspace(0, 2, 2001)
    mean, sd = model.moments(beta)
    rng = np.random.default_rng(1)
    se = sd * np.sqrt(TAU / SWEEPS)
    noisy = sd * (1 + rng.normal(size=beta.size) * np.sqrt(TAU / SWEEPS / 2))
    columns = (mean + se * rng.normal(size=beta.size), noisy, se, se * 0.7, np.full(beta.size, TAU), 0 * beta)
    binding = tabulate(model, beta, columns)
    start = time.process_time()
    binding.moments(1.0)
    assert time.process_time() - start < 4
    where = rng.random(10000) * 2
    times = []
    for _ in range(20):
        start = time.perf_counter()
        binding.moments(where)
        times.append(time.perf_counter() - start)
    assert min(times) < 2e-3


@pytest.mark.parametrize("interpolation", ["smooth", "linear"])
def test_the_table_for_kernels_holds_the_curve(interpolation):
    binding = simulate(exact(6, 3), np.linspace(0, 2, 21), 1, interpolation=interpolation)
    beta, log_c, mean, variance = binding.table
    assert beta.size >= 2000
    assert (np.diff(beta) > 0).all()
    assert (beta[0], beta[-1]) == (0, 2)
    assert np.array_equal(log_c, binding.log_normaliser(beta))
    assert np.array_equal(mean, binding.moments(beta)[0])
    assert np.allclose(variance, binding.moments(beta)[1] ** 2, rtol=1e-14)
    # Kernels join the nodes by cubics with the mean as the slope of log C.
    middle = (beta[1:] + beta[:-1]) / 2
    cubic = (log_c[1:] + log_c[:-1]) / 2 - np.diff(beta) * np.diff(mean) / 8
    assert np.allclose(cubic, binding.log_normaliser(middle), rtol=0, atol=1e-8)


@pytest.mark.parametrize("interpolation", ["smooth", "linear"])
@pytest.mark.parametrize("beta", [-1e-9, 2.0000001, np.nan, np.inf, [0.5, 3.0]])
def test_nothing_is_extrapolated(interpolation, beta):
    binding = simulate(exact(6, 3), np.linspace(0, 2, 5), 1, interpolation=interpolation)
    for method in (binding.moments, binding.standard_errors, binding.log_normaliser):
        with pytest.raises(InputError, match="outside the binding function's grid"):
            method(beta)


def test_any_shape_of_beta_is_accepted():
    binding = simulate(exact(6, 3), np.linspace(0, 2, 9), 1)
    grid = np.linspace(0, 2, 12).reshape(3, 4)
    for method in (binding.moments, binding.standard_errors):
        assert np.array_equal(np.array(method(grid)).reshape(2, 12), np.array(method(grid.ravel())))
    assert np.shape(binding.log_normaliser(1.0)) == ()
    assert np.array_equal(binding.moments(grid)[0][1, 2], binding.moments(grid[1, 2])[0])


def test_the_same_estimates_give_the_same_bits_and_travel_with_their_curve():
    binding = simulate(exact(6, 3), np.linspace(0, 2, 31), 1)
    again = dataclasses.replace(binding)
    assert np.array_equal(binding.table, again.table)
    sent = pickle.loads(pickle.dumps(binding))
    assert np.array_equal(sent.table, binding.table)
    assert sent.digest == binding.digest


def test_the_digest_changes_with_every_number_and_setting():
    binding = simulate(exact(6, 3), np.linspace(0, 2, 5), 1)
    changed = [
        dataclasses.replace(binding, **{name: getattr(binding, name) + 1})
        for name in ("mean", "sd", "tau", "flag", "seed")
    ]
    changed.append(linear(binding))
    changed.append(dataclasses.replace(binding, sampler="gibbs"))
    assert len({b.digest for b in [binding, *changed]}) == 8
    assert dataclasses.replace(binding).digest == binding.digest


@pytest.mark.parametrize(
    "change",
    [
        {"beta": [0.0, 0.5, 0.5]},
        {"beta": [0.5, 0.2, 0.9]},
        {"beta": [-0.1, 0.2, 0.9]},
        {"mean": [1.0, 2.0]},
        {"sd": [1.0, np.nan, 1.0]},
        {"interpolation": "cubic"},
    ],
    ids=str,
)
def test_estimates_that_cannot_be_right_are_refused(change):
    binding = simulate(exact(6, 3), np.array([0.0, 0.5, 1.0]), 1)
    with pytest.raises(InputError):
        dataclasses.replace(binding, **change)


@cache
def plane_of_two_labels():
    """log C of 125 x 125 with two labels: a spline of order seven through exact values, dense at the peak."""
    transition, width = np.log(1 + np.sqrt(2)), 0.03
    ends = np.arcsinh((np.array([-0.004, 1.61]) - transition) / width)
    nodes = transition + width * np.sinh(np.linspace(*ends, 150))
    return make_interp_spline(nodes, [ising.log_normaliser(125, 125, b) for b in nodes], k=7)


def swendsen_wang(lattice, beta, seed, sweeps, burn_in=100):
    """The smooth binding function of real chains."""
    sampler, rows = Sampler(lattice, 2, "swendsen-wang"), []
    for b in beta.tolist():
        address = rng.float_bits(b)
        state = sampler.start("random", rng.stream(seed, Purpose.START, address))
        stream = rng.stream(seed, Purpose.PRIOR_SWEEP, address)
        statistic = sampler.sweeps(state, b, stream, 0, burn_in + sweeps)[burn_in:]
        rows.append(dataclasses.astuple(autocorrelation.moments(statistic, 4.0)))
    model = SimpleNamespace(lattice=lattice, labels=2)
    return tabulate(model, beta, np.array(rows).T, iterations=sweeps)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["critical", "regular"])
@pytest.mark.parametrize(("points", "seeds"), [(10, 40), (20, 40), (50, 16), (200, 12)])
def test_errors_are_honest_at_the_transition_on_sparse_grids_of_real_chains(kind, points, seeds):
    lattice, log_c = Lattice((125, 125)), plane_of_two_labels()
    near = np.array([0.80, 0.84, 0.86, 0.87, 0.88, 0.885, 0.89, 0.90, 0.92, 0.95, 1.0])
    truth = log_c.derivative(1)(near), np.sqrt(log_c.derivative(2)(near)), log_c(near)
    z = []
    for seed in range(seeds):
        beta = make_grid(kind, points, lattice, 2, (0.0, 2.2), seed)
        binding = swendsen_wang(lattice, beta, 100 + seed, 600)
        found = *binding.moments(near), binding.log_normaliser(near)
        scale = *binding.standard_errors(near), binding.log_normaliser_error(near)
        z.append([(f - t) / s for f, t, s in zip(found, truth, scale)])
    # z of one curve are correlated: as if each curve had two of its own.
    spread, allowance = rms(np.moveaxis(z, 1, 0).reshape(3, -1)), 3 / np.sqrt(4 * seeds)
    print(f"\n{kind}, {points} points, {seeds} grids: root mean square z of mean, sd, log C", spread.round(2))
    assert (spread < 1.3 + allowance).all()
    # Where nothing tells how high the peak is, log C may be better than its error.
    assert (spread > 0.8 - allowance).all()


@pytest.mark.long
def test_the_peak_of_the_paper_size_is_followed_where_two_labels_are_exact():
    log_c = plane_of_two_labels()
    fine = np.linspace(0, 1.6, 4001)
    mean, sd = log_c.derivative(1)(fine), np.sqrt(log_c.derivative(2)(fine))
    assert (mean[1375], sd[1375]) == pytest.approx(ising.moments(125, 125, fine[1375]), rel=1e-5)
    model = SimpleNamespace(lattice=Lattice((125, 125)), labels=2)
    for points, bounds in ((61, (1.2, 0.5)), (1000, (0.35, 0.2))):
        binding = tabulate(model, *normal_chains(log_c, np.linspace(0, 1.6, points)))
        ratio = []
        for form in (binding, linear(binding)):
            estimate = form.moments(fine)
            ratio.append([rms(estimate[0] - mean), rms(estimate[1] - sd)])
        assert (np.array(ratio[0]) < np.multiply(bounds, ratio[1])).all()
        z = (binding.log_normaliser(fine[50:]) - log_c(fine[50:])) / binding.log_normaliser_error(fine[50:])
        assert rms(z) < 3


def normal_chains(log_c, beta):
    """Estimates as from 500 sweeps of a normal chain whose tau rises to 7 at the peak."""
    rng = np.random.default_rng(1)
    variance = log_c.derivative(2)(beta)
    tau = 1 + 6 * variance / variance.max()
    mean = log_c.derivative(1)(beta) + np.sqrt(variance * tau / SWEEPS) * rng.normal(size=beta.size)
    shape = SWEEPS / (tau + 1 / tau)
    sd = np.sqrt(variance * rng.gamma(shape) / shape)
    return beta, (mean, sd, sd * np.sqrt(tau / SWEEPS), sd * np.sqrt(0.25 / shape), tau, 0 * beta)
