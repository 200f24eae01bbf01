"""Written-down functions against exact ones; that they are the same on every CPU is `test_same_bits`."""

import math
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from mpi_potts import arithmetic
from mpi_potts.kernels import elementary, windows

DATA = np.random.default_rng(1)
SAMPLES = {
    "exp": np.r_[DATA.uniform(-700, 700, 800), DATA.uniform(-1, 1, 800), 0.0, 709.7, -708.3],
    "expm1": np.r_[DATA.uniform(-30, 30, 800), DATA.uniform(-1, 1, 800), 10 ** DATA.uniform(-12, 0, 800)],
    "log": np.r_[
        10 ** DATA.uniform(-300, 300, 800), DATA.uniform(0.5, 2, 800), 1 + DATA.normal(size=800) * 1e-6
    ],
    "log1p": np.r_[DATA.uniform(-0.999, 3, 800), 10 ** DATA.uniform(-15, 2, 800)],
}
# In units of the last place, as the module says.
WORST = {"exp": 1.2, "expm1": 4.0, "log": 1.2, "log1p": 1.2}


@pytest.mark.parametrize("name", SAMPLES)
def test_elementary_functions_are_as_good_as_they_say(name):
    with mpmath.workdps(40):
        for x, found in zip(SAMPLES[name].tolist(), getattr(arithmetic, name)(SAMPLES[name]).tolist()):
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            if exact != 0:
                assert abs((found - exact) / math.ulp(float(exact))) < WORST[name], x


def test_the_ends_of_the_range():
    inf, nan = math.inf, math.nan
    ends = [0.0, inf, -inf, nan, -1.0, 5e-324, -800.0, 800.0]
    expected = {
        "exp": [1.0, inf, 0.0, nan, math.exp(-1.0), 1.0, 0.0, inf],
        "expm1": [0.0, inf, -1.0, nan, math.expm1(-1.0), 5e-324, -1.0, inf],
        "log": [-inf, inf, nan, nan, nan, math.log(5e-324), nan, math.log(800.0)],
        "log1p": [0.0, inf, nan, nan, -inf, 5e-324, nan, math.log1p(800.0)],
    }
    for name, values in expected.items():
        assert getattr(arithmetic, name)(np.array(ends)) == pytest.approx(values, rel=1e-15, nan_ok=True), (
            name
        )
    assert arithmetic.exp(-740.0) == math.exp(-740.0) > 0.0, "not a normal number, and not 0"


def test_sine_and_cosine_of_turns():
    u = np.append(DATA.random(1000), [0.0, 0.125, 0.25, 0.5, 0.75, 1.0])
    found = np.array([elementary.turn(x) for x in u])
    with mpmath.workdps(40):
        exact = [[mpmath.cos(2 * mpmath.pi * x), mpmath.sin(2 * mpmath.pi * x)] for x in map(mpmath.mpf, u)]
        worst = max(abs(a - b) for pair, row in zip(exact, found.tolist()) for a, b in zip(pair, row))
    assert worst < 1.3 * 2.0**-53


def exact_mills(x):
    x = mpmath.mpf(x)
    if x > 1e3:  # the asymptotic series, whose rest is below 1e-40 here
        return sum((-1) ** n * mpmath.fac2(2 * n - 1) / x ** (2 * n + 1) for n in range(9))
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2 * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(x * x / 2)


def test_mills_ratio_is_as_good_as_it_says():
    with mpmath.workdps(40):
        for x in [*DATA.uniform(0, 12, 800).tolist(), *(10 ** DATA.uniform(-10, 8, 400)).tolist(), 0.0, 4.0]:
            exact = exact_mills(x)
            assert abs((elementary.mills(x) - exact) / math.ulp(float(exact))) < 4.0, x
    assert elementary.mills(math.inf) == 0.0 < elementary.mills(1e300)


def exact_log_density(distance, sd, tolerance):
    d, s, e = map(mpmath.mpf, (distance, sd, tolerance))
    if tolerance == 0.0:
        return -((d / s) ** 2) / 2 - mpmath.log(s * mpmath.sqrt(2 * mpmath.pi))
    low, high = (mpmath.erfc((d + sign * e) / s / mpmath.sqrt(2)) for sign in (-1, 1))
    return mpmath.log((low - high) / (4 * e))


@pytest.mark.parametrize("nearest", [0.0, 5.0, 50.0])
def test_the_count_of_infinite_replicates_is_right_in_the_tails_and_for_narrow_windows(nearest):
    """To 1e-14 of its logarithm, or of 1; digits enough for the difference of two tails 50 sds away."""
    with mpmath.workdps(700):
        for _ in range(150):
            sd, h = 10 ** DATA.uniform(-1, 4), 10 ** DATA.uniform(-8, 2.5)
            d = nearest + h * DATA.uniform(0, 1.5) + 10 ** DATA.uniform(-3, 1)
            if d - h > 60.0:
                continue
            exact = exact_log_density(d * sd, sd, h * sd)
            found = windows.log_density(d * sd, sd, h * sd)
            assert abs(found - exact) < 1e-14 * max(1, abs(exact)), (d, h, sd)


