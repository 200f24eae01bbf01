"""What is known at large beta without a simulation, against exact answers, and what it does for the curve."""

import dataclasses
import itertools

import ising
import numpy as np
import pytest
from test_binding import exact, simulate

from mpi_potts.binding import file as binding_file
from mpi_potts.binding.compute import ANCHOR_ERROR, find_anchor
from mpi_potts.errors import InputError
from mpi_potts.estimation.verdicts import FLAG_COMPOSED
from mpi_potts.graph import Graph
from mpi_potts.io.rows import Rows
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.low_temperature import LowTemperature
from mpi_potts.runtime.parallel import ALONE


def holes(shape, share, seed):
    return np.random.default_rng(seed).random(shape) < share


def dumbbell(width):
    """Two blocks and a corridor of this width between them, in which a wall costs as many edges."""
    mask = np.ones((6, 13), dtype=bool)
    mask[:, 5:8] = False
    mask[2 : 2 + width, 5:8] = True
    return mask


def touching():
    """Two blocks that touch in a corner, by one edge of the diagonal."""
    mask = np.zeros((6, 8), dtype=bool)
    mask[:3, :4] = mask[3:, 4:] = True
    return mask


LATTICES = {
    "plane": (Lattice((8, 8)), 3),
    "sides that differ": (Lattice((5, 7)), 5),
    "eight neighbours": (Lattice((6, 6), 8), 3),
    "hexagonal": (Lattice((7, 6), "hexagonal"), 2),
    "hexagonal with holes": (Lattice((8, 7), "hexagonal", holes((8, 7), 0.8, 1)), 3),
    "volume": (Lattice((3, 3, 3)), 2),
    "18 neighbours": (Lattice((2, 2, 6), 18), 3),
    "26 neighbours": (Lattice((2, 2, 7), 26), 3),
    "volume with holes": (Lattice((3, 3, 4), 6, holes((3, 3, 4), 0.8, 1)), 2),
    "ladder": (Lattice((2, 12)), 3),
    "line": (Lattice((1, 12)), 3),
    "many holes": (Lattice((8, 8), 4, holes((8, 8), 0.6, 2)), 3),
    "some holes": (Lattice((8, 8), 4, holes((8, 8), 0.85, 3)), 3),
    "holes, eight neighbours": (Lattice((7, 7), 8, holes((7, 7), 0.6, 4)), 3),
    "corridor of two": (Lattice((6, 13), 4, dumbbell(2)), 3),
    "corridor of one": (Lattice((6, 13), 4, dumbbell(1)), 3),
    "one diagonal": (Lattice((6, 8), 8, touching()), 3),
}


@pytest.mark.parametrize("name", LATTICES)
def test_the_expansion_is_right_within_its_error(name):
    lattice, labels = LATTICES[name]
    truth, expansion = Exact(lattice, labels), LowTemperature(lattice, labels)
    for error in (0.1, 0.01, 1e-4):
        start = expansion.reach(error)
        for beta in (start, start + 0.5, start + 2.0):
            found, (mean, sd) = expansion.anchor(beta), truth.moments(beta)
            assert found.error <= error
            # Log C itself is a number of a few hundred.
            assert abs(truth.log_normaliser(beta) - found.log_normaliser) <= found.error + 1e-11
            assert abs(mean - found.mean) <= found.mean_error + 1e-11
            assert abs(sd * sd - found.variance) <= found.variance_error + 1e-11


def test_trees_and_lone_pixels_are_exact_at_every_beta():
    mask = np.zeros((9, 9), dtype=bool)
    mask[::2, 0] = mask[4, :6] = mask[:, 7] = mask[2:5, 4] = True
    lattice = Lattice((9, 9), 4, mask)
    truth, expansion = Exact(lattice, 4), LowTemperature(lattice, 4)
    for beta in (0.3, 1.0, 2.0):
        found = expansion.anchor(beta)
        assert found.error == found.mean_error == found.variance_error == 0
        assert found.log_normaliser == pytest.approx(float(truth.log_normaliser(beta)), rel=1e-13)
        assert (found.mean, found.variance**0.5) == pytest.approx(truth.moments(beta), rel=1e-12)


def enumerate_graph(graph, labels, beta):
    """log C, mean and variance of S over all labellings."""
    one, other = graph.ends.T
    z = np.array(list(itertools.product(range(labels), repeat=graph.sites)), dtype=np.int8)
    s = (z[:, one] == z[:, other]).sum(axis=1)
    weight = np.exp(beta * (s - s.max()))
    mean = (weight * s).sum() / weight.sum()
    variance = (weight * (s - mean) ** 2).sum() / weight.sum()
    return np.log(weight.sum()) + beta * s.max(), mean, variance


