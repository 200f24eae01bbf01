"""Where numba keeps compiled kernels: beside them or in the user's cache, or else in the temporary directory.

numba takes the first of these two that can be written, and fails without a word of what to do where neither
can: an installation of the administrator's, started on a node without a home.  Kernels are read from a cache
as code, so a directory that others can write must not be one.
"""

import os
import tempfile
from pathlib import Path

import numba
from numba.misc.appdirs import AppDirs

from ..errors import InputError

VARIABLE = "NUMBA_CACHE_DIR"


def ensure() -> None:
    """See to it that there is a place, before the first kernel is defined."""
    if numba.config.CACHE_DIR:
        chosen = Path(numba.config.CACHE_DIR)
        if not _can_be_written(chosen):
            raise InputError(f"{VARIABLE} = {chosen}: a directory that can be written is accepted")
        return
    usual = Path(__file__).parent / "__pycache__", Path(AppDirs("numba", False).user_cache_dir)
    if any(_can_be_written(place) for place in usual):
        return
    place = Path(tempfile.gettempdir()) / f"mpi_potts-numba-{os.getuid()}"
    if not (_can_be_written(place) and _ours_alone(place)):
        raise InputError(
            f"compiled kernels can be kept neither in {usual[0]} nor in {usual[1]} nor in {place}; "
            f"{VARIABLE} names a directory that can be written"
        )
    # numba reads the one when it looks for a place, and the other again when it compiles.
    os.environ[VARIABLE] = numba.config.CACHE_DIR = str(place)


def _can_be_written(place: Path) -> bool:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _ours_alone(place: Path) -> bool:
    """Whether nobody else can have put a kernel there."""
    status = place.lstat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
