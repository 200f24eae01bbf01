"""Where an adaptive binding function simulates, and whether its errors are what it says.

The chains are simulated: autoregressive ones of a given relaxation around the exact moments of a free plane
with two labels, from starts as far off as those of a sampler.  So the right beta of every S is known.
"""

import math
import re
from functools import cache
from types import SimpleNamespace

import ising
import numpy as np
import pytest
from scipy.signal import lfilter

from mpi_potts.binding import adaptive, library
from mpi_potts.binding.adaptive import Limits, Request, Search, Sought, aim, cover, disagree
from mpi_potts.binding.chains import KINDS, identity_of
from mpi_potts.binding.composition import Composed
from mpi_potts.binding.estimates import Estimator, moments_of
from mpi_potts.estimation.settling import FEWEST, settled_from
from mpi_potts.estimation.verdicts import FLAG_SHORT
from mpi_potts.lattice import Lattice
from mpi_potts.methods import adapt
from mpi_potts.model.transition import transition
from mpi_potts.rng import float_bits

SIDE = 24
LATTICE = Lattice((SIDE, SIDE))
INTERVAL = (0.0, 2.2)
GRID = adaptive.pilot_grid(transition(LATTICE, 2), library.highest(LATTICE, 2), library.POINTS)


@cache
def exact(beta):
    """Mean and sd of S."""
    return ising.moments(SIDE, SIDE, beta)


def autoregressive(n, mean, sd, time, first, key):
    """S(z) (n,) that relaxes from `first` to its mean with the factor exp(-1/time); the first n of any
    number."""
    rho = math.exp(-1.0 / time)
    noise = np.random.default_rng(key).standard_normal(n) * sd * math.sqrt(1.0 - rho * rho)
    deviation, _ = lfilter([1.0], [1.0, -rho], noise, zi=[rho * (first - mean)])
    return np.rint(mean + deviation).astype(np.int64)


class World:
    """Chains of S that a search may ask for, and a pilot whose errors are `rough` sds of S."""

    def __init__(self, seed, rough=3.0, time=2.0, apart=0.0):
        """time : of the relaxation.  apart : sds by which chains from ordered starts stay above the others"""
        self.seed, self.time, self.apart = seed, time, apart
        moments = np.array([exact(float(beta)) for beta in GRID])
        error = rough * np.maximum(moments[:, 1], 1.0)
        mean = moments[:, 0] + error * np.random.default_rng([seed, 1]).standard_normal(GRID.size)
        pilot = Composed(
            GRID, mean, np.maximum(moments[:, 1], 0.1), error, np.maximum(moments[:, 1], 1.0) / 2
        )
        self.estimator = Estimator(LATTICE, identity_of(LATTICE, 2, "swendsen-wang", seed), pilot, None)
        self.chains, self.rounds = {}, []

    def chain(self, beta, kind, sweeps):
        mean, sd = exact(beta)
        if kind == "ordered":
            return autoregressive(
                sweeps, mean + self.apart * sd, sd, self.time, LATTICE.edges, self._key(beta, kind)
            )
        return autoregressive(sweeps, mean, sd, self.time, LATTICE.edges / 2, self._key(beta, kind))

    def _key(self, beta, kind):
        return [self.seed, KINDS.index(kind), float_bits(beta)]

    def extend(self, requests):
        for beta, kind, sweeps in requests:
            self.chains.setdefault(beta, {})[kind] = self.chain(beta, kind, sweeps)

    @property
    def curve(self):
        return self.estimator.binding(self.chains)

    def search(self, target, limits, most=40):
        """Carry a search out; its end and the curve."""
        search, curve = Search(limits), self.curve
        for _ in range(most):
            requests = search.plan(self.estimator, curve, self.chains, target)
            if not requests:
                return search, curve
            self.rounds.append((search.refining, requests))
            self.extend(requests)
            curve = self.curve
        raise AssertionError(f"no end after {most} rounds")

    def swept(self):
        return sum(chain.size for starts in self.chains.values() for chain in starts.values())


def limits(**changes):
    return Limits(**{"interval": INTERVAL, "accuracy": 0.1, "points": 1000, "sweeps": 20_000} | changes)


def beta_of(statistic):
    """The beta whose exact mean is S."""
    low, high = INTERVAL
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if exact(middle)[0] < statistic else (low, middle)
    return (low + high) / 2


# A chain forgets its start -----------------------------------------------------------------------


