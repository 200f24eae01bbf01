"""Scores of draws made by hand, the test of uniform ranks, a small study that is stopped and continued."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fitting import options, same_bits
from launch import finish, launch, start
from method_cases import StopAt
from scipy import stats

from mpi_potts.cli import study as command
from mpi_potts.config import inputs
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.io import formats, reading, store
from mpi_potts.report import study as study_report
from mpi_potts.runtime import parallel
from mpi_potts.runtime.control import Control
from mpi_potts.study import fits as study_fits
from mpi_potts.study import scores as study
from mpi_potts.study.scores import PROBABILITIES, Fits

GREY = (0.85, 0.85, 0.85)  # of the band where bins of a right posterior lie
INPUT = Path(__file__).resolve().parent.parent / "inputs" / "study_small.toml"


def posteriors(truth, centre, sd, seed=0, draws=99):
    """Normal posteriors of given centres: their exact quantiles, and ranks among draws from them."""
    generator = np.random.default_rng(seed)
    sample = centre[:, None] + sd * generator.normal(size=(truth.size, draws))
    n = truth.size
    return Fits(
        "normal",
        truth,
        centre,
        np.full(n, sd),
        centre[:, None] + sd * stats.norm.ppf(PROBABILITIES),
        np.full(n, 10.0),
        (sample < truth[:, None]).sum(axis=1),
        sample,
        np.zeros((n, 0), dtype=np.int64),
        np.full(n, 2.0),
        np.full(n, 3.0),
    )


def gaussian_study(n, sd):
    """Truth N(0, 1), datum N(truth, 1): the posterior is N(datum / 2, 1 / 2), given with any sd."""
    generator = np.random.default_rng(4)
    truth = generator.normal(size=n)
    return posteriors(truth, (truth + generator.normal(size=n)) / 2.0, sd)


@pytest.mark.parametrize("degrees", [1, 2, 3, 9, 19, 99])
@pytest.mark.parametrize("x", [0.0, 0.01, 0.5, 3.0, 20.0, 120.0])
def test_the_chi_square_distribution_is_that_of_scipy(degrees, x):
    expected = stats.chi2.sf(x, degrees)
    assert study.chi_square_survival(x, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_scores_of_draws_made_by_hand():
    truth = np.array([0.1, 0.5, 0.9, 0.4])
    row = study.scores(posteriors(truth, truth + np.array([0.1, -0.1, 0.1, 0.3]), 0.1), 20)
    assert row.images == 4
    assert row.bias == pytest.approx(0.1)
    assert row.bias_error == pytest.approx(np.std([0.1, -0.1, 0.1, 0.3], ddof=1) / 2.0)
    assert row.rmse == pytest.approx(math.sqrt((3 * 0.01 + 0.09) / 4))
    # One sd from the centre is outside the 50 % interval and inside the 95 % interval, three are in neither.
    assert (row.cover_50, row.cover_95) == (0.0, 0.75)
    assert row.cover_95_error == pytest.approx(math.sqrt(0.95 * 0.05 / 4))
    assert (row.ess, row.cpu_seconds, row.elapsed_seconds) == (10.0, 2.0, 3.0)


def test_a_right_posterior_passes():
    row = study.scores(gaussian_study(1000, math.sqrt(0.5)), 20)
    assert row.rank_bins == 20
    assert row.rank_p > study.PASSES
    assert abs(row.cover_95 - 0.95) < 3.0 * row.cover_95_error
    assert abs(row.cover_50 - 0.5) < 3.0 * row.cover_50_error


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_posterior_too_narrow_or_too_wide_fails(factor):
    row = study.scores(gaussian_study(1000, factor * math.sqrt(0.5)), 20)
    assert row.rank_p < study.PASSES
    assert abs(row.cover_50 - 0.5) > 3.0 * row.cover_50_error


def test_the_test_of_uniform_ranks_fails_as_often_as_it_says():
    generator = np.random.default_rng(5)
    p = [study.uniformity(np.bincount(generator.integers(0, 20, 400), minlength=20))[1] for _ in range(2000)]
    for level in (0.05, 0.5):
        assert np.mean(np.array(p) < level) == pytest.approx(level, abs=4.0 * math.sqrt(level / 2000) + 0.01)


def test_ranks_among_equal_draws_are_uniform():
    """Of S(z), which is an integer, often all draws are the truth."""
    generator, draws, n = np.random.default_rng(5), 9, 2000
    values = generator.poisson(0.3, size=(n, draws + 1))
    ranks = [study_fits.rank(row[1:], row[0], lot) for row, lot in zip(values, generator.random(n))]
    assert stats.chisquare(np.bincount(ranks, minlength=draws + 1)).pvalue > 0.01
    assert study_fits.rank(np.zeros(9), 0, 0.999) == 9 and study_fits.rank(np.zeros(9), 0) == 0


def test_every_bin_of_the_histogram_has_as_many_ranks_and_enough_images():
    assert study.number_of_bins(400, 100, 20) == 20
    assert study.number_of_bins(20, 100, 20) == 4
    assert study.number_of_bins(4, 20, 20) == 1
    assert study.histogram(np.arange(100), 99, 20).tolist() == [5] * 20
    assert math.isnan(study.uniformity(np.array([4]))[1])


def test_thinned_draws_are_spread_over_all_chains():
    draws = np.arange(4000.0).reshape(4, 1000)
    assert study.thinned(draws, 8).tolist() == [250, 750, 1250, 1750, 2250, 2750, 3250, 3750]
    assert study.thinned(draws[:1, :3], 3).tolist() == [0, 1, 2]


def run(output, *changes, control=None, drawn=False):
    """The study as the command does it, on one rank; returns the datasets of its table."""
    settings, chosen = inputs.load(INPUT, changes, output), options()
    if control is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command.report, "drawable", lambda: drawn)
            command.execute(parallel.ALONE, settings, chosen)
        return reading.read(output / "study.h5", *formats.STUDY)[1]
    methods, lattice = command.prepare(settings)
    with Control() as quiet:
        binding = command.precompute.obtain(parallel.ALONE, settings, lattice, quiet, True)
    plan = study_fits.Study(settings, methods, lattice, binding)
    with control:
        command.work(parallel.ALONE, plan, control, chosen)
    return None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The small study, not interrupted."""
    output = tmp_path_factory.mktemp("whole")
    return output, run(output, drawn=True)


