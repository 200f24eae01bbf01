"""The grid of betas: where it lies, that it extends, and what it refuses."""

import numpy as np
import pytest
from scipy import stats

from mpi_potts.binding.grid import critical, make_grid
from mpi_potts.errors import InputError
from mpi_potts.lattice import Lattice

LATTICE = Lattice((12, 12))


@pytest.mark.parametrize("kind", ["critical", "regular"])
@pytest.mark.parametrize("points", [2, 3, 61, 1000])
def test_a_grid_has_the_asked_number_of_ascending_points_and_both_ends(kind, points):
    beta = make_grid(kind, points, LATTICE, 3, (0.1, 1.005), seed=3)
    assert beta.shape == (points,)
    assert (np.diff(beta) > 0).all()
    assert {0.1, 1.005} <= set(beta)


def test_the_critical_grid_follows_the_truncated_normal_of_the_paper():
    crit = np.log(1 + np.sqrt(3))
    draws = critical(20000, crit, seed=1)
    assert draws.min() >= 0
    assert stats.kstest(draws, stats.truncnorm(-2, np.inf, crit, crit / 2).cdf).pvalue > 1e-3


def test_more_points_extend_the_critical_grid():
    small = make_grid("critical", 100, LATTICE, 3, (0, 1), seed=1)
    large = make_grid("critical", 250, LATTICE, 3, (0, 1), seed=1)
    assert set(small) < set(large)


def test_another_seed_is_another_critical_grid():
    one, two = (make_grid("critical", 50, LATTICE, 3, (0, 1), seed) for seed in (1, 2))
    assert set(one) & set(two) == {0.0, 1.0}


def test_the_regular_grid_is_even():
    assert np.allclose(make_grid("regular", 5, LATTICE, 3, (0, 2), 1), [0, 0.5, 1, 1.5, 2], rtol=0, atol=0)


def test_a_list_is_sorted_and_gets_the_ends_of_the_prior():
    beta = make_grid([0.7, 0.2, 1.5], 1000, LATTICE, 3, (0.0, 1.0), 1)
    assert beta.tolist() == [0.0, 0.2, 0.7, 1.0, 1.5]
    assert make_grid([1.0, 0.5, -0.0], 9, LATTICE, 3, (0, 1), 1).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ([0.5, -0.1], "-0.1"),
        ([0.5, float("nan")], "nan"),
        ([0.5, float("inf")], "inf"),
        ([0.5, 0.2, 0.5], "0.5 more than once"),
        ([0.0, -0.0], "0.0 more than once"),
        ([], "list"),
        ([[0.1, 0.2]], "list"),
        ("critcal", "critcal"),
    ],
)
def test_a_grid_that_cannot_be_right_is_refused_by_name(kind, named):
    with pytest.raises(InputError, match=f"precompute.grid.*{named}"):
        make_grid(kind, 10, LATTICE, 3, (0, 1), 1)


@pytest.mark.parametrize("interval", [(1, 0), (0.5, 0.5), (-1, 1), (0, np.nan), (0, np.inf), (0, 1, 2)])
def test_an_interval_that_cannot_be_right_is_refused(interval):
    with pytest.raises(InputError, match=r"prior\.beta"):
        make_grid("regular", 10, LATTICE, 3, interval, 1)


def test_too_few_points_are_refused():
    with pytest.raises(InputError, match=r"precompute\.points = 1"):
        make_grid("critical", 1, LATTICE, 3, (0, 1), 1)
