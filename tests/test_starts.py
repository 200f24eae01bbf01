"""Where label chains start: thresholds and scores by their definitions, unequal labels found, same bits."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from enumeration import neighbours
from fitting import problem_of, run_fit, write_input
from launch import finish, start

from mpi_potts import rng
from mpi_potts.estimation import quadrature
from mpi_potts.graph import Graph
from mpi_potts.kernels import gaussian
from mpi_potts.kernels.evidence import evidence, mixture
from mpi_potts.labels import starts
from mpi_potts.labels.chain import LabelChain
from mpi_potts.labels.guide import Guide
from mpi_potts.lattice import Lattice
from mpi_potts.methods.smc_abc import SmcFit
from mpi_potts.methods.surrogate import SurrogateFit
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.model.potts import Sampler
from mpi_potts.model.pseudolikelihood import Pseudolikelihood
from mpi_potts.posterior.outcome import outcome
from mpi_potts.rng import Purpose
from mpi_potts.runtime.parallel import ALONE
from mpi_potts.smc.sampler import _initial
from mpi_potts.smc.sources import from_binding

BETA = (0.0, 1.5)


def discs(shape, sizes, seed=3):
    """Label 0 with balls of the labels 1, 2, ..., of these radii."""
    data, z, grid = np.random.default_rng(seed), np.zeros(shape, dtype=np.uint8), np.indices(shape)
    for label, radius in enumerate(sizes, 1):
        centre = [data.uniform(radius, n - radius) for n in shape]
        z[(sum((g - c) ** 2 for g, c in zip(grid, centre)) < radius**2) & (z == 0)] = label
    return z


def observed(z, mean, sd, seed=4):
    return np.array(mean)[z] + sd * np.random.default_rng(seed).normal(size=z.shape)


def warm_chain(values, k, noise=None, number=0, mask=None):
    chain = LabelChain(Lattice(values.shape, mask=mask), values, k, noise or gaussian_noise(k), 7, number)
    chain.sweep(np.zeros(50))
    return chain


def padded(lattice, array, around):
    inside = np.where(lattice.exists, array, around)
    return inside if lattice.dimensions == 1 else np.pad(inside, 1, constant_values=around).ravel()


def masked(shape, neighbourhood="first"):
    return Lattice(shape, neighbourhood, np.random.default_rng(2).random(shape) < 0.8)


def star():
    """A hub with many neighbours, and some pairs between these, of which some are masked."""
    ends = [(0, i) for i in range(1, 40)] + [(i, i + 1) for i in range(1, 39, 2)]
    return Graph(40, np.array(ends), np.random.default_rng(2).random(40) < 0.8)


LATTICES = [
    *(masked(shape, name) for shape in ((5, 6), (3, 4, 3)) for name in ("first", "second")),
    masked((5, 6), "hexagonal"),
    masked((3, 4, 3), "18"),
    star(),
]


@pytest.mark.parametrize("lattice", LATTICES)
def test_the_evidence_is_its_definition(lattice):
    data, k, beta, shape = np.random.default_rng(1), 3, 0.7, lattice.shape
    z, y = data.integers(0, k, shape).astype(np.uint8), data.normal(size=shape)
    mean, sd = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 2.0])
    pixels, score, slope, curvature = evidence(
        padded(lattice, z, 255),
        y[lattice.exists],
        starts.neighbours(lattice),
        beta,
        k,
        gaussian.density(mean, sd),
    )
    expected, labels, values = 0.0, z[lattice.exists], y[lattice.exists]
    for i, near in enumerate(neighbours(lattice)):
        prior = np.exp(beta * np.bincount([labels[j] for j in near], minlength=k))
        density = np.exp(-0.5 * ((values[i] - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        expected += np.log(prior @ density / prior.sum())
    assert pixels == lattice.sites
    assert score == pytest.approx(expected, rel=1e-12)
    h, density = 1e-4, Pseudolikelihood(lattice, k).log_density(z, lattice.statistic(z))
    below, here, above = density(np.array([beta - h, beta, beta + h]))
    assert slope == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-6)
    assert curvature == pytest.approx(-(above - 2 * here + below) / h**2, rel=1e-5)


@pytest.mark.parametrize("criterion", ["squares", "errors"])
def test_thresholds_have_the_least_cost_of_all(criterion):
    values = np.concatenate([np.random.default_rng(s).normal(4 * s, 1, 300 // (s + 1)) for s in range(3)])
    groups = starts.Histogram(values, 24)
    cost = getattr(groups, criterion)()
    found = np.searchsorted(groups.edges, groups.thresholds(cost, 4)) + 1
    totals = {
        cuts: sum(cost[a, b] for a, b in zip((0, *cuts), (*cuts, 24)))
        for cuts in combinations(range(1, 24), 3)
    }
    assert totals[tuple(found.tolist())] == pytest.approx(min(totals.values()), rel=1e-12)


def test_shares_keep_a_large_group_whole_that_least_squares_cut():
    data = np.random.default_rng(2)
    values = np.concatenate([data.normal(0, 1, 20000), data.normal(6, 1, 150)])
    groups = starts.Histogram(values, 256)
    assert groups.thresholds(groups.squares(), 2)[0] < 2.0
    assert 2.5 < groups.thresholds(groups.errors(), 2)[0] < 5.0


UNEQUAL = {
    "plane": (discs((100, 100), (12, 9)), (0.0, 2.0, 4.0), 0.8, None),
    "middle": (discs((100, 100), (10, 8)), (2.0, 0.0, 4.0), 0.7, None),
    "mask": (discs((100, 100), (12, 9)), (0.0, 2.0, 4.0), 0.7, np.arange(100) % 10 > 0),
    "volume": (discs((24, 24, 20), (7, 5)), (0.0, 2.0, 4.0), 0.8, None),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_small_labels_are_found_beside_a_large_one(name):
    """Shares of some 90, 5 and 3 %: the warm-up alone splits the large label in two."""
    z, mean, sd, columns = UNEQUAL[name]
    mask = None if columns is None else np.broadcast_to(columns, z.shape)
    truth, values = np.argsort(np.argsort(mean))[z], observed(z, mean, sd)
    for number in range(2):
        chain = warm_chain(values, 3, number=number, mask=mask)
        exists = chain.lattice.exists
        assert (chain.labels == truth)[exists].mean() < 0.8
        starts.settle(chain, values, BETA, 7, number)
        assert (chain.labels == truth)[exists].mean() > 0.98
        assert chain.values[0] == pytest.approx(np.sort(mean), abs=0.2)
        assert chain.values[1] == pytest.approx(np.full(3, sd), abs=0.15)
        assert np.all(chain.labels[~exists] == 255)


def test_the_description_of_the_values_is_its_definition():
    data = np.random.default_rng(8)
    y, shares = data.normal(size=50), np.array([0.5, 0.0, 0.3, 0.2])
    noise = np.stack([data.normal(size=4), data.uniform(0.5, 2.0, 4)])
    density = np.exp(-0.5 * ((y[:, None] - noise[0]) / noise[1]) ** 2) / (noise[1] * np.sqrt(2 * np.pi))
    found = mixture(y, shares, gaussian_noise(4).density(noise))
    assert found == pytest.approx(np.log(density @ shares).sum(), rel=1e-12)


def in_a_sea(beta, k, sd, seed, side=400):
    """An image beyond the transition: small clusters of other labels in one that has nearly all pixels."""
    sampler = Sampler(Lattice((side, side)), k, "alternating")
    state = sampler.start("ordered", rng.stream(seed, Purpose.SIMULATE_START))
    sampler.sweeps(state, beta, rng.stream(seed, Purpose.SIMULATE), 0, 200)
    z = sampler.labels(state)
    return z, observed(z, np.arange(float(k)), sd, seed)


@pytest.mark.parametrize(("seed", "number"), [(1, 0), (1, 1), (2, 1), (3, 0)])
def test_small_clusters_in_a_sea_are_found_and_the_sea_is_not_split(seed, number):
    _, values = in_a_sea(1.23, 5, 0.45, seed)
    chain = warm_chain(values, 5, number=number)
    starts.settle(chain, values, (0.0, 2.9), 7, number)
    assert np.sort(chain.values[0]) == pytest.approx(np.arange(5.0), abs=0.15)
    assert chain.values[1] == pytest.approx(0.45, abs=0.1)


def test_priors_that_name_the_labels_are_obeyed():
    z, mean = discs((100, 100), (12, 9)), (0.0, 2.0, 4.0)
    noise = gaussian_noise(3, mean=[4.0, 0.0, 2.0], mean_sd=1.0)
    chain = warm_chain(observed(z, mean, 0.7), 3, noise)
    starts.settle(chain, observed(z, mean, 0.7), BETA, 7, 0)
    assert (chain.labels == np.array([1, 2, 0])[z]).mean() > 0.98


def test_labels_without_pixels_and_few_values_do_no_harm():
    """More labels than the image has values: some stay empty, and nothing is divided by zero."""
    values = np.array([0.0, 1.0, 5.0])[discs((40, 40), (8, 6))]
    chain = warm_chain(values, 3)
    starts.settle(chain, values, BETA, 7, 0)
    assert np.isfinite(chain.values).all()
    chain = warm_chain(values, 6)
    starts.settle(chain, values, BETA, 7, 0)
    assert np.isfinite(chain.values).all() and (chain.values[1] > 0.0).all()
    assert chain.statistic == chain.lattice.statistic(chain.labels)


def test_the_score_is_of_many_pixels_where_it_is_not_of_all(monkeypatch):
    z, mean = discs((100, 100), (12, 9)), (0.0, 2.0, 4.0)
    values = observed(z, mean, 0.8)
    monkeypatch.setattr(starts, "PIXELS", 2000)
    chain = warm_chain(values, 3)
    starts.settle(chain, values, BETA, 7, 0)
    assert (chain.labels == z).mean() > 0.98


def test_a_minor_mode_is_told_by_all_pixels(monkeypatch):
    """A part of them, scaled up, has more noise than the threshold of the warning allows for."""
    values = observed(discs((100, 100), (12, 9)), (0.0, 2.0, 4.0), 0.8)
    chain = warm_chain(values, 3)
    whole = starts.score(chain, values, 0.9)
    monkeypatch.setattr(starts, "PIXELS", 100)
    assert starts.score(chain, values, 0.9) == whole


def test_equal_chains_settle_equally_and_others_differ():
    z = discs((60, 60), (9, 6))
    values, packed = observed(z, (0.0, 2.0, 4.0), 0.8), []
    for number in (0, 0, 1):
        chain = warm_chain(values, 3, number=number)
        statistic = starts.settle(chain, values, BETA, 7, number)
        assert statistic[-1] == chain.statistic == chain.lattice.statistic(chain.labels)
        packed.append(chain.pack())
    assert all(np.array_equal(packed[0][name], packed[1][name]) for name in packed[0])
    assert not np.array_equal(packed[0]["noise"], packed[2]["noise"])


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """An input with an image of unequal labels with much noise, its truth, and its problem."""
    directory = tmp_path_factory.mktemp("unequal")
    z = discs((80, 80), (9, 7))
    path = write_input(directory, observed(z, (0.0, 2.0, 4.0), 1.0), final_sweeps=200)
    return path, z, problem_of(ALONE, path, directory / "out")


@pytest.mark.parametrize("method", ["smc-abc", "path"])
def test_a_fit_stays_with_the_labels_it_starts_from(unequal, method):
    """Particles as broad as the prior would drive the chain out of its mode."""
    path, z, problem = unequal
    output = problem.config.output
    _, found = run_fit(ALONE, path, output, (f"fit.method={method}",), fresh=True)
    assert (found["labels/map"] == z).mean() > 0.99
    assert found["noise/mean"].reshape(-1, 3).mean(axis=0) == pytest.approx([0.0, 2.0, 4.0], abs=0.3)
    _, found = run_fit(
        ALONE, path, output, (f"fit.method={method}", "fit.start=paper", "fit.crossing=false"), fresh=True
    )
    assert (found["labels/map"] == z).mean() < 0.8


def test_the_fit_goes_on_from_the_start_that_the_search_for_its_binding_function_made(unequal):
    problem = unequal[2]
    searched, fitted, alone = (problem.chains(ALONE).chains[0] for _ in range(3))
    found = problem.first_start(0, searched)
    assert problem.started
    assert np.array_equal(problem.start(0, fitted), found) and not problem.started
    assert np.array_equal(problem.start(0, alone), found)
    traces = [chain.sweep(np.full(60, 0.7)) for chain in (searched, fitted, alone)]
    for trace in traces[1:]:
        assert np.array_equal(trace.statistic, traces[0].statistic)
        assert np.array_equal(trace.noise, traces[0].noise)


def test_a_guide_is_needed_until_the_particles_are_near(unequal):
    _, _, problem = unequal
    guide = Guide(problem.binding, problem.config.prior.beta, "path")
    state = _initial(guide.interval, 500, from_binding(problem.binding, 10, 1), 1)
    middle = 0.5
    statistic = int(problem.binding.moments(middle)[0])
    sd = 1.0 / float(problem.binding.moments(middle)[1])
    assert guide.needed(state, statistic)
    assert not guide.needed(replace(state, beta_mean=middle + 0.5 * sd, beta_sd=1.2 * sd), statistic)
    assert guide.needed(replace(state, beta_mean=middle + 5.0 * sd, beta_sd=1.2 * sd), statistic)


def test_a_guided_chain_sweeps_at_first_and_then_stands_still(unequal):
    """Until the particles are near: then it follows them, sweep by sweep."""
    _, _, problem = unequal
    fit = SmcFit(ALONE, problem)
    chains, guide = fit.chains, Guide(problem.binding, problem.config.prior.beta, "path")
    state = replace(_initial(guide.interval, 500, from_binding(problem.binding, 10, 1), 1), noise_sd=7.0)
    chains.observe(state, problem.start, 10, guide)
    (chain,) = chains.chains
    steps = []
    for changes in ({"iteration": 1}, {"iteration": 2}):
        before = chain.done, chain.statistic
        statistic, noise = chains.observe(replace(state, **changes), problem.start, 10, guide)
        steps.append(chain.done - before[0])
    assert steps == [50, 0]
    assert (statistic, noise) == (before[1], 7.0), "the noise is that of before where nothing moved"
    near = quadrature.density(lambda b: b * statistic - problem.binding.log_normaliser(b), guide.interval)
    mean, sd = near.moments()
    state = replace(state, iteration=3, beta=np.full(500, mean), beta_mean=mean, beta_sd=sd)
    before = chain.done
    chains.observe(state, problem.start, 10, guide)
    assert chain.done - before == 10


def test_a_chain_in_a_minor_mode_is_named(unequal):
    path, _, problem = unequal
    keys = "fit.method=path", "fit.chains=2", "fit.final_sweeps=100", "fit.crossing=false"
    problem = problem_of(ALONE, path, problem.config.output, keys)
    for settled, said in (((0, 1), []), ((0,), ["of the 2 chains number 2"])):
        fit = SurrogateFit(ALONE, problem)
        for number, chain in enumerate(fit.chains.chains):
            chain.sweep(np.zeros(50))
            if number in settled:
                starts.settle(chain, problem.image.values, BETA, 7, number)
        for _ in fit.run_phase(fit.chains, fit.phase, "sweeps", True):
            pass
        found = [text for text in outcome(ALONE, fit).warnings if "minor mode" in text]
        assert len(found) == len(said) and all(word in text for word, text in zip(said, found))


def random_image(data):
    """Three labels of random shares in discs of random sizes, means and noise; their truth."""
    z, order = np.zeros((100, 100), dtype=np.uint8), data.permutation(3)
    rows, columns = np.indices(z.shape)
    for label, share in ((1, data.uniform(0.01, 0.3)), (2, data.uniform(0.01, 0.3))):
        radius = np.sqrt(share * z.size / data.integers(1, 6) / np.pi)
        while (z == label).mean() < share:
            row, column = data.uniform(0, 100, 2)
            z[((rows - row) ** 2 + (columns - column) ** 2 < radius**2) & (z == 0)] = label
    z, mean = order[z], np.cumsum(data.uniform(1.4, 3.0, 3))
    return z, mean[z] + (data.uniform(0.4, 1.1) * data.uniform(0.7, 1.3, 3))[z] * data.normal(size=z.shape)


def after_few_sweeps(chain, table):
    """The most probable labels of a chain, named in the order of their means."""
    chain.sample(table, BETA, 50)
    name = np.argsort(np.argsort(chain.values[0]))
    return name[chain.probabilities().argmax(axis=-1)]


@pytest.mark.long
def test_a_start_is_as_good_as_the_truth(tmp_path):
    """Of 30 random images, in which the warm-up alone misses the labels of some."""
    path = write_input(tmp_path, np.random.default_rng(0).normal(size=(100, 100)))
    table = problem_of(ALONE, path, tmp_path / "out", ("prior.beta=[0, 1.5]",)).binding.table
    data, missed = np.random.default_rng(6), 0
    for _ in range(30):
        z, values = random_image(data)
        right = {}
        for name in ("warm", "best", "truth"):
            chain = warm_chain(values, 3, gaussian_noise(3, float(values.mean())))
            if name == "best":
                starts.settle(chain, values, BETA, 7, 0)
            if name == "truth":
                packed = {"labels": z.ravel().astype(np.uint8), "steps": np.array([chain.done, 0])}
                noise = [[f(values[z == j]) for j in range(3)] for f in (np.mean, np.std)]
                packed["noise"] = (np.array(noise) - [[chain.centre], [0.0]]) / chain.unit
                chain.unpack(packed)
            right[name] = (after_few_sweeps(chain, table) == z).mean()
        assert right["best"] > right["truth"] - 0.01
        missed += right["warm"] < right["truth"] - 0.1
    assert missed >= 3


def write_volume(directory, shape, radii):
    """A NIfTI volume of three tissues with noise, in millimetres; an input for it, its truth and affine."""
    nibabel = pytest.importorskip("nibabel")
    z = discs(shape, radii)
    affine = np.array([[0.0, -0.9, 0.1, 30.0], [1.1, 0.0, 0.0, -20.0], [0.0, 0.2, 2.0, 5.0], [0, 0, 0, 1.0]])
    values = observed(z, (100.0, 140.0, 180.0), 15.0).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, affine), directory / "volume.nii.gz")
    path = directory / "input.toml"
    path.write_text(
        """
