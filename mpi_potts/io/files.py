"""Files as the operating system sees them: moved into place whole, locked, refused early with a clear line.

A file appears under its name only when it is complete and on the disk: it is written under a temporary name
in the same directory, synchronised, renamed over the old one, and the directory synchronised.  A kill at any
moment leaves the old file or the new one.  The temporary name is fixed, so that what a kill left is
overwritten.
"""

import contextlib
import ctypes
import errno
import fcntl
import io
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runtime.parallel import Comm, on_root

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
# Linux: reserve space, do not change the size of the file.
KEEP_SIZE = 1


def temporary_name(path: Path) -> Path:
    """Where `path` is written before it is moved into place."""
    return path.with_name(f".{path.name}.tmp")


def replace(temporary: Path, path: Path, previous: Path | None = None) -> None:
    """Move a complete temporary file into place so that it survives a kill or a loss of power.

    previous : a name under which the file that was there is kept; between the two moves only that one is.
    """
    _synchronise(temporary)
    if previous is not None and path.exists():
        os.replace(path, previous)
    os.replace(temporary, path)
    _synchronise(path.parent)


def discard(path: Path) -> None:
    """Remove what is left of a file, where it can be removed."""
    with contextlib.suppress(OSError):
        path.unlink()


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
        discard(temporary)
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> Exception:
    """The error to raise when `path` cannot be written: an InputError where the user can mend it."""
    if error.errno is None or error.errno in MENDABLE:
        return InputError(f"{path}: cannot be written ({reason(error)})")
    return error


def reason(error: Exception) -> str:
    """Why, in a few words: HDF5 does not always pass the system's number on."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else " ".join(str(error).split())[:200]


def make_directory(directory: Path) -> None:
    """Create the directory and try to write in it, before any work starts, on one rank."""
    # One name for all: what a kill leaves behind is gone after the next run.
    probe = directory / ".probe"
    if directory.is_file():
        raise InputError(f"{directory}: is a file; a directory is needed here")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"mpi_potts")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(directory, error) from error


def check_space(path: Path, temporary: Path, needed: int) -> None:
    """Refuse to start writing a file of `needed` bytes where there is no room for it; leaves an empty file.

    The space is taken and given back, which also finds quotas.  The empty file has the mode of the user's
    umask; MPI-IO would create one with its own.  It is a new one: a rank of a killed job that has not ended
    yet may still write into the old.
    """
    try:
        status = os.statvfs(path.parent)
        free = status.f_bavail * status.f_frsize
        if needed > free:
            raise InputError(
                f"{path}: needs {needed / 1e6:.1f} MB, but {path.parent} has {free / 1e6:.1f} MB free"
            )
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            _allocate(file.fileno(), needed)
            file.truncate(0)
    except OSError as error:
        discard(temporary)
        raise refusal(path, error) from error


def _allocate(descriptor: int, needed: int) -> None:
    """Take the space for a file, where its file system can do that."""
    try:
        os.posix_fallocate(descriptor, 0, needed)
    except OSError as error:
        if error.errno not in NO_RESERVATION:
            raise


def reserve(path: Path, needed: int) -> None:
    """Keep `needed` bytes of the disk for a file that is open elsewhere; its size stays as it is.

    HDF5 does not recover from a disk that is full in the middle of a parallel write.  Only Linux can do this,
    and not on every file system.
    """
    allocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if allocate is None:
        return
    with open(path, "r+b") as file:
        long = ctypes.c_int64
        if allocate(file.fileno(), KEEP_SIZE, long(0), long(needed)):
            number = ctypes.get_errno()
            if number not in NO_RESERVATION:
                raise OSError(number, os.strerror(number))


class Sink(io.RawIOBase):
    """A file that HDF5 writes through.  After an error of the disk it takes and drops what still comes.

    HDF5 crashes when it closes a file that it could not write; here it never sees the error.
    """

    def __init__(self, path: Path):
        self.error: OSError | None = None
        self._place = self._size = 0
        self._file: io.FileIO | None = None
        self._attempt(lambda: setattr(self, "_file", open(path, "w+b", buffering=0)))

    def _attempt(self, function: Callable[[], object]) -> None:
        """Call a function that may fail for the disk, unless one has failed before."""
        if self.error is None:
            try:
                function()
            except OSError as error:
                self.error = error

    @staticmethod
    def _write_all(file: io.FileIO, place: int, data: memoryview) -> None:
        file.seek(place)
        while len(data):
            data = data[file.write(data) :]

    def write(self, data: Any) -> int:
        view, file = memoryview(data).cast("B"), self._file
        if file is not None:
            self._attempt(lambda: self._write_all(file, self._place, view))
        self._place += len(view)
        self._size = max(self._size, self._place)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        if self.error is None and self._file is not None:
            self._file.seek(self._place)
            self._file.readinto(view)
        self._place += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def truncate(self, size: int | None = None) -> int:
        self._size = self._place if size is None else size
        if self._file is not None:
            self._attempt(partial(self._file.truncate, self._size))
        return self._size

    def finish(self) -> OSError | None:
        """Close the file; returns the first error, if any."""
        if self._file is not None:
            self._attempt(self._file.close)
        return self.error


@contextmanager
def locked(comm: Comm, path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock file `path`: a second job that wants it is refused, or waits for its turn.

    The lock is the operating system's, held by rank 0, and ends with the process however that ends: it is
    never stale.  Over NFS it holds between hosts where the server runs a lock daemon.
    """
    held = None

    def take() -> None:
        nonlocal held
        held = _lock(path, wait)

    on_root(comm, take)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _lock(path: Path, wait: bool) -> int:
    """Take the lock of a file, and write into it who has it; returns its descriptor."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
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


def _synchronise(path: Path) -> None:
    """Wait until a file or a directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
