"""Meeting of ranks: blocks, rows in global order, errors that reach everyone."""

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

from mpi_potts.errors import InputError
from mpi_potts.runtime import parallel

SIZES = [0, 1, 3, 7, 101]


@pytest.mark.parametrize("n", SIZES)
def test_blocks_cover_all_rows_in_rank_order_and_differ_by_at_most_one(comm, n):
    blocks = [parallel.block(n, comm.size, rank) for rank in range(comm.size)]
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(n))
    lengths = [stop - start for start, stop in blocks]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype, tail", [(np.float64, ()), (np.uint8, (3,)), (np.int32, (2, 5))])
def test_allgathered_rows_are_in_global_order(comm, n, dtype, tail):
    rows = np.arange(n * int(np.prod(tail)), dtype=np.float64).astype(dtype).reshape(n, *tail)
    start, stop = parallel.block(n, comm.size, comm.rank)
    gathered = parallel.allgather_rows(comm, rows[start:stop], n)
    assert gathered.dtype == rows.dtype
    assert np.array_equal(gathered, rows)


@pytest.mark.parametrize("n", SIZES)
def test_rows_dealt_out_in_any_way_are_merged_in_order(comm, n):
    rows = np.linspace(-1.0, 1.0, 2 * n).reshape(n, 2)
    mine = np.arange(n)[comm.rank :: comm.size][::-1]
    assert np.array_equal(parallel.merge_rows(comm, mine, rows[mine], n), rows)


def test_a_row_that_no_rank_has_is_an_error(comm):
    mine = np.arange(4)[comm.rank :: comm.size]
    with pytest.raises(ValueError, match="row 4 of 5"):
        parallel.merge_rows(comm, mine, np.zeros(len(mine)), 5)


@pytest.mark.parametrize("value", [np.arange(6.0).reshape(2, 3), np.empty((0, 2)), {"a": [1, 2]}, None])
def test_broadcast_gives_the_value_of_rank_0(comm, value):
    received = parallel.bcast(comm, value if comm.rank == 0 else None)
    if isinstance(value, np.ndarray):
        assert received.dtype == value.dtype and received.shape == value.shape
        assert np.array_equal(received, value)
    else:
        assert received == value


@dataclass(frozen=True, eq=False)
class Holder:
    """An array in a dataclass, as an image or a binding function has it."""

    values: np.ndarray
    name: str = "holder"


