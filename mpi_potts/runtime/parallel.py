"""Ranks: who has which rows, and how they meet.

Rows 0..n-1 of an array are split into blocks in rank order, the first n mod size ranks with one row more, so
that allgathered rows are in global order and every sum over them is the same for any number of ranks.  The
communicator is the first argument everywhere, and one rank is not a special case.  A function that all ranks
must call together says so first: "Collective."
"""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from mpi4py import MPI

from ..errors import InputError, Interrupted
from .threads import own_cores

# For annotations elsewhere: mpi4py is imported here and in __main__ only.
Comm = MPI.Comm
# All ranks: what a call from Python uses where it is given no communicator.
WORLD = MPI.COMM_WORLD
# For files that a rank writes by itself.
ALONE = MPI.COMM_SELF
# A waiting rank looks this often (seconds).  Spinning in a blocking call takes memory bandwidth and turbo
# from rank 0.
NAP = 0.005
# How long a rank with an error that every rank may have had waits for the others to report the same
# (seconds).
MEETING = 5.0
# One message carries at most this many bytes: counts above 2**31 - 1, and larger pickles, fail.
MESSAGE = 1 << 28
# A value is announced by a short message, which carries it at once where it is no longer than this (bytes).
SHORT = 1 << 20
# The sizes that launchers announce, the most specific first: inside a Slurm job mpirun starts its own daemons
# as a Slurm step, whose number of tasks is not the number of ranks.
LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def block(n: int, size: int, rank: int) -> tuple[int, int]:
    """The rows (start, stop) of `rank` among n over `size` ranks; empty where there are too few."""
    few, more = divmod(n, size)
    start = rank * few + min(rank, more)
    return start, start + few + (rank < more)


def allgather_rows(comm: Comm, rows: np.ndarray, n: int) -> np.ndarray:
    """Collective.  All n rows in global order on every rank, from each rank's `block` of them."""
    blocks = [block(n, comm.size, rank) for rank in range(comm.size)]
    counts = [stop - start for start, stop in blocks]
    rows = np.ascontiguousarray(rows)
    if len(rows) != counts[comm.rank]:
        raise ValueError(f"rank {comm.rank} gives {len(rows)} rows of {n}, its block has {counts[comm.rank]}")
    gathered = np.empty((n, *rows.shape[1:]), dtype=rows.dtype)
    # One element of the message is a whole row, so that the counts stay small for any size of rows.
    row = MPI.BYTE.Create_contiguous(rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))).Commit()
    comm.Allgatherv([rows, counts[comm.rank], row], [gathered, (counts, [b[0] for b in blocks]), row])
    row.Free()
    return gathered


def merge_rows(comm: Comm, index: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """Collective.  All n rows in global order on every rank, from rows of any numbers `index` on each."""
    width = rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
    count = np.zeros(n, dtype=np.int64)
    np.add.at(count, index, 1)
    merged = np.zeros((n, width), dtype=np.uint8)
    merged[index] = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).reshape(len(rows), width)
    comm.Allreduce(MPI.IN_PLACE, count)
    if (count != 1).any():
        raise ValueError(f"row {int(np.flatnonzero(count != 1)[0])} of {n} is not on exactly one rank")
    # Bits, not numbers, are joined: exact for any type and any order.
    flat = merged.reshape(-1)
    for piece in pieces(flat.size):
        comm.Allreduce(MPI.IN_PLACE, flat[piece], op=MPI.BOR)
    return merged.reshape(-1).view(rows.dtype).reshape(n, *rows.shape[1:])


