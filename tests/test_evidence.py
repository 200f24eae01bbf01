"""The evidence of a number of labels is that of enumeration, and several numbers are compared by it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bindings import binding_of
from fitting import image_of
from launch import launch
from scipy import special, stats

import mpi_potts as mp
from mpi_potts import arithmetic
from mpi_potts.cli import fit as fit_command
from mpi_potts.config import inputs
from mpi_potts.estimation import evidence as formula
from mpi_potts.io import reading
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.posterior import evidence
from mpi_potts.posterior.choice import Comparison
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

INPUT = """
seed = {seed}
[image]
path = "image.npy"
[model]
labels = {labels}
[prior]
beta = [0.0, 1.5]
mean = {{ mean = 0.0, sd = 1.5 }}
variance = {{ shape = 3.0, scale = 0.5 }}
[precompute]
grid = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
iterations = 300
burn_in = 50
[fit]
method = "path"
final_sweeps = 60
final_burn_in = 20
"""
PRIOR = (0.0, 1.5, 3.0, 0.5)
SECONDS = 300  # kernels may have to be compiled first


def test_log_gamma_is_that_of_a_library():
    x = np.array([1e-3, 0.5, 1.0, 2.5, 7.0, 11.99, 12.0, 300.5, 1e6])
    assert np.allclose(arithmetic.log_gamma(x), special.gammaln(x), rtol=1e-13, atol=1e-13)
    assert arithmetic.log_gamma(1.5) == arithmetic.log_gamma(np.array([1.5]))[0]


@pytest.mark.parametrize("prior", [(0.0, 100.0, 1.0, 0.01), (1.0, 0.1, 3.0, 2.0)])
@pytest.mark.parametrize("numbers", [(1, 2, 0), (7, 60, 900)])
def test_the_pixels_of_a_label_have_the_density_of_quadrature(prior, numbers):
    draw, noise = np.random.default_rng(1), gaussian_noise(3, *prior)
    z = np.repeat(np.arange(3), numbers)
    y = z - 1.0 + 0.3 * draw.normal(size=z.size)
    values = np.array([[-1.0, 0.1, 0.9], [0.3, 0.4, 0.2]])
    sums = noise.label_sums(z, y, 3)
    fits, marginals = noise.log_likelihoods(values, sums), noise.log_marginals(sums)
    m, s, shape, scale = prior
    for b in range(3):
        mine = y[z == b]
        if mine.size == 0:
            assert (fits[:, b] == 0.0).all() and marginals[b] == 0.0
            continue
        u = np.linspace(-12.0, 28.0, 40001)
        v, n = np.exp(u), mine.size
        wide = stats.norm.logpdf(mine.mean(), m, np.sqrt(s * s + v / n)) - 0.5 * np.log(n)
        inside = -0.5 * ((mine - mine.mean()) ** 2).sum() / v - 0.5 * (n - 1) * np.log(2 * np.pi * v)
        logs = stats.invgamma.logpdf(v, shape, scale=scale) + u + wide + inside
        top = logs.max()
        area = np.trapezoid(np.exp(logs - top), u)
        assert marginals[b] == pytest.approx(top + np.log(area), abs=1e-6)
        for a in range(3):
            assert fits[a, b] == pytest.approx(stats.norm.logpdf(mine, values[0, a], values[1, a]).sum())


def test_gauss_points_integrate_polynomials_and_tell_what_they_miss():
    at, weight = formula.nodes(0.9)
    assert (weight * at**5).sum() == pytest.approx(0.9**6 / 6)
    total, error = formula.path(0.9, at * at, 2.0 * at, np.zeros(at.size))
    assert total == pytest.approx(0.9**3 / 3) and error < 1e-3
    # Steps too steep for the points.
    for centre in (0.5, 0.66, 0.7):
        step = special.expit((at - centre) / 0.01)
        total, error = formula.path(0.9, step, step * (1.0 - step) / 0.01, np.zeros(at.size))
        assert 1e-3 < abs(total - (0.9 - centre)) < 3.0 * error


def enumerated(values, k, lattice, interval):
    """log p(y | k) by all labellings: the pixels of a label are one of 2^n sets, each with its density."""
    y, n = values.ravel(), values.size
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    number, total, square = sets.sum(axis=1), sets.dot(y), sets.dot(y * y)
    one = gaussian_noise(1, *PRIOR)
    sums = np.stack([number, total, square], axis=-1)[:, None].astype(float)
    of_set = one.log_marginals(sums)[:, 0]
    labels = np.array(list(itertools.product(range(k), repeat=n)), np.int8)
    pictures = labels.reshape(-1, *lattice.shape)
    like = (pictures[:, 1:] == pictures[:, :-1]).sum(axis=(1, 2))
    like = like + (pictures[:, :, 1:] == pictures[:, :, :-1]).sum(axis=(1, 2))
    logs = sum(of_set[(labels == j).dot(2 ** np.arange(n))] for j in range(k))
    top, size = logs.max(), lattice.edges + 1
    prior = np.bincount(like, minlength=size).astype(float)
    data = np.bincount(like, weights=np.exp(logs - top), minlength=size)
    beta = np.linspace(*interval, 3001)
    power = np.exp(np.multiply.outer(beta, np.arange(size)))
    value = np.log(np.trapezoid(power.dot(data) / power.dot(prior), beta) / np.ptp(interval)) + top
    statistic = np.arange(size)
    mean = (power * prior).dot(statistic) / power.dot(prior)
    sd = np.sqrt((power * prior).dot(statistic**2) / power.dot(prior) - mean**2)
    return value, binding_of(lattice, k, beta, mean, sd)


@pytest.mark.parametrize("k", [2, 3])
def test_the_evidence_is_that_of_enumeration(k, tmp_path):
    lattice, scores = Lattice((3, 4)), []
    for number in range(4):
        draw = np.random.default_rng(number)
        values = np.repeat([[0.0, 1.5]], 3, axis=0).repeat(2, axis=1) + 0.5 * draw.normal(size=(3, 4))
        exact, binding = enumerated(values, k, lattice, (0.0, 1.5))
        np.save(tmp_path / "image.npy", values)
        config = inputs.parse(INPUT.format(seed=number, labels=k), tmp_path / "input.toml", (), tmp_path)
        problem = replace(fit_command.pose(ALONE, config), binding=binding)
        start = (values.ravel() > 0.75).astype(np.int16)
        found = evidence.compute(ALONE, problem, start, Control(), "")
        assert found.error < 0.5
        scores.append((found.value - exact) / found.error)
    # Of four numbers of an sd near 1, whose own errors are rough.
    assert np.abs(scores).max() < 4.0 and np.sqrt(np.mean(np.square(scores))) < 2.5


def write_input(directory, labels):
    _, values = image_of(0.6, [0.0, 3.0], [1.0, 1.0], (24, 24))
    np.save(directory / "image.npy", values)
    path = directory / "input.toml"
    path.write_text(INPUT.format(seed=3, labels=labels))
    return path


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Two numbers of labels of an image of two, by the command, on one rank."""
    directory = tmp_path_factory.mktemp("choice")
    path = write_input(directory, [3, 2])
    done = launch(["run", str(path), "--output", str(directory / "out"), "--quiet"], seconds=SECONDS)
    assert done.code == 0, done.stderr
    return directory, done


