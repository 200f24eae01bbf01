"""Mean and sd of S(z), as `precompute` reports them, against exact answers: all samplers and lattices.

A score is (estimate - exact) / standard error, with the standard error that goes into the binding function.
Families of scores are held in three ways:

- each of them: within FAMILY standard errors.  Scores of short chains have heavier tails than the normal
  distribution, for which one in 1.7 million lies beyond 5;
- their spread: standard errors are honest where about 5 % of the scores lie beyond 2;
- their weighted sum: many small deviations to one side, such as from a bond probability that is 1 % wrong,
  which no single score would show.
"""

import math
from functools import cache
from typing import NamedTuple

import ising
import numpy as np
import pytest

from mpi_potts import rng
from mpi_potts.binding.chains import Row
from mpi_potts.binding.compute import Task, choose_starts, simulate
from mpi_potts.estimation import autocorrelation
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition

FAMILY = 5.0
POOLED = 4.0

KINDS = ("swendsen-wang", "gibbs", "alternating")
BETAS = (0.0, 0.2, 0.5, 0.8, 1.0, "critical", 1.5, 2.0)
SQUARES = [((4, 5), k) for k in range(2, 7)] + [((6, 6), k) for k in range(2, 7)]
LARGER = [((8, 8), k) for k in range(2, 7)]

HOLES = np.array(
    [[1, 1, 0, 1, 1], [1, 0, 1, 0, 1], [1, 1, 0, 1, 1], [0, 0, 1, 1, 1], [1, 0, 1, 1, 0]], dtype=bool
)
# A volume with a hole, and a voxel whose neighbours are all missing where only faces touch.
CAVES = np.ones((3, 3, 3), dtype=bool)
CAVES[0, 0, 1] = CAVES[0, 1, 0] = CAVES[1, 0, 0] = CAVES[2, 1, 1] = False

MASKED = Lattice((5, 5), "first", HOLES)
OTHERS = [
    (Lattice((4, 4), "second"), 3),
    (Lattice((5, 5), "second", HOLES), 4),
    (Lattice((4, 5), "hexagonal"), 3),
    (Lattice((5, 5), "hexagonal", HOLES), 4),
    (Lattice((2, 3, 3)), 3),
    (Lattice((2, 3, 3), 18), 3),
    (Lattice((3, 3, 3), 18, CAVES), 2),
    (Lattice((3, 3, 3), "first", CAVES), 2),
    (Lattice((2, 2, 3), "second"), 5),
    (Lattice((3, 3, 3), "second", CAVES), 2),
]

PLANE = Lattice((125, 125))
CRITICAL = math.log1p(math.sqrt(2))
# ising.moments(125, 125, beta), which the long suite computes again.
ISING = {
    0.3: (17913.9688583, 93.0507961),
    0.6: (20949.0414497, 110.6750409),
    0.85: (25171.7144481, 163.7161301),
    CRITICAL: (26154.0655361, 193.0180463),
    0.9: (26864.0320755, 188.1022255),
    1.2: (30228.9559208, 60.3499180),
}


class Score(NamedTuple):
    """An estimate and the exact moments; which chain it is from, for the message of a failure."""

    name: tuple
    labels: int
    estimate: autocorrelation.Moments
    mean: float
    sd: float

    @property
    def z(self):
        found = self.estimate
        return (found.mean - self.mean) / found.mean_se, (found.sd - self.sd) / found.sd_se


@cache
def exact(lattice, labels):
    return Exact(lattice, labels)


@cache
def square(shape):
    return Lattice(shape)


def estimates(sampler, starts, betas, iterations, burn_in, seed):
    """The moments that `precompute` puts into the binding function, at each beta."""
    beta = np.array(sorted(betas))
    task = Task(sampler.lattice, sampler.k, sampler.name, seed, beta, starts, iterations, burn_in)
    rows = [Row(b) for b in beta.tolist()]
    for _ in simulate(sampler, task, rows):
        pass
    step = 2.0 * len(sampler.lattice.half_offsets)
    for row in rows:
        chains = np.stack([row.chains[kind].statistic for kind in task.kinds])
        yield row.beta, autocorrelation.moments(chains[:, burn_in:], step)