[image]
path = "volume.nii.gz"
[prior]
mean = { mean = "image", sd = 100.0 }
[precompute]
grid = "regular"
points = 41
iterations = 150
burn_in = 50
[fit]
final_sweeps = 200
final_burn_in = 50
[smc]
particles = 500
replicates = 40
alpha = 0.9
label_sweeps = 20
max_iterations = 40
"""
    )
    return path, z, affine


def check_volume(directory, shape, radii):
    nibabel = pytest.importorskip("nibabel")
    path, z, affine = write_volume(directory, shape, radii)
    done = finish(start(["run", path, "--output", directory / "out"], ranks=2), 1200)
    assert done.code == 0, done.stderr
    found = nibabel.load(directory / "out" / "labels.nii.gz")
    assert np.array_equal(found.affine, nibabel.load(directory / "volume.nii.gz").affine)
    assert np.allclose(found.affine, affine)
    labels = np.asarray(found.dataobj)
    assert labels.shape == shape
    for label in range(3):
        assert (labels == label + 1)[z == label].mean() > 0.95
    assert (labels == z + 1).mean() > 0.99


def test_a_volume_of_three_tissues_keeps_its_affine(tmp_path):
    check_volume(tmp_path, (24, 24, 16), (6, 5))


@pytest.mark.long
def test_a_large_volume_of_three_tissues_keeps_its_affine(tmp_path):
    check_volume(tmp_path, (64, 64, 32), (13, 9))
