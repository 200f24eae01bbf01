"""Memory is asked about before it is taken: what cannot fit is refused in one line that names the bytes.

What is available is the least of what the machine has left, what the job's control group may still take (a
scheduler's limit), and the address space that the process may still use.
"""

import ctypes
import math
import os
import resource
from pathlib import Path

import numpy as np

from ..errors import InputError

# See malloc.h, and `give_back`.
M_MMAP_THRESHOLD, LARGE = -3, 1 << 22

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def available() -> float:
    """Bytes that this process may still take, as far as the system tells; infinite where it does not."""
    return max(0.0, min(_machine(), _control_group(), _address_space()))


def require(what: str, shape: tuple[int, ...], dtype: np.dtype | type, copies: float = 1.0) -> None:
    """Refuse an array of this shape and type, or several of them, where there is no memory for it."""
    require_bytes(what, copies * math.prod(map(int, shape)) * np.dtype(dtype).itemsize)


def require_bytes(what: str, needed: float) -> None:
    """Refuse what needs more bytes than are available."""
    free = available()
    if needed > free:
        raise InputError(f"{what}: needs {size(needed)} of memory, {size(free)} are available")


def size(count: float) -> str:
    """A number of bytes in words, such as 12.3 GB."""
    for unit, factor in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count / 1e6:.1f} MB"


def _machine():
    return _field("/proc/meminfo", "MemAvailable:")


def _address_space():
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return math.inf
    used = _field("/proc/self/status", "VmSize:")
    return limit - used if used < math.inf else limit


def _field(path, name):
    """The field `name` of a file of the Linux kernel, given there in kB, in bytes; infinite if not found."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            found = [line.split()[1] for line in file if line.startswith(name)]
        return 1024.0 * int(found[0])
    except (OSError, ValueError, IndexError):
        return math.inf


def _control_group():
    """What the group of this process, and each group above it, may still take: version 2, then version 1."""
    try:
        entries = [line.split(":", 2) for line in _MEMBERSHIP.read_text().splitlines()]
    except OSError:
        return math.inf
    free = [math.inf]
    for _, controllers, name in (entry for entry in entries if len(entry) == 3):
        if controllers == "":
            free.append(_tree(_GROUPS, name, "memory.max", "memory.current"))
        elif "memory" in controllers.split(","):
            files = "memory.limit_in_bytes", "memory.usage_in_bytes"
            free.append(_tree(_GROUPS / "memory", name, *files))
    return min(free)


def _tree(root, name, limit, usage):
    place, free = root / name.strip("/"), math.inf
    while True:
        try:
            allowed = int((place / limit).read_text())
            # Pages of files are given back when memory is needed.
            used = int((place / usage).read_text()) - _reclaimable(place)
            free = min(free, allowed - used)
        except (OSError, ValueError):  # no limit, or none that can be read
            pass
        if place == root or root not in place.parents:
            return free
        place = place.parent


def _reclaimable(place):
    text = (place / "memory.stat").read_text()
    found = [
        line.split()[1] for line in text.splitlines() if line.split()[0] in ("inactive_file", "active_file")
    ]
    return sum(map(int, found))


def resident() -> int:
    """The memory that this process holds, in bytes; where the system does not tell, the most so far."""
    now = _field("/proc/self/status", "VmRSS:")
    if now < math.inf:
        return int(now)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if os.uname().sysname == "Darwin" else 1024 * used


def give_back() -> None:
    """Have arrays from LARGE bytes on returned to the system when they are freed.

    The C library of Linux keeps those of up to 32 MB otherwise, once one was freed, in pieces that larger
    arrays do not fit into: what a run holds then depends on the order in which it took memory.
    """
    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
    except (AttributeError, OSError):  # another C library, with ways of its own
        pass
