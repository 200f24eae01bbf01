"""A study on any number of ranks, and one that some ranks began and others ended, is that of one rank."""

from pathlib import Path

import pytest
from fitting import options, same_bits
from mpi4py import MPI

from mpi_potts.cli import study as command
from mpi_potts.config import inputs
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.io import formats, reading
from mpi_potts.runtime import parallel
from mpi_potts.runtime.control import Control
from mpi_potts.study.fits import Study

INPUT = Path(__file__).resolve().parent.parent.parent / "inputs" / "study_small.toml"


def run(comm, output, *changes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command.report, "drawable", lambda: False)  # figures take longer than the fits
        command.execute(comm, inputs.load(INPUT, changes, output), options())
    return parallel.on_root(comm, reading.read, output / "study.h5", *formats.STUDY)


class StopLast(Control):
    """The last rank alone is asked to stop, at its n-th look."""

    def __init__(self, comm, looks):
        super().__init__()
        self._last, self._left = comm.rank == comm.size - 1, looks

    @property
    def stop(self):
        self._left -= 1
        return self._last and self._left < 0


def begin(comm, output, looks):
    settings = inputs.load(INPUT, (), output)
    methods, lattice = command.prepare(settings)
    with Control() as control:
        binding = command.precompute.obtain(comm, settings, lattice, control, True)
    with StopLast(comm, looks) as control:
        command.work(comm, Study(settings, methods, lattice, binding), control, options())


def test_any_number_of_ranks_gives_the_same_bits(comm, directory):
    if comm.rank == 0:
        alone = run(MPI.COMM_SELF, directory / "alone")
    comm.Barrier()
    attributes, arrays = run(comm, directory / "together")
    if comm.rank == 0:
        assert same_bits(alone[1], arrays) == []
        assert alone[0]["checksum"] == attributes["checksum"]


@pytest.mark.parametrize("looks", [0, 3])
def test_what_many_ranks_began_one_rank_ends_with_the_same_bits(comm, directory, looks):
    with pytest.raises(Interrupted):
        begin(comm, directory / "begun", looks)
    comm.Barrier()
    if comm.rank == 0:
        assert not (directory / "begun" / "study.h5").exists()
        _, ended = run(MPI.COMM_SELF, directory / "begun")
        _, alone = run(MPI.COMM_SELF, directory / "alone")
        assert same_bits(alone, ended) == []


def test_a_part_of_another_input_is_refused_on_all_ranks(comm, directory):
    run(comm, directory / "study", "simulate.images=2")
    with pytest.raises(InputError, match=r"image_000.*study\.draws"):
        run(comm, directory / "study", "study.draws=9")