ARRAYS = {
    "many pieces": np.arange(1000.0).reshape(20, 50),
    "one byte more than a piece": np.arange(65, dtype=np.uint8),
    "nothing": np.empty((0, 3)),
    "columns first": np.asfortranarray(np.arange(600.0).reshape(20, 30)),
    "every second": np.arange(1000)[::2],
    "of objects": np.array([{"a": 1}, "b"], dtype=object),
    "words": np.array(["one", "three"]),
    "a number": np.array(3.5),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("inside", ["alone", "tuple", "dict", "dataclass", "twice"])
def test_arrays_inside_anything_are_sent_in_pieces(comm, monkeypatch, name, inside):
    monkeypatch.setattr(parallel, "MESSAGE", 64)
    monkeypatch.setattr(parallel.MPI.pickle, "THRESHOLD", 0)
    given = ARRAYS[name]
    wrap = {"alone": given, "tuple": (1, (given, None)), "dict": {"a": {"b": given}}}
    wrap |= {"dataclass": Holder(given), "twice": [given, given]}
    received = parallel.bcast(comm, wrap[inside] if comm.rank == 0 else None)
    find = {"alone": lambda r: r, "tuple": lambda r: r[1][0], "dict": lambda r: r["a"]["b"]}
    find |= {"dataclass": lambda r: r.values, "twice": lambda r: r[1]}
    array = find[inside](received)
    assert array.dtype == given.dtype and array.shape == given.shape
    assert (array == given).all()
    assert array.flags.f_contiguous or inside == "alone" or name != "columns first"


def test_no_message_is_larger_than_allowed(comm, monkeypatch):
    """A pickle, or a message, of more than 2 GiB fails: here with a limit of 64 bytes in its place."""
    monkeypatch.setattr(parallel, "MESSAGE", 64)
    sent = []
    parallel.bcast(Watched(comm, sent), {"a": Holder(np.arange(1000.0))} if comm.rank == 0 else None)
    assert max(sent) <= 64 and sum(sent) > 8000


class Watched:
    """A communicator that notes the bytes of every message of arrays."""

    def __init__(self, comm, sent):
        self._comm, self._sent, self.rank = comm, sent, comm.rank

    def bcast(self, value):
        return self._comm.bcast(value)

    def Bcast(self, array):
        self._sent.append(array.nbytes)
        self._comm.Bcast(array)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_only_the_first_ranks_receive_what_only_they_need(comm, count):
    given = {"values": np.arange(7)}
    received = parallel.bcast_first(comm, given if comm.rank == 0 else None, count)
    if comm.rank < count:
        assert (received["values"] == np.arange(7)).all()
    else:
        assert received is None


@pytest.mark.parametrize("n", SIZES)
def test_rows_are_merged_in_pieces_too(comm, monkeypatch, n):
    monkeypatch.setattr(parallel, "MESSAGE", 20)
    rows = np.linspace(-1.0, 1.0, 2 * n).reshape(n, 2)
    mine = np.arange(n)[comm.rank :: comm.size]
    assert np.array_equal(parallel.merge_rows(comm, mine, rows[mine], n), rows)


def test_an_input_error_of_rank_0_is_raised_everywhere(comm):
    def refuse():
        raise InputError("labels = 1: at least 2")

    with pytest.raises(InputError, match="at least 2"):
        parallel.on_root(comm, refuse)


def test_an_input_error_of_the_last_rank_is_raised_everywhere(comm):
    parallel.raise_together(comm, None)
    with pytest.raises(InputError, match=f"from {comm.size - 1}"):
        parallel.raise_together(comm, InputError(f"from {comm.rank}") if comm.rank == comm.size - 1 else None)


def test_root_work_is_done_once_and_known_to_all(comm):
    calls = []
    assert parallel.on_root(comm, lambda: calls.append(1) or "done") == "done"
    assert len(calls) == (comm.rank == 0)


def test_any_rank_can_raise_the_flag(comm):
    assert not parallel.agree(comm, False)
    assert parallel.agree(comm, comm.rank == comm.size - 1)


def test_waiting_takes_no_processor_time(comm):
    before = time.process_time()
    if comm.rank == 0:
        time.sleep(0.5)
    parallel.quiet_wait(comm)
    assert time.process_time() - before < 0.25


def test_one_rank_compiles_before_the_others(comm):
    moments = []
    parallel.warm_up(comm, lambda: moments.append((time.monotonic(), time.sleep(0.1))))
    times = comm.gather(moments[0][0])
    if comm.rank == 0:
        assert all(later >= times[0] + 0.1 for later in times[1:])


@pytest.mark.parametrize("who", ["nobody", "first", "last", "all"])
def test_a_bell_rung_by_any_rank_is_heard_by_all(comm, who):
    bell = parallel.Bell(comm)
    ringers = {"nobody": (), "first": (0,), "last": (comm.size - 1,), "all": range(comm.size)}[who]
    if comm.rank in ringers:
        bell.ring()
    if ringers:
        end = time.monotonic() + 20
        while not bell.heard():
            assert time.monotonic() < end
    else:
        assert not bell.heard()
    assert bell.close() == bool(ringers)


def test_a_bell_is_passed_on_by_a_rank_0_that_already_waits(comm):
    bell = parallel.Bell(comm)
    if comm.rank == comm.size - 1:
        time.sleep(0.1)
        bell.ring()
    elif comm.rank > 0:
        while not bell.heard():
            time.sleep(0.001)
    assert bell.close()


def test_busy_ranks_share_the_cores_of_their_node(comm):
    cores, share = parallel.lent_cores(comm, comm.rank < 2)
    assert cores == frozenset().union(*comm.allgather(os.sched_getaffinity(0)))
    assert share == len(cores) // min(2, comm.size)
