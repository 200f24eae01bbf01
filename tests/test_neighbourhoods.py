"""Hexagonal planes, 18 neighbours and graphs of a user's own, from the input to the report.

A graph is held against the enumeration of its labellings, and a grid given as a graph against the lattice.
"""

import json

import numpy as np
import pytest
from enumeration import average, features, hold, labellings_of, neighbours
from launch import finish, start

import mpi_potts as mp
from mpi_potts import rng
from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.graph import Graph
from mpi_potts.image.pixels import lattice_of, load_image
from mpi_potts.io import reading
from mpi_potts.labels.chain import LabelChain, join
from mpi_potts.labels.starts import candidates, score
from mpi_potts.lattice import Lattice, degree
from mpi_potts.model.exact import Exact
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.model.potts import SAMPLERS, Sampler
from mpi_potts.model.pseudolikelihood import Pseudolikelihood
from mpi_potts.model.transition import transition
from mpi_potts.report import fit as report
from mpi_potts.rng import Purpose
from mpi_potts.runtime.threads import Team

# A wheel with a gap, a tail, and a sample without neighbours.
TINY = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5)])
SITES = 7
NOISE = {"mean": {"mean": 0.0, "sd": 10.0}, "variance": {"shape": 1.0, "scale": 0.1}}
FEW = {"precompute": {"points": 20, "iterations": 80, "burn_in": 20}, "final_sweeps": 60, "final_burn_in": 20}
FEW |= {"smc": {"particles": 60, "replicates": 10, "alpha": 0.8, "label_sweeps": 10, "max_iterations": 8}}


def ends_of(lattice, seed=0):
    """The edges of a whole lattice, as a user may give them: in any order and direction."""
    number, data = np.arange(np.prod(lattice.shape)).reshape(lattice.shape), np.random.default_rng(seed)
    ends = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in lattice.pairs(number)])
    return data.permuted(data.permutation(ends), axis=1)


def blobs(shape, seed=1):
    """Two labels with noise."""
    z = sum(axis // 4 for axis in np.indices(shape)) % 2
    return 3.0 * z + 0.7 * np.random.default_rng(seed).normal(size=shape)


# The graph


@pytest.mark.parametrize("lattice", [Lattice((5, 7)), Lattice((6, 5), "hexagonal"), Lattice((3, 4, 5), 18)])
def test_a_lattice_as_a_graph_is_the_same(lattice):
    graph = Graph(lattice.sites, ends_of(lattice))
    z = np.random.default_rng(2).integers(0, 3, lattice.shape)
    assert (graph.sites, graph.edges) == (lattice.sites, lattice.edges)
    assert graph.statistic(z.ravel()) == lattice.statistic(z)
    assert neighbours(graph) == neighbours(lattice)
    sums = lattice.neighbour_sums(z.astype(float))
    assert graph.neighbour_sums(z.ravel().astype(float)).tolist() == sums.ravel().tolist()


def test_neither_order_nor_direction_nor_repetition_makes_another_graph():
    graph = Graph(SITES, TINY)
    again = Graph(SITES, np.concatenate([TINY[::-1, ::-1], TINY[:3]]).astype(float))
    assert again.digest == graph.digest and again.edges == 8
    mask = np.arange(SITES) != 2
    others = Graph(SITES + 1, TINY), Graph(SITES, TINY[1:]), Graph(SITES, TINY, mask)
    assert len({graph.digest, *(other.digest for other in others)}) == 4
    assert others[2].edges == 5 and others[2].sites == SITES - 1


def test_the_colours_of_a_graph_are_those_of_the_greedy_order():
    graph = Graph(SITES, TINY)
    assert graph.colours.tolist() == [0, 1, 2, 1, 2, 0, 0]
    assert (graph.colours[graph.ends[:, 0]] != graph.colours[graph.ends[:, 1]]).all()


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([(0, 1), (2, 2)], r"pair 1 is \[2, 2\]: a sample is no neighbour of its own"),
        ([(0, 1), (1, 7)], r"pair 1 is \[1, 7\]: samples have the numbers 0 to 6"),
        ([(-1, 2)], r"pair 0 is \[-1, 2\]: samples"),
        ([(0.0, 1.5)], r"pair 0 is \[0.0, 1.5\]: integers"),
        ([(0.0, np.nan)], "integers are accepted"),
        ([(0, 1, 2)], r"has shape \[1, 3\]"),
        (np.zeros((0, 2), int), "no pair of neighbours"),
    ],
)
def test_what_is_no_graph_is_refused_by_its_first_wrong_pair(ends, said):
    with pytest.raises(InputError, match=said):
        Graph(SITES, np.array(ends))


