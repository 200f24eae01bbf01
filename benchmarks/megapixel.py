"""Simulated images of a million pixels with the defaults: how long they take, and how right beta is.

    python benchmarks/megapixel.py --images 20

Image i has 5 or 6 labels by turns, a beta drawn between 1.15 and 1.27, on both sides of the transition of
either, means one apart and an sd of the noise drawn between 0.25 and 0.5.  Its labels come from the phase of
its beta.  Each is fitted by `mpirun -n 2 mpi-potts run IMAGE --labels K`; times are of the whole command,
compiled before, on whatever else the machine does.  What was fitted before is not fitted again.
"""

import argparse
import os
import subprocess
import time
from pathlib import Path

import numpy as np

import mpi_potts as mp
from mpi_potts import rng
from mpi_potts.lattice import Lattice
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition
from mpi_potts.rng import Purpose

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
THREADS = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def truth(number, low, high):
    """k, beta and the sd of the noise of an image."""
    draw = np.random.default_rng([2026, number])
    return 5 + number % 2, draw.uniform(low, high), draw.uniform(0.25, 0.5)


def simulate(number, k, beta, sd, side, sweeps):
    """The values of an image, and S of its labels."""
    lattice = Lattice((side, side))
    sampler = Sampler(lattice, k, "alternating")
    start = "random" if beta < transition(lattice, k) else "ordered"
    state = sampler.start(start, rng.stream(number, Purpose.SIMULATE_START))
    sampler.sweeps(state, beta, rng.stream(number, Purpose.SIMULATE), 0, sweeps)
    z = sampler.labels(state)
    values = z + sd * np.random.default_rng([number, 3]).standard_normal(z.shape)
    return values, lattice.statistic(z)


def run(image, k, output, ranks, library):
    """Seconds of one command."""
    command = ["mpirun", "-n", ranks, "mpi-potts", "run", image, "--labels", k, "--output", output, "--quiet"]
    command += ["--set", f"precompute.library={library}"]
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, env=os.environ | THREADS | ENVIRONMENT)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--beta", type=float, nargs=2, default=(1.15, 1.27), metavar=("LOW", "HIGH"))
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=1500, help="with which an image is simulated")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("out/megapixel"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    library = options.output.resolve() / "library.h5"
    z = []
    print("image  k    beta    sd    S(z) true   seconds  beta found      sd       z  warnings")
    for number in range(options.first, options.first + options.images):
        k, beta, sd = truth(number, *options.beta)
        image, output = options.output / f"{number:03d}.npy", options.output / f"{number:03d}"
        record = output / "seconds.txt"
        if not record.exists():
            values, statistic = simulate(number, k, beta, sd, options.side, options.sweeps)
            np.save(image, values)
            record.parent.mkdir(exist_ok=True)
            record.write_text(f"{run(image, k, output, options.ranks, library)} {statistic}")
            image.unlink()
        seconds, statistic = map(float, record.read_text().split())
        result = mp.load(output)
        found, error = result.summary.mean, result.summary.sd
        z.append((found - beta) / error)
        words = "; ".join(result.warnings) or "-"
        print(
            f"{number:5d} {k:2d} {beta:.5f} {sd:.3f} {statistic:10.0f} {seconds:9.1f}"
            f"     {found:.5f} {error:.5f} {z[-1]:+7.2f}  {words}",
            flush=True,
        )
    print(f"z: mean {np.mean(z):+.2f}, sd {np.std(z, ddof=1):.2f} of {len(z)}")


if __name__ == "__main__":
    main()
