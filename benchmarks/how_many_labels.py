"""How often the evidence finds the number of labels of simulated images.

    python benchmarks/how_many_labels.py --images 200

Image i has 2 + i mod 4 labels, whose means are 2 to 3 sds apart, and a beta between 0.5 and 0.95 of that of
the phase transition, below which all labels are present; every k from 2 to 6 is fitted with the default
priors.  The table has, for every true k, how often each k had the largest evidence, the same of the images
where the choice was sure, and of the cheap criterion.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import mpi_potts as mp
from mpi_potts.cli import fit as fit_command
from mpi_potts.config import inputs
from mpi_potts.estimation.evidence import probabilities
from mpi_potts.posterior import evidence
from mpi_potts.posterior.choice import Comparison
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

TRUE, TRIED = (2, 3, 4, 5), (2, 3, 4, 5, 6)
INPUT = """
seed = {seed}
[image]
path = "image.npy"
[prior]
beta = [0.0, 1.5]
[fit]
method = "path"
final_sweeps = 500
final_burn_in = 100
"""


def simulated(number, size):
    """The true k, and the values of an image."""
    draw = np.random.default_rng(number)
    k = TRUE[number % len(TRUE)]
    beta, apart = draw.uniform(0.5, 0.95) * np.log(1.0 + np.sqrt(k)), draw.uniform(2.0, 3.0)
    mean = [float(apart * j) for j in range(k)]
    image = mp.simulate((size, size), labels=k, beta=beta, mean=mean, sd=[1.0] * k, seed=number, sweeps=300)[
        0
    ]
    return k, beta, apart, image.values


def compared(values, bindings, number):
    """The choice between all k for one image."""
    found = []
    with TemporaryDirectory() as room:
        np.save(Path(room) / "image.npy", values)
        for k in TRIED:
            text = INPUT.format(seed=number)
            config = inputs.parse(text, Path(room) / "input.toml", [f"model.labels={k}"], Path(room) / str(k))
            problem = replace(fit_command.pose(ALONE, config), binding=bindings[k])
            options = argparse.Namespace(fresh=False, quiet=True)
            fit_command.fit_image(ALONE, problem, Control(), options)
            labels = mp.load(Path(room) / str(k)).labels[problem.lattice.exists]
            found.append(evidence.compute(ALONE, problem, labels, Control(), room))
    k, value, error, cheap = np.array([(e.labels, e.value, e.error, e.criterion) for e in found]).T
    nothing = np.zeros(k.size)
    return Comparison(
        k.astype(int), value, error, probabilities(value), cheap, nothing, nothing, nothing.astype(int)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    grid = {"grid": list(np.linspace(0.0, 1.5, 61)), "iterations": 600, "burn_in": 100}
    bindings = {k: mp.precompute((options.size,) * 2, labels=k, precompute=grid, seed=1) for k in TRIED}
    table, cheap, sure = (np.zeros((len(TRUE), len(TRIED)), int) for _ in range(3))
    for number in range(options.first, options.first + options.images):
        k, beta, apart, values = simulated(number, options.size)
        choice = compared(values, bindings, number)
        row, best = TRUE.index(k), choice.best
        table[row, best] += 1
        sure[row, best] += choice.sure
        cheap[row, int(np.argmax(choice.criterion))] += 1
        if choice.recommended != k:
            print(f"image {number}: beta {beta:.3f}, {apart:.2f} sds apart, k = {k}\n{choice}", flush=True)
        if (number + 1) % 20 == 0:
            print(f"{number + 1} images: {_right(table)} right of {table.sum()}", flush=True)
    for name, counts in (("evidence", table), ("evidence, where it is sure", sure), ("criterion", cheap)):
        print(f"{name}: {_right(counts)} right of {counts.sum()}")
        print(f"{'true k':>8} " + " ".join(f"{k:>5}" for k in TRIED))
        for k, row in zip(TRUE, counts):
            print(f"{k:>8} " + " ".join(f"{n:>5}" for n in row))


def _right(counts):
    return sum(counts[i, TRIED.index(k)] for i, k in enumerate(TRUE))


if __name__ == "__main__":
    main()
