"""Moves between modes keep the target: clusters that change labels, and chains on a ladder of powers."""

import numpy as np
import pytest
from bindings import binding_of
from enumeration import labellings_of
from scipy import stats

import mpi_potts as mp
from mpi_potts import rng
from mpi_potts.kernels.flips import flip, flip_with_noise
from mpi_potts.kernels.neighbours import neighbours, pad, unpad
from mpi_potts.labels.chain import LabelChain
from mpi_potts.labels.ensemble import LabelChains, SurrogatePhase, disagree, origins
from mpi_potts.lattice import MASKED, Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.rng import Purpose
from mpi_potts.runtime.parallel import ALONE

HOLE = np.ones((3, 3), dtype=bool)
HOLE[1, 2] = False


@pytest.mark.parametrize(
    "lattice", [Lattice((2, 4)), Lattice((3, 3), mask=HOLE), Lattice((2, 4), "hexagonal"), Lattice((2, 2, 2))]
)
def test_flips_of_clusters_have_the_exact_distribution(lattice):
    """From labels drawn from the target, a move gives labels of the target: all labellings are counted."""
    k, beta, power = 3, 0.6, 0.7
    labels, statistic, _ = labellings_of(lattice, k)
    y = np.random.default_rng(1).normal(size=lattice.shape)
    values = np.array([[-0.5, 0.3, 0.4], [0.8, 1.2, 0.9]])
    each = power * stats.norm.logpdf(y[lattice.exists][:, None], *values)
    log_p = beta * statistic + sum(each[i, labels[:, i]] for i in range(labels.shape[1]))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    density, around = gaussian_noise(k).density(values), neighbours(lattice)
    stream, flat, n = rng.stream(5, Purpose.FLIPS), pad(y, lattice.exists, 0.0), 60_000
    start = np.random.default_rng(2).choice(p.size, size=n, p=p)
    weights = k ** np.arange(labels.shape[1])[::-1]
    count, moved = np.zeros(p.size), 0
    for t in range(n):
        z = np.full(lattice.shape, MASKED, dtype=np.uint8)
        z[lattice.exists] = labels[start[t]]
        state = pad(z, lattice.exists, MASKED)
        found = flip(state, flat, around, beta, k, density, power, *rng.key(stream, t))
        now = (unpad(state, lattice.shape)[lattice.exists] * weights).sum()
        assert t > 200 or found == lattice.statistic(unpad(state, lattice.shape))
        moved += now != start[t]
        count[now] += 1
    assert moved > n / 4
    # Rare labellings together, so that chi-square is what it says.
    often = p * n > 5
    seen, expected = np.append(count[often], count[~often].sum()), np.append(p[often], p[~often].sum()) * n
    assert stats.chisquare(seen, expected).pvalue > 1e-4


def noise_given(priors, sums, draw):
    """(rows, 2, k) means and sds of labels with these sums (rows, k, 3), by Gibbs' sampler from a start that
    thirty rounds forget."""
    n, total, square = np.moveaxis(sums, -1, 0)
    mean, variance = np.zeros(n.shape), np.ones(n.shape)
    for _ in range(30):
        v = 1.0 / (n / variance + 1.0 / priors.mean_sd**2)
        mean = v * (total / variance + priors.mean / priors.mean_sd**2) + np.sqrt(v) * draw.normal(
            size=n.shape
        )
        within = square - 2.0 * mean * total + n * mean * mean
        variance = (priors.scale + 0.5 * within) / draw.gamma(priors.shape + 0.5 * n)
    return np.stack([mean, np.sqrt(variance)], axis=1)


