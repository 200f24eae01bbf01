"""Rows of a dataset that are spread over the ranks, and how they reach the rank that writes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..runtime.parallel import Comm, block
from .checksum import digests_of_parts, row_digests
from .pieces import row_bytes, runs

# The bytes of a part of a row.
PART = 1 << 22


@dataclass(frozen=True)
class Parts:
    """Rows (m, ...) of two axes or more that are made when they are written, a part of a row at a time, where
    memory has no room for a copy of all: make(row, first, last) is row[first:last], in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype
    make: Callable[[int, int, int], np.ndarray]

    def __len__(self) -> int:
        return self.shape[0]

    def of_row(self, row: int) -> Iterator[tuple[slice, np.ndarray]]:
        """The parts of a row, and where in it they are."""
        step = max(1, PART // max(1, row_bytes(self.shape[1:], self.dtype)))
        for first in range(0, self.shape[1], step):
            last = min(first + step, self.shape[1])
            yield slice(first, last), self.make(row, first, last)


@dataclass(frozen=True)
class Rows:
    """This rank's rows of a dataset of n: `values` (m, ...) with global numbers `index` (m,), any m >= 0.

    Every row is on exactly one rank, and all ranks give the same dtype and trailing shape.
    """

    index: np.ndarray
    values: np.ndarray | Parts
    n: int

    def digests(self) -> np.ndarray:
        """(m, 32) the SHA-256 of each row."""
        values = self.values
        if isinstance(values, Parts):
            return digests_of_parts((part for _, part in values.of_row(row)) for row in range(len(values)))
        if not values.shape[0]:
            return row_digests(values)
        pieces = runs(np.arange(len(values)), values.shape, values.dtype)
        return np.concatenate([row_digests(values[start:stop]) for start, stop in pieces])

    @classmethod
    def of_block(cls, comm: Comm, values: np.ndarray, n: int) -> "Rows":
        """Rows that are split in blocks in rank order."""
        return cls(np.arange(*block(n, comm.size, comm.rank)), values, n)


def whole_or_rows(data: np.ndarray | Rows) -> np.ndarray | Rows:
    """The same dataset, one that is whole in C order, as files need it; rows become so piece by piece."""
    if isinstance(data, Rows):
        return Rows(np.ascontiguousarray(data.index, np.int64), data.values, int(data.n))
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


def gather(comm: Comm, data: Rows, put: Callable[[Any, np.ndarray], None] | None) -> None:
    """Bring the rows of all ranks to `put` on rank 0, a run at a time: it never holds more than one message.

    put(where, values) : on rank 0, takes what is to stand there in the dataset; elsewhere None

    Collective.
    """
    counts = comm.gather(len(data.index)) or []
    shape, dtype = shape_of(data), dtype_of(data)
    if comm.rank > 0 and len(data.index):
        comm.Send(data.index, dest=0)
        for _, piece in pieces_of(data):
            comm.Send(piece.reshape(-1).view(np.uint8), dest=0)
    if put is None:
        return
    for where, piece in pieces_of(data):
        put(where, piece)
    for source in range(1, comm.size):
        index = np.empty(counts[source], dtype=np.int64)
        if len(index):
            comm.Recv(index, source=source)
        receive = partial(_receive, comm, source, dtype)
        if isinstance(data.values, Parts):
            made = Parts((len(index), *shape[1:]), dtype, partial(_receive_part, receive, shape))
            for where, piece in pieces_of(Rows(index, made, data.n)):
                put(where, piece)
            continue
        for start, stop in runs(index, shape, dtype):
            put(slice(index[start], index[start] + stop - start), receive((stop - start, *shape[1:])))


def _receive(comm: Comm, source: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """The next piece that a rank sends."""
    piece = np.empty(shape, dtype=dtype)
    comm.Recv(piece.reshape(-1).view(np.uint8), source=source)
    return piece


def _receive_part(
    receive: Callable[[tuple[int, ...]], np.ndarray], shape: tuple[int, ...], row: int, first: int, last: int
) -> np.ndarray:
    """The next part, which the sender makes in the same order."""
    return receive((last - first, *shape[2:]))


def pieces_of(data: Rows) -> Iterator[tuple[Any, np.ndarray]]:
    """This rank's values by pieces, and where in the dataset each belongs."""
    if isinstance(data.values, Parts):
        for row, number in enumerate(data.index.tolist()):
            yield from (((number, where), part) for where, part in data.values.of_row(row))
        return
    for start, stop in runs(data.index, shape_of(data), dtype_of(data)):
        piece = np.ascontiguousarray(data.values[start:stop])
        yield slice(data.index[start], data.index[start] + stop - start), piece
