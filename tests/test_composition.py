"""log C of a lattice composed from smaller boxes, against exact boxes and against simulation."""

import math

import ising
import numpy as np
import pytest
from bindings import binding_of

from mpi_potts.binding import composition, library
from mpi_potts.binding.chains import Chain
from mpi_potts.binding.composition import compose, references, weights
from mpi_potts.binding.estimates import moments_of
from mpi_potts.binding.work import SliceLength, lengthen
from mpi_potts.graph import Graph
from mpi_potts.lattice import Lattice
from mpi_potts.methods import adapt
from mpi_potts.model.exact import Exact
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition
from mpi_potts.runtime.parallel import ALONE


def ball(shape):
    axes = np.meshgrid(*[(np.arange(n) + 0.5) / n * 2.0 - 1.0 for n in shape], indexing="ij")
    return np.sum([axis * axis for axis in axes], axis=0) <= 1.0


def counts(lattice):
    """Sites, pairs of neighbours and 1: what any composition of a box must reproduce."""
    return np.array([lattice.sites, lattice.edges, 1.0])


def boxes_of(sides, dimensions, neighbourhood):
    return [Lattice((side,) * dimensions, neighbourhood) for side in sides]


@pytest.mark.parametrize(
    "shape, neighbourhood",
    [
        ((50, 70), "first"),
        ((900, 1100), "first"),
        ((61, 40), "second"),
        ((32, 300), "first"),
        ((9, 11, 13), "first"),
        ((20, 31, 17), 18),
        ((60, 70, 50), "second"),
    ],
)
def test_the_weights_of_the_references_give_the_counts_of_a_box(shape, neighbourhood):
    lattice = Lattice(shape, neighbourhood)
    boxes = references(lattice)
    table = np.array([counts(box) for box in boxes])
    for weight in weights(lattice, boxes):
        assert np.count_nonzero(weight) <= len(boxes) - 1
        np.testing.assert_allclose(weight @ table, counts(lattice), rtol=1e-9)


@pytest.mark.parametrize("neighbourhood", ["first", "second", "hexagonal"])
def test_the_weights_of_the_references_give_sites_and_pairs_of_a_masked_plane(neighbourhood):
    lattice = Lattice((90, 110), neighbourhood, ball((90, 110)))
    boxes = references(lattice)
    for weight in weights(lattice, boxes):
        found = weight @ np.array([counts(box)[:2] for box in boxes])
        np.testing.assert_allclose(found, counts(lattice)[:2], rtol=1e-9)


def test_sites_at_steps_of_a_boundary_are_counted():
    stairs = Lattice((6, 6), "first", np.tri(6, dtype=bool))
    assert composition._steps(stairs) == 6 + 1  # the diagonal, and the corner opposite to it
    assert composition._steps(Lattice((5, 7))) == 4
    assert composition._steps(Lattice((4, 5, 6))) == 4 * (4 + 5 + 6) - 16
    assert composition._steps(Lattice((1, 9))) == 2  # its ends: all miss the neighbours across


def test_holes_of_one_site_are_counted_along_every_axis():
    plane = np.ones((6, 7), dtype=bool)
    plane[2, 3] = plane[3, 0] = False  # the second at the border: along one axis alone
    assert composition._holes(Lattice((6, 7), "first", plane)) == 3
    assert composition._holes(Lattice((6, 7))) == 0
    line = np.zeros((5, 5), dtype=bool)
    line[2] = True  # five sites between two that are missing
    assert composition._holes(Lattice((5, 5), "first", line)) == 5


