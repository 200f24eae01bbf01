"""How many label sweeps an SMC needs: the particles are right for the last S(z) with few of them."""

from dataclasses import replace

import numpy as np
import pytest
from fitting import image_of, problem_of, write_input

from mpi_potts.arithmetic import exp
from mpi_potts.config.inputs import SmcKeys
from mpi_potts.kernels.windows import log_densities
from mpi_potts.methods.smc_abc import SmcFit
from mpi_potts.runtime.parallel import ALONE
from mpi_potts.smc import weights
from mpi_potts.smc.sampler import Stop

# Overlapping labels, so that S(z) moves.
NOISE = [-2.0, 0.0, 2.0], [1.4, 1.4, 1.4]
RUNS = 3


def right_moments(binding, interval, state):
    """Mean and sd of beta given the last S(z) and tolerance, by quadrature."""
    ends = state.beta_mean - 12 * state.beta_sd, state.beta_mean + 12 * state.beta_sd
    beta = np.linspace(max(ends[0], interval[0]), min(ends[1], interval[1]), 40_001)
    rows, found = np.stack(binding.moments(beta), axis=1), np.empty((beta.size, 1))
    log_densities(found, rows, np.ones(beta.size, dtype=bool), state.statistic, np.array([state.epsilon]))
    density = exp(found[:, 0] - found.max())
    return weights.moments(beta, density / density.sum())


@pytest.mark.parametrize(
    "size, beta, replicates",
    [
        (48, 0.8, 200),
        (48, 0.8, "infinite"),
        pytest.param(125, 0.8, 200, marks=pytest.mark.long),
        pytest.param(500, 0.9, 200, marks=pytest.mark.long),
    ],
)
def test_particles_are_those_of_the_last_statistic_after_few_label_sweeps(tmp_path, size, beta, replicates):
    """With the default sweeps, 3000 to 8000 in all; the paper's 1000 an iteration are 100 000 and more."""
    _, values = image_of(beta, *NOISE, shape=(size, size))
    path = write_input(tmp_path, values)
    changes = ["precompute.points=60", "precompute.iterations=400"]
    problem = problem_of(ALONE, path, tmp_path / "out", changes)
    smc = replace(SmcKeys(), particles=2000 if size < 100 else 10_000, replicates=replicates)
    offs, ratios, sizes = [], [], []
    for seed in range(RUNS):
        fit = SmcFit(ALONE, replace(problem, config=replace(problem.config, seed=seed, smc=smc)))
        for _ in fit._iterate():
            pass
        state, (chain,) = fit.state, fit.chains.chains
        assert state.stopped_because in (Stop.NOISE, Stop.EPSILON)
        assert chain.done < 10_000
        mean, sd = right_moments(problem.binding, problem.config.prior.beta, state)
        offs.append((state.beta_mean - mean) / sd)
        ratios.append(state.beta_sd / sd)
        kept = np.bincount(np.unique(state.beta, return_inverse=True)[1], weights=state.weight)
        sizes.append(weights.ess(kept))
    # The mean of independent runs within 4 standard errors; a few runs do not tell their spread well.
    for found, right, least in ((offs, 0.0, 1.0), (ratios, 1.0, np.sqrt(0.5))):
        error = max(np.std(found, ddof=1), least / np.sqrt(min(sizes))) / np.sqrt(RUNS)
        assert abs(np.mean(found) - right) < 4.0 * error
