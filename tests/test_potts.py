"""The prior's samplers on every lattice, packed states, continued chains; and images with known truth."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from mpi_potts import rng
from mpi_potts.errors import InputError
from mpi_potts.lattice import Lattice
from mpi_potts.model.potts import SAMPLERS, Sampler, random_labels
from mpi_potts.model.simulate import simulate_image, truth
from mpi_potts.rng import Purpose

SHAPE = (20, 30)
DRAWN = {"mean": "prior", "sd": "prior"}
HOLES = np.random.default_rng(8).random(SHAPE) < 0.85
HOLES[:3, :3] = False
HOLES[1, 1] = True  # an island

PLANES = [Lattice(SHAPE), Lattice(SHAPE, "first", HOLES)]
OTHERS = [Lattice(SHAPE, "second", HOLES), Lattice(SHAPE, "hexagonal", HOLES)]
OTHERS += [Lattice((6, 5, 4), neighbours) for neighbours in (6, 18, 26)]
KINDS = [(lattice, sampler) for lattice in PLANES + OTHERS for sampler in SAMPLERS]

RARE = 1e-4

START = rng.stream(1, Purpose.START)
SWEEP = rng.stream(1, Purpose.PRIOR_SWEEP)


def name(value):
    if isinstance(value, Lattice):
        masked = "" if value.mask is None else "-masked"
        return "x".join(map(str, value.shape)) + "-" + value.neighbourhood + masked
    return str(value)


all_kinds = pytest.mark.parametrize(("lattice", "sampler"), KINDS, ids=name)


@all_kinds
def test_continuing_equals_running_in_one_go(lattice, sampler):
    one = Sampler(lattice, 6, sampler)
    whole = one.start("random", START)
    statistics = one.sweeps(whole, 0.7, SWEEP, 0, 12)

    part = one.start("random", START)
    first = one.sweeps(part, 0.7, SWEEP, 0, 5)
    other = Sampler(lattice, 6, sampler)
    part = other.unpack(one.pack(part))
    rest = other.sweeps(part, 0.7, SWEEP, 5, 7)
    assert np.array_equal(statistics, np.concatenate([first, rest]))
    assert np.array_equal(one.labels(whole), other.labels(part))


@all_kinds
def test_statistic_is_that_of_the_labels(lattice, sampler):
    for k, beta in ((2, 0.0), (3, 0.9), (6, 1.2), (255, 2.0)):
        one = Sampler(lattice, k, sampler)
        state = one.start("random", START)
        for sweep in range(4):
            statistic = one.sweeps(state, beta, SWEEP, sweep, 1)
            labels = one.labels(state)
            assert statistic.dtype == np.int64
            assert statistic.tolist() == [lattice.statistic(labels)]
            assert labels[lattice.exists].max() < k
            assert np.all(labels[~lattice.exists] == 255)


@all_kinds
def test_same_seed_same_bits_other_seed_other_bits(lattice, sampler):
    def run(seed):
        one = Sampler(lattice, 3, sampler)
        state = one.start("random", rng.stream(seed, Purpose.START))
        one.sweeps(state, 0.5, rng.stream(seed, Purpose.PRIOR_SWEEP), 0, 3)
        return one.pack(state).tobytes()

    assert run(1) == run(1)
    assert run(1) != run(2)


@all_kinds
@pytest.mark.parametrize("k", [2, 3, 4, 5, 16, 17, 255])
def test_pack_and_unpack_keep_every_label(lattice, sampler, k):
    one = Sampler(lattice, k, sampler)
    labels = random_labels(lattice, k, START)
    packed = one.pack(one.state(labels))
    assert packed.dtype == np.uint8
    assert packed.shape == (one.packed_size,) == (math.ceil(math.log2(k)) * math.ceil(lattice.sites / 8),)
    assert np.array_equal(one.labels(one.unpack(packed)), labels)


@pytest.mark.parametrize("lattice", PLANES, ids=name)
def test_packed_states_are_the_same_for_every_sampler(lattice):
    packed = set()
    for sampler in SAMPLERS:
        one = Sampler(lattice, 5, sampler)
        packed.add(one.pack(one.start("random", START)).tobytes())
    assert len(packed) == 1


def test_ordered_start_is_one_label():
    for lattice in PLANES + OTHERS:
        one = Sampler(lattice, 3)
        assert np.array_equal(one.labels(one.start("ordered", START)), np.where(lattice.exists, 0, 255))


def test_random_labels_belong_to_the_raster_index():
    k = 7
    full, masked = (random_labels(lattice, k, START) for lattice in PLANES)
    assert np.array_equal(masked, np.where(HOLES, full, 255))
    # By the definition: the upper part of word * k, in Python's integers.
    words = rng.words(START, 0, full.size)[:, 0]
    assert full.ravel().tolist() == [int(word) * k >> 64 for word in words]
    counts = np.bincount(random_labels(Lattice((300, 300)), k, START).ravel())
    assert counts.size == k
    assert stats.chisquare(counts).pvalue > RARE


def batches(x, number=40):
    """Means and standard deviations of x within `number` stretches, each far longer than its memory."""
    rows = x.reshape(number, -1)
    return rows.mean(axis=1), rows.std(axis=1)


@pytest.mark.parametrize("lattice", [*PLANES, OTHERS[1], OTHERS[3]], ids=name)
def test_samplers_agree_on_mean_and_spread_of_the_statistic(lattice):
    scores = []
    for k, beta in itertools.product((3, 6), (0.2, 0.4) if lattice in OTHERS else (0.4, 0.9)):
        chains = []
        for number, sampler in enumerate(SAMPLERS):
            one = Sampler(lattice, k, sampler)
            stream = rng.stream(number, Purpose.PRIOR_SWEEP)
            state = one.start("random", rng.stream(number, Purpose.START))
            one.sweeps(state, beta, stream, 0, 500)
            chains.append(batches(one.sweeps(state, beta, stream, 500, 10_000)))
        for (mean_a, sd_a), (mean_b, sd_b) in itertools.combinations(chains, 2):
            scores += [stats.ttest_ind(mean_a, mean_b).pvalue, stats.ttest_ind(sd_a, sd_b).pvalue]
    assert min(scores) > RARE / len(scores)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((PLANES[0], 1), "model.labels = 1"),
        ((PLANES[0], 256), "model.labels = 256"),
        ((PLANES[0], 3, "metropolis"), "metropolis"),
    ],
)
def test_what_is_no_sampler_is_refused_by_name(arguments, names):
    with pytest.raises(InputError, match=names):
        Sampler(*arguments)


def test_what_cannot_be_swept_or_unpacked_is_refused_by_name():
    one = Sampler(PLANES[0], 3)
    state = one.start("ordered", START)
    for beta in (-0.1, math.nan, math.inf, 26.0):
        with pytest.raises(InputError, match="beta = "):
            one.sweeps(state, beta, SWEEP, 0, 1)
    with pytest.raises(InputError, match="start 'warm'"):
        one.start("warm", START)
    with pytest.raises(InputError, match="bytes"):
        one.unpack(one.pack(state)[:-1])
    with pytest.raises(InputError, match="label 3"):
        one.unpack(np.full(one.packed_size, 255, dtype=np.uint8))


PRIOR = SimpleNamespace(
    beta=(0.2, 0.7),
    mean=SimpleNamespace(mean=10.0, sd=2.0),
    variance=SimpleNamespace(shape=4.0, scale=(1.0, 2.0, 3.0)),
)


def test_observations_are_normal_around_the_mean_of_their_label():
    lattice = Lattice((80, 90), "first", np.random.default_rng(3).random((80, 90)) < 0.9)
    mean, sd = np.array([-3.0, 0.0, 5.0]), np.array([0.5, 1.0, 2.0])
    labels, values = simulate_image(lattice, 3, 0.6, np.array([mean, sd]), seed=1, number=0, sweeps=50)
    assert np.array_equal(np.isnan(values), ~lattice.exists)
    assert np.array_equal(labels == 255, ~lattice.exists)
    z = labels[lattice.exists]
    assert stats.kstest((values[lattice.exists] - mean[z]) / sd[z], "norm").pvalue > RARE


def test_simulated_labels_have_the_statistic_of_their_beta():
    lattice, k, beta, images = Lattice((16, 16)), 3, 0.7, 200
    drawn = [
        lattice.statistic(
            simulate_image(lattice, k, beta, np.array([np.zeros(k), np.ones(k)]), 1, number, 60)[0]
        )
        for number in range(images)
    ]
    one = Sampler(lattice, k, "gibbs")
    state = one.start("random", START)
    chain = one.sweeps(state, beta, SWEEP, 0, 20_500)[500:]
    error = math.hypot(np.std(drawn, ddof=1) / math.sqrt(images), stats.sem(batches(chain)[0]))
    assert abs(np.mean(drawn) - chain.mean()) < 4 * error


def test_an_image_depends_on_its_number_and_seed_alone():
    arguments = Lattice((9, 70)), 4, 0.5, np.array([np.arange(4.0), np.ones(4)])

    def image(seed, number):
        return b"".join(part.tobytes() for part in simulate_image(*arguments, seed, number, 10))

    assert image(1, 2) == image(1, 2)
    assert len({image(1, 0), image(1, 1), image(2, 0)}) == 3


def test_truth_is_drawn_from_the_priors():
    prior = SimpleNamespace(
        beta=(0.2, 0.7),
        mean=SimpleNamespace(mean=(10.0, 0.0), sd=2.0),
        variance=SimpleNamespace(shape=4.0, scale=(1.0, 3.0)),
    )
    truths = [truth(2, "prior", DRAWN, prior, 1, number) for number in range(2000)]
    mean, variance = np.array([t.noise for t in truths]).swapaxes(0, 1)
    variance = variance**2
    chances = [
        stats.kstest([t.beta for t in truths], stats.uniform(0.2, 0.5).cdf).pvalue,
        stats.kstest(mean[:, 0], stats.norm(10.0, 2.0).cdf).pvalue,
        stats.kstest(mean[:, 1], stats.norm(0.0, 2.0).cdf).pvalue,
        stats.kstest(variance[:, 0], stats.invgamma(4.0, scale=1.0).cdf).pvalue,
        stats.kstest(variance[:, 1], stats.invgamma(4.0, scale=3.0).cdf).pvalue,
    ]
    assert min(chances) > RARE / len(chances)


def test_drawn_means_ascend_only_where_the_priors_are_the_same():
    def means(scale):
        variance = SimpleNamespace(shape=1.0, scale=scale)
        prior = SimpleNamespace(beta=(0.0, 1.0), mean=SimpleNamespace(mean=0.0, sd=1.0), variance=variance)
        return np.array([truth(3, 0.5, DRAWN, prior, 1, number).noise[0] for number in range(20)])

    assert np.all(np.diff(means(0.01)) > 0)
    assert np.any(np.diff(means((0.01, 0.02, 0.03))) < 0)


def test_truth_may_be_given():
    one = truth(3, 0.4, {"mean": (1.0, 2.0, 3.0), "sd": (0.1, 0.2, 0.3)}, PRIOR, 1, 5)
    assert (one.beta, one.noise.tolist()) == (0.4, [[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]])
    assert truth(3, (0.1, 0.9), DRAWN, PRIOR, 1, 1).beta == 0.9


@pytest.mark.parametrize(
    ("beta", "mean", "sd", "names"),
    [
        ((0.1, 0.2), "prior", "prior", "simulate.beta has 2 values"),
        (0.1, (1.0, 2.0), "prior", "simulate.mean has 2 values"),
        (0.1, "prior", (1.0,) * 4, "simulate.sd has 4 values"),
    ],
)
def test_truth_of_the_wrong_length_is_refused_by_name(beta, mean, sd, names):
    with pytest.raises(InputError, match=names):
        truth(3, beta, {"mean": mean, "sd": sd}, PRIOR, 1, 2)