def test_the_table_has_both_posteriors_of_smc_abc(whole):
    output, arrays = whole
    names = {name.partition("/")[0] for name in arrays}
    assert names == {"path", "smc-abc particles", "smc-abc marginal"}
    text = (output / "study.txt").read_text()
    assert all(name in text for name in names)
    lines = (output / "study.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("method,images,bias")


def test_the_truth_is_that_of_simulated_images(whole):
    _, arrays = whole
    truth = arrays["path/truth"]
    assert np.array_equal(truth, arrays["smc-abc particles/truth"])
    assert np.unique(truth).size == 4
    assert ((truth > 0.0) & (truth < 1.2)).all()
    assert arrays["path/sample"].shape == (4, 19)
    assert np.array_equal((arrays["path/sample"] < truth[:, None]).sum(axis=1), arrays["path/rank"])


@pytest.mark.parametrize("looks", [0, 2, 15])
def test_a_study_stopped_anywhere_goes_on_to_the_same_bits(whole, tmp_path, looks):
    with pytest.raises(Interrupted):
        run(tmp_path, control=StopAt(looks))
    assert not (tmp_path / "study.h5").exists()
    assert bool(list(tmp_path.glob("image_*/*/checkpoint.h5"))) == (looks > 0)
    assert same_bits(whole[1], run(tmp_path)) == []


def test_a_fit_that_is_there_is_not_done_again(whole):
    output, arrays = whole
    parts = {path: path.stat().st_mtime_ns for path in output.glob("image_*/*.h5")}
    assert len(parts) == 8
    again = run(output)
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)  # the times as well


