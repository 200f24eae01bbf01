"""Where the Gibbs kernels keep the labels of a lattice, whatever its dimensions, neighbourhood and mask.

Places.  Rows along the last axis are split by the parity of x.  Row by row, the pairs x // 2 of which a pixel
exists make segments, wherever fewer than `PADDING` of them are missing in between; the segments are stored
one after the other, with `PADDING` absent places between them: memory goes with the number of pixels that
exist, not with the box around them.  Even pixels are at place start + x // 2, odd ones `half` further on.  A
place holds a label, or 255 where no pixel exists, which equals no label: that is the free boundary.

Pieces.  In one row and parity all pixels have the same colour, so the pixels of a colour come in runs of
places.  Runs are cut into pieces of at most `PIECE` places.  The neighbours of a piece at a step (dz, dy, dx)
are a run of places in another row: within one segment, since a piece with a neighbour on either side is
shorter than the gap between two, or in the empty places at the beginning, if there is none.  `rows` has for
each piece the place at its own x // 2 in each neighbouring row, even half; the rest of a step is a constant.

Blocks.  The pixels of a colour, in raster order, are taken in blocks of `BLOCK`: the unit of all loops,
random numbers and sums.  Observations and counts are kept in this order, the last block of a colour filled
up.  Holes of up to `BRIDGE` places are kept in as well: they cost less than another piece.  No result depends
on how blocks are divided between calls, threads or ranks.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..lattice import MASKED, Lattice

BLOCK = 512

# Places that are copied at once; a piece and its two neighbours fit between two segments.
PIECE = 32
PADDING = PIECE + 2
BRIDGE = 4


class Pieces(NamedTuple):
    """The pieces of all blocks, colour by colour, and where their neighbours are; for kernels.

    Blocks are numbered through all colours, and those of colour c are first[c]..first[c + 1] - 1.
    """

    first: np.ndarray  # (colours + 1,) int64 the first block of each colour
    start: np.ndarray  # (blocks + 1,) int32 the first piece of each block
    apart: np.ndarray  # (blocks,) int32 from here on, pieces are close to places of the next block
    absent: np.ndarray  # (blocks * BLOCK,) uint8 255 where there is no pixel, else 0
    place: np.ndarray  # (pieces,) int32 the first place
    length: np.ndarray  # (pieces,) uint8 the number of places
    rows: np.ndarray  # (pieces, R) int32 its place in each neighbouring row
    half: int  # the distance from even to odd pixels
    slot: np.ndarray  # (colours, M) int32 the row, 0..R-1, of each step, those to earlier colours first
    shift: np.ndarray  # (colours, 2, M) int32 the rest of the step, from an even or an odd pixel
    earlier: np.ndarray  # (colours,) int32 the number of steps to earlier colours


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """The sites of a lattice, or of any graph, with `labels` = k labels, in blocks, colour by colour.

    position : (n,) of each site that exists, in raster order: its number in the order of the blocks.
    pieces   : where sites and their neighbours are, for kernels; `first` has the first block of each colour.
    """

    lattice: Lattice
    labels: int
    position: np.ndarray = field(repr=False)
    pieces: Any = field(repr=False)

    @property
    def colours(self) -> int:
        """The number of colours."""
        return self.pieces.first.size - 1

    @property
    def blocks(self) -> int:
        """The number of blocks of all colours."""
        return int(self.pieces.first[-1])

    def blocks_of(self, colour: int) -> int:
        """The number of blocks of one colour; a colour may be empty."""
        return int(self.pieces.first[colour + 1] - self.pieces.first[colour])

    def scatter(self, image: np.ndarray, fill: float) -> np.ndarray:
        """(blocks * BLOCK,) the pixels of an image in the order of the blocks, `fill` where there is none."""
        values = np.full(self.blocks * BLOCK, fill, dtype=image.dtype)
        values[self.position] = image[self.lattice.exists]
        return values

    def gather(self, values: np.ndarray, fill: float = 0) -> np.ndarray:
        """The image (*shape, ...) of an array (blocks * BLOCK, ...), `fill` where masked."""
        if self.lattice.mask is None:
            return values[self.position].reshape(*self.lattice.shape, *values.shape[1:])
        image = np.full((*self.lattice.shape, *values.shape[1:]), fill, dtype=values.dtype)
        image[self.lattice.exists] = values[self.position]
        return image


@dataclass(frozen=True, eq=False)
class PieceLayout(BlockLayout):
    """The places of one lattice.

    places : how many a state has.  place : (n,) int32, of each pixel that exists, in raster order.
    """

    places: int
    place: np.ndarray = field(repr=False)


def from_labels(layout: PieceLayout, labels: np.ndarray) -> np.ndarray:
    """The state, (places,) uint8, of an image of labels; what stands on masked pixels does not matter."""
    state = np.full(layout.places, MASKED, dtype=np.uint8)
    state[layout.place] = np.asarray(labels)[layout.lattice.exists]
    return state


def places(layout: PieceLayout) -> np.ndarray:
    """(n,) int32 where in a state the pixels that exist are, in raster order."""
    return layout.place


def to_labels(layout: PieceLayout, state: np.ndarray) -> np.ndarray:
    """The image of labels, uint8, 255 where masked."""
    labels = np.full(layout.lattice.shape, MASKED, dtype=np.uint8)
    labels[layout.lattice.exists] = state[layout.place]
    return labels


class _Segments:
    """Segments of pairs of pixels, given by their keys: row * width + x // 2, with a margin all around."""

    def __init__(self, keys):
        """keys : (n,) of the pixels that exist, ascending."""
        begins = np.flatnonzero(np.append(True, keys[1:] - keys[:-1] > PADDING))
        self.first = keys[begins].astype(np.int64)
        self.last = keys[np.append(begins[1:], keys.size) - 1].astype(np.int64)
        self.pixels = np.diff(begins, append=keys.size)
        length = self.last - self.first + 1 + PADDING
        # In front, places for all that does not exist.
        self.start = 3 * PADDING + np.cumsum(length) - length
        self.places = int(self.start[-1] + length[-1] + PADDING)

    def places_of(self, keys):
        """The places of even pixels with these keys, those of all pixels that exist."""
        places = keys.astype(np.int64, copy=False) if keys.dtype.itemsize > 4 else keys.copy()
        places += np.repeat((self.start - self.first).astype(places.dtype), self.pixels)
        return places.astype(np.int32, copy=False)

    def key(self, places):
        """The keys of places within segments."""
        found = np.searchsorted(self.start, places, side="right") - 1
        return self.first[found] + places - self.start[found]

    def place_near(self, keys, length):
        """The place of pieces in another row, where there may be nothing."""
        found = np.maximum(np.searchsorted(self.first, keys + length, side="right") - 1, 0)
        near = (self.last[found] >= keys - 1) & (self.first[found] <= keys + length)
        return np.where(near, self.start[found] + keys - self.first[found], PADDING)