@pytest.mark.parametrize("same", [True, False])
def test_clusters_that_change_their_noise_have_the_exact_distribution(same):
    """From labels and noise drawn from the target, a move gives both of the target: labellings are counted,
    and the noise has the distribution that it had."""
    lattice, k, beta, n = Lattice((2, 3)), 3, 0.7, 60_000
    own = {} if same else {"mean": [-0.5, 0.0, 0.8], "shape": [3.0, 4.0, 5.0]}
    priors = gaussian_noise(k, **({"mean": 0.2, "mean_sd": 1.5, "shape": 3.0, "scale": 1.0} | own))
    labels, statistic, _ = labellings_of(lattice, k)
    y, draw = np.random.default_rng(1).normal(size=lattice.shape), np.random.default_rng(2)
    sums = np.array([priors.label_sums(z, y.ravel(), k) for z in labels])
    log_p = beta * statistic + priors.log_marginals(sums).sum(axis=-1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    start = draw.choice(p.size, size=n, p=p)
    before = noise_given(priors, sums[start], draw)
    around, stream, flat = neighbours(lattice), rng.stream(5, Purpose.FLIPS), pad(y, lattice.exists, 0.0)
    after, found = before.copy(), np.empty(n, np.int64)
    weights = k ** np.arange(labels.shape[1])[::-1]
    for t in range(n):
        state = pad(labels[start[t]].reshape(lattice.shape).astype(np.uint8), lattice.exists, MASKED)
        known = state, flat, around, beta, k, priors.density(before[t])
        flip_with_noise(*known, priors.state(after[t]), 1, *rng.key(stream, t))
        found[t] = (unpad(state, lattice.shape).ravel() * weights).sum()
    assert np.mean(after != before) > 0.25
    often = p * n > 5
    count = np.bincount(found, minlength=p.size)
    seen, expected = np.append(count[often], count[~often].sum()), np.append(p[often], p[~often].sum()) * n
    assert stats.chisquare(seen, expected).pvalue > 1e-4
    # Of each label, given how many pixels it has now: halves, so that the two are independent.
    number = sums[..., 0]
    for j in range(k):
        for pixels in range(lattice.sites):
            one = before[: n // 2][number[start[: n // 2], j] == pixels, :, j]
            two = after[n // 2 :][number[found[n // 2 :], j] == pixels, :, j]
            if min(len(one), len(two)) > 200:
                assert all(stats.ks_2samp(one[:, q], two[:, q]).pvalue > 1e-4 for q in range(2))


def table_of(lattice, k):
    grid = np.linspace(0.0, 1.5, 301)
    return binding_of(lattice, k, grid, *Exact(lattice, k).moments(grid)).table


def test_a_tempered_chain_has_the_posterior_of_a_plain_one():
    """beta, S and the noise of a small image, where a plain chain mixes: means agree in standard errors."""
    lattice, k = Lattice((4, 4)), 2
    y = np.random.default_rng(3).normal(size=(4, 4)) + np.repeat([[-1.0], [1.0]], 2, axis=0)
    table, priors = table_of(lattice, k), gaussian_noise(k, mean_sd=1.5, shape=4.0, scale=3.0)
    steps, means, errors = 30_000, [], []
    for temper in (False, True):
        chain = LabelChain(lattice, y, k, priors, seed=4)
        chain.sample(table, (0.0, 1.5), 500, count=False)
        if temper:
            chain.temper(table, (0.0, 1.5), "path")
        trace = chain.sample(table, (0.0, 1.5), steps)
        low, high = np.sort(trace.noise[0], axis=1).T
        series = np.stack([trace.beta, trace.statistic, low, high, np.log(trace.noise[1]).sum(axis=1)])
        batches = series.reshape(len(series), 100, -1).mean(axis=2)
        means.append(batches.mean(axis=1))
        errors.append(batches.std(axis=1, ddof=1) / 10.0)
        assert chain.counted == steps and chain.counts.sum() == steps * lattice.sites
    assert np.all(np.abs(means[0] - means[1]) < 4.5 * np.hypot(*errors))


def test_a_tempered_chain_goes_on_where_it_was_packed():
    lattice, k = Lattice((6, 5)), 3
    y = np.random.default_rng(3).normal(size=lattice.shape)
    table = table_of(Lattice((3, 3)), k)
    whole, parts = (LabelChain(lattice, y, k, gaussian_noise(k), seed=4) for _ in range(2))
    for chain in (whole, parts):
        chain.temper(table, (0.0, 1.5), "path")
    trace = whole.sample(table, (0.0, 1.5), 60)
    first = parts.sample(table, (0.0, 1.5), 25)
    other = LabelChain(lattice, y, k, gaussian_noise(k), seed=4)
    other.unpack(parts.pack())
    rest = other.sample(table, (0.0, 1.5), 35)
    assert np.array_equal(np.concatenate([first.beta, rest.beta]), trace.beta)
    assert np.array_equal(np.concatenate([first.noise, rest.noise], axis=1), trace.noise)
    assert np.array_equal(other.counts, whole.counts) and np.array_equal(other.labels, whole.labels)


def test_chains_disagree_where_any_mean_is_far():
    draw = np.random.default_rng(0)
    probes = draw.normal(size=(2, 5, 200))
    assert not disagree(probes)
    probes[1, 3] += 3.0
    assert disagree(probes)


def test_chains_of_next_to_no_weight_go_on_from_the_scout_or_else_the_best():
    """The last row is the scout's; a gap that errors could explain moves nobody."""
    assert origins(np.array([[-10.0, 0.5], [-25.0, 0.5], [-30.0, 0.5]])).tolist() == [0, 0]
    assert origins(np.array([[-10.0, 0.5], [-25.0, 0.5], [-11.0, 0.5]])).tolist() == [0, 2]
    assert origins(np.array([[-31.0, 0.5], [-45.0, 0.5], [-10.0, 0.2]])).tolist() == [2, 2]
    assert origins(np.array([[-10.0, 0.5], [-25.0, 6.0], [-12.0, 0.5]])).tolist() == [0, 1]


def test_two_chains_in_one_minor_mode_leave_it_for_what_a_scout_has_found():
    """Labels that do not see their neighbours, and both chains at one label nearly everywhere: from there no
    sweep leads away, and the chains agree."""
    lattice, k, interval = Lattice((32, 32)), 3, (0.0, 1.2)
    draw = np.random.default_rng(0)
    z = draw.integers(0, k, lattice.shape)
    y = draw.normal(np.array([-1.4, 0.0, 1.7])[z], 0.9)
    sizes = {"grid": "regular", "points": 61, "iterations": 500, "burn_in": 100}
    binding = mp.precompute(shape=lattice.shape, labels=k, beta=list(interval), precompute=sizes)
    priors = gaussian_noise(k, mean_sd=2.0, shape=10.0, scale=5.0)
    alone = np.zeros(lattice.sites, np.uint8)

    def make(number):
        return LabelChain(lattice, y, k, priors, seed=4, chain=number)

    chains = LabelChains(ALONE, lattice, k, make, 2, 4, noise=priors.names, witnesses=lattice.sites)
    noise = priors.of_labels(alone, chains.chains[0].standard_image, k, 1e-6, empty=1.0)
    for chain in chains.chains:
        chain.unpack({"steps": np.zeros(2, np.int64), "labels": alone, "noise": noise})
    phase = SurrogatePhase(binding, interval, "path", burn_in=0, sweeps=200)
    for _ in chains.run(phase):
        pass
    assert (chains.draws.beta.mean(axis=1) < 0.4).all() and not chains.tempered
    assert chains.restarted == 2
