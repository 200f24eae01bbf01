"""How the sites of any lattice lie in words, 64 to a word, for the search of clusters.

The lattice is cropped to the sites that exist.  A site's place is its raster number in that box: bit `place %
64` of word `place // 64`.  Of all words only those with a site are kept, in their order; one word of zeros, a
*gap*, stands for each stretch that is left out.  Two words of zeros come first, and one last.

A *direction* is a step to a neighbour that comes before in raster order.  The neighbour lies the same number
of places back from every site, 64 q + s, so the neighbours of a word's 64 sites are bits of two words that
follow each other: `aligned(words, u, s)` takes the low ones from word u, which lies q before, and the others
from word u - 1.  Where either was left out, a gap has its place.  The first direction is one place back.

Which sites have a neighbour in a direction is a mask.  The edges of the box, holes, and neighbours that
depend on the row, as in a hexagonal plane, are then one and the same.  So is a box one column wide, where
one place back is a step along another axis.

Labels are bit planes: plane p holds bit p of the labels, zero where there is no site.
"""

import math
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..lattice import MASKED, Lattice


class Words(NamedTuple):
    """What a kernel sees of a lattice with D directions."""

    exists: np.ndarray  # (words,) uint64: the sites
    possible: np.ndarray  # (D, words) uint64: the sites that have a neighbour in a direction
    source: np.ndarray  # (D, words) uint32: u
    shift: np.ndarray  # (D,) uint64: s
    follows: np.ndarray  # (D,) bool: this direction leads one place further back than the one before it
    pieces: np.ndarray  # (., 4) uint32: direction, first word, word after the last, u of the first


class WordLayout(NamedTuple):
    """How a lattice with k labels lies in words."""

    labels: int  # k
    shape: tuple  # of the lattice
    box: tuple  # slices of the part with sites
    kept: np.ndarray  # the words with sites, by their numbers in the box
    slots: np.ndarray  # the indices that they have here
    words: Words

    @property
    def planes(self) -> int:
        """The number of bits of a label."""
        return (self.labels - 1).bit_length()


def layout(lattice: Lattice, labels: int) -> WordLayout:
    """The layout of a lattice for labels 0..k-1."""
    if not 2 <= labels <= 255:
        raise ValueError("bit planes hold 2 to 255 labels")
    box = _bounds(lattice.exists)
    exists = lattice.exists[box]
    if exists.size >= 2**32:
        raise InputError(f"image.shape = {list(lattice.shape)}: fewer than 2**32 pixels are accepted")
    flat = _words(exists)
    kept = np.flatnonzero(flat)
    slots = np.arange(2, kept.size + 2) + np.cumsum(np.diff(kept, prepend=kept[0]) > 1)
    masks = _directions(Lattice(exists.shape, lattice.neighbourhood, exists), kept)
    words = _lay_out(kept, slots, flat[kept], np.array(sorted(masks)), masks)
    return WordLayout(labels, lattice.shape, box, kept, slots, words)


def from_labels(layout: WordLayout, labels: np.ndarray) -> np.ndarray:
    """(planes, words) uint64 from uint8 labels in the lattice's shape; masked pixels may hold anything."""
    state = np.zeros((layout.planes, layout.words.exists.size), dtype=np.uint64)
    for p, plane in enumerate(state):
        plane[layout.slots] = _words((labels[layout.box] >> p) & 1)[layout.kept]
    return state & layout.words.exists


def to_labels(layout: WordLayout, state: np.ndarray) -> np.ndarray:
    """uint8 labels in the lattice's shape, 255 where there is no pixel."""
    inside = np.where(_bits(layout, layout.words.exists), 0, MASKED).astype(np.uint8)
    for p, plane in enumerate(state):
        inside |= _bits(layout, plane) << p
    labels = np.full(layout.shape, MASKED, dtype=np.uint8)
    labels[layout.box] = inside
    return labels


def _bounds(exists):
    """Slices of the smallest box that has all sites and begins with a row of even number."""
    axes = range(exists.ndim)
    lines = [np.flatnonzero(exists.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
    bounds = [[int(line[0]), int(line[-1]) + 1] for line in lines]
    bounds[0][0] -= bounds[0][0] % 2
    return tuple(slice(*ends) for ends in bounds)


def _directions(lattice, kept):
    """For each number of places back to some neighbour, and for 1, the kept words of the sites that have it.

    In a narrow box two steps may lead equally far back, from different sites: they are one direction.
    """
    masks = {1: np.zeros(kept.size, dtype=np.uint64)}
    place = np.arange(lattice.exists.size, dtype=np.uint32).reshape(lattice.shape)
    has = np.zeros(lattice.shape, dtype=bool)
    for ends, places, (_, later) in zip(*map(lattice.pairs, (lattice.exists, place, has))):
        both = np.logical_and(*ends)
        if both.any():
            back = int(places[1].flat[0] - places[0].flat[0])
            later[...] = both
            masks[back] = masks.get(back, np.uint64(0)) | _words(has)[kept]
            later[...] = False
    return masks


def _lay_out(kept, slots, sites, back, masks):
    """The words at their indices among the gaps, with the directions in ascending order."""
    size = int(slots[-1]) + 2
    spread = np.zeros((1 + back.size, size), dtype=np.uint64)
    spread[:, slots] = [sites, *(masks[places] for places in back.tolist())]
    index = np.ones((back.size, size), dtype=np.uint32)
    index[:, slots] = [_index(kept, slots, places // 64) for places in back.tolist()]
    return Words(
        exists=spread[0],
        possible=spread[1:],
        source=index,
        shift=(back % 64).astype(np.uint64),
        follows=np.diff(back, prepend=0) == 1,
        pieces=np.concatenate([_pieces(d, slots, u[slots]) for d, u in enumerate(index)]),
    )


def _index(kept, slots, back):
    """u of every kept word: the index of the word that lies `back` before it, or of the gap in its place."""
    wanted = kept - back
    after = np.searchsorted(kept, wanted)
    there = kept[after] == wanted
    before = (after > 0) & (kept[after - 1] == wanted - 1)
    return np.where(there, slots[after], np.where(before, slots[after - 1] + 1, 1))


def _pieces(direction, slots, index):
    """(., 4) stretches of words along which u grows with the word, so that a loop over them needs no index.

    Words that have nothing at all q before them (u is 1) are in none.
    """
    slots, index = slots[index > 1], index[index > 1].astype(np.int64)
    first = np.flatnonzero(np.diff(index - slots, prepend=1))
    last = np.append(first[1:], slots.size) - 1
    rows = [np.full(first.size, direction), slots[first], slots[last] + 1, index[first]]
    return np.stack(rows, axis=1).astype(np.uint32)


def _words(bits):
    """The words of an array of bits, in raster order."""
    octets = np.packbits(bits, axis=None, bitorder="little")
    padded = np.zeros(-(-octets.size // 8) * 8, dtype=np.uint8)
    padded[: octets.size] = octets
    return padded.view("<u8").astype(np.uint64)


def _bits(layout, words):
    """uint8 zeros and ones of words, in the shape of the box."""
    shape = [part.stop - part.start for part in layout.box]
    flat = np.zeros(-(-math.prod(shape) // 64), dtype="<u8")
    flat[layout.kept] = words[layout.slots]
    return np.unpackbits(flat.view(np.uint8), count=math.prod(shape), bitorder="little").reshape(shape)
