"""Work on chains: a rank sweeps its rows in slices, keeps them in a file of its own, and can be asked to
stop.

A rank meets the others only at the end of its work.  Between slices the clock and the signals are looked at,
and now and then all that the rank has of this session is saved: see `chains`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import rng
from ..model.potts import Sampler
from ..rng import Purpose
from ..runtime.control import Control
from ..runtime.parallel import ALONE, Bell, Comm, bcast
from ..runtime.progress import Progress
from .chains import Chain, Row, write_chains

# Sweeps are done in slices of about this many seconds, between which the clock and the signals are looked at.
SLICE = 0.25
# A rank saves its own part this often (seconds), and never spends more than this fraction of its time on it.
SAVE_SECONDS = 20.0
SAVE_FRACTION = 0.05

_SWEEPS = {"random": Purpose.PRIOR_SWEEP, "ordered": Purpose.ORDERED_SWEEP}


class SliceLength:
    """How many sweeps take about SLICE seconds, by the time that the last ones took."""

    def __init__(self) -> None:
        self._count = 1

    def sweeps(self, left: int) -> int:
        """The number of sweeps for the next slice, of so many that are left."""
        return min(self._count, left)

    def note(self, count: int, seconds: float) -> None:
        """Set the length of a slice by `count` sweeps that took so many seconds."""
        self._count = max(1, int(SLICE * count / max(seconds, 1e-9)))


def lengthen(
    sampler: Sampler, seed: int, beta: float, kind: str, chain: Chain, sweeps: int, length: SliceLength
) -> Iterator[int]:
    """Bring one chain to so many sweeps, a slice at a time; yields the sweeps of each slice."""
    if chain.done >= sweeps:
        return
    address = rng.float_bits(beta)
    stream = rng.stream(seed, _SWEEPS[kind], address)
    if chain.packed is None:
        state = sampler.start(kind, rng.stream(seed, Purpose.START, address))
    else:
        state = sampler.unpack(chain.packed)
    while chain.done < sweeps:
        count, started = length.sweeps(sweeps - chain.done), time.perf_counter()
        values = sampler.sweeps(state, beta, stream, chain.done, count)
        chain.extend(values, lambda: sampler.pack(state))
        length.note(count, time.perf_counter() - started)
        yield count


def session_name(comm: Comm) -> str:
    """A name for the files of this session, the same on every rank."""
    return bcast(comm, time.strftime("%Y%m%dT%H%M%S") + f"-{time.time_ns() % 10**9:09d}")


def work(
    comm: Comm, slices: Iterator[tuple[Row, int]], part: "Part", control: Control, progress: Progress
) -> None:
    """Run the stage until it ends or someone is asked to stop; the ranks meet only at the end of it."""
    bell = Bell(comm)
    for row, count in slices:
        part.add(row)
        progress.advance(count * comm.size)
        if control.stop:
            bell.ring()
        if bell.heard():
            break
        part.save_if_due()
    part.save()
    bell.close()


class Part:
    """This rank's own file of the rows it worked on in this session, rewritten as they grow."""

    def __init__(
        self, comm: Comm, directory: Path, identity: dict[str, Any], size: int, keep: bool, minutes: float
    ):
        """directory : of the parts.  size : of packed labels.  keep : whether those of finished rows are
        kept. minutes : between two savings, at most."""
        self.path = directory / f"{session_name(comm)}-{comm.rank}.h5"
        self._identity, self._size, self._keep = identity, size, keep
        self._rows: list[Row] = []
        self._unsaved = False
        self._interval = min(SAVE_SECONDS, 60.0 * minutes)
        self._next = time.monotonic() + self._interval

    def add(self, row: Row) -> None:
        """Take up the row in hand; the one before it is then finished."""
        self._unsaved = True
        if self._rows and self._rows[-1] is row:
            return
        if self._rows:
            for chain in self._rows[-1].chains.values():
                chain.close(self._keep)
        self._rows.append(row)

    def save_if_due(self) -> None:
        """Save if enough time has passed since this rank saved last."""
        if time.monotonic() >= self._next:
            self.save()

    def save(self) -> None:
        """Write all rows of this session into the file of this rank: whole, or the old file stays."""
        if not self._unsaved:
            return
        started = time.monotonic()
        write_chains(ALONE, self.path, self._identity, self._rows, self._size, "gather")
        self._unsaved = False
        now = time.monotonic()
        self._next = now + max(self._interval, (now - started) / SAVE_FRACTION)
