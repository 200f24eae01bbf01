"""SMC-ABC gives the same bits on any number of ranks, also when continued on another number."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI

from mpi_potts.config.inputs import SmcKeys
from mpi_potts.errors import InputError
from mpi_potts.smc.sampler import State, Stop, observed, smc_abc
from mpi_potts.smc.sources import from_binding


class Steep:
    """A binding function with a formula: S(z) of some 10^4 edges."""

    beta = np.array([0.0, 1.0])

    def moments(self, beta):
        return 3000.0 + 4000.0 * beta * beta, 40.0 + 30.0 * beta


# 203 x 50 pseudo-statistics: more than are sorted at once, and rows that no number of ranks divides evenly.
KEYS = SmcKeys(particles=203, replicates=50, max_iterations=45, min_acceptance=0.0)


def moving(state):
    """A statistic that jumps beyond all pseudo-statistics once, and returns."""
    return (50_000.0 if state.iteration == 24 else 4400.0 + 7.0 * (state.iteration % 5)), 0.0


def run(comm, keys=KEYS, observe=moving, state=None):
    return list(smc_abc(comm, from_binding(Steep(), keys.replicates, 3), (0.0, 1.0), keys, 3, observe, state))


def bits(states):
    """Everything but the times, as bytes."""
    return [{name: array.tobytes() for name, array in state.pack().items()} for state in states]


@pytest.fixture(scope="module")
def alone():
    """The run of one rank, on every rank by itself."""
    return run(MPI.COMM_SELF)


INFINITE = replace(KEYS, replicates="infinite", min_epsilon=0.0)
PRINTED = replace(KEYS, weights="printed", bandwidth="previous", rise_below=0.0)


@pytest.mark.parametrize("keys", [KEYS, INFINITE, PRINTED], ids=["finite", "infinite", "printed"])
def test_any_number_of_ranks_gives_the_same_bits(comm, keys):
    states = run(MPI.COMM_SELF, keys)
    assert any(state.resampled for state in states)
    assert bits(run(comm, keys)) == bits(states)


@pytest.mark.parametrize("stop", [1, 25])
def test_infinite_replicates_go_on_from_a_packed_state_on_another_number_of_ranks(comm, stop):
    whole = run(MPI.COMM_SELF, INFINITE)
    assert len(whole) > 25
    assert bits(run(comm, INFINITE, state=State.unpack(whole[stop - 1].pack()))) == bits(whole[stop:])


@pytest.mark.parametrize("scheme", ["systematic", "multinomial"])
def test_any_number_of_ranks_resamples_alike_under_every_scheme(comm, scheme):
    keys = replace(KEYS, resampling=scheme, resample_below=0.95, max_iterations=10)
    assert bits(run(comm, keys)) == bits(run(MPI.COMM_SELF, keys))


@pytest.mark.parametrize("stop", [1, 24, 25, 40])
def test_a_run_goes_on_from_a_packed_state_on_another_number_of_ranks(comm, alone, stop):
    rest = bits(alone[stop:])
    packed = alone[stop - 1].pack()
    assert bits(run(comm, state=State.unpack(packed))) == rest
    here = run(comm, replace(KEYS, max_iterations=stop))[-1]
    assert here.stopped_because == Stop.ITERATIONS
    goes_on = replace(State.unpack(here.pack()), stopped_because="")
    assert bits(run(MPI.COMM_SELF, state=goes_on)) == rest


def test_observed_labels_to_the_end_on_any_number_of_ranks(comm):
    keys = SmcKeys(particles=101, replicates=7)
    states = run(comm, keys, observed(4440.0))
    assert states[-1].stopped_because
    assert bits(states) == bits(run(MPI.COMM_SELF, keys, observed(4440.0)))


def test_one_particle_a_rank_is_enough_and_fewer_are_refused(comm):
    keys = SmcKeys(particles=comm.size, replicates=5, max_iterations=3, min_acceptance=0.0)
    assert bits(run(comm, keys)) == bits(run(MPI.COMM_SELF, keys))
    with pytest.raises(InputError, match=r"smc\.particles"):
        run(comm, replace(keys, particles=comm.size - 1))
