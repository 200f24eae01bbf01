"""Segment an image from Python, serially or on MPI ranks.

    python examples/segment.py                      # a synthetic image with known truth
    python examples/segment.py scene.npy 4          # your own, with 4 labels
    mpirun -n 2 python examples/segment.py

Writes labels.npy, the most probable label of every pixel, into the current directory.
"""

import sys

import numpy as np
from mpi4py import MPI

import mpi_potts as mp


def main(path: str | None = None, labels: str = "3") -> None:
    if path is None:
        truth = mp.simulate((64, 64), beta=0.8, mean=[-2, 0, 2], sd=[0.7, 0.7, 0.7])[0]
        path = truth.values
    result = mp.fit(
        path,
        labels=int(labels),
        method="path",  # the posterior without a tolerance
        chains=2,  # from two starts, to see whether they agree
        beta=[0.0, 1.5],  # the uniform prior; beta_crit is 1.005 for 3 labels
        mean={"mean": "image", "sd": 100.0},  # of every label's mean, around that of the image
        points=60,  # values of beta at which the prior is simulated
    )
    # Every rank has the whole result; one of them speaks and writes.
    if MPI.COMM_WORLD.rank == 0:
        print(result)
        np.save("labels.npy", result.labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
