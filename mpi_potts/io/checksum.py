"""The checksum of a file's content, and the seal of its bytes.

The checksum is the SHA-256 of the attributes and of the SHA-256 of every row of every dataset.
Names and row numbers give the order, so that each rank can do its own rows.  Left out is what may differ
between equal results: the times, which writer was used, and where the input lay.

The seal stands in the first bytes of the file, a user block that HDF5 skips: the SHA-256 of all that follows.
The HDF5 library may hang or crash on damaged metadata, so the bytes are checked before it sees them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Damaged, Foreign, InputError
from .pieces import row_bytes

# The last part of a name that is left out, in attributes and datasets.
VOLATILE = ("checksum", "writer", "created", "seconds", "input_directory")

# The size of the user block, the smallest that HDF5 allows, and how it begins.
SEAL_BYTES = 512
SEAL = b"mpi_potts sha256 "


def row_digests(values: np.ndarray) -> np.ndarray:
    """(m, 32) uint8: the SHA-256 of each of m rows; a scalar is one row."""
    values = np.atleast_1d(values)
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    data = little.reshape(-1).view(np.uint8).reshape(len(values), row_bytes(values.shape, values.dtype))
    joined = b"".join(hashlib.sha256(row.data).digest() for row in data)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(values), 32)


def digests_of_parts(rows: Iterable[Iterable[np.ndarray]]) -> np.ndarray:
    """(m, 32) uint8: the same of m rows that come in parts, each in C order."""
    found = []
    for parts in rows:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
        found.append(digest.digest())
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(len(found), 32)


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


def _volatile(name: str) -> bool:
    """Whether an attribute or a dataset may differ between equal results."""
    return name.rpartition("/")[2] in VOLATILE


def seal(path: Path) -> None:
    """Write the seal into the user block of a complete file."""
    with open(path, "r+b") as file:
        size = file.seek(0, 2)
        text = SEAL + f"{_sha256(file)} of {size - SEAL_BYTES} bytes\n".encode()
        file.seek(0)
        file.write(text.ljust(SEAL_BYTES))


def sealed(path: Path) -> bool:
    """Whether a file begins as ours do."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SEAL)) == SEAL
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def check_seal(path: Path) -> None:
    """Refuse a file that is not ours, or not as it was written."""
    try:
        with open(path, "rb") as file:
            found = file.read(SEAL_BYTES).rstrip()
            if not found.startswith(SEAL):
                raise Foreign(f"{path}: not a file of mpi_potts")
            size = file.seek(0, 2) - SEAL_BYTES
            if not found.endswith(f" of {size} bytes".encode()):
                raise Damaged(f"{path}: truncated, or not as it was written ({size} bytes)")
            if found != SEAL + f"{_sha256(file)} of {size} bytes".encode():
                raise Damaged(f"{path}: damaged, its bytes do not match their checksum")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _sha256(file: BufferedIOBase) -> str:
    """The SHA-256 of all that follows the user block, in hex digits."""
    file.seek(SEAL_BYTES)
    return hashlib.file_digest(file, "sha256").hexdigest()