def test_the_numbers_that_place_a_grid_are_those_of_the_mean_number_of_neighbours():
    wheel, chain = Graph(SITES, TINY), Graph(9, np.stack([np.arange(8), np.arange(1, 9)], axis=1))
    assert wheel.degree == 3.0 == degree(1, "graph", wheel.sites, wheel.edges)
    assert chain.degree == 2.0
    torus = np.arange(36).reshape(6, 6)
    ends = np.concatenate(
        [np.stack([torus.ravel(), np.roll(torus, 1, axis).ravel()], axis=1) for axis in (0, 1)]
    )
    # The Ising model on the Bethe lattice of four neighbours: tanh(beta / 2) = 1 / 3.
    assert transition(Graph(36, ends), 2) == pytest.approx(2.0 * np.arctanh(1.0 / 3.0))
    assert 0.0 < transition(chain, 3) < 5.0


# The model on it


@pytest.mark.parametrize("k", [2, 3])
def test_the_exact_distribution_on_a_graph_is_that_of_all_its_labellings(k):
    graph = Graph(SITES, TINY)
    _, like, _ = labellings_of(graph, k)
    assert Exact(graph, k).counts == np.bincount(like, minlength=graph.edges + 1).tolist()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_samplers_of_the_prior_have_the_moments_of_the_enumeration(name, beta):
    many = 1500
    ends = (TINY + SITES * np.arange(many)[:, None, None]).reshape(-1, 2)
    number, k = np.tile(np.arange(SITES), many), 3
    sampler = Sampler(Graph(many * SITES, ends), k, name)
    state = sampler.start("random", rng.stream(1, Purpose.SIMULATE_START))
    labellings, like, edges = labellings_of(Graph(SITES, TINY), k)
    weight = np.exp(beta * like)

    def labels_after(t):
        sampler.sweeps(state, beta, rng.stream(1, Purpose.PRIOR_SWEEP), t, 1)
        return sampler.labels(state)

    hold(
        average(labels_after, number, k, edges, 20, 40),
        weight / weight.sum() @ features(labellings, k, edges),
    )
    assert (sampler.labels(sampler.unpack(sampler.pack(state))) == sampler.labels(state)).all()


def test_the_label_chain_has_the_posterior_of_the_enumeration():
    many, k, beta = 1500, 3, 0.6
    ends = (TINY + SITES * np.arange(many)[:, None, None]).reshape(-1, 2)
    number = np.tile(np.arange(SITES), many)
    y, mean, sd = np.linspace(-1.2, 1.0, SITES), np.array([-1.0, 0.2, 0.9]), np.array([0.5, 0.8, 1.1])
    # Priors so narrow that the noise is known.
    noise = gaussian_noise(k, mean, 1e-6, 1e9, 1e9 * sd * sd)
    chain = LabelChain(Graph(many * SITES, ends), y[number], k, noise, 3)
    labellings, like, edges = labellings_of(Graph(SITES, TINY), k)
    density = -0.5 * ((y[:, None] - mean) / sd) ** 2 - np.log(sd)
    log_weight = beta * like + sum(density[i, labellings[:, i]] for i in range(SITES))
    weight = np.exp(log_weight - log_weight.max())

    def labels_after(t):
        assert chain.sweep(np.full(1, beta)).statistic[0] == chain.lattice.statistic(chain.labels)
        chain.count()
        return chain.labels

    draws = average(labels_after, number, k, edges, 20, 60)
    hold(draws, weight / weight.sum() @ features(labellings, k, edges))
    assert (chain.counts.sum(axis=-1) == 80).all()


@pytest.mark.parametrize("size", [1, 3])
def test_a_chain_on_a_graph_goes_on_from_where_it_was_packed_by_any_number_of_threads(size):
    graph, values = Graph(3000, ends_of(Lattice((50, 60)))), blobs((50, 60)).ravel()
    whole, other = (LabelChain(graph, values, 2, gaussian_noise(2), 5, team=Team(n)) for n in (1, size))
    table = np.array([[0.0, 1.0], [0.0, 3000.0], [2000.0, 4000.0], [900.0, 900.0]])
    whole.sweep(np.full(3, 0.4))
    trace = whole.sample(table, (0.0, 1.0), 8)
    other.sweep(np.full(3, 0.4))
    first = other.sample(table, (0.0, 1.0), 5)
    again = LabelChain(graph, values, 2, gaussian_noise(2), 5, team=Team(size))
    again.unpack(other.pack())
    second = again.sample(table, (0.0, 1.0), 3)
    assert [rows.tobytes() for rows in trace] == [rows.tobytes() for rows in join([first, second])]
    assert (again.counts == whole.counts).all() and again.counted == 8
    assert again.statistic == graph.statistic(again.labels)


