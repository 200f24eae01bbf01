"""The label chain: sweeps with data against exact posteriors, order of labels, continuation, beta."""

from itertools import product

import numpy as np
import pytest

from mpi_potts import rng
from mpi_potts.errors import InputError
from mpi_potts.kernels import gaussian, gibbs_data, gibbs_layout, surrogate
from mpi_potts.kernels.float32 import exp2
from mpi_potts.labels.chain import LabelChain, join
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.rng import Purpose

SWEEPS = rng.stream(3, Purpose.LABEL_SWEEP)
HOLES = np.random.default_rng(5).random((21, 34)) < 0.6
HOLES[0, 0], HOLES[0, 1], HOLES[1, 0] = True, False, False


class Fixed:
    """Sweeps with data at fixed mu and sigma, as the kernel offers them."""

    def __init__(self, lattice, k, values, mean, sd):
        self.lattice, self.k, self.values, self.mean, self.sd = lattice, k, values, mean, sd
        self.layout = gibbs_layout.layout(lattice, k)
        labels = np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8)
        self.data = gaussian.prepare(self.layout, values)
        state = gibbs_layout.from_labels(self.layout, labels)
        self.sites = gibbs_data.Sites(state, self.layout.pieces, self.data)
        self.terms = gaussian.terms_of(mean, sd, self.data)
        self.sums = np.zeros((k, gaussian.COLUMNS), np.int64)

    @property
    def state(self):
        return self.sites[0]

    def sweep(self, beta, number):
        key = rng.key(SWEEPS, number)
        return gibbs_data.sweep(self.sites, self.terms, beta, key, self.sums)

    @property
    def totals(self):
        """Number, sum of y - mu_j and of its square, and the mu_j that they are about."""
        return gaussian.in_units(self.sums, self.terms.reference, self.terms.scale)

    @property
    def labels(self):
        return gibbs_layout.to_labels(self.layout, self.state)


