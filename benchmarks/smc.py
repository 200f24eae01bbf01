"""One iteration of SMC-ABC at the paper's N and M, apart from the label chain: CPU time of its parts."""

import time
from types import SimpleNamespace

import numpy as np

from mpi_potts.config.inputs import SmcKeys
from mpi_potts.runtime.parallel import ALONE
from mpi_potts.smc import sampler as smc
from mpi_potts.smc.sources import from_binding

EDGES = 31000.0


class Curve:
    """A binding function of about the size and shape of 125x125 with k = 3, without a precomputation."""

    beta = np.array([0.0, 1.005])

    def moments(self, beta):
        return EDGES / (1.0 + 2.0 * np.exp(-1.9 * beta)), 83.0 + 120.0 * beta**4


def measure(repeats: int) -> dict[str, list[float]]:
    """Seconds of every iteration of a fit to observed labels: the least of `repeats` runs, by part."""
    keys, curve = SmcKeys(max_iterations=60), Curve()
    statistic = float(curve.moments(np.array([0.6]))[0][0])
    observe = smc.observed(statistic)
    best = None
    for _ in range(repeats):
        smc.time = SimpleNamespace(perf_counter=time.thread_time)
        source = from_binding(curve, keys.replicates, seed=1)
        states = list(smc.smc_abc(ALONE, source, (0.0, 1.005), keys, 1, observe))
        smc.time = time
        seconds = np.array([[s.seconds[part] for part in PARTS] for s in states])
        best = seconds if best is None else np.minimum(best, seconds)
    return dict(zip(PARTS, best.T.tolist()))


PARTS = ("adaptation", "resampling", "mutation")


def table(best: dict[str, list[float]]) -> list[str]:
    """Milliseconds an iteration, mean and largest."""
    total = np.sum([best[part] for part in PARTS], axis=0)
    rows = [(part, np.array(best[part])) for part in PARTS] + [("together", total)]
    lines = [
        f"SMC-ABC, N = 10000, M = 200, {total.size} iterations, CPU time, ms",
        f"{'part':>12s} {'mean':>8s} {'largest':>8s}",
        "-" * 30,
    ]
    return lines + [f"{name:>12s} {1e3 * v.mean():8.2f} {1e3 * v.max():8.2f}" for name, v in rows]