def _steps(lattice, row):
    """All steps (dz, dy, dx) to neighbours from rows of this parity."""
    return np.pad(lattice.offsets(row), ((0, 0), (3 - lattice.dimensions, 0)))


def _neighbouring_rows(lattice):
    """The steps (dz, dy) to all rows with neighbours."""
    steps = np.concatenate([_steps(lattice, 0), _steps(lattice, 1)])
    return sorted({(dz, dy) for dz, dy, _ in steps.tolist()})


def _step_tables(lattice, half):
    """slot, shift and earlier of `Pieces`."""
    rows = _neighbouring_rows(lattice)
    parities = np.indices((2,) * lattice.dimensions).reshape(lattice.dimensions, -1)
    colour = lattice.colour(parities)
    slot, shift, earlier = [], [], []
    for c in range(colour.max() + 1):
        # Any pixel of the colour will do: all have neighbours of the same colours.
        pixel = parities[:, np.flatnonzero(colour == c)[0]]
        steps = _steps(lattice, pixel[-2])
        there = lattice.colour((pixel + steps[:, 3 - lattice.dimensions :]).T)
        steps = steps[np.argsort(there, kind="stable")]
        earlier.append((there < c).sum())
        slot.append([rows.index((dz, dy)) for dz, dy, _ in steps.tolist()])
        ends = np.arange(2)[:, None] + steps[:, 2]
        shift.append(ends % 2 * half + ends // 2)
    return [np.array(table, dtype=np.int32) for table in (slot, shift, earlier)]


def _bridge(place):
    """The places of a colour with the small holes between them, and the number of each pixel among these."""
    step = np.diff(place, prepend=np.int32(0))
    step[(step < 1) | (step > BRIDGE + 1)] = 1
    number = np.cumsum(step, dtype=np.int32) - np.int32(1)
    if place.size == 0 or number[-1] == place.size - 1:
        return place, number
    last = np.zeros(number[-1] + 1, dtype=np.int32)
    last[number] = np.arange(place.size)
    last = np.maximum.accumulate(last)
    return (place - number)[last] + np.arange(last.size, dtype=np.int32), number


def _cut(place):
    """Where the pieces of a colour begin: at gaps between its places, at blocks, and in long runs."""
    gaps = np.flatnonzero(np.diff(place, prepend=np.int32(-2)) != 1)
    begins = np.union1d(gaps, np.arange(0, place.size, BLOCK))
    length = np.diff(begins, append=place.size)
    pieces = -(-length // PIECE)
    # The first, second, ... piece of each run.
    number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.repeat(begins, pieces) + number * PIECE


def _close_to_next(place, block):
    """Which pieces of a colour begin less than `PIECE` before the first place of the next block."""
    following = np.searchsorted(block, block, side="right")
    ahead = np.append(place, np.iinfo(place.dtype).max)[following] - place
    return (0 < ahead) & (ahead < PIECE)


def _pieces_of(place, segments, half, steps):
    """The pieces of one colour, given its places: block, place, length, rows."""
    begins = _cut(place)
    length = np.diff(begins, append=place.size)
    keys = segments.key(place[begins].astype(np.int64) % half)
    rows = [segments.place_near(keys + step, length) for step in steps]
    return begins // BLOCK, place[begins], length, np.stack(rows, axis=1)


def _put_together(parts, first, position, tables, half):
    """`Pieces` from those of every colour; first: the first block of each."""
    absent = np.full(first[-1] * BLOCK, MASKED, dtype=np.uint8)
    absent[position] = 0
    close = np.concatenate([_close_to_next(place, block) for block, place, *_ in parts])
    block = np.concatenate([part[0] + before for part, before in zip(parts, first)])
    place, length, rows = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    start = np.searchsorted(block, np.arange(first[-1] + 1)).astype(np.int32)
    apart = start[1:] - np.bincount(block, weights=close, minlength=first[-1]).astype(np.int32)
    length, rows = length.astype(np.uint8), rows.astype(np.int32)
    return Pieces(first, start, apart, absent, place, length, rows, half, *tables)


def _find(lattice):
    """keys (n,) of the pixels that exist, whether x is odd, and their colours; the keys of steps to rows."""
    rows, columns = lattice.shape[-2:]
    width = columns // 2 + 2 * PADDING
    steps = [(dz * (rows + 2) + dy) * width for dz, dy in _neighbouring_rows(lattice)]
    # In place, and in four bytes, where it can be: these are the largest arrays of all.
    last = ((math.prod(lattice.shape[:-2]) + 1) * (rows + 2) + 4) * width
    x = np.flatnonzero(lattice.exists)
    x = x.astype(np.int32 if last < 2**31 else np.int64, copy=False)
    keys = x // columns
    x -= keys * columns
    z = keys // rows
    parities = [(i % 2).astype(np.uint8) for i in (z, keys - z * rows, x)]
    x //= 2
    # A row of margin before and after each plane.
    keys += 2 * z
    keys += rows + 3
    keys *= width
    keys += x
    keys += PADDING
    return keys, parities[-1], lattice.colour(parities[3 - lattice.dimensions :]), steps


def layout(lattice: Lattice, labels: int) -> PieceLayout:
    """The layout of a lattice with labels 0..k-1."""
    keys, odd, colour, steps = _find(lattice)
    segments = _Segments(keys)
    half = -(-segments.places // 64) * 64
    if 2 * half >= 2**31:
        raise InputError(f"image.shape = {list(lattice.shape)}: fewer than 2**31 pixels are accepted")
    place = segments.places_of(keys)
    del keys
    place += odd * np.int32(half)
    del odd
    tables = _step_tables(lattice, half)
    parts, first, position = [], [0], np.empty(place.size, dtype=np.int32)
    for c in range(tables[0].shape[0]):
        mine = np.flatnonzero(colour == c)
        bridged, number = _bridge(place[mine])
        parts.append(_pieces_of(bridged, segments, half, steps))
        position[mine] = first[-1] * BLOCK + number
        first.append(first[-1] - (-bridged.size // BLOCK))
    pieces = _put_together(parts, np.array(first), position, tables, half)
    return PieceLayout(lattice, labels, position, pieces, 2 * half, place)