def test_the_pseudolikelihood_of_a_graph_is_the_product_of_its_conditionals():
    data, k, n = np.random.default_rng(4), 3, 60
    ends = data.integers(1, n, (90, 2))
    ends = np.concatenate([ends[ends[:, 0] != ends[:, 1]], [(0, i) for i in range(1, n)]])
    graph = Graph(n, ends, data.random(n) < 0.9)
    z, beta = data.integers(0, k, n).astype(np.uint8), np.linspace(0.0, 1.2, 7)
    expected, own = np.zeros(7), z[graph.exists]
    for i, near in enumerate(neighbours(graph)):
        times = np.bincount([own[j] for j in near], minlength=k)
        expected += beta * times[own[i]] - np.log(np.exp(np.multiply.outer(beta, times)).sum(axis=1))
    found = Pseudolikelihood(graph, k).log_density(z, graph.statistic(z))(beta)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_hub_of_a_thousand_neighbours_overflows_nothing():
    """exp(beta n) is beyond float64 from beta n = 709 on."""
    n, k, beta = 1001, 3, np.linspace(0.0, 3.0, 7)
    graph = Graph(n, np.array([(0, i) for i in range(1, n)]))
    z = np.ones(n, np.uint8)
    z[1:301] = 2
    found = Pseudolikelihood(graph, k).log_density(z, graph.statistic(z))(beta)
    hub = 700.0 * beta - (700.0 * beta + np.log1p(np.exp(-400.0 * beta) + np.exp(-700.0 * beta)))
    leaves = 700.0 * beta - 1000.0 * np.log(np.exp(beta) + k - 1.0)
    assert found == pytest.approx(hub + leaves, rel=1e-12)
    values = z + 0.1 * np.random.default_rng(3).normal(size=n)
    chain = LabelChain(graph, values, 3, gaussian_noise(3), 5)
    assert np.isfinite(score(chain, values, 3.0))


@pytest.mark.parametrize("lattice", [Lattice((8, 9), "hexagonal"), Graph(72, ends_of(Lattice((8, 9))))])
def test_starts_are_smoothed_over_neighbours(lattice):
    values = blobs((8, 9)).reshape(lattice.shape)
    found = list(candidates(lattice, values, 2))
    assert len(found) == 6
    by_hand = np.array(
        [(2.0 * y + sum(values.ravel()[list(near)])) / (2.0 + len(near))
         for y, near in zip(values.ravel(), neighbours(lattice))]
    )  # fmt: skip
    # The groups of least squares are cut where the smoothed values are.
    assert by_hand[found[2] == 0].max() <= by_hand[found[2] == 1].min()


# The whole program


CASES = {
    "hexagonal": (blobs((8, 9)), {"neighbourhood": "hexagonal"}),
    "18": (blobs((5, 6, 4)), {"neighbourhood": 18}),
    "8": (blobs((8, 9)), {"neighbourhood": 8}),
    "graph": (blobs((8, 9)).ravel(), {"graph": ends_of(Lattice((8, 9)))}),
}


@pytest.mark.parametrize("method", ["smc-abc", "path", "synthetic", "exchange", "pseudolikelihood"])
@pytest.mark.parametrize("case", CASES)
def test_every_method_fits_on_every_neighbourhood(case, method):
    values, keys = CASES[case]
    short = {"iterations": 40, "burn_in": 20, "auxiliary_sweeps": 3}
    found = mp.fit(values, labels=2, beta=[0, 1], method=method, exchange=short, **FEW, **keys, **NOISE)
    names = {"8": "second"}
    assert found.attributes["neighbourhood"] == names.get(case, case)
    assert found.labels.shape == values.shape
    # Three standard deviations of noise lie between the labels.
    assert ((found.labels == 1) == (values > 1.5)).mean() > 0.8


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["smc-abc", "rejection"])
def test_observed_labels_and_pseudo_data_on_every_neighbourhood(case, method):
    values, keys = CASES[case]
    few = {"rejection": {"draws": 200, "quantile": 0.2}, "pseudo_data": {"burn_in": 5}}
    few |= {"fit": {"pseudo_data": True, "method": method}, "smc": FEW["smc"]}
    found = mp.fit((values > 1.5).astype(int), kind="labels", labels=2, beta=[0, 1], **few, **keys)
    assert 0.0 < found.mean < 1.0 and found.labels is None