def test_a_graph_has_an_expansion_too():
    rng = np.random.default_rng(5)
    ends = np.array([pair for pair in itertools.combinations(range(10), 2) if rng.random() < 0.5])
    hub = np.array([[0, i] for i in range(1, 8)] + [[i, i % 7 + 1] for i in range(1, 8)])
    for graph in (Graph(10, ends), Graph(10, hub)):
        expansion = LowTemperature(graph, 3)
        for error in (0.1, 1e-3):
            beta = expansion.reach(error)
            found, truth = expansion.anchor(beta), enumerate_graph(graph, 3, beta)
            for value, wrong, right in zip(found[1::2], found[2::2], truth):
                assert abs(value - right) <= wrong + 1e-11


@pytest.mark.parametrize("shape", [(125, 125), (40, 90)])
def test_the_expansion_agrees_with_the_exact_plane_of_two_labels(shape):
    expansion = LowTemperature(Lattice(shape), 2)
    for error in (0.3, 0.01):
        found = expansion.anchor(expansion.reach(error))
        mean, sd = ising.moments(*shape, found.beta)
        assert abs(ising.log_normaliser(*shape, found.beta) - found.log_normaliser) < found.error
        # Differences of log C give the moments to a few millionths.
        assert abs(mean - found.mean) < found.mean_error + 1e-5 * mean
        assert abs(sd * sd - found.variance) < found.variance_error + 1e-5 * sd * sd


def test_an_ordered_phase_below_the_transition_is_no_answer():
    lattice, labels = Lattice((30, 30, 30), 26), 255
    expansion = LowTemperature(lattice, labels)
    for beta in (0.3, 0.4, 0.45, 0.5):
        found = expansion.anchor(beta)
        at_least = lattice.sites * np.log(labels) + lattice.edges * np.log1p(np.expm1(beta) / labels)
        assert found.log_normaliser + found.error > at_least
    assert expansion.reach(0.01) > 0.5


@pytest.mark.parametrize("neighbourhood", [4, 8, "hexagonal"])
def test_a_box_is_counted_as_if_by_its_own_sites(neighbourhood):
    shape = (23, 30)
    box = LowTemperature(Lattice(shape, neighbourhood), 4)
    mask = np.zeros((24, 32), dtype=bool)
    mask[:23, :30] = True
    counted = LowTemperature(Lattice((24, 32), neighbourhood, mask), 4)
    one, other = box.anchor(2.0), counted.anchor(2.0)
    assert one.log_normaliser == pytest.approx(other.log_normaliser, rel=1e-14)
    assert (one.mean, one.variance) == pytest.approx((other.mean, other.variance), rel=1e-11)


def test_a_grid_that_reaches_far_enough_from_zero_has_an_anchor():
    lattice = Lattice((8, 8))
    assert find_anchor(lattice, 3, np.linspace(0, 1.5, 16)) is None
    assert find_anchor(lattice, 3, np.linspace(0.1, 4, 16)) is None
    beta = np.linspace(0, 4, 16)
    anchor = find_anchor(lattice, 3, beta)
    assert anchor.beta in beta
    assert anchor.error <= ANCHOR_ERROR


def test_the_anchor_pins_the_far_end_of_the_curve():
    model, beta = exact(8, 5), np.linspace(0, 3, 13)
    anchor = find_anchor(model.lattice, 5, beta)
    there = np.array([1.6, 1.8, 2.0, anchor.beta, 3.0])
    truth = model.log_normaliser(there)
    wrong = {}
    for tied in (False, True):
        curves = [simulate(model, beta, seed, anchor=anchor if tied else None) for seed in range(12)]
        z = [(c.log_normaliser(there) - truth) / c.log_normaliser_error(there) for c in curves]
        wrong[tied] = np.sqrt(np.mean([np.square(c.log_normaliser(there) - truth) for c in curves], axis=0))
        assert np.abs(z).max() < 5
    assert (wrong[True] < wrong[False] / 3).all()
    assert wrong[True][3] < 3 * ANCHOR_ERROR


def written(path, binding, **more):
    """The file of a binding function, read again."""
    settings = {name: getattr(binding, name) for name in binding_file.SETTINGS} | {"shape": [8, 8]}
    columns = {name: getattr(binding, name) for name in binding_file.ARRAYS} | more
    statistic = Rows(np.arange(binding.beta.size), np.zeros((binding.beta.size, 1, 1), dtype=np.int64), 9)
    binding_file.write_binding(ALONE, path, settings, columns, statistic)
    return binding_file.read_binding(path)