def take_rows(comm: Comm, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Collective.  Rows wanted[block] of an array split in blocks: this rank's block of `whole[wanted]`.

    wanted : (n,) row numbers, the same on every rank.  Only rows that change rank are sent, each once.
    """
    blocks = [block(len(wanted), comm.size, rank) for rank in range(comm.size)]
    start, stop = blocks[comm.rank]

    def needed(taker: int, giver: int) -> np.ndarray:
        mine = wanted[slice(*blocks[taker])]
        return np.unique(mine[(mine >= blocks[giver][0]) & (mine < blocks[giver][1])])

    sent = [rows[needed(rank, comm.rank) - start] if rank != comm.rank else None for rank in range(comm.size)]
    received = comm.alltoall(sent)
    mine = wanted[start:stop]
    taken = np.empty_like(rows)
    for giver, (first, last) in enumerate(blocks):
        here = (mine >= first) & (mine < last)
        if giver == comm.rank:
            taken[here] = rows[mine[here] - start]
        else:
            taken[here] = received[giver][np.searchsorted(needed(comm.rank, giver), mine[here])]
    return taken


def bcast(comm: Comm, value: Any = None) -> Any:
    """Collective.  The value of rank 0 on every rank.

    Arrays go as they are, also those inside tuples, dictionaries and dataclasses, and everything in messages
    of at most `MESSAGE` bytes: one pickle, or one message, beyond 2 GiB fails.
    """
    if comm.rank == 0:
        if isinstance(value, np.ndarray):  # in the same order everywhere, on which sums depend
            value = np.asarray(value, order="C")
        head, parts = _packed(value)
        comm.bcast((head, [part.size for part in parts]))
    else:
        head, sizes = comm.bcast(None)
        parts = [np.empty(size, dtype=np.uint8) for size in sizes]
    for part in parts:
        for piece in pieces(part.size):
            comm.Bcast(part[piece])
    return value if comm.rank == 0 else _unpacked(head, parts)


def _packed(value: Any) -> tuple[Any, list[np.ndarray]]:
    """What announces a value, and the bytes that follow.

    An array is announced by its shape and type, anything else by its pickle without the large arrays in it,
    or by nothing where even that is long.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (value.shape, value.dtype), [value.reshape(-1).view(np.uint8)]
    text, buffers = MPI.pickle.dumps_oob(value)
    views: list[Any] = [*buffers]
    head = text if len(text) <= min(SHORT, MESSAGE) else None
    parts = [np.frombuffer(view, dtype=np.uint8) for view in (views if head is not None else [text, *views])]
    return head, parts


def _unpacked(head: Any, parts: list[np.ndarray]) -> Any:
    """The value of what `_packed` gave."""
    if isinstance(head, tuple):
        shape, dtype = head
        return parts[0].view(dtype).reshape(shape)
    return MPI.pickle.loads_oob(parts[0], parts[1:]) if head is None else MPI.pickle.loads_oob(head, parts)


def bcast_first(comm: Comm, value: Any, count: int) -> Any:
    """Collective.  The value of rank 0 on the first `count` ranks, None on the others, which need no room."""
    among = comm.Split(0 if comm.rank < count else MPI.UNDEFINED, comm.rank)
    if among == MPI.COMM_NULL:
        return None
    received = bcast(among, value)
    among.Free()
    return received


def pieces(size: int, itemsize: int = 1) -> Iterator[slice]:
    """An array of `size` items of so many bytes in slices, each a message."""
    step = max(1, MESSAGE // itemsize)
    for first in range(0, size, step):
        yield slice(first, first + step)


def sum_on_root(comm: Comm, counts: np.ndarray) -> np.ndarray | None:
    """Collective.  The sum over ranks of arrays of integers, on rank 0: exact in any order."""
    if comm.size == 1:
        return counts
    total = np.empty_like(counts) if comm.rank == 0 else None
    flat = counts.reshape(-1)
    for piece in pieces(flat.size, counts.itemsize):
        comm.Reduce(flat[piece], None if total is None else total.reshape(-1)[piece])
    return total


def agree(comm: Comm, flag: bool) -> bool:
    """Collective.  Whether any rank raised its flag."""
    return bool(comm.allreduce(int(flag), op=MPI.MAX))


def on_root(comm: Comm, function: Callable, *arguments: Any) -> Any:
    """Collective.  Run on rank 0 only, give every rank the result; an InputError there is raised on all."""
    value, error = None, None
    if comm.rank == 0:
        try:
            value = function(*arguments)
        except InputError as caught:
            error = caught
    quiet_wait(comm)
    error = comm.bcast(error)
    if error is not None:
        raise error
    return bcast(comm, value)


def decided(comm: Comm, function: Callable, *arguments: Any) -> Any:
    """Collective.  What rank 0 computes, on every rank: CPUs that differ must not decide apart."""
    return bcast(comm, function(*arguments) if comm.rank == 0 else None)


def raise_together(comm: Comm, error: Exception | None) -> None:
    """Collective.  If some ranks have an error, raise that of the lowest such rank on every rank."""
    errors = [e for e in comm.allgather(error) if e is not None]
    if errors:
        raise errors[0]


def quiet_wait(comm: Comm) -> None:
    """Collective.  A barrier that sleeps instead of spinning: for long waits, while rank 0 works alone."""
    met = comm.Ibarrier()
    while not met.Test():
        time.sleep(NAP)


def warm_up(comm: Comm, function: Callable[[], Any]) -> None:
    """Collective.  Compile on one rank of every node first; the others then find its code in the cache."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if node.rank == 0:
        function()
    quiet_wait(node)
    if node.rank > 0:
        function()
    node.Free()


def lent_cores(comm: Comm, busy: bool) -> tuple[frozenset[int], int]:
    """Collective.  The cores of this node's ranks, and how many each busy rank may use: the others wait."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    cores = frozenset().union(*node.allgather(own_cores()))
    share = len(cores) // max(1, node.allreduce(int(busy)))
    node.Free()
    return cores, share


@contextmanager
def private(comm: Comm) -> Iterator[Comm]:
    """Collective.  A communicator of the same ranks, on which no one else's messages can be met."""
    own = comm.Dup()
    yield own
    own.Free()


def ranks_on_node(comm: Comm) -> int:
    """Collective.  The number of ranks that share this node's memory."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    size = node.size
    node.Free()
    return size


def one_node(comm: Comm) -> bool:
    """Collective.  Whether all ranks are on one node, and so see the same temporary files."""
    return ranks_on_node(comm) == comm.size


@contextmanager
def abort_on_error(
    comm: Comm, passing: tuple[type[BaseException], ...] = (InputError, Interrupted, SystemExit)
) -> Iterator[None]:
    """Collective.  An error on one rank ends all ranks, instead of leaving the others waiting for ever.

    An exception of the kinds `passing` that every rank raises passes through, to be reported once.  One that
    only some ranks have, and any other, is printed and aborts the communicator.
    """
    meeting = comm.Dup()
    try:
        yield
    except passing as error:
        if _all_here(meeting):
            meeting.Free()
            raise
        _abort(comm, error)
    except BaseException as error:
        _abort(comm, error)
    meeting.Free()


def _abort(comm: Comm, error: BaseException) -> None:
    text = f"rank {comm.rank}: {error}\n"
    if not isinstance(error, InputError | Interrupted | SystemExit):
        text = f"rank {comm.rank} of {comm.size}:\n{''.join(traceback.format_exception(error))}"
    print(text, file=sys.stderr, end="", flush=True)
    comm.Abort(exit_code(error))


def exit_code(error: BaseException) -> int:
    """2 for bad input, 75 for a stop that can be continued, that of SystemExit, 130 for ctrl-C, else 1."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    codes: dict[type[BaseException], int] = {InputError: 2, Interrupted: 75, KeyboardInterrupt: 130}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 1)


def _all_here(comm: Comm) -> bool:
    met, end = comm.Ibarrier(), time.monotonic() + MEETING
    while not met.Test():
        if time.monotonic() > end:
            return False
        time.sleep(NAP)
    return True


def library() -> str:
    """The MPI library that mpi4py uses, in a few words."""
    return MPI.Get_library_version().split(",")[0].split("\n")[0].strip()


def check_launcher(comm: Comm) -> None:
    """Refuse to run as n jobs of one rank: what the launcher of another MPI silently starts."""
    for name in LAUNCHERS:
        if name in os.environ:
            break
    else:
        return
    if os.environ[name].isdigit() and int(os.environ[name]) != comm.size:
        raise InputError(
            f"the launcher started {os.environ[name]} ranks ({name}) but MPI has {comm.size}: "
            f"mpi4py uses {library()}; start with the mpirun or srun --mpi=... of that library"
        )


class Bell:
    """Tells ranks that work on their own, without a meeting, that one of them was asked to stop.

    A signal may reach only some ranks.  Such a rank tells rank 0, and rank 0 tells all: at most two messages
    a rank.  `heard` costs one probe.
    """

    def __init__(self, comm: Comm):
        """Collective.  A bell of all ranks that nobody has rung."""
        self._comm = comm.Dup()
        self._requests: list[MPI.Request] = []
        self._received = 0
        self.rung = False

    def ring(self) -> None:
        """Ask all ranks to stop."""
        if not self.rung:
            self.rung = True
            others = range(1, self._comm.size) if self._comm.rank == 0 else (0,)
            self._requests = [self._comm.Isend([b"", MPI.BYTE], dest=rank) for rank in others]

    def heard(self) -> bool:
        """Whether any rank has rung, as far as this one knows."""
        self._listen()
        if self._comm.rank == 0 and self._received:
            self.ring()
        return self.rung or self._received > 0

    def _listen(self) -> None:
        while self._comm.Iprobe(source=MPI.ANY_SOURCE):
            self._comm.Recv([bytearray(0), MPI.BYTE], source=MPI.ANY_SOURCE)
            self._received += 1

    def close(self) -> bool:
        """Collective.  Wait for all ranks; whether anyone rang.  Rank 0 passes a late ring on meanwhile."""
        met = self._comm.Ibarrier()
        while not met.Test():
            self.heard()
            time.sleep(NAP)
        # From here on nobody rings, so what was sent is known and can be received to the last message.
        rung = self._comm.allgather(self.rung)
        due = sum(rung[1:]) if self._comm.rank == 0 else int(rung[0])
        while self._received < due:
            self._listen()
        MPI.Request.Waitall(self._requests)
        self._comm.Free()
        return any(rung)
