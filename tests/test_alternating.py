"""Swendsen-Wang and Gibbs by turns: labels go from kernel to kernel and back unchanged, on every lattice."""

import numpy as np
import pytest

from mpi_potts import rng
from mpi_potts.binding.compute import choose_sampler
from mpi_potts.config.inputs import PrecomputeKeys
from mpi_potts.graph import Graph
from mpi_potts.kernels import alternating, clusters
from mpi_potts.lattice import Lattice
from mpi_potts.model.potts import Sampler
from mpi_potts.rng import Purpose

STREAM = rng.stream(5, Purpose.PRIOR_SWEEP)


def holes(shape, part):
    return np.random.default_rng(1).random(shape) >= part


CASES = {
    "plane": (Lattice((37, 130)), 6),
    "one row": (Lattice((1, 70)), 2),
    "one column": (Lattice((70, 1)), 3),
    "masked plane": (Lattice((33, 67), "first", holes((33, 67), 0.2)), 3),
    "second order": (Lattice((21, 30), "second"), 9),
    "hexagonal": (Lattice((20, 41), "hexagonal"), 5),
    "volume": (Lattice((5, 7, 66)), 4),
    "masked volume, 26": (Lattice((6, 9, 67), 26, holes((6, 9, 67), 0.3)), 17),
}
SCATTERED = Lattice((40, 64, 64), "first", holes((40, 64, 64), 0.97))


def labels_of(lattice, k):
    return np.random.default_rng(k).integers(0, k, lattice.shape).astype(np.uint8)


@pytest.mark.parametrize("name", CASES)
def test_labels_go_to_the_places_of_the_other_kernel_and_come_back(name):
    lattice, k = CASES[name]
    layout, z = alternating.layout(lattice, k), labels_of(lattice, k)
    state = alternating.from_labels(layout, z)
    octets = np.zeros(8 * layout.clusters.words.exists.size, dtype=np.uint64)
    way = alternating.Way(octets, layout.stretches, layout.empty.copy().reshape(-1))
    alternating.to_places(state, way)
    assert (way.places == layout.kernel.from_labels(layout.gibbs, z).reshape(-1)).all()
    back = np.zeros_like(state)
    octets[:] = 0
    alternating.from_places(way, back)
    assert (back == state).all()


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_is_one_of_each_kernel(name):
    lattice, k = CASES[name]
    sampler, z = Sampler(lattice, k, "alternating"), labels_of(lattice, k)
    state, layout = sampler.state(z), alternating.layout(lattice, k)
    found = sampler.sweeps(state, 0.7, STREAM, 3, 4)
    by_image = alternating.from_labels(layout, z)
    expected = [alternating._by_image(layout, by_image, 0.7, STREAM, t) for t in range(3, 7)]
    assert found.tolist() == expected and (state == by_image).all()
    assert found[-1] == lattice.statistic(sampler.labels(state))


@pytest.mark.parametrize(
    "lattice", [SCATTERED, Graph(5, np.array([[0, 1], [1, 2], [2, 3], [0, 4]]))], ids=["scattered", "graph"]
)
def test_labels_go_by_way_of_an_image_where_clusters_have_no_words(lattice):
    sampler = Sampler(lattice, 3, "alternating")
    assert not isinstance(alternating.layout(lattice, 3).clusters, clusters.WordLayout)
    assert not alternating.fast(lattice, 3)
    state = sampler.state(labels_of(lattice, 3))
    found = sampler.sweeps(state, 0.4, STREAM, 0, 3)
    assert found[-1] == lattice.statistic(sampler.labels(state))


def test_how_sweeps_are_split_changes_nothing():
    lattice, k = CASES["plane"]
    sampler, whole, parts = Sampler(lattice, k, "alternating"), [], []
    state = sampler.start("ordered", STREAM)
    whole = sampler.sweeps(state, 1.2, STREAM, 0, 7)
    other = sampler.start("ordered", STREAM)
    parts = [sampler.sweeps(other, 1.2, STREAM, first, count) for first, count in ((0, 1), (1, 4), (5, 2))]
    assert (np.concatenate(parts) == whole).all() and (other == state).all()


def test_the_sampler_is_chosen_where_it_is_left_to_the_program():
    plane, adaptive = Lattice((30, 30)), PrecomputeKeys()
    assert choose_sampler(adaptive, plane, 3) == "alternating"
    assert choose_sampler(adaptive, plane, 2) == "swendsen-wang"
    assert choose_sampler(adaptive, SCATTERED, 3) == "swendsen-wang"
    assert choose_sampler(adaptive, plane, 3, there="swendsen-wang") == "swendsen-wang"
    assert choose_sampler(PrecomputeKeys(grid="critical"), plane, 3, there="alternating") == "swendsen-wang"
    assert choose_sampler(PrecomputeKeys(sampler="gibbs"), plane, 3, there="alternating") == "gibbs"