def test_jobs_that_share_a_study_make_the_same_table(whole, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.report, "drawable", lambda: False)
    for first in (2, 0):
        settings = inputs.load(
            INPUT, [f"study.images_from={first}", f"study.images_to={first + 2}"], tmp_path
        )
        assert not (tmp_path / "study.h5").exists()
        command.execute(parallel.ALONE, settings, options())
        said = capsys.readouterr().out
        assert ("4 fits of other images are not there yet" in said) == (first == 2)
    _, arrays = reading.read(tmp_path / "study.h5", *formats.STUDY)
    assert same_bits(whole[1], arrays) == []


def test_of_jobs_that_end_at_the_same_time_one_writes_the_table(whole, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.report, "drawable", lambda: False)
    shares = [
        inputs.load(INPUT, [f"study.images_from={first}", f"study.images_to={first + 2}"], tmp_path)
        for first in (0, 2)
    ]
    command.execute(parallel.ALONE, shares[0], options())
    count, others = command._unfinished, [shares[0]]

    def counted(plan):
        """The first job sees the last fit too, and is quicker."""
        left = count(plan)
        if others:
            command.execute(parallel.ALONE, others.pop(), options())
        return left

    monkeypatch.setattr(command, "_unfinished", counted)
    command.execute(parallel.ALONE, shares[1], options())
    said = capsys.readouterr().out
    assert said.count("study.h5: written, with") == 1
    assert said.count("study.h5: another job that ended now has written it") == 1
    _, arrays = reading.read(tmp_path / "study.h5", *formats.STUDY)
    assert same_bits(whole[1], arrays) == []


def test_images_and_methods_can_be_added(whole, tmp_path):
    few = run(tmp_path, "simulate.images=2", 'study.methods=["path"]')
    assert few["path/mean"].size == 2
    assert same_bits(whole[1], run(tmp_path)) == []


def test_a_part_of_another_input_is_refused_by_what_differs(whole):
    output, _ = whole
    with pytest.raises(InputError, match=r"fit\.final_sweeps"):
        run(output, "fit.final_sweeps=300")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('study.changes=["exchange exchange.iterations=9"]', "one of study.methods"),
        ('study.changes=["path smc.particle=9"]', "from study.changes.*did you mean particles"),
        ('study.changes=["path model.labels=2"]', "model|labels"),
        ("study.images_from=4", "from < to <= 4"),
        ('study.methods=["path", "path"]', "each once"),
        ('study.methods=["path_"]', "with _NAME after it"),
        ('study.methods=["pith_1"]', "with _NAME after it"),
        ('study.methods=["path_../up"]', "with _NAME after it"),
        ('study.methods=["rejection"]', "observed labels"),
    ],
)
def test_what_cannot_be_right_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        command.prepare(inputs.load(INPUT, [change]))


def test_changes_are_of_one_method_and_extrapolated(tmp_path):
    changes = [
        'study.methods=["exchange", "smc-abc-pseudo", "pseudolikelihood"]',
        'study.changes=["exchange exchange.iterations=40", "exchange exchange.burn_in=10", '
        '"exchange exchange.auxiliary_sweeps=5", "smc-abc-pseudo smc.particles=20", '
        '"smc-abc-pseudo fit.final_sweeps=0", "pseudolikelihood fit.final_sweeps=20"]',
        "pseudo_data.burn_in=10",
        "smc.max_iterations=3",
        "simulate.images=2",
    ]
    arrays = run(tmp_path, *changes)
    names = {name.partition("/")[0] for name in arrays}
    assert names == {"exchange", "smc-abc-pseudo particles", "pseudolikelihood"}
    text = (tmp_path / "study.txt").read_text()
    # With the sweeps of the labels: 100000 (500 + 1) to 40 (5 + 1), 200 (10 + 20) + 50 to 20 (10 + 20) + 50.
    assert "exchange ran at reduced size: without study.changes it simulates 2.088e+05 times" in text
    assert "smc-abc-pseudo ran at reduced size: without study.changes it simulates 9.308 times" in text
    assert text.count("extrapolated, not measured") == 2
    # The particles of each are simulated at the start, in 3 iterations, and in 10 steps after them.
    found = re.search(r"9.308 times the sweeps, about (\S+) CPU seconds for each iteration", text)
    expected = 9.3077 * arrays["smc-abc-pseudo particles/cpu/seconds"].mean() / 14.0
    assert float(found[1]) == pytest.approx(expected, rel=5e-3)


