"""How far moments of S(z) that are composed of smaller lattices are from simulated ones.

    python -m benchmarks.composition

The difference of the means over the sd of S is that of beta in posterior sds, were it taken from the composed
curve alone; beside it what the composition states as its error, in the same unit.
"""

import argparse

import numpy as np

from mpi_potts.binding import library
from mpi_potts.binding.chains import Chain
from mpi_potts.binding.estimates import moments_of
from mpi_potts.binding.work import SliceLength, lengthen
from mpi_potts.estimation.autocorrelation import Moments
from mpi_potts.lattice import Lattice
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition
from mpi_potts.runtime.parallel import ALONE

# Betas relative to the transition, of which the nearest of the pilot's are taken.
PLACES = (0.6, 0.9, 1.0, 1.05, 1.3)


def ball(shape: tuple[int, ...]) -> np.ndarray:
    """A disc or ball that fills the box from side to side."""
    axes = np.meshgrid(*[(np.arange(n) + 0.5) / n * 2.0 - 1.0 for n in shape], indexing="ij")
    return np.sum([axis * axis for axis in axes], axis=0) <= 1.0


def holes(shape: tuple[int, ...], part: float) -> np.ndarray:
    """Ragged holes of about eight pixels' width that take a part of the pixels."""
    field = np.random.default_rng(1).normal(size=shape)
    for axis in range(len(shape)):
        for _ in range(3):
            field = sum(np.roll(field, shift, axis) for shift in range(-2, 3))
    return field > np.quantile(field, part)


def cases() -> dict[str, Lattice]:
    """The lattices by name."""
    return {
        "plane, 4 neighbours, 400x600, a disc": Lattice((400, 600), "first", ball((400, 600))),
        "the same, ragged holes of 2 %": Lattice((400, 600), "first", holes((400, 600), 0.02)),
        "plane, 8 neighbours, 500x500": Lattice((500, 500), "second"),
        "hexagonal, 400x500": Lattice((400, 500), "hexagonal"),
        "volume, 6 neighbours, 60x70x50": Lattice((60, 70, 50), "first"),
        "the same, a ball": Lattice((60, 70, 50), "first", ball((60, 70, 50))),
        "volume, 26 neighbours, 40x40x40": Lattice((40, 40, 40), "second"),
    }


def simulate(lattice: Lattice, labels: int, beta: float, sweeps: int) -> Moments:
    """Moments of S(z) from a chain of the start of its phase."""
    sampler, kind = (
        Sampler(lattice, labels, "swendsen-wang"),
        "random" if beta < transition(lattice, labels) else "ordered",
    )
    chain = Chain.of_length(sweeps)
    for _ in lengthen(sampler, 1, beta, kind, chain, sweeps, SliceLength()):
        pass
    return moments_of({kind: chain.statistic}, lattice.degree)[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Composed moments of S(z) against simulated ones.")
    parser.add_argument("--labels", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=2000)
    options = parser.parse_args()
    print("| lattice | beta / beta_crit | difference | its error by simulation | stated |")
    print("|---|---|---|---|---|")
    for name, lattice in cases().items():
        composed = library.compose_pilot(ALONE, lattice, options.labels, None)
        crit = transition(lattice, options.labels)
        for place in PLACES:
            i = int(np.abs(composed.beta - place * crit).argmin())
            beta = float(composed.beta[i])
            found = simulate(lattice, options.labels, beta, options.sweeps)
            numbers = (composed.mean[i] - found.mean, found.mean_se, composed.mean_se[i])
            cells = " | ".join(f"{number / found.sd:.2f}" for number in numbers)
            print(f"| {name} | {beta / crit:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