def scores(lattice, labels, sampler, starts, iterations, burn_in, seed=1, betas=BETAS):
    betas = [transition(lattice, labels) if beta == "critical" else beta for beta in betas]
    model = exact(lattice, labels)
    one = Sampler(lattice, labels, sampler)
    # Chains of one seed share their draws at the same beta: each lattice and k has a seed of its own.
    own = seed + 1000 * labels + 10**6 * (100 * lattice.sites + lattice.edges)
    for beta, found in estimates(one, starts, betas, iterations, burn_in, own):
        name = (lattice.shape, lattice.neighbourhood, labels, round(beta, 4), sampler, starts, seed)
        yield Score(name, labels, found, *map(float, model.moments(beta)))


def worst(family, beyond):
    """The scores beyond this many standard errors, with their names."""
    return [(s.name, *np.round(s.z, 2).tolist()) for s in family if np.abs(s.z).max() > beyond]


def pooled(family):
    """Scores of the weighted sums of all errors of the mean and of the variance.

    The weights are functions of the exact moments alone: estimates that are small together with their own
    standard errors do not pull the sum to one side.
    """
    spread = np.array([s.sd for s in family])
    found = [s.estimate for s in family]
    mean = np.array([(m.mean - s.mean, m.mean_se) for m, s in zip(found, family)]) / spread[:, None]
    variance = np.array([(m.sd**2 - s.sd**2, 2 * m.sd * m.sd_se) for m, s in zip(found, family)])
    return [e.sum() / math.hypot(*se) for e, se in (mean.T, variance.T / spread**2)]


def hold(family):
    assert worst(family, FAMILY) == []
    # Kernels have a form of their own for few labels, which must not hide the other.
    for few in (True, False):
        if group := [s for s in family if (s.labels <= 3) == few]:
            assert np.abs(pooled(group)).max() < POOLED, pooled(group)


@pytest.mark.parametrize("kind", KINDS)
def test_small_planes_have_the_exact_moments(kind):
    cases = [*SQUARES, *LARGER[:3]]
    family = []
    for number, (shape, k) in enumerate(cases):
        starts = ("random", "ordered")[number % 2]
        family += scores(square(shape), k, kind, starts, 8000, 500)
    hold(family)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_with_holes_and_islands_have_the_exact_moments(kind):
    assert not HOLES[[3, 4, 4], [0, 1, 1]].any() and HOLES[4, 0], "the corner is an island"
    family = [s for k in (2, 3, 5) for s in scores(MASKED, k, kind, "both", 3000, 500)]
    hold(family)


@pytest.mark.parametrize("sampler", ["swendsen-wang", "gibbs"])
def test_other_neighbourhoods_have_the_exact_moments(sampler):
    betas = (0.0, 0.1, 0.3, "critical", 0.7, 1.0)
    family = []
    for lattice, k in OTHERS:
        family += scores(lattice, k, sampler, "both", 3000, 500, betas=betas)
    hold(family)


@pytest.mark.parametrize("betas", [(0.2, 0.8, "critical"), (1.5, 2.0)], ids=["disordered", "ordered"])
def test_errors_of_chains_of_five_hundred_sweeps_are_honest(betas):
    family = []
    for number, (shape, k) in enumerate(SQUARES * 4):
        for kind in KINDS:
            family += scores(square(shape), k, kind, "random", 1000, 500, seed=number, betas=betas)
    honest(family)