def test_one_method_can_have_several_names_with_different_changes(tmp_path):
    changes = ["simulate.images=2", 'study.methods=["path", "smc-abc", "smc-abc_M5"]']
    changes += ['study.changes=["smc-abc_M5 smc.replicates=5"]']
    arrays = run(tmp_path, *changes)
    names = {name.partition("/")[0] for name in arrays}
    assert names == {"path"} | {
        f"smc-abc{m} {what}" for m in ("", "_M5") for what in ("marginal", "particles")
    }
    one, other = (arrays[f"smc-abc{m} particles/sample"] for m in ("", "_M5"))
    assert not np.array_equal(one, other)
    settings = inputs.load(INPUT, changes, tmp_path)
    assert command.method_config(settings, "smc-abc_M5").smc.replicates == 5
    assert command.method_config(settings, "smc-abc").smc.replicates == 20


def test_the_paper_s_algorithm_runs_beside_the_defaults_with_its_own_curve(tmp_path):
    changes = ["simulate.images=2", "precompute.grid=critical", 'study.methods=["smc-abc", "smc-abc_paper"]']
    changes += ['study.changes=["smc-abc_paper fit.as_in_paper=true"]', "fit.final_sweeps=0"]
    arrays = run(tmp_path, *changes)
    one, other = (arrays[f"smc-abc{m} particles/sample"] for m in ("", "_paper"))
    assert not np.array_equal(one, other)
    for name, form in (("smc-abc", "smooth"), ("smc-abc_paper", "linear")):
        attributes, _ = reading.read(tmp_path / "image_000" / f"{name}.h5", *formats.STUDY_PART)
        assert json.loads(attributes["settings"])["precompute.interpolation"] == form
    text = '["smc-abc_paper precompute.points=10"]'
    with pytest.raises(InputError, match=r"the same \[precompute\], but for its interpolation"):
        run(tmp_path, *changes, f"study.changes={text}")


def test_parts_of_an_older_program_are_refused(whole, tmp_path):
    output, _ = whole
    shutil.copytree(output, tmp_path, dirs_exist_ok=True)
    part = tmp_path / "image_000" / "path.h5"
    attributes, arrays = reading.read(part, *formats.STUDY_PART)
    store.write(parallel.ALONE, part, formats.STUDY_PART.name, 1, attributes, arrays, "gather")
    with pytest.raises(InputError, match="version 1 of an older mpi_potts"):
        run(tmp_path)


def test_observed_labels_are_studied_too(tmp_path):
    changes = ['image.kind="labels"', 'study.methods=["path", "rejection", "exchange"]']
    changes += ["exchange.iterations=60", "exchange.burn_in=20", "exchange.auxiliary_sweeps=10"]
    arrays = run(tmp_path, *changes, "rejection.draws=200", "rejection.quantile=0.1")
    assert {name.partition("/")[0] for name in arrays} == {"path", "rejection", "exchange"}


def test_the_clock_stops_the_program_and_it_goes_on(whole, tmp_path):
    arguments = ["study", INPUT, "--output", tmp_path, "--quiet"]
    stopped = launch([*arguments, "--max-hours", "1e-9"], ranks=2)
    assert stopped.code == 75, stopped.stderr
    ended = finish(start(arguments, ranks=2))
    assert ended.code == 0, ended.stderr
    assert "smc-abc particles" in ended.stdout
    _, arrays = reading.read(tmp_path / "study.h5", *formats.STUDY)
    assert same_bits(whole[1], arrays) == []