def test_a_grid_given_as_a_graph_has_the_posterior_of_the_lattice():
    lattice = Lattice((12, 13))
    values = blobs(lattice.shape)
    keys = {"labels": 2, "beta": [0, 1.5], "method": "path", "chains": 2, **NOISE}
    keys |= {"precompute": {"points": 60, "iterations": 500, "burn_in": 100}}
    keys |= {"final_sweeps": 2000, "final_burn_in": 200}
    one, other = mp.fit(values, **keys), mp.fit(values.ravel(), graph=ends_of(lattice), **keys)
    error = np.hypot(*(hypot_of(found) for found in (one, other)))
    assert abs(one.mean - other.mean) < 4.0 * error
    assert one.sd == pytest.approx(other.sd, rel=0.15)
    assert np.abs(one.probability.reshape(-1, 2) - other.probability).max() < 0.1


def hypot_of(found):
    return np.hypot(found.sd / np.sqrt(found.summary.ess), found.attributes["binding_error"])


def test_an_image_that_was_simulated_on_a_graph_is_fitted_with_its_mask(tmp_path):
    ends = ends_of(Lattice((8, 9)))
    mask = np.random.default_rng(3).random(72) < 0.9
    keys = {"graph": ends, "mask": mask, "labels": 2, "seed": 4}
    noise = {"beta": 0.7, "mean": [-2.0, 2.0], "sd": [0.5, 0.5]}
    (made,) = mp.simulate((72,), simulate=noise | {"sweeps": 20}, **keys)
    assert made.values.shape == (72,) and np.isnan(made.values[~mask]).all()
    assert (made.labels[~mask] == 255).all()
    binding = mp.precompute((72,), points=20, iterations=80, burn_in=20, **keys)
    assert binding.sites == mask.sum() and binding.neighbourhood == "graph"
    short = {"final_sweeps": 60, "final_burn_in": 20}
    found = mp.fit(np.nan_to_num(made.values), binding=binding, method="path", **short, **keys, **NOISE)
    assert (found.labels[~mask] == -1).all()
    assert (found.labels[mask] == made.labels[mask]).mean() > 0.9
    with pytest.raises(InputError, match="the binding function is for pixels"):
        mp.fit(np.nan_to_num(made.values), binding=binding, method="path", **short, **keys | {"mask": None})


def write_graph(directory, text="", ends=TINY, values=None):
    """An input file with a graph and its samples."""
    np.savetxt(directory / "graph.csv", ends, fmt="%g", delimiter=",")
    np.savetxt(directory / "y.csv", np.arange(float(SITES)) if values is None else values)
    path = directory / "input.toml"
    path.write_text(f"[image]\npath = 'y.csv'\ngraph = 'graph.csv'\n{text}")
    return path


def test_a_column_and_pairs_in_csv_are_read(tmp_path):
    config = inputs.load(write_graph(tmp_path))
    image = load_image(config)
    assert image.shape == (SITES,)
    assert lattice_of(config, image).digest == Graph(SITES, TINY).digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("crop = [0, 3, 0, 1]", "image.crop: must be left out where image.graph is given"),
        ("band = 1", "image.band: must be left out"),
        ("shape = [7, 1]", "image.shape = [7, 1]: must be the number of samples"),
        ("shape = [8]", "image.shape = [8]:"),
        (
            "[model]\nneighbourhood = 8",
            "model.neighbourhood = 8: must be left out where image.graph is given",
        ),
        ("[model]\nneighbourhood = 5", "model.neighbourhood = 5: must be"),
        ("[prior]\nbeta = [0.0, 25.0]\n", None),
    ],
)
def test_what_does_not_go_with_a_graph_is_refused_by_name(tmp_path, text, said):
    def load():
        config = inputs.load(write_graph(tmp_path, text))
        return lattice_of(config, load_image(config))

    if said is None:
        assert load().most == 4
        return
    with pytest.raises(InputError) as caught:
        load()
    assert said in str(caught.value)


