"""Binding functions with moments that a test knows, without a precomputation."""

import numpy as np

from mpi_potts.binding.function import Binding


def binding_of(lattice, labels, beta, mean, sd, **changes):
    """The binding function with these moments (n,) at `beta`, joined by lines; changes: other fields."""
    zero = np.zeros(beta.size)
    fields = {
        "mean_se": zero,
        "sd_se": zero,
        "tau": zero + 1.0,
        "flag": zero,
        "shape": lattice.shape,
        "neighbourhood": lattice.neighbourhood,
        "sites": lattice.sites,
        "edges": lattice.edges,
        "lattice": lattice.digest,
        "sampler": "exact",
        "iterations": 1,
        "burn_in": 0,
        "seed": 0,
        "starts": "random",
        "interpolation": "linear",
    }
    return Binding(beta=beta, mean=mean, sd=sd, labels=labels, **fields | changes)