def test_the_report_of_a_study_has_its_table_and_figures(whole):
    output, arrays = whole
    page = (output / "study.html").read_text()
    assert "smc-abc particles" in page
    assert page.count("data:image/png;base64,") == 5
    assert sorted(path.name for path in output.glob("study_*.png")) == [
        f"study_{name}.png" for name in ("beta", "errors", "ess", "ranks", "times")
    ]
    names = ["path", "smc-abc marginal", "smc-abc particles"]
    again = study.to_arrays(study.from_arrays(arrays, names))
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def lines_of(axes):
    """{colour and width of the bars or marks: their points} of a panel, rows from the top."""
    boxes = {round(c.get_linewidth()[0]): np.array(c.get_segments())[:, :, 0] for c in axes.collections}
    return boxes, [line.get_xdata() for line in axes.get_lines()]


def test_the_figure_of_errors_shows_draws_less_truth_and_means_less_path(whole):
    """Figure 4 of the paper: what is drawn, taken from the figure, is what was found."""
    found = [gaussian_study(50, 0.5), gaussian_study(50, 0.9)]
    path, other = replace(found[0], name="path"), replace(found[1], mean=found[1].mean + 0.2)
    figure, caption = study_report.errors([path, other])
    boxes, lines = lines_of(figure.axes[0])
    for row, each in enumerate([path, other]):
        error = each.sample - each.truth[:, None]
        np.testing.assert_allclose(boxes[1][row], [error.min(), error.max()])
        np.testing.assert_allclose(boxes[8][row], np.quantile(error, (0.25, 0.75)))
        np.testing.assert_allclose(lines[0][row], np.median(error))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["path", "normal"]
    distance = np.abs(other.mean - path.mean) / path.sd
    boxes, lines = lines_of(figure.axes[1])
    np.testing.assert_allclose(boxes[1], [[distance.min(), distance.max()]])
    np.testing.assert_allclose(boxes[8], [np.quantile(distance, (0.25, 0.75))])
    np.testing.assert_allclose(lines[0], np.median(distance))
    assert "that of path, which has no tolerance" in caption
    assert len(study_report.errors([other])[0].axes) == 1
    assert len(study_report.errors([path, replace(path, name="again")])[0].axes) == 1


def test_the_figures_of_times_and_sizes_have_every_method_on_log_axes(whole):
    output, _ = whole
    fits = study_report.fits_of(reading.contents(output / "study.h5"))
    for maker, columns in ((study_report.ess, ["ess"]), (study_report.times, ["cpu", "elapsed"])):
        figure, _ = maker(fits)
        for axes, column in zip(figure.axes, columns, strict=True):
            boxes, lines = lines_of(axes)
            values = [getattr(each, column) for each in fits]
            np.testing.assert_allclose(boxes[1], [[v.min(), v.max()] for v in values])
            np.testing.assert_allclose(lines[0], [np.median(v) for v in values])
            assert axes.get_xscale() == "log"
            assert [t.get_text() for t in axes.get_yticklabels()] == [each.name for each in fits]
    figure, _ = study_report.beta(fits)
    for axes, each in zip(figure.axes, fits, strict=True):
        diagonal, points = axes.get_lines()
        np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
        np.testing.assert_array_equal(points.get_xydata(), np.stack([each.truth, each.mean], axis=1))
        segments = np.array(axes.collections[0].get_segments())[:, :, 1]
        np.testing.assert_array_equal(segments, each.quantiles[:, [0, -1]])
    figure, _ = study_report.ranks(fits, 20)
    for axes in figure.axes:
        assert sum(bar.get_height() for bar in axes.patches if bar.get_facecolor()[:3] != GREY) == 4
