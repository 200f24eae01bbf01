"""Arrays by pieces of whole rows, so that neither memory nor a message must hold a large dataset at once."""

from collections.abc import Iterator

import numpy as np

# The bytes of a piece; a row that is larger is a piece by itself.  One message of MPI can carry them.
LARGEST = 1 << 22


def row_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """The size in bytes of one row of an array of this shape and type."""
    return int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize


def runs(index: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Iterator[tuple[int, int]]:
    """Cut rows with the ascending global numbers `index` into pieces of consecutive rows of the dataset.

    Yields (from, to) as positions in `index`; no piece is larger than `LARGEST`.
    """
    most = max(1, LARGEST // max(1, row_bytes(shape, dtype)))
    breaks = (np.flatnonzero(np.diff(index) != 1) + 1).tolist()
    for first, last in zip([0, *breaks], [*breaks, len(index)]):
        for start in range(first, last, most):
            yield start, min(start + most, last)