def test_files_with_and_without_draws_and_an_anchor_are_read(tmp_path):
    model, beta = exact(8, 3), np.linspace(0, 4, 9)
    plain = simulate(model, beta, 1)
    anchor, draws = find_anchor(model.lattice, 3, beta), np.arange(100, 109)
    whole = dataclasses.replace(plain, draws=draws, anchor=anchor)
    old = written(tmp_path / "old.h5", plain)
    new = written(tmp_path / "new.h5", plain, draws=draws, anchor=np.array(anchor))
    assert (old.digest, old.anchor, old.draws) == (plain.digest, None, None)
    assert (new.digest, new.anchor) == (whole.digest, anchor)
    assert np.array_equal(new.draws, draws)
    assert np.array_equal(new.table, whole.table)


def test_the_digest_covers_draws_and_anchor_and_is_that_of_before_without_them():
    model, beta = exact(6, 3), np.linspace(0, 4, 5)
    plain = simulate(model, beta, 1, iterations=300, burn_in=100, starts="both")
    usual = dataclasses.replace(plain, draws=np.full(5, 400))
    longer = dataclasses.replace(plain, draws=np.array([400, 400, 800, 400, 400]))
    tied = dataclasses.replace(plain, anchor=find_anchor(model.lattice, 3, beta))
    assert usual.digest == plain.digest
    assert np.array_equal(plain.counted, np.full(5, 400))
    assert len({plain.digest, longer.digest, tied.digest}) == 3


def test_draws_and_anchors_that_cannot_be_are_refused():
    binding = simulate(exact(6, 3), np.linspace(0, 4, 5), 1)
    for change in ({"draws": [1, 2, 3]}, {"draws": [5, 5, 0, 5, 5]}, {"anchor": (4, 1, -1, 1, 1, 1, 1)}):
        with pytest.raises(InputError):
            dataclasses.replace(binding, **change)


def test_chains_of_unequal_length_have_errors_by_their_own_length():
    model, beta, z = exact(8, 3), np.linspace(0.5, 1.5, 21), []
    draws = np.where(np.arange(21) % 2, 4000, 250)
    for seed in range(20):
        parts = [simulate(model, beta, 2 * seed + j, n=n) for j, n in enumerate((250, 4000))]
        columns = {
            name: np.where(draws == 250, *(getattr(part, name) for part in parts))
            for name in ("mean", "sd", "mean_se", "sd_se", "tau", "flag")
        }
        binding = dataclasses.replace(parts[0], draws=draws, **columns)
        estimates = binding._estimates()
        # The seven neighbours' tau is one, and so are the errors of equal chains.
        ratio = estimates.mean_relative[::2].mean() / estimates.mean_relative[1::2].mean()
        assert 10 < ratio < 25
        mean = binding.moments(beta)[0] - model.moments(beta)[0]
        z.append(mean / binding.standard_errors(beta)[0])
    assert 0.75 < np.sqrt(np.mean(np.square(z))) < 1.3


def test_rows_that_were_composed_keep_their_errors_to_themselves():
    model, beta = exact(8, 3), np.linspace(0, 2, 21)
    binding = simulate(model, beta, 1)
    flag = np.where(np.arange(21) % 2, FLAG_COMPOSED, 0)
    mean_se = np.where(flag, 25.0, binding.mean_se)
    sd_se = np.where(flag, 10.0, binding.sd_se)
    # Wrong by as much as they say.
    mixed = dataclasses.replace(
        binding, flag=flag, mean_se=mean_se, sd_se=sd_se, mean=binding.mean + flag * 5
    )
    estimates = mixed._estimates()
    mean_error, variance_error = estimates.errors(binding.sd**2)
    assert np.allclose(mean_error[1::2], 25.0)
    assert (variance_error[1::2] * binding.sd[1::2] ** 2 >= 2 * 10.0 * binding.sd[1::2]).all()
    alone = dataclasses.replace(
        binding, **{name: getattr(binding, name)[::2] for name in (*binding_file.ARRAYS,)}
    )
    mine, others = (form._estimates().errors(np.full(n, 30.0)) for form, n in ((mixed, 21), (alone, 11)))
    assert np.allclose(mine[0][2::2], others[0][1:])
    there = np.linspace(0.1, 1.9, 10)
    assert np.allclose(mixed.standard_errors(there)[0], alone.standard_errors(there)[0], rtol=0.35)


def test_composed_rows_that_are_wrong_leave_the_errors_of_simulated_ones_alone():
    model, beta = exact(8, 3), np.linspace(0, 2, 41)
    binding = simulate(model, beta, 1)
    flag = np.where(np.isin(np.arange(41), (30, 33, 36)), FLAG_COMPOSED, 0)
    wrong = dataclasses.replace(binding, flag=flag, mean=binding.mean + (flag > 0) * 4 * binding.mean_se)
    there = np.linspace(0.2, 1.2, 9)
    assert (wrong.standard_errors(there)[0] < 1.1 * binding.standard_errors(there)[0]).all()
