"""Large arrays by slabs: a few rows at a time, where what is made from all of them at once would not fit."""

from collections.abc import Iterator

# Values of a slab.
SLAB = 1 << 18


def rows_of(size: int) -> int:
    """How many rows of so many values make a slab; at least one."""
    return max(1, SLAB // max(1, size))


def slabs(rows: int, size: int = 1) -> Iterator[slice]:
    """Slices that divide rows of so many values each into slabs."""
    step = rows_of(size)
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))