def test_a_run_of_several_numbers_says_which_the_image_speaks_for(ran):
    directory, done = ran
    choice = mp.load(directory / "out")
    assert choice.labels.tolist() == [2, 3] and choice.recommended == 2
    assert choice.words in done.stdout and choice.table in (directory / "out" / "choice.txt").read_text()
    assert choice.results[3].probability.shape == (24, 24, 3)
    assert choice.probability.sum() == pytest.approx(1.0)
    assert (directory / "out" / "choice.csv").read_text().count("\n") == 3
    for name in ("choice.html", "labels_2/report.html", "labels_3/binding.h5"):
        assert (directory / "out" / name).exists()
    assert "3 labels" in (directory / "out" / "labels_3" / "report.html").read_text()


def test_any_number_of_ranks_and_a_run_that_goes_on_compare_the_same(ran, tmp_path):
    directory, _ = ran
    whole = reading.contents(directory / "out" / "choice.h5").attributes["checksum"]
    path = write_input(tmp_path, [3, 2])
    command = ["run", str(path), "--output", str(tmp_path / "out"), "--quiet"]
    assert launch(command, ranks=3, seconds=SECONDS).code == 0
    assert reading.contents(tmp_path / "out" / "choice.h5").attributes["checksum"] == whole
    # As after a kill within the last number.
    for name in ("choice.h5", "labels_3/evidence.h5"):
        (tmp_path / "out" / name).unlink()
    before = (tmp_path / "out" / "labels_3" / "result.h5").stat().st_mtime_ns
    assert launch(command, ranks=2, seconds=SECONDS).code == 0
    assert reading.contents(tmp_path / "out" / "choice.h5").attributes["checksum"] == whole
    assert (tmp_path / "out" / "labels_3" / "result.h5").stat().st_mtime_ns == before


