"""The exact distribution of S(z), against every labelling written out and against the planar Ising model."""

import math
from itertools import product

import ising
import numpy as np
import pytest

from mpi_potts.errors import InputError
from mpi_potts.lattice import Lattice
from mpi_potts.model import exact
from mpi_potts.model.exact import Exact, count_labellings

HOLES = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)


def enumerate_labellings(lattice, labels):
    """g(s) by the definition, one labelling after the other."""
    counts = [0] * (lattice.edges + 1)
    for values in product(range(labels), repeat=lattice.sites):
        z = np.full(lattice.shape, 255, dtype=np.uint8)
        z[lattice.exists] = values
        counts[lattice.statistic(z)] += 1
    return counts


@pytest.mark.parametrize(
    ("lattice", "labels"),
    [
        (Lattice((1, 2)), 40),
        (Lattice((1, 7)), 3),
        (Lattice((2, 3)), 4),
        (Lattice((3, 3)), 2),
        (Lattice((4, 2)), 3),
        (Lattice((3, 3), "second"), 2),
        (Lattice((2, 5), "second"), 2),
        (Lattice((2, 2, 2)), 3),
        (Lattice((1, 2, 4)), 3),
        (Lattice((2, 2, 3)), 2),
        (Lattice((2, 2, 2), "second"), 3),
        (Lattice((4, 4), "first", HOLES), 2),
        (Lattice((4, 4), "second", HOLES), 2),
    ],
    ids=str,
)
def test_counts_are_those_of_every_labelling_written_out(lattice, labels):
    assert count_labellings(lattice, labels) == enumerate_labellings(lattice, labels)


@pytest.mark.parametrize(
    ("lattice", "labels"),
    [
        (Lattice((4, 5)), 3),
        (Lattice((6, 6)), 6),
        (Lattice((8, 8)), 3),
        (Lattice((5, 5), "second"), 3),
        (Lattice((3, 3, 3)), 3),
        (Lattice((3, 4), "first"), 255),
    ],
    ids=str,
)
def test_counts_sum_to_every_labelling_and_have_the_exact_moments_of_independent_labels(lattice, labels):
    g = count_labellings(lattice, labels)
    total, edges = labels**lattice.sites, lattice.edges
    assert sum(g) == total
    # Pairs of neighbours are like with probability 1/k, independently of each other two by two.
    assert labels * sum(s * n for s, n in enumerate(g)) == edges * total
    assert labels**2 * sum(s * s * n for s, n in enumerate(g)) == edges * (edges + labels - 1) * total
    assert g[-1] == labels


def test_the_order_of_the_axes_does_not_matter():
    assert count_labellings(Lattice((3, 7)), 3) == count_labellings(Lattice((7, 3)), 3)
    mask = np.random.default_rng(1).random((2, 3, 4)) < 0.8
    assert count_labellings(Lattice((2, 3, 4), "second", mask), 2) == count_labellings(
        Lattice((4, 2, 3), "second", mask.transpose(2, 0, 1)), 2
    )


@pytest.mark.parametrize("shape", [(4, 5), (6, 6), (9, 3), (10, 10)])
@pytest.mark.parametrize("beta", [0.0, 0.4, 0.88, 2.0])
def test_two_labels_agree_with_the_determinant_of_kac_and_ward(shape, beta):
    model = Exact(Lattice(shape), 2)
    assert ising.log_normaliser(*shape, beta) == pytest.approx(float(model.log_normaliser(beta)), rel=1e-13)
    assert ising.log_normaliser_by_rows(*shape, beta) == pytest.approx(
        ising.log_normaliser(*shape, beta), rel=1e-13
    )
    assert ising.moments(*shape, beta) == pytest.approx(model.moments(beta), rel=1e-6)


def test_moments_and_normaliser_are_those_of_the_probabilities():
    model = Exact(Lattice((4, 5)), 3)
    beta = np.array([0.0, 0.5, 1.5])
    weights = np.array([[g * math.exp(b * s) for s, g in enumerate(model.counts)] for b in beta])
    p = weights / weights.sum(axis=1, keepdims=True)
    mean, sd = model.moments(beta)
    s = np.arange(len(model.counts))
    assert np.allclose(model.probabilities(beta), p, rtol=1e-12, atol=0)
    assert np.allclose(model.log_normaliser(beta), np.log(weights.sum(axis=1)), rtol=1e-14, atol=0)
    assert np.allclose(mean, p @ s, rtol=1e-13, atol=0)
    assert np.allclose(sd**2, p @ s**2 - (p @ s) ** 2, rtol=1e-10, atol=0)


def test_any_beta_is_stable():
    model = Exact(Lattice((6, 6)), 3)
    mean, sd = model.moments(np.array([0.0, 50.0, 1e4]))
    assert mean[0] == pytest.approx(20, rel=1e-14)
    assert mean[2] == 60
    assert sd[2] == 0
    assert model.log_normaliser(1e4) == pytest.approx(6e5 + math.log(3), rel=1e-15)


def test_the_posterior_integrates_to_one_and_peaks_where_the_mean_is_the_statistic():
    model = Exact(Lattice((8, 8)), 3)
    beta = np.linspace(0, 3, 3001)
    density = model.posterior(80, beta)
    assert np.sum((density[1:] + density[:-1]) / 2 * np.diff(beta)) == pytest.approx(1, rel=1e-12)
    assert model.moments(beta[np.argmax(density)])[0] == pytest.approx(80, abs=0.1)


@pytest.mark.parametrize("statistic", [-1, 111, 113])
def test_a_statistic_that_no_labelling_has_is_refused(statistic):
    # 112 like pairs need all labels equal; one different label at a corner already loses two.
    with pytest.raises(InputError, match=f"S.z. = {statistic}"):
        Exact(Lattice((8, 8)), 2).posterior(statistic, np.linspace(0, 1, 11))


@pytest.mark.parametrize(
    "lattice",
    [Lattice((125, 125)), Lattice((30, 30)), Lattice((5, 5, 5)), Lattice((11, 11), "second")],
    ids=str,
)
def test_a_lattice_that_is_too_large_is_refused_at_once(lattice):
    with pytest.raises(InputError, match="at most"):
        count_labellings(lattice, 3)


@pytest.mark.parametrize("labels", [1, 0, 256])
def test_a_number_of_labels_that_cannot_be_right_is_refused(labels):
    with pytest.raises(InputError, match=r"model\.labels"):
        count_labellings(Lattice((2, 2)), labels)


def test_the_moduli_are_prime():
    assert exact._primes(500)[:3] == [2**54 - 33, 2**54 - 53, 2**54 - 131]
    composites = [9, 15, 561, 3215031751, (2**27 - 39) * (2**27 - 79)]
    assert not any(exact._is_prime(n) for n in composites)


@pytest.mark.long
def test_the_largest_lattice_of_the_paper_kind_is_exact():
    g = count_labellings(Lattice((10, 10)), 3)
    assert sum(g) == 3**100
    assert 3 * sum(s * n for s, n in enumerate(g)) == 180 * 3**100