@pytest.mark.parametrize("first", [200.0, 5000.0], ids=["below", "above"])
@pytest.mark.parametrize("time", [1.0, 8.0, 30.0])
def test_what_a_far_start_leaves_in_the_mean_is_nothing_beside_its_error(first, time):
    mean, sd, n, repeats = 1000.0, 30.0, int(120 * time) + 200, 200
    z = []
    for number in range(repeats):
        chain = autoregressive(n, mean, sd, time, first, [number, 7])
        burn_in, settled = settled_from(chain)
        assert settled and time * math.log(abs(first - mean) / sd) / 2 < burn_in <= n // 2
        tau = (1 + math.exp(-1 / time)) / (1 - math.exp(-1 / time))
        z.append((chain[burn_in:].mean() - mean) / (sd * math.sqrt(tau / (n - burn_in))))
    z = np.array(z)
    assert abs(z.mean()) < 4 / math.sqrt(repeats)
    assert abs(z.std() - 1.0) < 4 / math.sqrt(2 * repeats)


def test_a_chain_still_on_its_way_has_not_settled_and_counts_with_its_drift():
    chain = autoregressive(200, 1000.0, 10.0, 400.0, 5000.0, [1])
    assert settled_from(chain) == (100, False)
    found, draws = moments_of({"ordered": chain}, 4.0)
    assert draws == 100 and found.flag & FLAG_SHORT
    assert found.mean_se > abs(chain[-50:].mean() - chain[-100:-50].mean())


