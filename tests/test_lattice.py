"""The lattice against lists of neighbour pairs made site by site."""

import itertools

import numpy as np
import pytest

from mpi_potts.errors import InputError
from mpi_potts.lattice import Lattice

SHAPES = [(2, 3), (1, 7), (6, 1), (5, 4), (2, 2, 2), (3, 4, 2), (1, 3, 3)]
NAMES = {2: ("first", "second", "hexagonal"), 3: ("first", 18, "second")}
KINDS = [(shape, n) for shape in SHAPES for n in NAMES[len(shape)]]
COLOURS = {"first": (2, 2), "hexagonal": (4, 4), 18: (4, 4), "second": (4, 8)}


def neighbour_pairs(shape, neighbourhood, mask=None):
    """All pairs of neighbours, by looking at every pair of sites."""
    sites = [s for s in np.ndindex(*shape) if mask is None or mask[s]]

    def near(a, b):
        if neighbourhood == "hexagonal":
            # Centres of hexagons: odd rows are shifted by half a pixel, rows are sqrt(3) / 2 apart.
            (x, y), (u, v) = ((c + r % 2 / 2, r * 0.75**0.5) for r, c in (a, b))
            return abs((x - u) ** 2 + (y - v) ** 2 - 1) < 1e-9
        steps = [abs(x - y) for x, y in zip(a, b)]
        return max(steps) == 1 and sum(steps) <= {"first": 1, 18: 2, "second": 3}[neighbourhood]

    return [(a, b) for a, b in itertools.combinations(sites, 2) if near(a, b)]


def masks(shape):
    """No mask, and random ones that leave at least one edge."""
    yield None
    draw = np.random.default_rng(5)
    for _ in range(6):
        mask = draw.random(shape) < 0.7
        if neighbour_pairs(shape, "first", mask):
            yield mask


@pytest.mark.parametrize(("shape", "neighbourhood"), KINDS)
def test_edges_are_the_pairs_of_neighbours_that_exist(shape, neighbourhood):
    for mask in masks(shape):
        lattice = Lattice(shape, neighbourhood, mask)
        assert lattice.edges == len(neighbour_pairs(shape, neighbourhood, mask))
        assert lattice.sites == (np.prod(shape) if mask is None else mask.sum())


@pytest.mark.parametrize(("shape", "neighbourhood"), KINDS)
def test_no_two_neighbours_share_a_colour(shape, neighbourhood):
    colours = Lattice(shape, neighbourhood).colours
    assert all(colours[a] != colours[b] for a, b in neighbour_pairs(shape, neighbourhood))
    assert colours.max() < COLOURS[neighbourhood][len(shape) - 2]


@pytest.mark.parametrize(("shape", "neighbourhood"), KINDS)
def test_statistic_counts_every_like_pair_once(shape, neighbourhood):
    draw = np.random.default_rng(6)
    for mask in masks(shape):
        lattice = Lattice(shape, neighbourhood, mask)
        labels = draw.integers(0, 3, shape).astype(np.uint8)
        if mask is not None:
            labels[~mask] = 255
        like = sum(labels[a] == labels[b] for a, b in neighbour_pairs(shape, neighbourhood, mask))
        assert lattice.statistic(labels) == like
        assert lattice.statistic(np.zeros(shape, dtype=np.uint8)) == lattice.edges


def test_second_order_lattices_have_all_their_edges():
    # rows, columns and both diagonals; counting one diagonal only, or halving all, is a known mistake.
    assert Lattice((10, 20), "second").edges == 10 * 19 + 9 * 20 + 2 * 9 * 19
    assert Lattice((3, 3, 3), "second").edges == sum(
        max(abs(x - y) for x, y in zip(a, b)) == 1
        for a, b in itertools.combinations(itertools.product(range(3), repeat=3), 2)
    )


def test_digest_changes_with_shape_neighbourhood_and_mask_only():
    mask = np.ones((4, 6), dtype=bool)
    holed, other = mask.copy(), mask.copy()
    holed[1, 2] = False
    other[2, 1] = False
    different = [
        Lattice((4, 6)),
        Lattice((6, 4)),
        Lattice((4, 6, 1)),
        Lattice((1, 4, 6)),
        Lattice((24, 1)),
        Lattice((4, 6), "second"),
        Lattice((4, 6), "first", holed),
        Lattice((4, 6), "first", other),
        Lattice((4, 6), "second", holed),
    ]
    assert len({lattice.digest for lattice in different}) == len(different)
    assert Lattice((4, 6)).digest == Lattice([4, 6], "first", mask).digest
    assert Lattice((4, 6), "first", holed).digest == Lattice((4, 6), "first", holed.astype(np.uint8)).digest


@pytest.mark.parametrize(
    ("shape", "number", "name"),
    [((4, 5), 4, "first"), ((4, 5), 8, "second"), ((3, 4, 5), 6, "first"), ((3, 4, 5), 26, "second")],
)
def test_the_number_of_neighbours_is_a_name(shape, number, name):
    lattice = Lattice(shape, number)
    assert lattice.neighbourhood == name and lattice.digest == Lattice(shape, name).digest
    assert 2 * len(lattice.half_offsets) == number
    assert Lattice(shape, str(number)).digest == lattice.digest


def test_a_mask_without_holes_is_no_mask():
    mask = np.ones((3, 3), dtype=bool)
    assert Lattice((3, 3), "first", mask).mask is None
    mask[0, 0] = False
    assert Lattice((3, 3), "first", mask).exists.sum() == 8


def test_transition_is_exact_in_the_plane():
    lattice = Lattice((10, 10))
    for k in (2, 3, 6):
        assert lattice.transition(k) == pytest.approx(np.log(1 + np.sqrt(k)), rel=1e-14)
    assert not lattice.first_order_transition(4)
    assert lattice.first_order_transition(5)
    # Houtappel (1950) for k = 2; v**3 + 3 v**2 = k for all.
    assert Lattice((10, 10), "hexagonal").transition(2) == pytest.approx(np.log(3) / 2, rel=1e-14)
    for k in (3, 4, 5, 200):
        v = np.expm1(Lattice((10, 10), "hexagonal").transition(k))
        assert v**3 + 3 * v**2 == pytest.approx(k, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (((5,),), "image.shape"),
        (((2, 2, 2, 2),), "image.shape"),
        (((0, 5),), "image.shape"),
        (((4, 4), "third"), "model.neighbourhood"),
        (((4, 4), 6), "model.neighbourhood"),
        (((4, 4), 18), "model.neighbourhood"),
        (((4, 4, 4), 8), "model.neighbourhood"),
        (((4, 4, 4), "hexagonal"), "model.neighbourhood"),
        (((4, 4), "first", np.ones((4, 5), dtype=bool)), "mask"),
        (((4, 4), "first", np.zeros((4, 4), dtype=bool)), "neighbours"),
        (((2, 2), "first", np.eye(2, dtype=bool)), "neighbours"),
        (((1, 1),), "neighbours"),
    ],
)
def test_what_is_no_lattice_is_refused_by_name(arguments, names):
    with pytest.raises(InputError, match=names):
        Lattice(*arguments)


def test_diagonal_neighbours_are_enough_for_a_second_order_lattice():
    assert Lattice((2, 2), "second", np.eye(2, dtype=bool)).edges == 1
