"""The checksum of a file: SHA-256 of its attributes, and of the SHA-256 of every row of every dataset.

Names and row numbers give the order, so that each rank can do its own rows.  Left out is what may differ
between equal results: the times, and which writer was used.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

# The last part of a name that is left out, in attributes and datasets.
VOLATILE = ("checksum", "writer", "created", "seconds")


def row_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """The size of one row of an array of this shape and type."""
    return int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize


def row_digests(values: np.ndarray) -> np.ndarray:
    """(m, 32) uint8: the SHA-256 of each of m rows; a scalar is one row."""
    values = np.atleast_1d(values)
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    data = little.reshape(-1).view(np.uint8).reshape(len(values), row_bytes(values.shape, values.dtype))
    joined = b"".join(hashlib.sha256(row).digest() for row in data)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(values), 32)


def checksum(
    attributes: Mapping[str, Any], described: Iterable[tuple[str, tuple[int, ...], np.dtype, np.ndarray]]
) -> str:
    """64 hex digits from attributes and (name, shape, dtype, row digests) of datasets, ordered by name."""
    kept = {name: value for name, value in attributes.items() if not _volatile(name)}
    total = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for name, shape, dtype, digests in described:
        if not _volatile(name):
            total.update(json.dumps([name, list(shape), dtype.newbyteorder("<").str]).encode())
            total.update(digests.tobytes())
    return total.hexdigest()


def _volatile(name):
    return name.rpartition("/")[2] in VOLATILE
