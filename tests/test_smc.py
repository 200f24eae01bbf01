"""SMC-ABC: its random numbers, its kernels, and its posterior against one-dimensional quadrature."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from bindings import binding_of
from mpi4py import MPI
from scipy import stats

from mpi_potts import rng
from mpi_potts.config.inputs import SmcKeys
from mpi_potts.errors import InputError
from mpi_potts.kernels import smc as kernels
from mpi_potts.kernels import windows as closed_form
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.rng import Purpose
from mpi_potts.smc import weights
from mpi_potts.smc.sampler import State, Stop, chain_betas, observed, smc_abc
from mpi_potts.smc.sources import from_binding
from mpi_potts.smc.weights import Reason

STREAM = rng.stream(5, Purpose.PSEUDO_STATISTIC)


def standard_normals(particles, replicates, iteration=1):
    x = np.empty((particles, replicates))
    kernels.draw(
        x,
        np.zeros(particles),
        np.ones(particles),
        np.full(particles, iteration),
        np.arange(particles),
        STREAM,
    )
    return x


def pairs_of(words):
    first, second = np.empty(words.size), np.empty(words.size)
    kernels._normals(first, second, words)
    return np.stack([first, second], axis=1)


def test_normals_are_those_of_box_and_muller_to_ten_digits():
    edges = np.array([0, 2**64 - 1, 2**24 - 1, 2**64 - 2**24, 2**63, 2**22, 2**23], dtype=np.uint64)
    words = np.concatenate([edges, rng.words(STREAM, 0, 100_000)[:, 0]])
    u = ((words >> np.uint64(24)).astype(float) + 0.5) * 2.0**-40
    angle = (((words & np.uint64(2**22 - 1)).astype(float) + 0.5) * 2.0**-22 - 0.5) * np.pi / 2
    r = np.sqrt(-2.0 * np.log(u))
    c, s = r * np.cos(angle), r * np.sin(angle)
    swap = (words >> np.uint64(22)) % 2 == 1
    turn = np.where((words >> np.uint64(23)) % 2 == 1, -1.0, 1.0)
    expected = np.stack([turn * np.where(swap, s, c), turn * np.where(swap, c, s)], axis=1)
    # Next to u = 1 the logarithm itself has lost the digits that u has not: an absolute error as well.
    np.testing.assert_allclose(pairs_of(words), expected, rtol=1e-10, atol=1e-9)


def test_normals_have_the_normal_distribution():
    x = standard_normals(20_000, 200).ravel()
    n = x.size
    assert stats.kstest(x, "norm").pvalue > 1e-4
    # Moments 1 to 4: variances of x, x^2, x^3, x^4 are 1, 2, 15, 96.
    for power, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)], start=1):
        assert abs((x**power).mean() - mean) < 4 * np.sqrt(variance / n), power
    for sigma in (2.0, 3.0, 4.0, 4.5):
        expected = n * stats.norm.sf(sigma)
        assert abs((x > sigma).sum() - expected) < 4 * np.sqrt(expected) + 1, sigma
        assert abs((x < -sigma).sum() - expected) < 4 * np.sqrt(expected) + 1, sigma


def test_normals_reach_seven_sigma_with_the_right_probability():
    # The radius decides the tail: P(r > t) = exp(-t^2 / 2), here by the definition of u on 40 bits.
    for t in (5.0, 6.0, 7.0):
        words = np.exp(-0.5 * t * t) * 2.0**40
        inside, outside = (np.uint64(round(words + shift)) << np.uint64(24) for shift in (2, -2))
        radius = np.hypot(*pairs_of(np.array([inside, outside], dtype=np.uint64)).T)
        assert radius[0] < t < radius[1]


def test_normals_of_one_particle_are_independent():
    x = standard_normals(200_000, 8)
    bound = 4.5 / np.sqrt(len(x))
    for y in (x, x**2):
        correlation = np.corrcoef(y.T) - np.eye(8)
        assert np.abs(correlation).max() < bound


@pytest.mark.parametrize("replicates", [1, 2, 3, 4, 5, 50, 200])
def test_pseudo_statistics_belong_to_the_birth_not_to_the_slot(replicates):
    whole = standard_normals(30, replicates)
    order = np.random.default_rng(1).permutation(30)[:17]
    mean, sd = np.arange(17.0), np.arange(1.0, 18.0)
    part = np.full((17, replicates), np.nan)
    kernels.draw(part, mean, sd, np.ones(17, dtype=np.int64), order, STREAM)
    assert (part == mean[:, None] + sd[:, None] * whole[order]).all()
    assert np.unique(whole).size == whole.size
    assert not np.isin(standard_normals(30, replicates, iteration=2), whole).any()


def test_counting_and_collecting_follow_the_definition():
    x = 10.0 + 3.0 * standard_normals(57, 33)
    distance = np.abs(x - 11.0)
    tolerances = np.array([0.0, 0.1, 1.0, 2.0, 50.0])
    counts = np.zeros((57, 5), dtype=np.int64)
    kernels.count(counts, x, 11.0, tolerances)
    assert (counts == (distance[:, :, None] < tolerances).sum(axis=1)).all()

    use = np.arange(57) % 3 > 0
    wanted = (distance >= 0.5) & (distance < 2.0) & use[:, None]
    found, row = kernels.collect(x, wanted.sum(axis=1), 11.0, 0.5, 2.0)
    i, m = np.nonzero(wanted)
    assert (row == i).all() and (found == distance[i, m]).all()

    counts = np.zeros((57, 2), dtype=np.int64)
    kernels.count_pairs(counts, found, row, np.array([0.7, 1.5]))
    assert (counts == (wanted[:, :, None] & (distance[:, :, None] < [0.7, 1.5])).sum(axis=1)).all()


def test_acceptance_compares_counts():
    x, new = standard_normals(40, 20), standard_normals(40, 20, iteration=2)
    rows = np.arange(0, 40, 2)
    uniform = rng.uniforms(STREAM, 3, 40)
    held = (np.abs(x) < 0.5).sum(axis=1)
    proposed = (np.abs(new[: rows.size]) < 0.5).sum(axis=1)
    expected = uniform[rows] < proposed / held[rows]
    old, count, accepted = x.copy(), held.copy(), np.zeros(40, dtype=bool)
    kernels.accept(x, count, accepted, rows, new[: rows.size], uniform, 0.0, 0.5)
    assert 0 < expected.sum() < rows.size
    assert (accepted[rows] == expected).all() and not accepted[1::2].any()
    old[rows[expected]], held[rows[expected]] = new[: rows.size][expected], proposed[expected]
    assert (x == old).all() and (count == held).all()


@pytest.fixture(scope="module")
def small():
    """8 x 8, k = 2: the exact moments."""
    exact = Exact(Lattice((8, 8)), 2)
    beta = np.linspace(0.0, 1.2, 601)
    return exact, binding_of(exact.lattice, 2, beta, *exact.moments(beta))


@pytest.fixture(scope="module")
def large():
    """As steep and as noisy as 125 x 125, k = 3, below the transition."""
    beta = np.linspace(0.0, 1.005, 500)
    part = beta / 1.005
    mean = 31000 * (1 / 3 + 0.22 * part + 0.2 * part**4)
    return binding_of(Lattice((125, 125)), 3, beta, mean, 83 + 40 * part**2 + 100 * part**8)


def settings(**changes):
    return replace(SmcKeys(particles=1000, replicates=50), **changes)


def run(table, statistic, keys, seed=1, interval=None, observe=None, state=None):
    source = from_binding(table, keys.replicates, seed)
    interval = source.support if interval is None else interval
    observe = observed(statistic) if observe is None else observe
    return list(smc_abc(MPI.COMM_SELF, source, interval, keys, seed, observe, state))


def quadrature(table, statistic, interval, epsilon=0.0):
    """Mean and sd of beta under the Gaussian likelihood of S, or its convolution with (-epsilon, epsilon)."""
    beta = np.linspace(*interval, 200_001)
    mean, sd = table.moments(beta)
    z = (statistic - mean) / sd
    if epsilon > 0.0:
        density = stats.norm.cdf(z + epsilon / sd) - stats.norm.cdf(z - epsilon / sd)
    else:
        density = np.exp(-0.5 * z * z) / sd
    return weights.moments(beta, density / density.sum())


def check_against_quadrature(table, statistic, keys, interval, epsilons, runs=5):
    """Mean of independent runs within 4 of their standard errors, mean of their sds within 10 %."""
    last = [run(table, statistic, keys, seed, interval)[-1] for seed in range(runs)]
    assert all(s.stopped_because == Stop.EPSILON for s in last)
    means, sds = np.array([[s.beta_mean, s.beta_sd] for s in last]).T
    for epsilon in epsilons:
        mean, sd = quadrature(table, statistic, interval, epsilon)
        # The spread of a few runs is itself uncertain: never below what N independent draws would have.
        error = max(means.std(ddof=1), sd / np.sqrt(keys.particles)) / np.sqrt(runs)
        assert abs(means.mean() - mean) < 4 * error
        assert abs(sds.mean() / sd - 1) < 0.1


@pytest.mark.parametrize("statistic", [60, 75, 100])
def test_posterior_on_8_by_8_is_that_of_the_gaussian_likelihood(small, statistic):
    _, table = small
    check_against_quadrature(table, statistic, settings(), (0.0, 1.2), epsilons=(0.0, 0.5))


@pytest.mark.parametrize("replicates", [50, "infinite"])
@pytest.mark.parametrize("beta", [0.3, 0.6, 0.9])
def test_posterior_on_125_by_125_is_that_of_the_gaussian_likelihood(large, beta, replicates):
    statistic = round(float(large.moments(beta)[0]))
    keys = settings(replicates=replicates)
    check_against_quadrature(large, statistic, keys, (0.0, 1.005), epsilons=(0.0, 0.5))


@pytest.mark.parametrize("replicates", [50, "infinite"])
def test_posterior_at_a_large_tolerance_is_that_of_the_convolved_likelihood(large, replicates):
    statistic = round(float(large.moments(0.6)[0]))
    keys = settings(min_epsilon=400.0, replicates=replicates)
    check_against_quadrature(large, statistic, keys, (0.0, 1.005), epsilons=(400.0,))
    # The tolerance shows: without it the sd would be a third smaller.
    assert (
        quadrature(large, statistic, (0.0, 1.005))[1]
        < 0.67 * quadrature(large, statistic, (0.0, 1.005), 400.0)[1]
    )


def test_posterior_at_the_edge_of_the_prior_has_no_atom_there(small):
    _, table = small
    statistic = round(float(table.moments(0.3)[0]))
    interval = (0.3, 1.0)
    check_against_quadrature(table, statistic, settings(), interval, epsilons=(0.5,))
    beta = run(table, statistic, settings(), interval=interval)[-1].beta
    assert 0.3 < beta.min() < 0.31 and beta.max() < 1.0


@pytest.mark.parametrize("scheme", ["systematic", "multinomial"])
def test_posterior_is_the_same_under_every_resampling_scheme(large, scheme):
    statistic = round(float(large.moments(0.6)[0]))
    keys = settings(resampling=scheme)
    check_against_quadrature(large, statistic, keys, (0.0, 1.005), epsilons=(0.0,), runs=3)


def test_observed_labels_keep_ess_on_its_target_until_the_floor(large):
    states = run(large, round(float(large.moments(0.6)[0])), settings())
    assert [s.iteration for s in states] == list(range(1, len(states) + 1))
    assert states[-1].stopped_because == Stop.EPSILON and states[-1].epsilon == 0.5
    assert all(s.stopped_because == "" for s in states[:-1])
    for before, after in pairwise(states):
        assert after.epsilon < before.epsilon
        assert after.target == pytest.approx(0.97 * weights.ess(before.weight), rel=1e-12)
        assert abs(after.ess / after.target - 1) < 0.01 or after.reason == Reason.FLOOR
        assert after.resampled == (after.ess < 500)
    assert any(s.resampled for s in states)
    assert {"statistic", "adaptation", "resampling", "mutation"} == set(states[0].seconds)


def wandering(table, seed):
    """S(z) that starts far off, jumps beyond every pseudo-statistic and back, and then settles with noise."""
    goal = float(table.moments(0.6)[0])
    normal = np.random.default_rng(seed).normal(0.0, 30.0, 1000)
    jumps = {1: 10400.0, 2: 10350.0, 20: 30900.0, 21: 10400.0, 40: 1e9, 41: -1e9}

    def observe(state):
        t = state.iteration + 1
        return jumps.get(t, round(goal + normal[t])), 30.0

    return observe


@pytest.mark.parametrize("replicates", [50, "infinite"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_moving_statistic_never_leaves_a_nan_and_says_why_ess_missed(large, seed, replicates):
    keys = settings(max_iterations=80, min_acceptance=0.0, min_epsilon=0.0, replicates=replicates)
    states = run(large, None, keys, seed, observe=wandering(large, seed))
    for state in states:
        for f in fields(State):
            value = getattr(state, f.name)
            if f.name != "seconds" and np.issubdtype(np.asarray(value).dtype, np.number):
                assert np.isfinite(value).all(), (state.iteration, f.name)
        assert state.weight.sum() == pytest.approx(1.0, rel=1e-12)
        assert replicates == "infinite" or (state.count[state.weight > 0.0] > 0).all()
        assert abs(state.ess / state.target - 1) < 0.01 or state.reason != Reason.SOLVED
    assert {states[19].reason, states[39].reason} <= {Reason.RISEN, Reason.BEST}
    # It recovers: what is left of the jumps after 38 quiet iterations is within the posterior of the goal.
    assert abs(states[-1].beta_mean - 0.6) < 5 * states[-1].beta_sd


def test_a_statistic_that_is_no_number_is_an_error(large):
    with pytest.raises(RuntimeError, match="statistic"):
        run(large, float("nan"), settings())


def test_every_kernel_is_compiled_once_and_before_it_is_needed(large):
    kernels.compile_all()
    run(large, None, settings(particles=300, max_iterations=45), observe=wandering(large, 1))
    closed_form.compile_all()
    keys = settings(particles=300, max_iterations=45, replicates="infinite")
    run(large, None, keys, observe=wandering(large, 1))
    finite = (kernels.draw, kernels.count, kernels.collect, kernels.count_pairs, kernels.accept)
    for kernel in (*finite, closed_form.log_densities, closed_form.accept):
        assert len(kernel.signatures) == 1, kernel.__name__


def test_each_reason_to_stop_is_told(large):
    statistic = round(float(large.moments(0.6)[0]))
    assert run(large, statistic, settings(max_iterations=3))[-1].stopped_because == Stop.ITERATIONS
    assert run(large, statistic, settings(min_acceptance=0.99))[-1].stopped_because == Stop.ACCEPTANCE
    assert run(large, statistic, settings(min_epsilon=5000.0))[-1].stopped_because == Stop.EPSILON
    noisy = run(large, None, settings(noise_floor=0.1), observe=lambda state: (statistic, 3000.0))
    assert noisy[-1].stopped_because == Stop.NOISE and noisy[-1].epsilon < 300.0 <= noisy[-2].epsilon


def test_acceptance_falls_below_the_limit_when_nothing_else_stops_it(small):
    _, table = small
    keys = settings(particles=500, replicates=5, min_epsilon=1e-9, max_iterations=1000, min_acceptance=0.05)
    last = run(table, 75, keys)[-1]
    assert last.stopped_because == Stop.ACCEPTANCE and last.acceptance < 0.05


@pytest.mark.parametrize("replicates", [50, "infinite"])
@pytest.mark.parametrize("stop", [1, 7, 30])
def test_a_continued_run_equals_an_uninterrupted_one(large, stop, replicates):
    keys = settings(particles=303, max_iterations=40, replicates=replicates, min_epsilon=0.0)
    whole = run(large, None, keys, observe=wandering(large, 1))
    packed = whole[stop - 1].pack()
    assert all(isinstance(a, np.ndarray) and not a.dtype.hasobject for a in packed.values())
    rest = run(large, None, keys, observe=wandering(large, 1), state=State.unpack(packed))
    assert same(rest, whole[stop:])
    assert run(large, None, keys, observe=wandering(large, 1), state=State.unpack(whole[-1].pack())) == []


def same(some, others):
    packs = [(a.pack(), b.pack()) for a, b in zip(some, others, strict=True)]
    return all(a[name].tobytes() == b[name].tobytes() for a, b in packs for name in a)


def test_betas_for_the_label_chain_follow_the_weights(small):
    _, table = small
    state = run(table, 75, settings(max_iterations=5))[-1]
    drawn = chain_betas(state, 1, 20_000)
    assert np.isin(drawn, state.beta[state.weight > 0.0]).all()
    assert abs(drawn.mean() - state.beta_mean) < 4 * state.beta_sd / np.sqrt(drawn.size)
    assert (drawn[:100] == chain_betas(state, 1, 100)).all()
    assert (drawn[:100] != chain_betas(state, 1, 100, chain=1)).any()


def test_a_prior_outside_the_binding_function_is_refused(small):
    _, table = small
    with pytest.raises(InputError, match=r"prior\.beta = \[0, 1\.5\].*0 to 1\.2"):
        run(table, 75, settings(), interval=(0.0, 1.5))


def test_the_gaussian_likelihood_is_close_to_the_exact_posterior_on_8_by_8(small):
    exact, table = small
    beta = np.linspace(0.0, 1.2, 20_001)
    for statistic in (60, 75, 100):
        density = exact.posterior(statistic, beta)
        mean, sd = weights.moments(beta, density / density.sum())
        gaussian = quadrature(table, statistic, (0.0, 1.2))
        # 64 pixels: S is skew and has steps; what the auxiliary model costs is a part of the posterior's sd.
        assert abs(gaussian[0] - mean) < 0.15 * sd and abs(gaussian[1] / sd - 1) < 0.15


def test_after_a_moving_statistic_the_particles_have_the_last_target(large):
    """Without steps for a target that stands still the sd is 6 % too small here."""
    goal, ratios = float(large.moments(0.6)[0]), []
    for seed in range(12):
        moves = np.random.default_rng(seed).normal(0.0, 30.0, 200)

        def observe(state, moves=moves):
            return round(goal + moves[state.iteration]), 30.0

        last = run(large, None, settings(), seed, (0.0, 1.005), observe)[-1]
        _, sd = quadrature(large, last.statistic, (0.0, 1.005), last.epsilon)
        ratios.append(last.beta_sd / sd)
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert error < 0.01
    assert abs(np.mean(ratios) - 1.0) < 4.0 * error


def settling(table, seed, part=0.2):
    """S(z) as of a label chain: around its mean at 0.6, with a part of the sd of S(x) as its own."""
    mean, sd = (float(each) for each in table.moments(0.6))
    normal = np.random.default_rng(seed).normal(size=1000)
    return lambda state: (round(mean + part * sd * normal[state.iteration]), part * sd)


def ratios(table, replicates, runs, **changes):
    """(runs,) sd of the particles over that of the posterior for the last S(z) and tolerance."""
    keys = settings(replicates=replicates, **changes)
    last = [run(table, None, keys, seed, observe=settling(table, seed))[-1] for seed in range(runs)]
    return np.array([s.beta_sd / quadrature(table, s.statistic, (0.0, 1.005), s.epsilon)[1] for s in last])


def test_particles_are_as_wide_as_they_should_be_where_s_moves_and_replicates_are_infinite(large):
    """Without last mutations; few replicates are too narrow there, which is what infinitely many are for."""
    wide, narrow = (ratios(large, m, 8, last_mutations=0) for m in ("infinite", 10))
    assert abs(wide.mean() - 1.0) < 4 * max(wide.std(ddof=1), 1 / np.sqrt(2 * 1000)) / np.sqrt(8)
    assert narrow.mean() < 0.9


def test_nothing_is_left_to_chance_in_infinite_replicates(large):
    """The same particles at every birth: only proposals and resampling are drawn."""
    source, rows = from_binding(large, "infinite", 1), np.empty((2, 2, 2))
    for out, seed in zip(rows, (1, 2)):
        from_binding(large, "infinite", seed).draw(out, np.array([0.3, 0.6]), np.ones(2), np.arange(2))
    assert (rows[0] == rows[1]).all() and source.replicates.width == 2
    np.testing.assert_array_equal(rows[0].T, large.moments(np.array([0.3, 0.6])))


def test_a_curve_without_variance_has_counts_too(large):
    """Where no chain saw S(x) move, an sd of 0 must not divide."""

    class Flat:
        beta = large.beta

        def moments(self, beta):
            return large.moments(beta)[0], np.zeros(np.size(beta))

    statistic = round(float(large.moments(0.6)[0]))
    keys = settings(replicates="infinite", min_epsilon=5.0, alpha=0.5, particles=300)
    last = run(Flat(), statistic, keys, interval=(0.0, 1.005))[-1]
    # The sd that stands for 0 is a thousandth.
    low, high = np.interp([statistic - 5.01, statistic + 5.01], large.mean, large.beta)
    beta = last.beta[last.weight > 1e-6]
    assert last.stopped_because == Stop.EPSILON and low <= beta.min() <= beta.max() <= high


def test_as_printed_the_tolerance_never_rises_and_a_jump_of_s_is_the_end(large):
    keys = settings(weights="printed", rise_below=0.0, max_iterations=80, min_acceptance=0.0, min_epsilon=0.0)
    states = run(large, None, keys, observe=wandering(large, 1))
    assert all(after.epsilon <= before.epsilon for before, after in pairwise(states))
    assert states[-1].stopped_because == Stop.LOST and states[-1].reason == Reason.LOST
    assert states[-1].iteration == 20, "where S(z) jumps away"
    assert (states[-1].beta == states[-2].beta).all() and states[-1].ess == 0.0
    # For observed labels the two forms are the same.
    statistic = round(float(large.moments(0.6)[0]))
    printed, moving = (run(large, statistic, settings(weights=form)) for form in ("printed", "moving"))
    assert [s.epsilon for s in printed] == pytest.approx([s.epsilon for s in moving], rel=1e-9)


def test_the_step_of_a_mutation_is_that_of_the_population_that_was_asked_for(large):
    """The first population is the prior: with its variance the first steps are long, and fewer are taken."""
    statistic = round(float(large.moments(0.6)[0]))
    keys = settings(alpha=0.5, max_iterations=1)
    current, previous = (
        run(large, statistic, replace(keys, bandwidth=b))[0] for b in ("current", "previous")
    )
    assert (current.weight == previous.weight).all() and previous.acceptance < current.acceptance


def test_last_mutations_are_made_for_a_statistic_with_noise_alone(large):
    statistic = round(float(large.moments(0.6)[0]))
    for noise, moves in ((0.0, False), (1e-6, True)):
        told = statistic, noise
        keys = [settings(max_iterations=3, last_mutations=n) for n in (0, 10)]
        without, after = (run(large, None, k, observe=lambda state, told=told: told)[-1] for k in keys)
        assert (without.beta != after.beta).any() == moves