def honest(family):
    """As many scores are large as one expects, give or take; standard errors that say nothing fail too."""
    for z in np.abs([s.z for s in family]).T:
        for beyond, expected in ((2, 0.0455), (3, 0.005), (4, 0.0012)):
            assert np.mean(z > beyond) < expected + 4 * math.sqrt(expected / len(z)), worst(family, beyond)
        assert 0.7 < math.sqrt(np.mean(z**2)) < 1.15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_independent_labels_on_the_paper_s_plane(kind, k):
    one = Sampler(PLANE, k, kind)
    ((_, found),) = estimates(one, "random", [0.0], 1000, 500, 1)
    variance = PLANE.edges / k * (1 - 1 / k)
    hold([Score((k, kind), k, found, PLANE.edges / k, math.sqrt(variance))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_every_sweep_at_beta_0_draws_all_labels_afresh(kind, k):
    one = Sampler(PLANE, k, kind)
    state = one.start("random", rng.stream(1, rng.Purpose.START))
    statistic = one.sweeps(state, 0.0, rng.stream(1, rng.Purpose.PRIOR_SWEEP), 0, 2000)
    deviation = statistic - statistic.mean()
    # The autocorrelations of n independent draws are normal with sd 1 / sqrt(n): 36 of them, each within 4.
    for lag in (1, 2, 3):
        correlation = (deviation[lag:] * deviation[:-lag]).sum() / (deviation**2).sum()
        assert abs(correlation) < 4.0 / math.sqrt(statistic.size)


def ising_family(sampler, betas, iterations, burn_in, seed):
    one = Sampler(PLANE, 2, sampler)
    starts = choose_starts("auto", sampler, PLANE, 2)
    for beta, found in estimates(one, starts, betas, iterations, burn_in, seed):
        yield Score((beta, sampler, starts, seed), 2, found, *ISING[beta])


def test_two_labels_on_the_paper_s_plane_agree_with_the_ising_model():
    hold(list(ising_family("swendsen-wang", ISING, 1500, 500, 1)))


def test_gibbs_sweeps_on_the_paper_s_plane_agree_with_the_ising_model_or_are_flagged():
    family = list(ising_family("gibbs", ISING, 2000, 500, 1))
    flagged = {s.name[0] for s in family if s.estimate.flag}
    assert not flagged & {0.3, 0.6}
    assert flagged & {CRITICAL, 0.9}, "hundreds of sweeps to forget a state"
    hold([s for s in family if not s.estimate.flag])
    # Chains from both starts: the errors of those that have not met reach to both of them.
    assert worst(family, FAMILY) == []


def test_gibbs_chains_caught_in_stripes_are_flagged():
    one = Sampler(PLANE, 2, "gibbs")
    caught = 0
    for seed in range(6):
        ((_, found),) = estimates(one, "random", [1.2], 1000, 500, seed)
        caught += abs(found.mean - ISING[1.2][0]) > FAMILY * found.mean_se
        (both,) = ising_family("gibbs", [1.2], 1000, 500, seed)
        assert worst([both], FAMILY) == []
    assert caught, "one start alone does not tell: this is why both are run"


@pytest.mark.long
@pytest.mark.parametrize("starts", ["random", "ordered"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_family_of_small_planes_has_the_exact_moments(kind, starts):
    family = []
    for shape, k in SQUARES + LARGER:
        family += scores(square(shape), k, kind, starts, 20000, 500, seed=7)
    assert len(family) == 120
    hold(family)
    honest(family)


@pytest.mark.long
@pytest.mark.parametrize("starts", ["random", "ordered", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_honest_with_the_settings_of_the_paper(kind, starts):
    family = []
    for seed in range(8):
        for shape, k in SQUARES + LARGER:
            family += scores(square(shape), k, kind, starts, 1000, 500, seed)
    honest(family)


@pytest.mark.long
def test_the_ising_moments_of_the_paper_s_plane_are_those_of_the_determinant():
    for beta, moments in ISING.items():
        assert ising.moments(*PLANE.shape, beta) == pytest.approx(moments, rel=1e-6)


@pytest.mark.long
def test_many_chains_of_two_labels_agree_with_the_ising_model():
    family = [s for seed in range(8) for s in ising_family("swendsen-wang", ISING, 4000, 500, seed)]
    hold(family)


@pytest.mark.long
def test_many_gibbs_chains_of_two_labels_agree_with_the_ising_model_or_are_flagged():
    family = [s for seed in range(8) for s in ising_family("gibbs", ISING, 12000, 2000, seed)]
    assert worst(family, FAMILY) == []
    hold([s for s in family if not s.estimate.flag])