def test_files_that_are_no_graph_or_no_vector_are_refused_by_name(tmp_path):
    config = inputs.load(write_graph(tmp_path, ends=[(0, 1), (4, 9)]))
    with pytest.raises(InputError, match=r"image\.graph: .*graph\.csv: pair 1 is \[4.0, 9.0\]: samples have"):
        lattice_of(config, load_image(config))
    config = inputs.load(write_graph(tmp_path, values=np.ones((7, 2))))
    np.savetxt(tmp_path / "y.csv", np.ones((7, 2)), delimiter=",")
    with pytest.raises(InputError, match=r"image\.path: .*has shape \[7, 2\]; one column of samples"):
        load_image(config)
    star = np.array([(0, i) for i in range(1, 100)])
    config = inputs.load(write_graph(tmp_path, "[prior]\nbeta = [0.0, 20.0]", star, np.arange(100.0)))
    with pytest.raises(InputError, match=r"prior\.beta = .* up to 7\.071 is accepted, .* has 99 neighbours"):
        lattice_of(config, load_image(config))


@pytest.mark.parametrize(
    ("shape", "neighbourhood"), [((8, 8), 18), ((8, 8), 6), ((4, 4, 4), 8), ((4, 4, 4), "hexagonal")]
)
def test_a_neighbourhood_of_other_dimensions_is_refused_by_name(shape, neighbourhood):
    with pytest.raises(
        InputError, match=rf"model\.neighbourhood = '?{neighbourhood}'?: first, .* dimensions"
    ):
        mp.precompute(shape, neighbourhood=neighbourhood, points=2, iterations=2, burn_in=0)


def test_a_shape_of_one_number_needs_a_graph_and_hexagonal_rows_an_even_first():
    with pytest.raises(InputError, match=r"image\.shape = \[8\]: must be 2 or 3 integers, or 1 where"):
        mp.precompute((8,))
    with pytest.raises(InputError, match=r"image\.crop = \[1, 4, 0, 5\]: must be from an even row"):
        mp.fit(blobs((8, 9)), crop=[1, 4, 0, 5], neighbourhood="hexagonal")


@pytest.mark.parametrize("case", ["hexagonal", "graph"])
def test_the_report_shows_rows_as_they_lie_and_writes_samples_as_numbers(tmp_path, case):
    values, keys = CASES[case]
    found = mp.fit(values, labels=2, beta=[0, 1], method="path", output=tmp_path, **FEW, **keys, **NOISE)
    said = report.write(reading.contents(tmp_path / "result.h5"))
    page = (tmp_path / "report.html").read_text()
    if case == "hexagonal":
        assert "Every second row is shifted by half a pixel." in page and "hexagonal neighbours" in page
        assert (tmp_path / "labels.png").exists() and "exact" in page
        return
    assert "labels.csv, entropy.csv, probability.csv" in said and "neighbours by a graph" in page
    written = np.loadtxt(tmp_path / "labels.csv", dtype=int)
    assert (written == found.labels + 1).all()
    largest = np.loadtxt(tmp_path / "probability.csv", dtype=np.float32)
    assert (largest == found.probability.max(axis=-1)).all()
    assert not (tmp_path / "figure_labels.png").exists()


def test_the_commands_take_a_graph(tmp_path):
    few = "[precompute]\npoints = 20\niterations = 60\nburn_in = 10\n[fit]\nmethod = 'path'\n"
    few += "final_sweeps = 40\nfinal_burn_in = 10\n[model]\nlabels = 2\n[prior]\nbeta = [0.0, 1.0]\n"
    values, keys = CASES["graph"]
    path = write_graph(tmp_path, few, keys["graph"], values)
    checked = finish(start(["check", path], cwd=tmp_path))
    assert checked.code == 0, checked.stderr
    assert "72 of 72 samples, neighbours by a graph, 127 edges" in checked.stdout
    made = finish(start(["run", path, "--output", tmp_path / "out", "--quiet"], ranks=2, cwd=tmp_path))
    assert made.code == 0, made.stderr
    found = mp.load(tmp_path / "out")
    assert found.labels.shape == (72,) and json.loads(found.attributes["settings"])["lattice"]
    binding = finish(start(["report", tmp_path / "out" / "binding.h5"], cwd=tmp_path))
    assert binding.code == 0 and "the smooth curve" in binding.stdout
