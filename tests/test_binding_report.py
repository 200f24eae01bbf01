"""The figures of binding functions and of simulated images show what is right: held by what is drawn."""

import numpy as np
import pytest
from fitting import image_of, options, run_fit, write_input
from launch import launch

from mpi_potts.binding import file as binding_file
from mpi_potts.cli import precompute, simulate
from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.io import reading
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.posterior.result import Result
from mpi_potts.report import fit as fit_report
from mpi_potts.runtime import parallel

pytest.importorskip("matplotlib")
from mpi_potts.report import binding as binding_report
from mpi_potts.report import figures

INPUT = """
[image]
shape = {shape}
[model]
labels = 3
[prior]
beta = [0.0, 1.6]
mean = {{ mean = [-2.0, 0.0, 2.0], sd = 0.1 }}
variance = {{ shape = 50.0, scale = 8.0 }}
[precompute]
grid = "regular"
points = 33
iterations = 1000
burn_in = 200
"""


def computed(directory, shape, *changes):
    """The file of a binding function."""
    path = directory / "input.toml"
    path.write_text(INPUT.format(shape=list(shape)))
    output = directory / "-".join(["out", *(c.rpartition("=")[2] for c in changes)])
    precompute.execute(parallel.ALONE, inputs.load(path, changes, output), options())
    return output / "binding.h5"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """4 x 5 pixels, as in figure 1 of the paper."""
    return computed(tmp_path_factory.mktemp("small"), (4, 5))


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    """Too many pixels to count labellings: two grids of the same lattice."""
    directory = tmp_path_factory.mktemp("grids")
    return computed(directory, (9, 9)), computed(directory, (9, 9), "precompute.points=9")


def points_and_line(axes):
    """Simulated points, the line, and the lengths of the error bars of a panel."""
    (bars,) = axes.containers
    segments = np.array(bars.lines[2][0].get_segments())
    line = next(line for line in axes.get_lines() if line.get_linewidth() == 1.4)
    return bars.lines[0].get_xydata(), line.get_xydata(), segments[:, 1, 1] - segments[:, 0, 1]


def test_a_small_lattice_is_drawn_against_its_exact_moments(small):
    table = binding_file.read_binding(small)
    line = binding_report.choose_line(table, small)
    exact = Exact(Lattice((4, 5)), 3)
    drawn, caption = binding_report.figure(table, line)
    assert "The line is exact" in caption
    for name, which, top, below in (("mean", 0, *drawn.axes[:2]), ("sd", 1, *drawn.axes[2:])):
        estimate, error = getattr(table, name), getattr(table, f"{name}_se")
        points, curve, bars = points_and_line(top)
        np.testing.assert_array_equal(points, np.stack([table.beta, estimate], axis=1))
        np.testing.assert_allclose(bars, 4.0 * error)
        np.testing.assert_allclose(curve[:, 1], exact.moments(curve[:, 0])[which])
        left, _, _ = points_and_line(below)
        # Between 1001 nodes the line is straight.
        np.testing.assert_allclose(left[:, 1], estimate - exact.moments(table.beta)[which], atol=1e-4)
        # Simulated and exact agree: 33 scores, each within 5 and about 1 in the mean square.
        score = left[1:, 1] / error[1:]
        assert np.abs(score).max() < 5.0
        assert 0.4 < np.mean(score**2) < 2.0
    where = drawn.axes[0].get_lines()[-1].get_xdata()
    assert where[0] == pytest.approx(np.log(1.0 + np.sqrt(3.0)))


def test_two_grids_are_drawn_one_as_points_one_as_straight_lines(grids):
    fine, coarse = map(binding_file.read_binding, grids)
    line = binding_report.choose_line(fine, *grids)
    assert line.name == "linear between 9 betas"
    drawn, _ = binding_report.figure(fine, line)
    for name, top, below in (("mean", *drawn.axes[:2]), ("sd", *drawn.axes[2:])):
        points, curve, _ = points_and_line(top)
        np.testing.assert_array_equal(points[:, 1], getattr(fine, name))
        np.testing.assert_array_equal(curve, np.stack([coarse.beta, getattr(coarse, name)], axis=1))
        left, _, _ = points_and_line(below)
        chord = np.interp(fine.beta, coarse.beta, getattr(coarse, name))
        np.testing.assert_allclose(left[:, 1], getattr(fine, name) - chord)
    alone = binding_report.choose_line(fine, grids[0])
    assert alone.name == "the smooth curve"
    np.testing.assert_array_equal(alone.mean, fine.moments(alone.beta)[0])


