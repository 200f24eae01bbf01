"""A second noise model needs a module of its own: here one whose standard deviation is known."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
from numba import float32, int32, int64
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

from mpi_potts import rng
from mpi_potts.estimation.predictive import predictive
from mpi_potts.kernels import (
    chain,
    conditional,
    flips,
    gaussian,
    gibbs_blocks,
    gibbs_data,
    gibbs_layout,
    names,
    noise,
)
from mpi_potts.kernels import residuals as residual_kernel
from mpi_potts.kernels.conditional import LOG_2
from mpi_potts.kernels.float32 import fma, larger
from mpi_potts.kernels.gibbs_layout import BLOCK
from mpi_potts.kernels.variates import normal
from mpi_potts.labels.chain import LabelChain, join
from mpi_potts.labels.residuals import residuals
from mpi_potts.lattice import Lattice
from mpi_potts.model.noise import MODELS, named
from mpi_potts.posterior.cautions import misfit
from mpi_potts.rng import Purpose


class KnownState(NamedTuple):
    values: np.ndarray  # (1, k) means
    sd: float


class KnownTerms(NamedTuple):
    mean: np.ndarray
    curvature: np.float32


@noise.implements(noise.terms, KnownState)
def _terms(state, data):
    return KnownTerms(state.values[0].astype(np.float32), float32(0.5 / (LOG_2 * state.sd * state.sd)))


@noise.implements(noise.log_weights, KnownTerms, leaf=True)
def _log_weights(terms, label, count, y, slope, before, weight, largest):
    for i in range(BLOCK):
        distance = y[i] - terms.mean[label]
        likelihood = fma(-(distance * terms.curvature), distance, float32(0))
        weight[i] = fma(float32(int32(count[i])), slope, likelihood)
        largest[i] = larger(before[i], weight[i])


@noise.implements(noise.no_sums, KnownTerms)
def _no_sums(terms):
    return np.zeros((terms.mean.size, 2), np.int64)


@noise.implements(noise.add_block, KnownTerms, leaf=True)
def _add_block(terms, data, block, z, sums):
    for i in range(BLOCK):
        if z[i] < terms.mean.size:
            sums[z[i], 0] += 1
            sums[z[i], 1] += int64(int32(data.values[block * BLOCK + i] * data.scale))


@noise.implements(noise.draw, KnownState)
def _draw(state, terms, sums, key):
    for j in range(sums.shape[0]):
        v = 1.0 / (sums[j, 0] / (state.sd * state.sd) + 1e-6)
        # The data of the tests have a grain of 2**-20.
        state.values[0, j] = v * sums[j, 1] * 2.0**-20 / (state.sd * state.sd)
        state.values[0, j] += np.sqrt(v) * normal(j, 0, key[0], key[1])


@noise.implements(noise.no_moments, KnownState)
def _no_moments(state, sets):
    return np.zeros((sets, 2))


@noise.implements(noise.add_observation, KnownState)
def _add_observation(state, y, moments):
    moments[0] += 1.0
    moments[1] += float(y)


@noise.implements(noise.redraw, KnownState)
def _redraw(state, label, moments, index, k0, k1, values):
    v = 1.0 / (moments[0] / (state.sd * state.sd) + 1e-6)
    values[0] = v * moments[1] / (state.sd * state.sd) + np.sqrt(v) * normal(index, 0, k0, k1)


@noise.implements(noise.log_excess, KnownState)
def _log_excess(state, label, moments, values):
    precision = state.sd * state.sd
    v = 1.0 / (moments[0] / precision + 1e-6)
    return 0.5 * np.log(v * 1e-6) + 0.5 * v * (moments[1] / precision) ** 2


class KnownDensity(NamedTuple):
    mean: np.ndarray
    sd: float


@noise.implements(noise.log_density, KnownDensity)
def _log_density(density, label, y):
    distance = (y - density.mean[label]) / density.sd
    return -0.5 * distance * distance


@noise.implements(noise.residual, KnownDensity)
def _residual(density, label, y):
    return (y - density.mean[label]) / density.sd


@dataclass(frozen=True)
class KnownSd:
    labels: int
    sd: float

    names = ("mean",)
    exchangeable = True

    @property
    def order(self):
        return np.arange(self.labels)

    def standardised(self, centre, unit):
        return replace(self, sd=self.sd / unit)

    def state(self, values):
        return KnownState(values, self.sd)

    def density(self, values):
        return KnownDensity(values[0], self.sd)

    @staticmethod
    def data(layout, image):
        values = layout.scatter((np.rint(image * 2.0**20) / 2.0**20).astype(np.float32), 0.0)
        return gaussian.GaussianData(values, np.float32(2**20), np.zeros((0, 3), np.int64))

    @staticmethod
    def of_labels(z, y, labels, least, empty):
        return np.array([[y[z == j].mean() for j in range(labels)]])

    @staticmethod
    def in_units(values, centre, unit):
        return centre + unit * values


@pytest.fixture
def uncached(monkeypatch):
    """Nothing that is compiled here for records of a test goes into the cache of the package."""
    for module in (chain, conditional, gibbs_blocks, gibbs_data, names, flips, residual_kernel):
        for function in vars(module).values():
            if isinstance(function, Dispatcher):
                monkeypatch.setattr(function, "_cache", NullCache())


def image(k, shape=(40, 50)):
    draw = np.random.default_rng(4)
    z = np.repeat(draw.integers(0, k, (shape[0] // 5, shape[1])), 5, axis=0)
    return z, 3.0 * z + draw.normal(size=shape)


def test_labels_are_those_of_gaussian_noise_with_this_sd(uncached):
    lattice, k, key = Lattice((40, 50), 8), 4, rng.key(rng.stream(1, Purpose.LABEL_SWEEP), 0)
    _, values = image(k)
    layout, mean = gibbs_layout.layout(lattice, k), np.linspace(-1.0, 1.0, k)
    values = (values - values.mean()) / values.std()
    both = np.array([mean, np.ones(k)])
    states = KnownState(both[:1], 1.0), gaussian.GaussianState(both, np.ones((4, k)), 1.0)
    found, data = [], gaussian.prepare(layout, values)
    for state in states:
        z = gibbs_layout.from_labels(layout, np.zeros(lattice.shape, np.uint8))
        sites = gibbs_data.Sites(z, layout.pieces, data)
        terms, sums = chain.terms_of(state, data), chain.step_work(sites, state).sums
        found.append(([gibbs_data.sweep(sites, terms, 0.5, key, sums) for _ in range(3)], z.tolist()))
    assert found[0] == found[1]


def test_a_chain_of_another_model_is_a_chain(uncached):
    lattice, k = Lattice((40, 50)), 3
    z, values = image(k)
    whole, parts = (LabelChain(lattice, values, k, KnownSd(k, 1.0), seed=1) for _ in range(2))
    trace = whole.sweep(np.full(60, 0.4))
    assert trace.noise.shape == (1, 60, k) and whole.statistic == lattice.statistic(whole.labels)
    number = np.bincount(z.ravel())
    assert np.all(np.abs(trace.noise[0, 20:].mean(axis=0) - 3.0 * np.arange(k)) < 5.0 / np.sqrt(number))
    assert (whole.labels == z).mean() > 0.85
    first = parts.sweep(np.full(25, 0.4))
    other = LabelChain(lattice, values, k, KnownSd(k, 1.0), seed=1)
    other.unpack(parts.pack())
    for one, two in zip(trace, join([first, other.sweep(np.full(35, 0.4))])):
        assert np.array_equal(one, two)


def test_the_noise_of_another_model_is_checked_by_its_residuals(uncached):
    lattice, k = Lattice((60, 60)), 3
    values = image(k, lattice.shape)[1]
    mine = LabelChain(lattice, values, k, KnownSd(k, 1.0), seed=1)
    mine.sweep(np.full(60, 0.4))
    sums = residuals([mine], values, k)
    exact = values - mine.values[0][mine.labels]
    assert np.allclose(sums[0, :k, 1:3].sum(axis=0), [exact.sum(), (exact * exact).sum()])
    assert [*misfit(predictive(sums), "normal")] == []


def test_a_model_is_known_by_the_names_of_its_parameters():
    assert [named(model.names) for model in MODELS] == [*MODELS]
    assert len({frozenset(model.names) for model in MODELS}) == len(MODELS)
    assert all(len(model.names) == len(model.symbols) for model in MODELS)
