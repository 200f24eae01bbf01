"""Threads change the speed of a label chain and nothing else."""

import threading

import numpy as np
import pytest
from mpi4py import MPI

from mpi_potts.kernels.chain import FULL
from mpi_potts.labels.chain import LabelChain
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.runtime import threads
from mpi_potts.runtime.parallel import lent_cores
from mpi_potts.runtime.threads import Team

TABLE = np.stack(
    [np.linspace(0.0, 1.5, 9), np.linspace(0.0, 1500.0, 9), np.full(9, 1000.0), np.full(9, 400.0)]
)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 4, 23])
def test_a_team_divides_all_the_work_between_its_threads(size, count):
    team, present = Team(size), threading.Barrier(size)

    def work(first, last):
        present.wait(10)  # passed only if all parts run at once
        return list(range(first, last))

    assert [i for part in team.share(count, work) for i in part] == list(range(count))


def test_an_error_in_a_thread_is_raised():
    def work(first, last):
        if first > 0:
            raise RuntimeError("in the second half")

    with pytest.raises(RuntimeError, match="second half"):
        Team(2).share(10, work)


def test_small_images_and_single_cores_have_one_thread():
    assert threads.enough(125 * 125, 64) == 1
    assert threads.enough(10**6, 1) == 1
    assert threads.enough(10**6, 2) == 2
    assert threads.enough(3 * threads.SITES, 64) == 3


def test_one_rank_may_use_its_own_cores():
    assert lent_cores(MPI.COMM_SELF, True) == (threads.own_cores(), len(threads.own_cores()))


def chain_of(team, shape, neighbourhood, holes):
    generator = np.random.default_rng(3)
    z = generator.integers(0, 4, [-(-n // 10) for n in shape])
    for axis in range(len(shape)):
        z = z.repeat(10, axis)
    z = z[tuple(slice(n) for n in shape)]
    mask = generator.random(shape) < 0.8 if holes else None
    values, vague = z + 0.5 * generator.normal(size=shape), gaussian_noise(4, 0.0, 10.0, 1.0, 0.1)
    return LabelChain(Lattice(shape, neighbourhood, mask), values, 4, vague, 7, 0, team)


PLANE, VOLUME = (70, 91), (13, 21, 33)
LATTICES = [(PLANE, 4), (PLANE, 8), (PLANE, "hexagonal"), (VOLUME, 6), (VOLUME, 18), (VOLUME, 26)]


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(("shape", "neighbourhood"), LATTICES)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(size, shape, neighbourhood, holes):
    one, many = (chain_of(team, shape, neighbourhood, holes) for team in (threads.ALONE, Team(size)))
    counted = FULL + 3  # beyond what the bytes hold
    for chain in (one, many):
        chain.traces = [
            chain.sweep(np.linspace(0.0, 1.0, 6)),
            chain.sample(TABLE, (0.0, 1.5), 4, count=False),
            chain.sample(TABLE, (0.0, 1.5), counted),
        ]
        chain.sweep(np.full(1, 0.7))
        chain.count()
    for first, second in zip(one.traces, many.traces):
        assert [a.tobytes() for a in first] == [b.tobytes() for b in second]
    for name, array in one.pack().items():
        assert np.array_equal(array, many.pack()[name]), name
    assert (one.counts.sum(axis=-1)[one.lattice.exists] == counted + 1).all()