def test_python_compares_as_the_command_does(ran):
    directory, _ = ran
    keys = {"mean": {"mean": 0.0, "sd": 1.5}, "variance": {"shape": 3.0, "scale": 0.5}, "beta": [0.0, 1.5]}
    keys |= {"precompute": {"grid": [0.25 * i for i in range(7)], "iterations": 300, "burn_in": 50}}
    keys |= {"method": "path", "final_sweeps": 60, "final_burn_in": 20, "seed": 3}
    found = mp.fit(np.load(directory / "image.npy"), labels=[2, 3], **keys)
    stored = mp.load(directory / "out")
    assert isinstance(found, mp.Comparison) and found.log_evidence.tolist() == stored.log_evidence.tolist()
    assert found.results[2].mean == stored.results[2].mean


def choice(behind, error, warnings=0):
    k = np.arange(2, 2 + len(behind))
    values = -100.0 - np.array(behind, float)
    zero = np.zeros(k.size)
    noted = np.full(k.size, warnings)
    return Comparison(
        k, values, zero + error, formula.probabilities(values, zero + error), zero, zero, zero, noted
    )


def test_a_recommendation_says_how_sure_it_is():
    clear, close, last = (
        choice([50, 0, 12], 0.5),
        choice([50, 0, 4], 1.0),
        choice([50, 12, 0], 0.1),
    )
    assert clear.sure and clear.recommended == 3 and "12.0 +- 0.7 above that of k = 4" in clear.words
    assert not close.sure and close.rivals == (4,) and "k = 4 may be as good" in close.words
    assert last.recommended == 4 and "not tried" in last.words and "warning" not in last.words
    assert "not tried" not in clear.words and "warning" not in clear.words


def test_more_labels_are_not_advised_where_the_fit_has_warnings():
    """A model that does not fit asks for ever more of them."""
    words = choice([50, 12, 0], 0.1, warnings=2).words
    assert "2 warning(s)" in words and "not tried" not in words


def test_probabilities_are_averaged_over_the_errors_of_the_evidence():
    values, error = np.array([-100.0, -104.0, -130.0]), np.array([3.0, 4.0, 3.0])
    exact = formula.probabilities(values, np.zeros(3))
    assert exact[1] == pytest.approx(1 / (1 + np.exp(4.0)), rel=1e-9)
    drawn = values + error * np.random.default_rng(5).normal(size=(400_000, 3))
    weight = np.exp(drawn - drawn.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    found = formula.probabilities(values, error)
    assert found == pytest.approx(weight.mean(axis=0), abs=5 * weight.std(axis=0).max() / np.sqrt(400_000))
    assert found[1] > 10 * exact[1] and found.sum() == pytest.approx(1.0)


def test_check_plans_every_number_of_labels_and_writes_nothing(tmp_path, capfd):
    from mpi_potts.__main__ import main

    np.save(tmp_path / "image.npy", np.random.default_rng(1).normal(size=(12, 12)))
    assert main(["check", str(tmp_path / "image.npy"), "--labels", "2:3"]) == 0
    said = capfd.readouterr().out
    assert "2 labels; beta_crit" in said and "3 labels; beta_crit" in said and said.count("memory") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["image.npy"]


@pytest.mark.parametrize(
    "changes, command, words",
    [
        ((), "fit", "one number is accepted by `mpi-potts fit`"),
        (("model.labels=[2,2]",), "run", "a list with each number once"),
        (("image.kind=labels",), "run", "one number is accepted for observed labels"),
        (("fit.method=pseudolikelihood",), "run", "needs a binding function"),
        (("precompute.file=b.h5",), "run", "left out where model.labels has several"),
        (("prior.mean.mean=[1.0,2.0]",), "run", "must be a number, or a list of 3"),
        (("prior.beta=[0.5,1.0]", "precompute.grid=[0.5,0.75,1.0]"), "run", "from beta = 0 on"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes, command, words, tmp_path, capfd):
    path = write_input(tmp_path, [2, 3])
    if "image.kind=labels" in changes:
        np.save(tmp_path / "image.npy", np.arange(12).reshape(3, 4) % 2)
    from mpi_potts.__main__ import main

    settings = [argument for change in changes for argument in ("--set", change)]
    assert main([command, str(path), "--output", str(tmp_path / "out"), "--quiet", *settings]) == 2
    assert words in capfd.readouterr().err
