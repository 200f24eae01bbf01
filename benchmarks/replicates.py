"""How wide the particles come out where S(z) moves, by the number M of replicates.

    python -m benchmarks.replicates

S(z) is a stationary series around its mean, as that of a label chain whose labels overlap, the curve one of
about the size and shape of 125x125 with k = 3.  At the end the particles have a right answer, the posterior
given the last S(z) and tolerance, which quadrature gives: a ratio of their sd to its is 1 where M is enough.
"""

import argparse

import numpy as np

from mpi_potts.arithmetic import exp
from mpi_potts.config.inputs import SmcKeys
from mpi_potts.kernels.windows import log_densities
from mpi_potts.runtime.parallel import ALONE
from mpi_potts.smc import weights
from mpi_potts.smc.sampler import State, smc_abc
from mpi_potts.smc.sources import from_binding

from .smc import Curve

REPLICATES = (5, 10, 20, 50, 200, "infinite")
# The sd of S(z) as a part of that of S(x) at its beta; its correlation from one iteration to the next.
NOISE = (0.2, 0.5, 1.0)
CORRELATION = 0.5


def moving(curve: Curve, part: float, seed: int):
    """What to pass as `observe`: S(z) around its mean at beta = 0.6."""
    mean, sd = (float(each[0]) for each in curve.moments(np.array([0.6])))
    normal, place = np.random.default_rng(seed).normal(size=2000), [0.0]
    for step in normal:
        place.append(CORRELATION * place[-1] + np.sqrt(1.0 - CORRELATION * CORRELATION) * step)

    def observe(state: State) -> tuple[float, float]:
        return float(np.round(mean + part * sd * place[state.iteration + 1])), part * sd

    return observe


def right_moments(curve: Curve, statistic: float, epsilon: float) -> tuple[float, float]:
    """Mean and sd of beta given the statistic and the tolerance, by quadrature."""
    beta = np.linspace(curve.beta[0], curve.beta[-1], 100_001)
    rows, log_density = np.stack(curve.moments(beta), axis=1), np.empty((beta.size, 1))
    log_densities(log_density, rows, np.ones(beta.size, dtype=bool), statistic, np.array([epsilon]))
    density = exp(log_density[:, 0] - log_density.max())
    return weights.moments(beta, density / density.sum())


def ratios(replicates: int | str, part: float, keys: SmcKeys, runs: int) -> tuple[np.ndarray, float]:
    """(runs,) the sd of the particles over the right one, and the mean number of iterations."""
    curve, found, iterations = Curve(), [], []
    for seed in range(runs):
        source = from_binding(curve, replicates, seed)
        states = list(smc_abc(ALONE, source, (0.0, 1.005), keys, seed, moving(curve, part, seed)))
        last = states[-1]
        found.append(last.beta_sd / right_moments(curve, last.statistic, last.epsilon)[1])
        iterations.append(len(states))
    return np.array(found), float(np.mean(iterations))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The sd of particles over the right one, by replicates.")
    parser.add_argument("--particles", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    print("| M | last mutations | sd of S(z) | sd ratio (standard error) | smallest | iterations |")
    print("|---|---|---|---|---|---|")
    for replicates in REPLICATES:
        for steps in (0, 10):
            for part in NOISE:
                keys = SmcKeys(particles=options.particles, last_mutations=steps)
                ratio, iterations = ratios(replicates, part, keys, options.runs)
                error = ratio.std(ddof=1) / np.sqrt(ratio.size)
                cells = f"{ratio.mean():.3f} ({error:.3f}) | {ratio.min():.3f} | {iterations:.0f}"
                print(f"| {replicates} | {steps} | {part:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
