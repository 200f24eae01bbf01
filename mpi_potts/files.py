"""Files as the operating system sees them: moved into place whole, locked, refused early with a clear line.

A file appears under its name only when it is complete and on the disk: it is written under a temporary name
in the same directory, synchronised, renamed over the old one, and the directory synchronised.  A kill at any
moment leaves the old file or the new one.  The temporary name is fixed, so that what a kill left is
overwritten.
"""

import errno
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError
from .parallel import Comm, on_root

# Errors that the user can mend: the message names the file, and the exit code is that of bad input.
MENDABLE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
)
# A file system that cannot reserve space says one of these.
NO_RESERVATION = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)
# A file system without locks says one of these.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def temporary_name(path: Path) -> Path:
    """Where `path` is written before it is moved into place."""
    return path.with_name(f".{path.name}.tmp")


def replace(temporary: Path, path: Path) -> None:
    """Move a complete temporary file into place so that it survives a kill or a loss of power."""
    _synchronise(temporary)
    os.replace(temporary, path)
    _synchronise(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, on one rank."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically, on one rank."""
    temporary = temporary_name(path)
    try:
        temporary.write_bytes(data)
        replace(temporary, path)
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> Exception:
    """The error to raise when `path` cannot be written: an InputError where the user can mend it."""
    if error.errno is None or error.errno in MENDABLE:
        return InputError(f"{path}: cannot be written ({os.strerror(error.errno)})")
    return error


def make_directory(directory: Path) -> None:
    """Create the directory and try to write in it, before any work starts, on one rank."""
    probe = directory / f".probe-{socket.gethostname()}-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"mpi_potts")
        probe.unlink()
    except OSError as error:
        raise refusal(directory, error) from error


def check_space(path: Path, temporary: Path, needed: int) -> None:
    """Refuse to start writing a file of `needed` bytes where there is no room for it; leaves an empty file.

    The space is taken and given back, which also finds quotas: HDF5 does not recover from an error in the
    middle of a parallel write.  The empty file has the mode of the user's umask; MPI-IO would create one with
    its own.
    """
    status = os.statvfs(path.parent)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise InputError(
            f"{path}: needs {needed / 1e6:.1f} MB, but {path.parent} has {free / 1e6:.1f} MB free"
        )
    with open(temporary, "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, needed)
        except OSError as error:
            if error.errno not in NO_RESERVATION:
                temporary.unlink()
                raise
        file.truncate(0)


@contextmanager
def locked(comm: Comm, path: Path) -> Iterator[None]:
    """Hold the lock file `path`: a second job that wants it is refused.

    The lock is the operating system's, held by rank 0, and ends with the process however that ends: it is
    never stale.  Over NFS it holds between hosts where the server runs a lock daemon.
    """
    held = None

    def take():
        nonlocal held
        held = _lock(path)

    on_root(comm, take)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _lock(path):
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise InputError(
                f"{path}: another job is at work here ({owner}); wait, or use another output"
            ) from None
        print(
            f"{path}: this file system has no locks; two jobs here would not notice each other",
            file=sys.stderr,
        )
    os.truncate(descriptor, 0)
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    os.pwrite(
        descriptor, f"host {socket.gethostname()}, process {os.getpid()}, since {started}\n".encode(), 0
    )
    return descriptor


def _synchronise(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