def tiles(shape, side):
    """Squares of one side, one missing row and column apart."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return (rows % (side + 1) < side) & (columns % (side + 1) < side)


def scattered(shape, part):
    return np.random.default_rng(5).random(shape) >= part


@pytest.mark.parametrize(
    "lattice",
    [
        Lattice((1, 50_000)),
        Lattice((20, 3000)),
        Lattice((3, 140, 140)),
        Lattice((250, 250), "first", tiles((250, 250), 20)),
        Lattice((250, 250), "second", scattered((250, 250), 0.2)),
        Lattice((44, 44, 44), "first", scattered((44, 44, 44), 0.3)),
    ],
    ids=["line", "strip", "slab", "tiles", "ragged plane", "ragged volume"],
)
def test_what_is_like_none_of_the_boxes_is_not_composed_of_them(lattice):
    assert lattice.sites >= adapt.FEW_SITES
    assert references(lattice) == ()
    assert library.compose_pilot(ALONE, lattice, 3, None) is None
    # Its pilot is simulated, and `check` counts its sweeps.
    assert adapt.pilot_work(lattice, 100) == 100 * library.POINTS


def test_a_composed_pilot_takes_no_sweeps_of_the_lattice():
    assert adapt.pilot_work(Lattice((300, 300)), 100) == 0
    assert adapt.pilot_work(Lattice((100, 100)), 100) == 100 * library.POINTS


def diamond(side):
    """A square on its corner."""
    away = np.abs(np.arange(side) - side // 2)
    return away[:, None] + away <= side // 2


@pytest.mark.parametrize("labels", [2, 3])
def test_the_stated_error_holds_what_the_steps_of_a_boundary_leave_out(labels, monkeypatch):
    sides = (2, 3, 4, 5)
    monkeypatch.setattr(composition, "SIDES", {2: (sides, sides)})
    lattice = Lattice((9, 9), "first", diamond(9))
    beta = np.array([0.3, 0.6, 1.3, 1.6, 2.0]) * transition(lattice, labels)
    curves = [exact_curve(box, labels, beta) for box in boxes_of(sides, 2, "first")]
    mean, _ = Exact(lattice, labels).moments(beta)
    found = compose(lattice, curves, beta)
    assert (np.abs(found.mean - mean) <= 3 * found.mean_se).all()
    # Flat sides alone, of boxes that are exact, would not say so.
    monkeypatch.setattr(composition, "STEP", 0.0)
    monkeypatch.setattr(composition, "HOLE", 0.0)
    assert (np.abs(found.mean - mean) > 3 * compose(lattice, curves, beta).mean_se).any()


@pytest.mark.parametrize(("labels", "places"), [(2, (0.3, 0.6, 1.3, 1.6, 2.0)), (3, (0.3, 0.6, 1.3, 1.6))])
def test_the_stated_error_holds_what_holes_leave_out(labels, places, monkeypatch):
    sides = (2, 3, 4, 5)
    monkeypatch.setattr(composition, "SIDES", {2: (sides, sides)})
    mask = np.ones((10, 9), dtype=bool)
    mask[3, 4] = mask[6, 2] = False
    lattice = Lattice((10, 9), "first", mask)
    beta = np.array(places) * transition(lattice, labels)
    curves = [exact_curve(box, labels, beta) for box in boxes_of(sides, 2, "first")]
    mean, _ = Exact(lattice, labels).moments(beta)
    found = compose(lattice, curves, beta)
    assert (np.abs(found.mean - mean) <= 3 * found.mean_se).all()


@pytest.mark.parametrize("side", [400, 1000, 4000])
def test_what_grows_with_the_logarithm_of_the_side_is_left_out_in_a_known_part(side):
    """Against the weights by hand: of sides 1, L log L, and of L^2 log L, by Lagrange's formula."""
    lattice = Lattice((side, side))
    boxes = references(lattice)
    best, other = weights(lattice, boxes)
    at = np.array([box.shape[0] for box in boxes], dtype=float)
    for term, power in ((0, 2), (1, 1)):
        left = side**power * math.log(side) - best @ (at**power * np.log(at))
        part = abs(left / ((best - other) @ (at**power * np.log(at))))
        found = composition._of_logarithms(lattice, boxes, best, other, term)
        assert found == pytest.approx(min(part, composition.MOST), rel=1e-6)


def test_a_reference_leaves_nothing_out_of_itself():
    lattice = Lattice((64, 64))
    boxes = references(lattice)
    for term in (0, 1):
        assert composition._of_logarithms(lattice, boxes, *weights(lattice, boxes), term) == 0.0


def test_a_reference_is_composed_of_itself_alone():
    for lattice in (Lattice((64, 64)), Lattice((16, 16, 16))):
        best, _ = weights(lattice, references(lattice))
        alone = [float(box.shape == lattice.shape) for box in references(lattice)]
        np.testing.assert_allclose(best, alone, atol=1e-9)


def test_a_graph_has_no_references():
    lattice = Graph(4, np.array([[0, 1], [1, 2], [2, 3]]))
    assert references(lattice) == ()
    assert library.compose_pilot(ALONE, lattice, 3, None) is None