def batch_error(x, batches=50):
    means = x[: len(x) // batches * batches].reshape(batches, -1, *x.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(batches)


def image(shape, k, noise=0.4, seed=0):
    """Blobs of labels with means 0, 2, 4, ... and their observations."""
    data = np.random.default_rng(seed)
    rows, columns = np.indices(shape)
    z = ((rows // 9 + columns // 7) % k).astype(np.uint8)
    return z, 2.0 * z + noise * data.normal(size=shape)


def test_the_exponential_is_as_good_as_it_says():
    t = -np.concatenate([np.linspace(0, 120, 100_001), np.random.default_rng(0).random(1000)]).astype(
        np.float32
    )
    result = np.array([exp2(x) for x in t[::50]])
    assert np.abs(result / np.exp2(t[::50].astype(float)) - 1).max() < 2.5e-7
    assert exp2(np.float32(0)) == pytest.approx(1, abs=2.5e-7)
    assert 0 < exp2(np.float32(-1e9)) < 1e-37


@pytest.mark.parametrize("k", [2, 3, 6, 8, 9, 40, 200])
@pytest.mark.parametrize("shape", [(1, 2), (63, 1), (9, 63), (8, 64), (33, 65)])
def test_statistic_and_sums_are_those_of_the_labels(k, shape):
    values = np.random.default_rng(2).normal(size=shape)
    fixed = Fixed(Lattice(shape), k, values, np.linspace(-1, 1, k), np.full(k, 0.8))
    q = np.rint(values * fixed.data.scale).astype(np.int64)
    for number in range(2):
        s = fixed.sweep(0.6, number)
        z = fixed.labels
        assert z.max() < k and s == fixed.lattice.statistic(z)
        totals, centre = fixed.totals
        for j in range(k):
            # In grains exactly, as Python's integers have them.
            d = [int(v) - int(fixed.terms.reference[j]) for v in q[z == j]]
            exact = len(d), sum(d), sum(v * v for v in d)
            n, first, high, low = fixed.sums[j].tolist()
            assert (n, first, (high << 32) + low) == exact
            # The grain is at most 2**-22 of the largest observation, and every one is off by half of it.
            off = values[z == j] - centre[j]
            grain = 1.0 / float(fixed.data.scale)
            assert totals[j, 1] == pytest.approx(off.sum(), abs=grain * (off.size + 1))
            assert totals[j, 2] == pytest.approx((off**2).sum(), rel=3e-6, abs=1e-6)


@pytest.mark.parametrize("largest", [1e-12, 0.7, 1.0, 4.0, 1023.9999999, 1e9])
def test_observations_are_multiples_of_a_grain_that_float32_holds(largest):
    y = np.append(np.random.default_rng(1).uniform(-largest, largest, 1000), [largest, -largest, 0.0])
    grains, scale = gaussian.quantise(y)
    q = grains.astype(np.float64) * scale
    assert (
        grains.dtype == np.float32 and np.array_equal(q, np.rint(q)) and np.abs(q).max() <= gaussian.LARGEST
    )
    assert np.abs(grains - y).max() <= 0.5 / scale and 1.0 / scale <= 2.0**-22 * largest


def test_sums_of_extreme_observations_are_exact():
    """All at the ends of the range, about references at its other end: the largest sums that there are."""
    shape = (64, 65)
    values = np.where(np.arange(65) % 2, 1.0, -1.0) * np.ones(shape) * (1 - 2.0**-40)
    fixed = Fixed(Lattice(shape), 3, values, np.array([-1e9, 0.0, 1e9]), np.full(3, 1e9))
    fixed.sweep(0.1, 0)
    q, z = np.rint(values * fixed.data.scale).astype(np.int64), fixed.labels
    assert fixed.terms.reference.tolist() == [-gaussian.LARGEST, 0, gaussian.LARGEST]
    for j in range(3):
        d = [int(v) - int(fixed.terms.reference[j]) for v in q[z == j]]
        number, first, high, low = fixed.sums[j].tolist()
        assert (number, first, (high << 32) + low) == (len(d), sum(d), sum(v * v for v in d))


def test_masked_pixels_stay_out_of_everything():
    values = np.random.default_rng(2).normal(size=HOLES.shape)
    fixed = Fixed(Lattice(HOLES.shape, mask=HOLES), 3, values, np.array([-1.0, 0.0, 1.0]), np.ones(3))
    for number in range(5):
        s = fixed.sweep(0.9, number)
    assert np.all(fixed.labels[~HOLES] == 255) and fixed.labels[HOLES].max() < 3
    assert s == fixed.lattice.statistic(fixed.labels)
    assert fixed.sums[:, 0].sum() == HOLES.sum()


def test_the_split_of_blocks_changes_no_bit():
    values = np.random.default_rng(2).normal(size=(65, 129))
    whole, split = (
        Fixed(Lattice((65, 129)), 3, values, np.array([-1.0, 0.0, 1.0]), np.ones(3)) for _ in range(2)
    )
    for number in range(3):
        s = whole.sweep(0.9, number)
        total, like, key = np.zeros_like(whole.sums), 0, rng.key(SWEEPS, number)
        for colour in range(split.layout.colours):
            last = split.layout.blocks_of(colour)
            for part in ((3, last), (0, 1), (1, 3)):
                found, sums = gibbs_data.update(split.sites, split.terms, 0.9, key, colour, *part)
                like, total = like + found, total + sums
        assert np.array_equal(whole.state, split.state)
        assert s == like and np.array_equal(total, whole.sums)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_a_small_image_has_its_exact_posterior(k, offset):
    """Marginal label probabilities and the mean of S of a 3x3 image, by enumeration; also far from 0."""
    lattice, beta = Lattice((3, 3)), 0.7
    values = np.array([[0.1, 0.9, -0.4], [1.2, 0.3, 0.5], [2.0, -0.2, 0.8]]) + offset
    mean, sd = np.linspace(0.0, 1.0, k) + offset, np.linspace(0.5, 0.8, k)
    labellings = np.array(list(product(range(k), repeat=9)), dtype=np.uint8).reshape(-1, 3, 3)
    s = np.array([lattice.statistic(z) for z in labellings])
    density = -((values - mean[labellings]) ** 2) / (2 * sd[labellings] ** 2) - np.log(sd[labellings])
    p = np.exp(beta * s + density.sum(axis=(1, 2)))
    p /= p.sum()
    exact = np.array([(p[:, None, None] * (labellings == j)).sum(axis=0) for j in range(k)])
    fixed = Fixed(lattice, k, values, mean, sd)
    n = 12_000
    seen, statistic = np.empty((n, k, 3, 3)), np.empty(n)
    for i in range(n):
        statistic[i] = fixed.sweep(beta, i)
        seen[i] = fixed.labels == np.arange(k)[:, None, None]
    z_scores = (seen[100:].mean(axis=0) - exact) / batch_error(seen[100:])
    assert np.abs(z_scores).max() < 4.8
    assert abs(statistic[100:].mean() - p @ s) < 4.5 * batch_error(statistic[100:])


@pytest.mark.parametrize("k", [2, 3, 6, 9])
def test_every_site_has_its_conditional_probabilities(k):
    """The second colour of one sweep, drawn given the first: frequencies against equation 10."""
    shape, beta = (400, 400), 0.5
    values = np.random.default_rng(4).normal(size=shape)
    fixed = Fixed(Lattice(shape), k, values, np.linspace(-1.2, 1.2, k), np.linspace(0.4, 1.0, k))
    for number in range(3):
        fixed.sweep(beta, number)
    z = fixed.labels
    like = np.pad(z[..., None] == np.arange(k), ((1, 1), (1, 1), (0, 0))).astype(float)
    n = like[:-2, 1:-1] + like[2:, 1:-1] + like[1:-1, :-2] + like[1:-1, 2:]
    log_p = beta * n - (values[..., None] - fixed.mean) ** 2 / (2 * fixed.sd**2) - np.log(fixed.sd)
    p = np.exp(log_p)
    p /= p.sum(axis=-1, keepdims=True)
    second = fixed.lattice.colours == 1
    p, drawn = p[second], (z[..., None] == np.arange(k))[second]
    for j in range(k):
        for low, high in ((0.0, 0.05), (0.05, 0.5), (0.5, 0.95), (0.95, 1.0)):
            q = p[(p[:, j] > low) & (p[:, j] <= high), j]
            seen = drawn[(p[:, j] > low) & (p[:, j] <= high), j].sum()
            assert abs(seen - q.sum()) <= 4.5 * np.sqrt((q * (1 - q)).sum()) + 3


@pytest.mark.parametrize(
    "lattice", [Lattice((40, 37)), Lattice((40, 37), "second")], ids=["plane", "general"]
)
def test_the_noise_is_recovered(lattice):
    z, values = image(lattice.shape, 3)
    chain = LabelChain(lattice, 100.0 + 10.0 * values, 3, gaussian_noise(3, mean=100.0), seed=1)
    chain.sweep(np.zeros(50))
    trace = chain.sweep(np.full(400, 0.5))
    number = np.bincount(z.ravel())
    assert np.all(np.abs(trace.noise[0, 100:].mean(axis=0) - [100, 120, 140]) < 5 * 4.0 / np.sqrt(number))
    assert np.all(np.abs(trace.noise[1, 100:].mean(axis=0) / 4.0 - 1) < 5 / np.sqrt(2 * number))
    assert (chain.labels == z).mean() > 0.97
    assert chain.statistic == lattice.statistic(chain.labels) == trace.statistic[-1]
    assert np.array_equal(chain.values, trace.noise[:, -1])


def test_priors_that_differ_by_label_keep_their_names():
    z, values = image((40, 37), 3)
    priors = gaussian_noise(3, mean=[4.0, 0.0, 2.0], mean_sd=0.5)
    chain = LabelChain(Lattice((40, 37)), values, 3, priors, seed=1)
    trace = chain.sweep(np.full(300, 0.5))
    assert np.allclose(trace.noise[0, 100:].mean(axis=0), [4.0, 0.0, 2.0], atol=0.2)
    assert (np.array([2, 0, 1])[chain.labels] == z).mean() > 0.97


def test_labels_and_noise_are_renamed_together():
    """After every step the sums of y by label agree with the mean drawn for it."""
    _, values = image((60, 50), 4, noise=0.3)
    chain = LabelChain(Lattice((60, 50)), values, 4, gaussian_noise(4), seed=2, chain=3, sort_labels=True)
    for _ in range(30):
        chain.sweep(np.array([0.3]))
        z = chain.labels
        assert np.all(np.diff(chain.values[0]) > 0)
        for j in np.flatnonzero(np.bincount(z.ravel(), minlength=4) > 20):
            y = values[z == j]
            # The draw lies within a few standard errors of the mean of its own pixels.
            mean, sd = chain.values[:, j]
            assert abs(y.mean() - mean) < 6 * max(sd, y.std()) / np.sqrt(y.size)


def line(edges, k):
    """A table with mean edges / k at beta = 0 and 100 more for every 0.1: logs and variances are exact."""
    beta = np.linspace(0.0, 2.0, 3001)
    mean = edges / k + 1000.0 * beta
    return np.stack([beta, edges / k * beta + 500.0 * beta**2, mean, np.full(beta.size, 1000.0)])


@pytest.mark.parametrize(
    "lattice", [Lattice((30, 20)), Lattice((30, 20), "second")], ids=["plane", "general"]
)
def test_interrupted_and_split_chains_give_the_same_bits(lattice):
    _, values = image(lattice.shape, 3)
    table, interval = line(lattice.edges, 3), (0.1, 1.5)
    whole, parts = (LabelChain(lattice, values, 3, gaussian_noise(3), seed=1, chain=2) for _ in range(2))
    whole.sweep(np.linspace(0, 1, 40))
    expected = whole.sample(table, interval, 300)
    parts.sweep(np.linspace(0, 1, 40)[:13])
    other = LabelChain(lattice, values, 3, gaussian_noise(3), seed=1, chain=2)
    other.unpack({name: array.copy() for name, array in parts.pack().items()})
    other.sweep(np.linspace(0, 1, 40)[13:])
    first = other.sample(table, interval, 290)
    parts.unpack(other.pack())
    second = parts.sample(table, interval, 10)
    for a, b in zip(expected, join([first, second])):
        assert np.array_equal(a, b)
    assert np.array_equal(whole.labels, parts.labels)
    assert np.array_equal(whole.counts, parts.counts) and parts.counted == 300
    assert whole.statistic == parts.statistic == lattice.statistic(parts.labels)


@pytest.mark.parametrize(
    "lattice", [Lattice(HOLES.shape, mask=HOLES), Lattice((9, 8, 5))], ids=["plane", "3-D"]
)
def test_counts_are_of_the_labels_after_every_step(lattice):
    values = np.random.default_rng(3).normal(size=lattice.shape)
    chain = LabelChain(lattice, values, 3, gaussian_noise(3), seed=1)
    table = line(lattice.edges, 3)
    chain.sample(table, (0.0, 1.0), 5, count=False)
    assert chain.counted == 0
    expected = np.zeros((*lattice.shape, 3), dtype=int)
    for _ in range(7):
        chain.sample(table, (0.0, 1.0), 1)
        expected += chain.labels[..., None] == np.arange(3)
    assert np.array_equal(chain.counts, expected)
    total = chain.probabilities().sum(axis=-1)
    assert np.allclose(total[lattice.exists], 1, atol=1e-6) and np.all(total[~lattice.exists] == 0)


def test_chains_of_other_numbers_start_elsewhere():
    _, values = image((30, 20), 3)
    chains = [LabelChain(Lattice((30, 20)), values, 3, gaussian_noise(3), 1, chain) for chain in range(3)]
    assert not np.array_equal(chains[0].labels, chains[1].labels)
    assert not np.array_equal(chains[1].labels, chains[2].labels)


def test_degenerate_images_give_finite_noise():
    """Constant within labels, one pixel far away, more labels than groups: no NaN, never a zero sd."""
    values = np.zeros((20, 20))
    values[:, 10:] = 1e6
    values[0, 0] = 1e9
    for k in (2, 5, 9):
        chain = LabelChain(Lattice((20, 20)), values, k, gaussian_noise(k), seed=1)
        trace = chain.sweep(np.full(200, 0.8))
        assert np.isfinite(trace.noise).all() and (trace.noise[1] > 0).all()
        assert chain.labels.max() < k


def test_an_image_without_contrast_is_refused():
    with pytest.raises(InputError, match="equal"):
        LabelChain(Lattice((5, 5)), np.ones((5, 5)), 2, gaussian_noise(2), seed=1)


def test_an_interval_beyond_the_table_is_refused():
    lattice = Lattice((10, 10))
    chain = LabelChain(lattice, np.random.default_rng(0).normal(size=(10, 10)), 2, gaussian_noise(2), seed=1)
    with pytest.raises(InputError, match=r"prior\.beta"):
        chain.sample(line(lattice.edges, 2), (0.0, 2.5), 3)


@pytest.mark.parametrize("path", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e6])
@pytest.mark.parametrize("place", [0.02, 0.5, 1.2, 1.49])
def test_beta_is_drawn_from_its_density(path, scale, place):
    """Quantiles against the distribution function on a fine grid: sd of beta from 0.3 down to 3e-4."""
    beta = np.linspace(0.0, 2.0, 2001)
    mean = scale * (1.0 + 9.0 * beta + 2.0 * beta**2)
    variance = scale * (9.0 + 4.0 * beta)
    table = np.stack([beta, scale * (beta + 4.5 * beta**2 + 2 / 3 * beta**3), mean, variance])
    low, high, s = 0.01, 1.5, scale * (1.0 + 9.0 * place + 2.0 * place**2)
    width = 12 / np.sqrt(variance[0])
    grid = np.linspace(max(low, place - width), min(high, place + width), 400_001)
    if path:
        log_p = grid * s - scale * (grid + 4.5 * grid**2 + 2 / 3 * grid**3)
    else:
        v = scale * (9.0 + 4.0 * grid)
        log_p = -0.5 * np.log(v) - (s - scale * (1.0 + 9.0 * grid + 2.0 * grid**2)) ** 2 / (2 * v)
    density = np.exp(log_p - log_p.max())
    cumulative = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
    cumulative /= cumulative[-1]
    for u in (1e-4, 0.01, 0.3, 0.5, 0.77, 0.99, 0.9999):
        drawn = surrogate.draw_beta(table, low, high, s, path, u)
        assert low <= drawn <= high
        assert np.interp(drawn, grid, cumulative) == pytest.approx(u, abs=2e-3 * min(u, 1 - u) + 2e-5)


def test_beta_far_outside_the_data_piles_up_at_the_end():
    table = line(1000, 3)
    for s in (-1e6, 0.0, 1e4, 1e6):
        for path in (True, False):
            draws = [surrogate.draw_beta(table, 0.2, 1.4, s, path, u) for u in (0.01, 0.5, 0.99)]
            assert np.isfinite(draws).all() and np.all(np.diff(draws) >= 0)
            assert 0.2 <= draws[0] and draws[-1] <= 1.4