def test_a_line_that_is_shorter_than_the_grid_is_not_extended(grids):
    fine = binding_file.read_binding(grids[0])
    short = binding_report.Line("short", fine.beta[5:9], fine.mean[5:9], fine.sd[5:9])
    beta, left, error = binding_report.deviations(fine, short, "mean")
    np.testing.assert_array_equal(beta, fine.beta[5:9])
    np.testing.assert_array_equal(left, 0.0)
    np.testing.assert_array_equal(error, fine.mean_se[5:9])


def test_the_page_of_a_binding_function(small, grids, tmp_path):
    said = binding_report.write(reading.contents(small), tmp_path)
    assert "the line is exact" in said
    text = (tmp_path / "binding.html").read_text()
    assert text.count("data:image/png;base64,") == 1
    assert "4 x 5 pixels, 3 labels" in text
    assert (tmp_path / "binding_function.png").stat().st_size > 10_000


def test_masked_lattices_have_no_exact_line(small):
    table = binding_file.read_binding(small)
    object.__setattr__(table, "lattice", Lattice((4, 5), "first", np.arange(20).reshape(4, 5) > 0).digest)
    assert binding_report.exact(table) is None


def test_the_command_compares_and_refuses_other_lattices_and_files(small, grids, tmp_path):
    done = launch(["report", grids[0], "--compare", grids[1], "--output", tmp_path])
    assert done.code == 0, done.stderr
    assert "linear between 9 betas" in done.stdout
    with pytest.raises(InputError, match=r"--compare .*is for lattice"):
        binding_report.write(reading.contents(grids[0]), tmp_path, small)
    refused = launch(["report", grids[0], "--compare", tmp_path / "none.h5"])
    assert refused.code == 2
    assert "none.h5: no such file" in refused.said[0]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A result of a simulated image, and the truth in its file."""
    directory = tmp_path_factory.mktemp("simulated")
    path = directory / "input.toml"
    path.write_text(INPUT.format(shape=[16, 16]))
    simulate.execute(parallel.ALONE, inputs.load(path, ["simulate.beta=0.7"], directory), options())
    source = directory / "image_000.h5"
    quick = ["precompute.iterations=200", "precompute.burn_in=50", "smc.particles=200", "smc.replicates=20"]
    quick += ["smc.max_iterations=6", "smc.label_sweeps=50", "fit.final_sweeps=200", f'image.path="{source}"']
    run_fit(parallel.ALONE, path, directory / "out", quick)
    return directory / "out" / "result.h5", source


def test_the_true_statistic_of_a_simulated_image_is_drawn_over_the_smc(simulated):
    """Figure 3 of the paper."""
    path, source = simulated
    found = fit_report.report_of(reading.contents(path))
    labels = reading.read_array(source, "labels")
    assert found.truth == fit_report.KnownTruth(0.7, Lattice((16, 16)).statistic(labels))
    figure, caption = figures.iterations(found)
    trace, _, true = figure.axes[0].get_lines()
    np.testing.assert_array_equal(trace.get_ydata(), found.result.arrays["trace/statistic"])
    np.testing.assert_array_equal(trace.get_xdata(), found.result.arrays["trace/iteration"])
    assert set(true.get_ydata()) == {found.truth.statistic}
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "true S(z)"
    assert f"S(z) = {found.truth.statistic}" in caption
    figure, caption = figures.beta(found)
    assert any(set(line.get_xdata()) == {0.7} for line in figure.axes[0].get_lines())
    assert "simulated with beta = 0.7" in caption


def test_images_of_unknown_truth_and_parts_of_simulated_ones_have_no_line(simulated, tmp_path):
    _, values = image_of(0.7, [-2.0, 2.0], [0.5, 0.5], (12, 12))
    quick = ["precompute.points=10", "precompute.iterations=60", "precompute.burn_in=20"]
    path = write_input(tmp_path, values, labels=2, final_sweeps=100, max_iterations=3)
    run_fit(parallel.ALONE, path, tmp_path / "out", quick)
    found = fit_report.report_of(reading.contents(tmp_path / "out" / "result.h5"))
    assert found.truth is None
    assert figures.iterations(found)[0].axes[0].get_legend() is None
    attributes = {"settings": '{"lattice": "of a part"}'}
    assert fit_report._truth(simulated[1], Result(attributes, {})) is None