def exact_curve(lattice, labels, beta):
    mean, sd = Exact(lattice, labels).moments(beta)
    return binding_of(lattice, labels, beta, mean, sd)


@pytest.mark.parametrize("labels, neighbourhood", [(2, "first"), (3, "first"), (2, "second")])
def test_exact_small_boxes_give_the_exact_larger_box_away_from_the_transition(
    labels, neighbourhood, monkeypatch
):
    sides = (3, 4, 5, 6)
    monkeypatch.setattr(composition, "SIDES", {2: (sides, sides)})
    lattice = Lattice((7, 20), neighbourhood)
    # What is left out falls with the side over the correlation length: far from the transition it is little.
    crit = transition(lattice, labels)
    beta = np.array([0.0, 0.1, 0.2, 0.3]) * crit
    curves = [exact_curve(box, labels, beta) for box in boxes_of(sides, 2, neighbourhood)]
    found = compose(lattice, curves, beta)
    mean, sd = Exact(lattice, labels).moments(beta)
    np.testing.assert_allclose(found.mean, mean, atol=1e-3 * sd.max())
    np.testing.assert_allclose(found.sd, sd, rtol=5e-3)


@pytest.mark.parametrize("labels, shape", [(2, (9, 11)), (3, (7, 8))])
def test_near_the_transition_the_stated_error_holds_what_the_composition_leaves_out(
    labels, shape, monkeypatch
):
    sides = (3, 4, 5, 6)
    monkeypatch.setattr(composition, "SIDES", {2: (sides, sides)})
    lattice = Lattice(shape)
    beta = np.array([0.5, 0.8, 0.9, 1.0, 1.1, 1.3]) * transition(lattice, labels)
    curves = [exact_curve(box, labels, beta) for box in boxes_of(sides, 2, "first")]
    found = compose(lattice, curves, beta)
    mean, _ = Exact(lattice, labels).moments(beta)
    # The references are exact, so that all of the error is what was left out: no more than four stated ones.
    assert (np.abs(found.mean - mean) <= 4 * found.mean_se).all()
    assert found.mean_se.max() > 1e-3


def test_the_plane_of_two_labels_is_composed_of_exact_boxes(monkeypatch):
    sides = (8, 12, 16, 24)
    monkeypatch.setattr(composition, "SIDES", {2: (sides, sides)})
    lattice, beta = Lattice((30, 40)), np.array([0.3, 0.6, 1.3])
    moments = {side: np.array([ising.moments(side, side, b) for b in beta]).T for side in sides}
    curves = [binding_of(box, 2, beta, *moments[box.shape[0]]) for box in boxes_of(sides, 2, "first")]
    found = compose(lattice, curves, beta)
    mean, sd = np.array([ising.moments(30, 40, b) for b in beta]).T
    # In posterior sds of beta.
    assert (np.abs(found.mean - mean) < 0.01 * sd).all()
    np.testing.assert_allclose(found.sd, sd, rtol=0.01)


def simulated(lattice, labels, beta, sweeps):
    sampler = Sampler(lattice, labels, "swendsen-wang")
    kind = "random" if beta < transition(lattice, labels) else "ordered"
    chain = Chain.of_length(sweeps)
    for _ in lengthen(sampler, 1, beta, kind, chain, sweeps, SliceLength()):
        pass
    return moments_of({kind: chain.statistic}, lattice.degree)[0]


# As small as those that have no pilot of their own.
CASES = {
    "plane": Lattice((180, 230)),
    "disc": Lattice((220, 240), "first", ball((220, 240))),
    "eight": Lattice((200, 210), "second"),
    "hexagonal": Lattice((210, 200), "hexagonal"),
    "volume": Lattice((30, 34, 40)),
    "ball": Lattice((40, 44, 46), "first", ball((40, 44, 46))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_stated_error_covers_the_difference_to_simulation(case):
    lattice, labels = CASES[case], 3
    assert lattice.sites >= adapt.FEW_SITES
    found = library.compose_pilot(ALONE, lattice, labels, None)
    z = []
    for place in (0.6, 0.9, 1.0, 1.1, 1.4):
        i = int(np.abs(found.beta - place * transition(lattice, labels)).argmin())
        direct = simulated(lattice, labels, float(found.beta[i]), 400)
        z.append((found.mean[i] - direct.mean) / math.hypot(found.mean_se[i], direct.mean_se))
    assert max(map(abs, z)) < 4, z
