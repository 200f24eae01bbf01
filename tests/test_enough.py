"""Chains are swept until their draws suffice: what is asked, what is reached, and where they end."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from mpi_potts.config.inputs import Config
from mpi_potts.estimation import enough
from mpi_potts.estimation.enough import MAP, Target
from mpi_potts.estimation.verdicts import Ended
from mpi_potts.io.rows import Parts
from mpi_potts.kernels.chain import Trace
from mpi_potts.labels import ensemble, watched
from mpi_potts.labels.chain import LabelChain
from mpi_potts.labels.ensemble import Draws, LabelChains, comparable, next_look
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.posterior import cautions
from mpi_potts.runtime.parallel import ALONE

TARGET = Target(1.01, 400.0, 0.01)
SAME = np.array([[0, 1], [0, 1]])


def walk(generator, shape, rho):
    """Stationary chains of variance 1 with autocorrelation rho."""
    x, noise = generator.normal(size=shape), generator.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1.0 - rho * rho) * noise[:, t]
    return x


def test_independent_draws_meet_the_target():
    found = enough.reached({"beta": np.random.default_rng(1).normal(size=(2, 2000))}, 0.001, TARGET)
    assert found.met and found.more == 0.0 and found.draws == 2000


@pytest.mark.parametrize("rho", [0.9, 0.98])
def test_the_draws_that_are_missing_are_foretold(rho):
    # tau = (1 + rho) / (1 - rho), so that 400 effective draws of two chains take 200 tau of each.
    series = {"beta": walk(np.random.default_rng(2), (2, 1500), rho)}
    found = enough.reached(series, 0.001, Target(1.1, 400.0, 0.01))
    needed = 200.0 * (1.0 + rho) / (1.0 - rho)
    # The estimate of tau has a relative error of sqrt(12 tau / 3000): 0.28 and 0.63; the tails need more.
    assert 0.5 * needed < found.draws + found.more < 4.0 * needed


def test_the_worst_is_named():
    g = np.random.default_rng(3)
    series = {"beta": g.normal(size=(2, 2000)), "mean of label 2": walk(g, (2, 2000), 0.99)}
    assert enough.reached(series, 0.001, TARGET).worst == "mean of label 2"
    found = enough.reached({"beta": series["beta"]}, 0.03, TARGET)
    assert found.worst == MAP and found.factor == pytest.approx(9.0)


def test_a_map_that_is_not_known_is_not_enough():
    found = enough.reached({"beta": np.random.default_rng(1).normal(size=(2, 2000))}, np.nan, TARGET)
    assert not found.met and found.worst == MAP and found.more == 2000


def test_a_start_that_is_not_forgotten_is_a_drift():
    g = np.random.default_rng(4)
    settled = walk(g, (2, 1024), 0.8)
    assert not enough.drifts({"beta": settled})
    assert enough.drifts({"beta": settled + 6.0 * np.exp(-np.arange(1024) / 60.0)})
    assert enough.drifts({"beta": np.cumsum(g.normal(size=(2, 1024)), axis=1)})


def test_settled_chains_seldom_seem_to_drift():
    g = np.random.default_rng(5)
    # Beyond four standard errors one in 16,000; errors of tau make that more: one in a hundred is allowed.
    assert sum(enough.drifts({"x": walk(g, (1, 512), 0.8)}) for _ in range(1000)) <= 10


def test_chains_that_settle_in_two_places_are_apart():
    g = np.random.default_rng(6)
    one = g.normal(size=(2, 1000))
    assert enough.apart({"beta": one + np.array([[0.0], [5.0]])}, TARGET)
    assert not enough.apart({"beta": one}, TARGET)
    assert not enough.apart({"beta": np.cumsum(one, axis=1)}, TARGET)


def test_looks_are_at_powers_of_two_and_between():
    looks = [0]
    while looks[-1] < 1000:
        looks.append(next_look(looks[-1]))
    assert looks[1:] == [128, 181, 256, 362, 512, 724, 1024]
    assert all(next_look(place - 1) == place for place in looks[1:])


# Pixels that are watched


@pytest.mark.parametrize("sites", [1, 100, 2048, 2049, 10**6])
def test_pixels_are_watched_once_and_everywhere(sites):
    found = watched.pixels(sites)
    assert found.size == np.unique(found).size and 0 <= found.min() and found.max() < sites
    assert found.size == min(sites, watched.PIXELS) or found.size > 0.8 * watched.PIXELS
    # In step with no column: all columns of a thousand are equally likely.
    if sites == 10**6:
        count = np.bincount(found % 1000 // 100, minlength=10)
        assert (np.abs(count - 204.8) < 5.0 * np.sqrt(204.8)).all()


def test_batches_are_merged_where_there_are_many():
    batches = np.zeros((1, 0, 1, 1), np.uint32)
    for steps in range(1, 3000):
        if steps % watched.stride(steps - 1) == 0:
            now = np.full((1, 1, 1, 1), steps, np.uint32)
            batches = watched.merged(np.concatenate([batches, now], axis=1), steps)
        length = watched.stride(steps)
        assert batches.ravel().tolist() == [length * (i + 1) for i in range(steps // length)]
        assert steps < watched.EVEN * watched.SHORTEST or watched.EVEN <= batches.shape[1] < 2 * watched.EVEN


def test_the_error_of_the_map_is_that_of_independent_labels():
    """512 steps of 2 chains in which each pixel has label 1 with probability p: sqrt(p (1 - p) / 1024)."""
    g = np.random.default_rng(7)
    p, steps = np.full(2000, 0.7), 512
    one = g.random((2, steps, p.size)) < p
    counts = np.cumsum(np.stack([~one, one], axis=2), axis=1).astype(np.uint32)
    length = watched.stride(steps)
    batches = counts[:, length - 1 :: length]
    found = watched.mean_error(watched.fractions(batches, steps))
    # Each of 2000 pixels has an estimate from 32 batches, of relative error 1 / 8: 0.003 in all, with a bias
    # of 1 / 128 because the root of a variance is taken.
    assert found == pytest.approx(np.sqrt(0.21 / 1024), rel=0.02)


# What is compared between chains


def draws_of(mean, sd, share):
    """Draws of two chains with these means (chains, n, k), and parts of watched pixels of these shares."""
    chains, n, k = mean.shape
    beta = np.random.default_rng(8).normal(size=(chains, n))
    parts = np.broadcast_to(np.array(share)[:, None, :, None], (chains, 8, k, 5))
    return Draws(beta, np.ones((chains, n), np.int64), {"mean": mean, "sd": sd}), parts


def test_names_of_labels_do_not_matter():
    g, k = np.random.default_rng(9), 3
    mean, sd = g.normal(size=(2, 600, k)) + 9.0 * np.arange(k), 1.0 + g.random((2, 600, k)) + np.arange(k)
    share, same = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), np.array([[0, 1, 2], [0, 1, 2]])
    plain = comparable(*draws_of(mean, sd, share), same)
    assert [*plain] == ["beta", "S(z)", *(f"{n} of label {j}" for n in ("mean", "sd") for j in (1, 2, 3))]
    other = mean.copy(), sd.copy(), share.copy()
    other[0][1], other[1][1], other[2][1] = mean[1][:, [2, 0, 1]], sd[1][:, [2, 0, 1]], share[1, [2, 0, 1]]
    renamed = comparable(*draws_of(*other), np.array([[0, 1, 2], [2, 0, 1]]))
    assert all(np.array_equal(plain[name], renamed[name]) for name in plain)


def test_labels_with_almost_no_pixels_are_not_asked_to_settle():
    g = np.random.default_rng(10)
    mean = g.normal(size=(2, 600, 3)) + 9.0 * np.arange(3)
    mean[:, :, 1] = 9.0 + 0.1 * np.cumsum(g.normal(size=(2, 600)), axis=1)
    share = np.array([[0.6, 0.001, 0.399], [0.6, 0.009, 0.391]])
    draws, parts = draws_of(mean, np.ones_like(mean), share)
    series = comparable(draws, parts, np.array([[0, 1, 2], [0, 1, 2]]))
    assert [name for name in series if name.startswith("mean")] == ["mean of label 1", "mean of label 3"]


# The phase


class Script:
    """A phase that writes draws down instead of making them; labels are those of the chain."""

    def __init__(self, beta, burn_in, sweeps, target=TARGET):
        self.beta, self.burn_in, self.sweeps, self.target = beta, burn_in, sweeps, target
        self.width, self.cost, self.crossing = 0, 1, None
        chains, n = beta.shape
        self.noise = np.random.default_rng(17).normal(size=(chains, 2, n, 2)) + np.array([0.0, 9.0])

    def start(self, number):
        return np.zeros(0)

    def run(self, number, chain, memory, first, steps, counting):
        beta = self.beta[number, first : first + steps]
        noise = self.noise[number][:, first : first + steps]
        for _ in range(steps if counting else 0):
            chain.count()
        return Trace(beta, np.zeros(steps, np.int64), noise)


def chains_of(count=2):
    lattice = Lattice((6, 7), "first", None)
    values = np.random.default_rng(1).normal(size=lattice.shape)
    prior = gaussian_noise(2)
    make = lambda number: LabelChain(lattice, values, 2, prior, 3)  # noqa: E731  all with the same labels
    return LabelChains(ALONE, lattice, 2, make, count, 3, noise=prior.names)


def ended(beta, burn_in=10, sweeps=5000, **keys):
    chains = chains_of(len(beta))
    steps = [*chains.run(Script(beta, burn_in, sweeps, **keys))]
    assert steps == sorted(steps) and steps[-1] == chains.burned + chains.drawn
    return chains


def values_of(rows):
    """The rows of a dataset as a file would have them, those that are made in parts too."""
    if not isinstance(rows.values, Parts):
        return rows.values
    return np.stack(
        [np.concatenate([part for _, part in rows.values.of_row(i)]) for i in range(len(rows.values))]
    )


def test_a_phase_ends_at_the_look_where_its_draws_suffice():
    beta = np.random.default_rng(11).normal(size=(2, 6000))
    chains = ended(beta)
    assert chains.ended == Ended.MET and chains.burned == 10
    assert chains.drawn in (256, 362, 512, 724, 1024)
    assert np.array_equal(chains.draws.beta, beta[:, 10 : 10 + chains.drawn])
    assert chains.take_counts(SAME).sum() == 2 * chains.drawn * 42


def test_a_start_that_is_not_forgotten_is_burn_in_and_its_labels_are_not_counted():
    beta = np.random.default_rng(12).normal(size=(2, 6000))
    beta[:, :300] += 8.0
    chains = ended(beta)
    assert chains.ended == Ended.MET and chains.burned == 10 + 512
    assert np.array_equal(chains.draws.beta, beta[:, chains.burned : chains.burned + chains.drawn])
    assert chains.take_counts(SAME).sum() == 2 * chains.drawn * 42


def test_a_phase_ends_at_its_limit_and_says_what_is_missing():
    chains = ended(walk(np.random.default_rng(13), (2, 6000), 0.995), sweeps=900)
    assert chains.ended == Ended.LIMIT and chains.burned + chains.drawn == 910
    assert chains.reached.worst == "beta" and chains.reached.more > 900


def test_more_sweeps_are_advised_with_a_doubt_where_chains_are_in_modes_of_their_own():
    fit = SimpleNamespace(
        chains=ended(walk(np.random.default_rng(13), (2, 6000), 0.995), sweeps=900),
        problem=SimpleNamespace(config=Config()),
    )
    (usual,), (in_modes,) = (cautions.short_of_target(fit, one_mode) for one_mode in (True, False))
    named = 20_000 + float(f"{1.3 * fit.chains.reached.more:.2g}")
    assert f"raise fit.max_sweeps from 20000 to {named:.0f}" in usual and "unless" not in usual
    assert "unless the chains are in modes of their own" in in_modes


def test_chains_that_have_settled_apart_are_not_swept_for_ever():
    beta = np.random.default_rng(14).normal(size=(2, 6000)) + np.array([[0.0], [7.0]])
    chains = ended(beta)
    assert chains.ended == Ended.APART and chains.drawn in (256, 512, 1024)


def test_a_fixed_number_is_made_exactly_and_nothing_of_it_becomes_burn_in():
    beta = np.random.default_rng(15).normal(size=(2, 600))
    beta[:, :300] += 8.0
    chains = ended(beta, sweeps=500, target=None)
    assert (chains.burned, chains.drawn, chains.ended) == (10, 500, None)


def test_a_continued_phase_and_one_with_a_higher_limit_or_a_stricter_target_end_alike(monkeypatch):
    monkeypatch.setattr(ensemble, "SLICE_SITES", 42 * 50)
    beta = walk(np.random.default_rng(16), (2, 12000), 0.9)
    beta[:, :100] += 9.0
    strict = Target(1.01, 700.0, 0.01)
    long = ended(beta, sweeps=10000, target=strict)
    assert long.ended == Ended.MET and long.burned > 10
    counts = long.take_counts(SAME)
    for first in ({"sweeps": 1300}, {"target": Target(1.05, 100.0, 0.05)}, {"slices": 5}, {"slices": 40}):
        chains, slices = chains_of(), first.pop("slices", None)
        phase = Script(beta, 10, **{"sweeps": 10000, "target": strict} | first)
        for _ in itertools.islice(chains.run(phase), slices):
            pass
        assert chains.drawn < long.drawn or chains.burned < long.burned
        packed = chains.pack()
        again = chains_of()
        rows = lambda names: {name: values_of(packed[name]) for name in names}  # noqa: E731, B023
        again.unpack({"final": packed["final"]}, rows)
        [*again.run(Script(beta, 10, 10000, strict))]
        assert again.reached == long.reached
        assert (again.burned, again.drawn) == (long.burned, long.drawn)
        assert np.array_equal(again.draws.beta, long.draws.beta)
        assert np.array_equal(again.take_counts(SAME), counts)
