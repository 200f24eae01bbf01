"""Hexagonal planes, 18 neighbours and graphs have the bits of one rank on any number of ranks."""

import numpy as np
import pytest
from fitting import same_bits
from mpi4py import MPI

import mpi_potts as mp

KEYS = {"labels": 2, "beta": [0.0, 1.0], "points": 11, "chains": 3, "final_sweeps": 60, "final_burn_in": 10}
KEYS |= {"particles": 50, "replicates": 7, "alpha": 0.8, "label_sweeps": 10, "max_iterations": 5}
CHAIN = np.stack([np.arange(89), np.arange(1, 90)], axis=1)
CASES = {
    "hexagonal": ((9, 10), {"neighbourhood": "hexagonal"}),
    "18": ((5, 6, 3), {"neighbourhood": 18}),
    "graph": ((90,), {"graph": np.concatenate([CHAIN, CHAIN[:40] * (1, 2)])}),
}


@pytest.mark.parametrize("method", ["path", "smc-abc"])
@pytest.mark.parametrize("case", CASES)
def test_any_number_of_ranks_gives_the_same_bits(comm, case, method):
    shape, keys = CASES[case]
    z = np.arange(90).reshape(shape) // 15 % 2
    values = 2.0 * z + 0.5 * np.random.default_rng(3).normal(size=shape)
    together = mp.fit(values, comm=comm, method=method, **KEYS, **keys)
    if comm.rank == 0:
        alone = mp.fit(values, comm=MPI.COMM_SELF, method=method, **KEYS, **keys)
        assert same_bits(alone.arrays, together.arrays) == []
