"""The choice between the two Swendsen-Wang kernels, and that both are right where they are chosen."""

import numpy as np
import pytest

from mpi_potts import rng
from mpi_potts.kernels import clusters, graph, swendsen_wang
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact


def ball(shape, thickness):
    """A hollow ball."""
    grid = np.ogrid[tuple(slice(-1, 1, n * 1j) for n in shape)]
    return np.abs(np.sqrt(sum(x**2 for x in grid)) - 0.9 + thickness / 2) < thickness / 2


SCATTERED = np.random.default_rng(1).random((40, 41, 42)) < 0.1
SHAPE = (40, 41, 42)
WORDS, EDGES = clusters.WordLayout, graph.EdgeLayout


@pytest.mark.parametrize(
    ("lattice", "kind"),
    [
        (Lattice((4, 5)), WORDS),
        (Lattice((125, 125)), WORDS),
        (Lattice((3, 300), "hexagonal"), WORDS),
        (Lattice((300, 3), 8), WORDS),
        (Lattice(SHAPE, 6, ball(SHAPE, 0.7)), WORDS),
        (Lattice(SHAPE, 26, ball(SHAPE, 0.7)), WORDS),
        (Lattice(SHAPE, 26, ball(SHAPE, 0.03)), EDGES),
        (Lattice(SHAPE, 6, SCATTERED), EDGES),
        (Lattice(SHAPE, 18, SCATTERED), EDGES),
    ],
)
def test_words_are_taken_where_they_are_filled(lattice, kind):
    layout = swendsen_wang.layout(lattice, 5)
    assert isinstance(layout, kind)
    labels = np.random.default_rng(2).integers(0, 5, lattice.shape).astype(np.uint8)
    state = swendsen_wang.from_labels(layout, labels)
    assert np.array_equal(swendsen_wang.to_labels(layout, state), np.where(lattice.exists, labels, 255))
    found = swendsen_wang.sweeps(layout, state, 0.4, rng.stream(1, rng.Purpose.PRIOR_SWEEP), 0, 3)
    assert found[-1] == lattice.statistic(swendsen_wang.to_labels(layout, state))


def test_sparse_sites_have_the_exact_moments():
    mask = np.zeros((9, 300), dtype=bool)
    mask[::4, ::40] = mask[1::4, ::40] = True
    lattice = Lattice(mask.shape, 4, mask)
    layout = swendsen_wang.layout(lattice, 3)
    assert isinstance(layout, EDGES)
    for beta in (0.0, 0.7, 1.5):
        mean, sd = Exact(lattice, 3).moments(beta)
        state = swendsen_wang.from_labels(layout, np.zeros(lattice.shape, dtype=np.uint8))
        draws = rng.stream(2, rng.Purpose.PRIOR_SWEEP, rng.float_bits(beta))
        chain = swendsen_wang.sweeps(layout, state, beta, draws, 0, 20_100)[100:]
        # 100 batches, much longer than the autocorrelation; 6 scores, Student's t on 99 degrees of freedom.
        for values, expected in ((chain, mean), ((chain - mean) ** 2, sd**2)):
            batches = values.reshape(100, -1).mean(axis=1)
            assert abs(batches.mean() - expected) < 4.5 * batches.std(ddof=1) / 10
