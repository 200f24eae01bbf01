"""Rows of a dataset that are spread over the ranks, and how they reach the rank that writes them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..runtime.parallel import Comm, block
from .pieces import row_bytes, runs


@dataclass(frozen=True)
class Rows:
    """This rank's rows of a dataset of n: `values` (m, ...) with global numbers `index` (m,), any m >= 0.

    Every row is on exactly one rank, and all ranks give the same dtype and trailing shape.
    """

    index: np.ndarray
    values: np.ndarray
    n: int

    @classmethod
    def of_block(cls, comm: Comm, values: np.ndarray, n: int) -> "Rows":
        """Rows that are split in blocks in rank order."""
        return cls(np.arange(*block(n, comm.size, comm.rank)), values, n)


def whole_or_rows(data: np.ndarray | Rows) -> np.ndarray | Rows:
    """The same dataset with its values in C order, as files and messages need them."""
    if isinstance(data, Rows):
        return Rows(
            np.ascontiguousarray(data.index, np.int64), np.ascontiguousarray(data.values), int(data.n)
        )
    return np.asarray(data, order="C")


def shape_of(data: np.ndarray | Rows) -> tuple[int, ...]:
    """The shape of the whole dataset."""
    return (data.n, *data.values.shape[1:]) if isinstance(data, Rows) else data.shape


def dtype_of(data: np.ndarray | Rows) -> np.dtype:
    """The type of the values of the dataset."""
    return data.values.dtype if isinstance(data, Rows) else data.dtype


def size_of(data: np.ndarray | Rows) -> int:
    """The bytes of the whole dataset."""
    shape = shape_of(data)
    return shape[0] * row_bytes(shape, dtype_of(data)) if shape else 8


def gather(comm: Comm, data: Rows, put: Callable[[slice, np.ndarray], None] | None) -> None:
    """Bring the rows of all ranks to `put` on rank 0, a run at a time: it never holds more than one message.

    put(rows, values) : on rank 0, takes what is to stand in these rows of the dataset; elsewhere None

    Collective.
    """
    counts = comm.gather(len(data.index)) or []
    shape, dtype = shape_of(data), dtype_of(data)
    if comm.rank > 0 and len(data.index):
        comm.Send(data.index, dest=0)
        for start, stop in runs(data.index, shape, dtype):
            comm.Send(data.values[start:stop].reshape(-1).view(np.uint8), dest=0)
    if put is None:
        return
    for source in range(comm.size):
        index = data.index
        if source > 0:
            index = np.empty(counts[source], dtype=np.int64)
            if len(index):
                comm.Recv(index, source=source)
        for start, stop in runs(index, shape, dtype):
            piece = data.values[start:stop]
            if source > 0:
                piece = np.empty((stop - start, *shape[1:]), dtype=dtype)
                comm.Recv(piece.reshape(-1).view(np.uint8), source=source)
            put(slice(index[start], index[start] + stop - start), piece)
