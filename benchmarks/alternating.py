"""What a Gibbs sweep after each of Swendsen-Wang gains: python -m benchmarks.alternating.

For each lattice, k and share of beta_crit the CPU time a site and sweep of both samplers, the autocorrelation
times of S(z), and how many times longer Swendsen-Wang alone takes to the same error of the mean.
"""

import argparse
import time

import numpy as np

from mpi_potts.estimation.autocorrelation import integrated_time
from mpi_potts.lattice import Lattice
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition
from mpi_potts.rng import Purpose, stream

from .clusters import brain_like

SHARES = (0.8, 0.97, 1.007, 1.1)
SAMPLERS = ("swendsen-wang", "alternating")
SLICES = 10


def lattices() -> dict[str, Lattice]:
    """What is measured."""
    return {
        "plane 125x125": Lattice((125, 125)),
        "plane 500x500": Lattice((500, 500)),
        "plane 200x200, 8": Lattice((200, 200), "second"),
        "hexagonal 200x200": Lattice((200, 200), "hexagonal"),
        "volume, 6": Lattice((50, 60, 55)),
        "brain-like, 6": Lattice((61, 73, 61), 6, brain_like((61, 73, 61))),
        "volume, 26": Lattice((40, 40, 40), 26),
    }


def measure(lattice: Lattice, k: int, share: float, name: str, sweeps: int) -> tuple[float, float]:
    """ns a site and sweep, the least of some slices, and the autocorrelation time."""
    sampler, beta, draws = (
        Sampler(lattice, k, name),
        share * transition(lattice, k),
        stream(1, Purpose.PRIOR_SWEEP),
    )
    state = sampler.start("ordered" if share > 1 else "random", stream(1, Purpose.START))
    first = sweeps // 4
    sampler.sweeps(state, beta, draws, 0, first)
    best, values = np.inf, []
    for _ in range(SLICES):
        start = time.thread_time()
        values.append(sampler.sweeps(state, beta, draws, first, sweeps // SLICES))
        best = min(best, (time.thread_time() - start) / (sweeps // SLICES))
        first += sweeps // SLICES
    return 1e9 * best / lattice.sites, integrated_time(np.concatenate(values))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternating", description=__doc__)
    parser.add_argument("--lattices", metavar="TEXT", default="", help="only names with this")
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3, 6])
    parser.add_argument("--sweeps", type=int, default=4000)
    options = parser.parse_args()
    print(f"{'lattice':20s} {'k':>2s} {'share':>6s}  ns a site and sweep   tau            gain")
    for name, lattice in lattices().items():
        for k in options.labels if options.lattices in name else ():
            for share in SHARES:
                (a, s), (b, t) = (measure(lattice, k, share, way, options.sweeps) for way in SAMPLERS)
                gain = a * s / (b * t)
                print(
                    f"{name:20s} {k:2d} {share:6.3f}  {a:6.2f} {b:6.2f}  {s:12.1f} {t:6.1f}  {gain:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
