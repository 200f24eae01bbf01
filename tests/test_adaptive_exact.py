"""Adaptive binding functions of real chains against the exact Ising model of a plane: z-scores of beta, of
the mean and sd of S, and of differences of log C, where the curve is used and over the rest of the prior."""

import math
from types import SimpleNamespace

import ising
import numpy as np
import pytest
from numpy.polynomial import Chebyshev
from scipy.integrate import cumulative_trapezoid

from mpi_potts.binding import library
from mpi_potts.binding.adaptive import Sought, aim
from mpi_potts.binding.smooth import probable
from mpi_potts.config import inputs
from mpi_potts.lattice import Lattice
from mpi_potts.methods import adapt
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

CRITICAL = math.log(1 + math.sqrt(2))
INTERVAL = (0.0, 2.0)
INPUT = f"""
[image]
path = "any.npy"
[model]
labels = 2
[prior]
beta = [{INTERVAL[0]}, {INTERVAL[1]}]
[precompute]
library = "library.h5"
keep_states = false
"""
# Posterior sds around S at which curves are compared, and the pairs of these between which log C is.
NEAR = np.arange(-3.0, 4.0)
PAIRS = np.array([(3, i) for i in (0, 1, 2, 4, 5, 6)] + [(0, 6)])
# beta / beta_crit over the prior.
FAR = np.array([0.3, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.4])


class Exact:
    """log C of a square with two labels, and its derivatives, around one beta."""

    def __init__(self, side, beta, reach, nodes=17):
        at = beta + reach * np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
        values = np.array([ising.log_normaliser_by_rows(side, side, float(b)) for b in at])
        fitted = Chebyshev.fit(at, values - values[0], nodes - 1, domain=[beta - reach, beta + reach])
        self.log_c, self.mean, self.variance = fitted, fitted.deriv(1), fitted.deriv(2)

    def sd(self, beta):
        return np.sqrt(self.variance(beta))


def curve_for(side, statistic, seed, directory):
    """The binding function of observed labels with this S, its pilot from chains of its own."""
    directory.mkdir()
    (directory / "input.toml").write_text(f"seed = {seed}\n{INPUT}")
    config = inputs.load(directory / "input.toml", output=directory / "out")
    problem = SimpleNamespace(hidden=False, statistic=statistic, facts=SimpleNamespace(digest="", start=None))
    return adapt.obtain(ALONE, config, Lattice((side, side)), problem, Control(), quiet=True)


def errors_of_differences(binding, low, high):
    """Standard errors of log C(high) - log C(low), from the curves whose mean is the binding function."""
    beta = np.union1d(binding.table[0], np.concatenate([low, high]))
    first, last = np.searchsorted(beta, low), np.searchsorted(beta, high)
    weights, squares, values = [], [], []
    for solution, probability in probable(binding._estimates()):
        basis = solution.coordinate.basis(beta)
        variance = np.exp(basis @ solution.theta[1:])
        rows = cumulative_trapezoid(variance[:, None] * basis, beta, axis=0, initial=0.0)
        mean = solution.theta[0] + rows.sum(axis=1)
        rows = cumulative_trapezoid(np.column_stack([np.ones(beta.size), rows]), beta, axis=0, initial=0.0)
        rows, log_c = rows[last] - rows[first], cumulative_trapezoid(mean, beta, initial=0.0)
        weights.append(probability)
        squares.append(((rows @ solution.covariance) * rows).sum(axis=1))
        values.append(log_c[last] - log_c[first])
    apart = np.array(values) - np.array(weights) @ np.array(values)
    return np.sqrt(np.array(weights) @ (np.array(squares) + apart * apart))


def scores(binding, exact, beta, statistic, known):
    """z of one curve: of beta, of moments and differences of log C near it, and of moments elsewhere."""
    sd = float(exact.sd(beta))
    at = beta + NEAR / sd
    low, high = at[PAIRS[:, 0]], at[PAIRS[:, 1]]
    found = aim(binding, Sought(float(statistic)), INTERVAL)
    rise = binding.log_normaliser(high) - binding.log_normaliser(low)
    far_mean, far_sd = binding.moments(known[0])
    near, error = binding.moments(at), binding.standard_errors(at)
    far_error = binding.standard_errors(known[0])
    right = beta + (statistic - float(exact.mean(beta))) / (sd * sd)
    return {
        "beta": np.array([(found.beta - right) / (found.error * found.sd)]),
        "mean": (near[0] - exact.mean(at)) / error[0],
        "sd": (near[1] - exact.sd(at)) / error[1],
        "log C": (rise - (exact.log_c(high) - exact.log_c(low))) / errors_of_differences(binding, low, high),
        "mean, elsewhere": (far_mean - known[1]) / far_error[0],
        "sd, elsewhere": (far_sd - known[2]) / far_error[1],
    }


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("side", "seeds"), [(125, 16), (1000, 3)])
def test_errors_of_adaptive_curves_are_those_against_the_exact_ising_model(
    side, seeds, tmp_path, monkeypatch
):
    step = 0.02 * 125 / side
    far = [(b, Exact(side, b, step, 9)) for b in (FAR * CRITICAL).tolist()]
    known = np.array([(b, exact.mean(b), exact.sd(b)) for b, exact in far]).T
    z = {}
    for place in (0.9, 0.97, 1.0, 1.03, 1.1):
        beta = place * CRITICAL
        sd = float(Exact(side, beta, step, 9).sd(beta))
        exact = Exact(side, beta, 4.5 / sd)
        statistic = round(float(exact.mean(beta)))
        for seed in range(seeds):
            number = 100 * seed + round(100 * place)
            monkeypatch.setattr(library, "SEED", number)
            binding = curve_for(side, statistic, number, tmp_path / f"{place}-{seed}")
            for name, of_curve in scores(binding, exact, beta, statistic, known).items():
                z.setdefault(name, []).append(of_curve)
    print(f"\n{side}x{side}, {5 * seeds} searches: z's mean and root mean square")
    for name, rows in z.items():
        mean, square = np.mean(rows), np.mean(np.square(rows), axis=1)
        rms = math.sqrt(square.mean())
        # z of one curve are not independent: the error from what the squares of curves scatter.
        error = square.std(ddof=1) / math.sqrt(square.size) / (2 * rms)
        print(f"{name:16} {mean:+.2f} {rms:.2f} +- {error:.2f}")
        assert 0.8 - 3 * error < rms < 1.25 + 3 * error, (name, rms, error)
        assert abs(mean) < 4 / math.sqrt(square.size), (name, mean)