def test_the_count_of_infinite_replicates_has_a_limit_and_no_end():
    assert windows.log_density(250.0, 100.0, 0.0) == pytest.approx(float(exact_log_density(250, 100, 0.0)))
    assert windows.log_density(250.0, 100.0, 1e-9) == windows.log_density(250.0, 100.0, 0.0)
    assert windows.log_density(0.0, 100.0, 1e6) == -math.log(2e6), "all of it"
    assert -math.inf < windows.log_density(1e9, 1e-3, 0.5) < -1e20


def test_hyperbolic_functions_and_powers():
    x = np.append(DATA.normal(size=1000) * 8, [0.0, 1e-9, -1e-9])
    assert arithmetic.sinh(x) == pytest.approx(np.sinh(x), rel=4e-15)
    assert arithmetic.asinh(x) == pytest.approx(np.arcsinh(x), rel=4e-15)
    assert arithmetic.power(np.abs(x) + 0.1, 0.7) == pytest.approx((np.abs(x) + 0.1) ** 0.7, rel=4e-15)
    assert arithmetic.hypot(x, 2.0) == pytest.approx(np.hypot(x, 2.0), rel=4e-16)


def test_normal_quantiles_are_those_of_the_standard_library():
    p = np.concatenate([DATA.random(500), 10 ** DATA.uniform(-300, -1, 500), [0.5, 0.075, 0.925]])
    exact = [NormalDist().inv_cdf(x) for x in p]
    assert arithmetic.normal_quantile(p) == pytest.approx(exact, rel=1e-14, abs=1e-15)
    assert NormalDist().cdf(-2.0) == pytest.approx(0.02275013194817921, rel=1e-15), "the grid's constant"


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 5), (40, 31)])
def test_linear_algebra_agrees_with_numpy(shape):
    a, b = DATA.normal(size=shape), DATA.normal(size=(shape[1], 4))
    a[DATA.random(shape) < 0.3] = 0.0
    assert arithmetic.product(a, b) == pytest.approx(a @ b, abs=1e-12)
    assert arithmetic.product(a, b[:, 0]) == pytest.approx(a @ b[:, 0], abs=1e-12)
    assert arithmetic.product(a[0], b) == pytest.approx(a[0] @ b, abs=1e-12)
    assert arithmetic.gram(a) == pytest.approx(a.T @ a, abs=1e-12)
    square = a.T @ a + np.eye(shape[1])
    x, determinant = arithmetic.solve(square[::-1], b)
    assert square[::-1] @ x == pytest.approx(b, abs=1e-11)
    assert determinant == pytest.approx(np.linalg.slogdet(square)[1], abs=1e-11)


@pytest.mark.parametrize("many", [1, 8, 21])
def test_definite_systems_side_by_side_are_solved_as_each_alone(many):
    parts = DATA.normal(size=(many, 30, 25))
    a, b = parts.transpose(0, 2, 1) @ parts + 1e-3 * np.eye(25), DATA.normal(size=(many, 25))
    a[-1, 3] = a[-1, :, 3] = a[-1, 4]  # one that is not definite
    a[-1, 3, 3] = -2.0
    x, determinants = arithmetic.solve_definite(a, b)
    for i in range(many):
        alone, determinant = arithmetic.solve(a[i], b[i])
        # Errors of either are of rounding, n epsilon times the condition number.
        error = 25 * np.finfo(float).eps * np.linalg.cond(a[i])
        assert np.abs(x[i] - alone).max() <= 10 * error * np.abs(alone).max()
        assert abs(determinants[i] - determinant) <= 10 * error
    assert np.array_equal(x[-1], arithmetic.solve(a[-1], b[-1])[0])


def test_a_singular_system_is_an_error():
    with pytest.raises(ArithmeticError, match="singular"):
        arithmetic.solve(np.zeros((2, 2)), np.ones(2))


@pytest.mark.parametrize("n", [1, 2, 3, 64, 100, 513])
def test_correlations_are_those_of_the_definition(n):
    rows = DATA.normal(size=(3, n))
    exact = [sum(float((row[: n - lag] * row[lag:]).sum()) for row in rows) for lag in range(n)]
    assert arithmetic.correlations(rows) == pytest.approx(exact, abs=1e-11)


def test_interpolation_is_numpy_s():
    nodes, values = np.sort(DATA.random(40)), DATA.normal(size=40)
    x = np.concatenate([DATA.uniform(-0.2, 1.2, 500), nodes])
    assert arithmetic.interp(x, nodes, values) == pytest.approx(np.interp(x, nodes, values), abs=1e-12)
    steps = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    for at in (0.0, 0.5, 1.0, 1.5, 2.0):
        assert arithmetic.interp(at, steps, np.arange(5.0)) == np.interp(at, steps, np.arange(5.0))
    assert arithmetic.interp(0.3, np.zeros(1), np.ones(1)) == 1.0
