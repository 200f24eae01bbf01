"""The door to Swendsen-Wang sweeps: which of two kernels sweeps a lattice.

Words of 64 sites (`clusters`) are many times faster where they are well filled: boxes, and masks of any shape
with an inside.  Sites scattered over the box, and sheets one site thick across the rows, leave few edges to a
word; an edge at a time (`graph`) then costs less, and is the only way in a graph.  The choice is a function
of the lattice alone.
"""

import numpy as np

from ..lattice import GRAPH, Lattice
from . import clusters, graph

# Edges to a word and direction: with fewer, `graph` was faster (shells, lines and random masks, 6 and 26).
FEWEST = 6

ClusterLayout = clusters.WordLayout | graph.EdgeLayout


def layout(lattice: Lattice, labels: int) -> ClusterLayout:
    """The layout of a lattice for labels 0..k-1."""
    if lattice.neighbourhood == GRAPH:
        return graph.layout(lattice, labels)
    found = clusters.layout(lattice, labels)
    # The three words of padding say nothing about a small lattice.
    masks = found.words.possible[:, 3:].size
    return found if lattice.edges >= FEWEST * masks else graph.layout(lattice, labels)


def from_labels(layout: ClusterLayout, labels: np.ndarray) -> np.ndarray:
    """The state of uint8 labels in the lattice's shape; masked pixels may hold anything."""
    return _kernel(layout).from_labels(layout, labels)


def to_labels(layout: ClusterLayout, state: np.ndarray) -> np.ndarray:
    """The labels of a state: uint8 of the lattice's shape, 255 where masked."""
    return _kernel(layout).to_labels(layout, state)


def sweeps(
    layout: ClusterLayout, state: np.ndarray, beta: float, stream: np.ndarray, first: int, count: int
) -> np.ndarray:
    """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each."""
    return _kernel(layout).swendsen_wang(layout, state, beta, stream, first, count)


def _kernel(layout):
    return graph if isinstance(layout, graph.EdgeLayout) else clusters
