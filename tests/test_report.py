"""The report: whole, self-contained, from the result; what does not belong to it is left out and said."""

import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from fitting import image_of, problem_of, run_fit, write_input
from launch import launch

from mpi_potts import slabs
from mpi_potts.cli import report as command
from mpi_potts.errors import InputError
from mpi_potts.io import reading
from mpi_potts.report import fit as fit_report
from mpi_potts.runtime.parallel import ALONE

pytest.importorskip("matplotlib")
from mpi_potts.report import page

VOID = {"meta", "img", "br", "link"}
OTHER = ("image.nodata=nan", "precompute.points=5", "precompute.iterations=20", "precompute.burn_in=5")


class Page(HTMLParser):
    """Elements of a page, whether they are closed in order, and its text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def fitted(directory, values, overrides=(), **changes):
    path = write_input(directory, values, **{"final_sweeps": 200, "max_iterations": 4} | changes)
    quick = ("precompute.points=20", "precompute.iterations=60", "precompute.burn_in=20")
    run_fit(ALONE, path, directory / "out", (*quick, *overrides))
    return directory / "out" / "result.h5"


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """The result of a masked image."""
    directory = tmp_path_factory.mktemp("hidden")
    _, values = image_of(0.9, [-2.0, 0.0, 2.0], [0.5, 0.5, 0.5], (24, 30))
    values[:5, :7] = np.nan
    return fitted(directory, values, ("image.nodata=nan",), chains=2)


@pytest.fixture
def copied(hidden, tmp_path):
    """A copy of all files of the result, to be changed by a test."""
    shutil.copytree(hidden.parent, tmp_path / "out")
    return tmp_path / "out" / "result.h5"


def report_of(path, places=()):
    return fit_report.report_of(reading.contents(path), places)


def written(path):
    said = fit_report.write(reading.contents(path))
    return said, Page((path.parent / "report.html").read_text())


@pytest.fixture(scope="module")
def reported(hidden, tmp_path_factory):
    """Its report, written once: where, what was said, and the page."""
    path = tmp_path_factory.mktemp("reported") / "out" / "result.h5"
    shutil.copytree(hidden.parent, path.parent)
    return path, *written(path)


def test_the_page_is_whole_and_needs_no_other_file(reported):
    path, said, found = reported
    sources = [attributes["src"] for tag, attributes in found.elements if tag == "img"]
    assert len(sources) == 9
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not any("href" in attributes for _, attributes in found.elements)
    assert all(attributes["alt"] for tag, attributes in found.elements if tag == "img")
    names = {"image", "labels", "entropy", "beta", "binding", "noise", "residuals", "iterations", "draws"}
    assert {file.name for file in path.parent.glob("figure_*.png")} == {f"figure_{n}.png" for n in names}
    assert "9 figures, labels.png, entropy.png, probability.png" in said
    assert not list(path.parent.glob(".*.tmp"))


def test_the_page_says_what_the_result_holds(reported):
    attributes, _ = reading.read(reported[0], "mpi_potts result", 1, ())
    text = reported[2].text
    for number in ("beta_mean", "beta_sd", "beta_low", "beta_high"):
        assert f"{attributes[number]:.5f}" in text
    assert attributes["warnings"]
    for part in (*attributes["warnings"].splitlines(), attributes["input"], attributes["overrides"]):
        assert part in text
    assert attributes["stopped_because"] in text
    for part in ("converged", "label chain, S(z)", "seconds", "beta_crit", "685 pixels of 24 x 30"):
        assert part in text


def test_the_maps_are_those_of_the_result(copied):
    _, arrays = reading.read(copied, "mpi_potts result", 1)
    found = report_of(copied)
    np.testing.assert_array_equal(found.maps.labels, arrays["labels/map"] + 1)
    np.testing.assert_array_equal(np.isnan(found.maps.entropy), arrays["labels/map"] < 0)
    exists = arrays["labels/map"] >= 0
    probability = arrays["labels/probability"][exists].astype(float)
    np.testing.assert_array_equal(found.maps.probability[exists], probability.max(axis=1))
    np.testing.assert_allclose(found.shares, probability.mean(axis=0), rtol=1e-6)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.nansum(probability * np.log2(probability), axis=1)
    np.testing.assert_allclose(found.maps.entropy[exists], bits, atol=1e-6)


def test_small_slabs_give_the_same_maps(copied, monkeypatch):
    whole = report_of(copied).maps
    monkeypatch.setattr(slabs, "SLAB", 7 * 30 * 3)
    parts = report_of(copied).maps
    for (_, one), (_, other) in zip(whole.items(), parts.items()):
        np.testing.assert_array_equal(one, other)


def test_labels_are_numbered_by_their_mean(tmp_path):
    """Priors that differ keep the labels as the user numbered them; the map orders them."""
    _, values = image_of(0.9, [-2.0, 0.0, 2.0], [0.3, 0.3, 0.3], (16, 16))
    priors = ("prior.mean.mean=[2.0, -2.0, 0.0]", "prior.mean.sd=0.1")
    found = report_of(fitted(tmp_path, values, priors))
    assert found.order.tolist() == [1, 2, 0]
    assert (np.diff(found.result.arrays["noise/mean"].mean(axis=0)) > 1.0).all()
    truth = np.digitize(values, [-1.0, 1.0]) + 1
    assert (found.maps.labels == truth).mean() > 0.97
    text = Page(page.html(found, {}, [])).text
    assert "in the input and the result these are 2, 3, 1" in text


def test_input_is_escaped(copied):
    found = report_of(copied)
    found.result.attributes["input"] = "# <script>alert('x')</script> & more\n"
    found.result.attributes["warnings"] = "<b>care</b>"
    made = Page(page.html(found, {}, []))
    assert {"script", "b"}.isdisjoint(tag for tag, _ in made.elements)
    assert "<script>alert('x')</script> & more" in made.text
    assert "<b>care</b>" in made.text


def test_without_warnings_the_page_says_converged(copied):
    found = report_of(copied)
    found.result.attributes["warnings"] = ""
    assert "Converged" in Page(page.html(found, {}, [])).text


def test_rhat_in_words():
    assert page.settled(1.0, 1) == "converged"
    assert page.settled(1.03, 2) == "nearly converged"
    assert page.settled(1.2, 2) == "chains disagree"
    assert page.settled(1.2, 1) == "has not settled"
    assert page.settled(np.nan, 2) == "too few draws to tell"


def test_labels_with_the_same_noise_are_pointed_out(copied):
    found = report_of(copied)
    assert not any("nearly the same" in row[-1] for row in page.noise_rows(found))
    for name in ("noise/mean", "noise/sd"):
        found.result.arrays[name][:, 1] = 1.01 * found.result.arrays[name][:, 0]
    words = [row[-1] for row in page.noise_rows(found)]
    assert "nearly the same as label 2" in words[0]
    assert "nearly the same as label 1" in words[1]
    assert "nearly the same" not in words[2]


def test_an_image_that_was_changed_or_is_gone_is_left_out_and_said(hidden, copied, tmp_path):
    source = hidden.parents[1] / "image.npy"
    pixels = np.load(source)
    np.save(tmp_path / "other.npy", pixels + 1e-9)
    for name, why in (("other.npy", "is not the image that was fitted"), ("gone.npy", "does not exist")):
        found = report_of(copied, [f"image.path={tmp_path / name}"])
        assert found.image is None
        assert why in Page(page.html(found, {}, [])).text
    shutil.copy(source, tmp_path / "moved.npy")
    assert report_of(copied, [f"image.path={tmp_path / 'moved.npy'}"]).notes == ()


def test_a_binding_function_of_another_fit_is_left_out_and_said(copied):
    assert report_of(copied).binding is not None
    (copied.parent / "binding.h5").unlink()
    problem_of(ALONE, report_of(copied).image.source.parent / "input.toml", copied.parent, OTHER)
    found = report_of(copied)
    assert found.binding is None
    assert "binding.h5 is not the one that the fit used" in Page(page.html(found, {}, [])).text


def test_what_is_left_out_is_said_on_the_screen_too(copied):
    (copied.parent / "binding.h5").unlink()
    said, found = written(copied)
    assert "8 figures" in said
    assert "The binding function is left out" in said
    assert len([tag for tag, _ in found.elements if tag == "img"]) == 8


def test_only_places_of_files_can_be_set(copied):
    with pytest.raises(InputError, match=r"model.labels=4: .*image.path"):
        report_of(copied, ["model.labels=4"])


def test_observed_labels_have_a_report_without_noise_and_uncertainty(tmp_path):
    labels, _ = image_of(0.9, [-2.0, 0.0, 2.0], [0.5, 0.5, 0.5], (16, 16))
    path = fitted(tmp_path, labels, kind="labels")
    said, found = written(path)
    names = {file.name for file in path.parent.glob("figure_*.png")}
    assert names == {f"figure_{n}.png" for n in ("labels", "beta", "binding", "iterations")}
    assert said.endswith("4 figures, labels.png")
    assert "The observed labels" in found.text


@pytest.mark.parametrize("method", ["path", "pseudolikelihood", "exchange"])
def test_every_method_has_a_report(tmp_path, method):
    _, values = image_of(0.9, [-2.0, 2.0], [0.5, 0.5], (12, 12))
    few = ("exchange.iterations=60", "exchange.burn_in=10", "exchange.auxiliary_sweeps=5")
    path = fitted(tmp_path, values, (f"fit.method={method}", *few), labels=2)
    text = written(path)[1].text
    assert f"method {method}" in text
    assert "R-hat of beta" in text


def test_a_volume_is_shown_by_a_plane_and_written_whole(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    _, values = image_of(0.4, [-2.0, 2.0], [0.5, 0.5], (10, 11, 6))
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "volume.nii.gz")
    path = fitted(tmp_path, values, ("image.path=volume.nii.gz",), labels=2)
    said, found = written(path)
    assert "labels.nii.gz, entropy.nii.gz, probability.nii.gz" in said
    assert "Plane 4 of 6 is shown." in found.text
    made = nibabel.load(path.parent / "labels.nii.gz")
    assert made.shape == (10, 11, 6)
    assert made.affine.tolist() == affine.tolist()


def test_other_files_are_refused(copied):
    with pytest.raises(InputError, match="the result of a fit is accepted"):
        report_of(copied.parent / "binding.h5")


def test_every_file_is_verified_once(copied, monkeypatch):
    verified = []
    check = reading.check_seal
    monkeypatch.setattr(reading, "check_seal", lambda path: verified.append(path.name) or check(path))
    command._write(copied)
    assert sorted(verified) == ["binding.h5", "result.h5"]
    command._write(copied.parent / "binding.h5")
    assert verified[2:] == ["binding.h5"]


def test_without_matplotlib_the_extra_is_named(copied, monkeypatch, capsys):
    monkeypatch.setattr(command, "drawable", lambda: False)
    command.after(ALONE, copied)
    assert "pip install 'mpi_potts[figures]'" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"pip install 'mpi_potts\[figures\]'"):
        command._write(copied)
    assert not (copied.parent / "report.html").exists()


def test_the_command_writes_where_it_is_told_on_any_ranks(copied, tmp_path):
    finished = launch(["report", copied, "--output", tmp_path / "there"], 2)
    assert finished.code == 0, finished.stderr
    assert finished.stdout.count("report.html: written") == 1
    assert (tmp_path / "there" / "report.html").stat().st_size > 100_000
    assert not (copied.parent / "report.html").exists()
