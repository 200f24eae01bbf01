"""The adaptive binding function of images like the paper's (125 x 125, k = 3): CPU seconds for each.

    python benchmarks/curve.py --images 20

Labels at a beta drawn from the prior, means one apart, noise of an sd drawn between 0.2 and 0.6.  Each image
begins with nothing, as the first of its lattice does.  The start of the label chains, from which the fit goes
on, is not the curve's: its seconds have a column of their own.  A first image compiles.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np

import mpi_potts as mp
from mpi_potts.labels.ensemble import LabelChains

LABELS = 3
BETA = [0.0, 1.005]


def image(number: int, side: int) -> tuple[np.ndarray, float]:
    """The values of an image, and the beta of its labels."""
    draw = np.random.default_rng([7, number])
    beta, sd = draw.uniform(*BETA), draw.uniform(0.2, 0.6)
    noise = {"mean": [0.0, 1.0, 2.0], "sd": [sd] * LABELS}
    (made,) = mp.simulate((side, side), labels=LABELS, beta=beta, seed=number + 1, **noise)
    return made.values, beta


def timed(function: Callable, seconds: list[float]) -> Callable:
    """The function, which also adds its CPU seconds to a list."""

    def inner(*arguments):
        begin = time.process_time()
        found = function(*arguments)
        seconds.append(time.process_time() - begin)
        return found

    return inner


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--side", type=int, default=125)
    asked = parser.parse_args()
    starts: list[float] = []
    LabelChains.warm_up = timed(LabelChains.warm_up, starts)
    print(f"{'beta':>8}  {'curve':>6} {'start':>6}   CPU seconds")
    rows = []
    for number in range(asked.images + 1):
        values, beta = image(number, asked.side)
        starts.clear()
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as directory:
            mp.precompute(image=values, labels=LABELS, prior={"beta": BETA}, output=directory)
        rows.append((time.process_time() - begin - sum(starts), sum(starts)))
        if number > 0:
            print(f"{beta:8.4f}  {rows[-1][0]:6.2f} {rows[-1][1]:6.2f}", flush=True)
    print(f"{'median':>8}  {np.median(rows[1:], axis=0)[0]:6.2f} {np.median(rows[1:], axis=0)[1]:6.2f}")


if __name__ == "__main__":
    main()