@pytest.mark.parametrize("n", [1, 2, FEWEST - 1])
def test_too_few_sweeps_tell_nothing(n):
    assert settled_from(np.arange(n) % 2) == (n // 2, False)


def test_a_constant_chain_has_settled_at_once():
    burn_in, settled = settled_from(np.full(100, 1104))
    assert settled and burn_in <= 3


def test_two_starts_count_as_many_sweeps_each():
    chains = {kind: autoregressive(n, 1000.0, 30.0, 2.0, 1e3, [n]) for kind, n in zip(KINDS, (300, 900))}
    found, draws = moments_of(chains, 4.0)
    assert draws == 2 * (300 - settled_from(chains["random"])[0])
    assert abs(found.mean - 1000.0) < 4 * found.mean_se


# Where the posterior is --------------------------------------------------------------------------


def test_the_aim_is_where_the_curve_has_the_statistic():
    world = World(1, rough=0.01)
    for beta in (0.5, 0.85, 1.1):
        mean, sd = exact(beta)
        found = aim(world.curve, Sought(mean), INTERVAL)
        assert abs(found.beta - beta) < 0.05 * found.sd
        assert found.sd == pytest.approx(1.0 / sd, rel=0.05)
        wider = aim(world.curve, Sought(mean, 2.0), INTERVAL)
        assert wider.sd == pytest.approx(2.0 * found.sd) and wider.error > found.error


def test_a_statistic_beyond_the_prior_is_sought_at_its_end():
    curve = World(1, rough=0.01).curve
    mean, sd = (float(value) for value in curve.moments(0.8))
    found = aim(curve, Sought(mean + 10.0 * sd), (0.0, 0.8))
    # There the density falls by exp(-(beta - 0.8) 10 sd): its width is a tenth of 1 / sd.
    assert found.beta == 0.8 and found.sd == pytest.approx(0.1 / sd)


# The search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.4, 0.86, 1.1])
def test_a_search_locates_then_refines_until_the_error_is_what_was_asked_for(beta):
    world, target = World(3, rough=10.0), Sought(exact(beta)[0])
    before = aim(world.curve, target, INTERVAL)
    assert before.error > adaptive.FAR
    search, curve = world.search(target, limits())
    found = aim(curve, target, INTERVAL)
    assert search.done and not search.limited and not search.apart
    assert not world.rounds[0][0] and world.rounds[-1][0]
    assert found.error <= 0.1
    assert abs(found.beta - beta) < 4 * found.error * found.sd
    window = [b for b in world.chains if abs(b - beta) < 3 * found.sd]
    assert min(window) < beta < max(window)
    kinds = {kind for b in window for kind in world.chains[b]}
    assert kinds == set(KINDS)
    # tau / error^2 = 4 / 0.01 sweeps are needed, and as many of each chain to settle and to locate.
    assert world.swept() < 20 * 400


def test_the_sweeps_follow_the_accuracy_and_the_relaxation():
    spent = {}
    for accuracy, time in ((0.1, 2.0), (0.05, 2.0), (0.05, 8.0)):
        world = World(4, time=time)
        search, _ = world.search(Sought(exact(0.8)[0]), limits(accuracy=accuracy))
        assert search.done
        spent[accuracy, time] = world.swept()
    assert spent[0.1, 2.0] < spent[0.05, 2.0] < spent[0.05, 8.0]


def test_every_beta_is_a_multiple_of_a_power_of_two_within_the_prior():
    world = World(5)
    world.search(Sought(exact(0.8)[0]), limits(interval=(0.0, 0.81)))
    assert world.chains and all(0.0 <= beta <= 0.81 for beta in world.chains)
    assert all(beta == 0.81 or (beta * 2.0**12).is_integer() for beta in world.chains)


@pytest.mark.parametrize("shift", [0.0, 0.2, 2.0])
def test_a_second_image_nearby_takes_up_betas_that_are_there(shift):
    world, mean, sd = World(6), *exact(0.8)
    world.search(Sought(mean), limits())
    before = world.swept()
    search, curve = world.search(Sought(mean + shift * sd), limits())
    assert search.done and aim(curve, Sought(mean + shift * sd), INTERVAL).error <= 0.1
    if shift == 0.0:
        assert world.swept() == before
    else:
        alone = World(6)
        alone.search(Sought(mean + shift * sd), limits())
        assert world.swept() - before < alone.swept()


def test_the_window_stays_where_the_posterior_hardly_moves():
    world, mean, sd = World(8), *exact(0.8)
    search, curve = world.search(Sought(mean), limits())
    middle, quantum = search.middle, search.quantum
    for shift in (-0.2, 0.2):
        assert search.plan(world.estimator, curve, world.chains, Sought(mean + shift * sd)) == []
        assert (search.middle, search.quantum) == (middle, quantum)
    moved = search.plan(world.estimator, curve, world.chains, Sought(mean + 4.0 * sd))
    assert moved and search.middle != middle


def test_a_search_ends_at_the_sweeps_that_are_allowed_and_says_how_many_it_needs():
    world, target = World(9, time=20.0), Sought(exact(0.8)[0])
    search, curve = world.search(target, limits(sweeps=400))
    found = aim(curve, target, INTERVAL)
    assert not search.done and found.error > 0.1
    assert max(chain.size for starts in world.chains.values() for chain in starts.values()) <= 400
    window = len(search.betas)
    assert window == len(adaptive.WINDOW)
    assert int(re.findall(r"about (\d+)", search.limited)[0]) == pytest.approx(
        window * 400 * (found.error / 0.1) ** 2, rel=0.01
    )


def test_a_search_ends_at_the_betas_that_are_allowed():
    world = World(10)
    search, _ = world.search(Sought(exact(0.8)[0]), limits(points=5))
    assert search.limited.startswith("precompute.points") and not search.done
    assert len(world.chains) <= 5


def test_starts_that_disagree_are_noticed_and_the_search_ends_with_a_wide_error():
    world, target = World(11, apart=6.0), Sought(exact(0.8)[0])
    search, curve = world.search(target, limits())
    assert search.apart and "two phases" in search.limited and not search.done
    assert aim(curve, target, INTERVAL).error > 0.1
    window = [beta for beta, starts in world.chains.items() if set(starts) == set(KINDS)]
    assert len(window) >= len(adaptive.WINDOW) and disagree(world.estimator, curve, world.chains, window)


@pytest.mark.parametrize("beta", [0.5, 0.8])
@pytest.mark.parametrize("apart", [1.0, 2.0, 4.0])
def test_the_error_where_starts_disagree_reaches_both_of_them(beta, apart):
    """However many rows say so: either start of all of them may be the right one."""
    mean, sd = exact(beta)
    target = Sought(round(mean + apart / 2 * sd))
    search, curve = World(500, apart=apart).search(target, limits())
    found = aim(curve, target, INTERVAL)
    assert "two phases" in search.limited
    # The phases are `apart` posterior sds of beta from each other, about.
    assert found.error > 0.35 * apart


def test_a_window_over_betas_of_one_start_takes_the_other_too():
    world, target = World(11), Sought(exact(0.8)[0])
    _, curve = world.search(target, limits())
    for starts in world.chains.values():
        longest = max(starts.values(), key=len)
        starts.clear()
        starts["random"] = longest
    again = Search(limits())
    requests = again.plan(world.estimator, curve, world.chains, target)
    assert {request.kind for request in requests if request.beta in again.betas} >= {"ordered"}


def test_starts_that_agree_are_not_taken_to_disagree():
    world = World(12)
    _, curve = world.search(Sought(exact(0.8)[0]), limits())
    assert not disagree(world.estimator, curve, world.chains, sorted(world.chains))


@pytest.mark.parametrize("starts", ["random", "ordered", "both"])
def test_the_starts_are_those_of_the_input(starts):
    world = World(13)
    world.search(Sought(exact(0.5)[0]), limits(starts=starts))
    expected = set(KINDS) if starts == "both" else {starts}
    assert all(set(kinds) == expected for kinds in world.chains.values())


def test_a_window_that_moves_keeps_the_chains_that_are_near():
    world, target = World(17), Sought(exact(0.9)[0])
    search, _ = world.search(target, limits())
    before = set(world.chains)
    beside = Sought(target.statistic + 0.8 * exact(0.9)[1])
    again, _ = world.search(beside, limits())
    assert again.betas != search.betas and len(set(again.betas) & before) >= 3
    # A window with nothing in it has betas of its own.
    alone = World(17)
    found, _ = alone.search(beside, limits())
    assert all(beta / found.quantum == round(beta / found.quantum) for beta in found.betas)


def test_the_same_chains_make_the_same_decisions():
    first, second = World(14), World(14)
    first.search(Sought(exact(0.9)[0]), limits())
    second.search(Sought(exact(0.9)[0]), limits())
    assert first.rounds == second.rounds and first.curve.digest == second.curve.digest


def refine(world, targets, enough):
    """What an image's adaptation does around its targets, with the chains of a world; the curve."""
    bench = SimpleNamespace(chains=world.chains, extend=lambda requests, *_: world.extend(requests))
    stage = SimpleNamespace(
        limits=limits(), estimator=world.estimator, bench=bench, curve=lambda: world.curve, limited=[]
    )
    return adapt._Adaptation._refine(stage, targets, None, enough)


def test_what_lies_on_the_way_is_simulated_no_better_than_it_moves():
    near, far = Sought(exact(0.4)[0]), Sought(exact(1.2)[0])
    world = World(15)
    assert refine(world, [near, far], [100.0, 100.0]).digest == world.curve.digest and not world.chains
    curve = refine(world, [near, far], [100.0, 0.3])
    assert aim(curve, far, INTERVAL).error < 0.3 < aim(curve, near, INTERVAL).error
    assert world.chains and min(world.chains) > 0.8
    curve = refine(world, [near, far], None)
    assert max(aim(curve, target, INTERVAL).error for target in (near, far)) <= 0.1


def test_how_far_targets_moved_is_in_widths_of_the_posterior():
    world = World(16, rough=0.01)
    (low, _), (high, sd) = exact(0.6), exact(0.602)
    found = adapt._moved([Sought(high, 2.0)], [Sought(low)], world.curve, INTERVAL)
    assert found == pytest.approx([0.002 * sd / 2.0], rel=0.1)
    assert adapt._moved([Sought(high)], [], world.curve, INTERVAL) == [math.inf]
    # One that stays is known to when another appears beside it, which is as far as it is from the first.
    found = adapt._moved([Sought(low), Sought(high)], [Sought(low)], world.curve, INTERVAL)
    assert found == pytest.approx([0.0, 0.002 * sd], rel=0.1, abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("beta", [0.3, 0.8, 0.9])
def test_the_stated_error_of_beta_is_that_of_many_searches(beta):
    repeats, z, target = 120, [], Sought(round(exact(beta)[0]))
    truth = beta_of(target.statistic)
    for seed in range(repeats):
        search, curve = World(1000 + seed, time=4.0).search(target, limits())
        assert search.done
        found = aim(curve, target, INTERVAL)
        z.append((found.beta - truth) / (found.error * found.sd))
    rms = math.sqrt(np.mean(np.square(z)))
    # Of 120 the root mean square has a standard error of 0.065.
    assert 0.8 < rms < 1.25, rms
    assert abs(np.mean(z)) < 4 / math.sqrt(repeats)


# Without an image --------------------------------------------------------------------------------


def test_cover_goes_on_until_the_error_is_small_everywhere():
    world, asked = World(20, rough=1.0), limits(accuracy=0.3)
    worst = []
    for _ in range(20):
        curve = world.curve
        requests, error = cover(curve, world.chains, asked, adaptive.FIRST)
        worst.append(error)
        if not requests:
            break
        world.extend(requests)
    assert len(worst) > 1 and worst[-1] <= 0.3 < worst[0]
    for beta in np.linspace(0.05, 2.15, 12):
        mean, sd = exact(round(float(beta), 3))
        found, stated = curve.moments(round(float(beta), 3))[0], 0.3 * max(sd, 0.5 / 0.3)
        assert abs(found - mean) < 4 * stated


def test_cover_lengthens_chains_where_no_more_betas_are_allowed():
    world, asked = World(21, rough=1.0), limits(accuracy=0.05, points=12)
    requests, _ = cover(world.curve, world.chains, asked, adaptive.FIRST)
    assert 8 <= len(requests) <= 12
    world.extend(requests)
    while len(world.chains) < 12:
        world.extend(cover(world.curve, world.chains, asked, adaptive.FIRST)[0])
    longer, _ = cover(world.curve, world.chains, asked, adaptive.FIRST)
    assert longer and {request.beta for request in longer} <= set(world.chains)
    assert all(isinstance(request, Request) and request.sweeps == 2 * adaptive.FIRST for request in longer)
    world.extend(longer)
    world.extend([Request(b, k, asked.sweeps) for b, starts in world.chains.items() for k in starts])
    assert all(r.sweeps <= asked.sweeps for r in cover(world.curve, world.chains, asked, adaptive.FIRST)[0])
