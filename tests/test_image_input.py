"""`mpi-potts run IMAGE --labels K`: no input file, and the input it stands for gives the same bits."""

import tomllib

import numpy as np
import pytest
from fitting import image_of, same_bits
from launch import finish, start

from mpi_potts.cli import image_input
from mpi_potts.errors import InputError
from mpi_potts.io import reading
from mpi_potts.runtime.parallel import ALONE

QUICK = ["fit.method=path", "fit.final_sweeps=40", "fit.final_burn_in=10", "precompute.points=12"]
QUICK += ["precompute.grid=regular", "precompute.iterations=40", "precompute.burn_in=10"]


@pytest.fixture
def image(tmp_path, monkeypatch):
    """An image in a directory, seen from another one."""
    (tmp_path / "data").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    np.save(tmp_path / "data" / "scene.npy", image_of(0.8, [-2.0, 0.0, 2.0], [0.5] * 3, (16, 18))[1])
    return tmp_path / "data" / "scene.npy"


def sets(*settings):
    return [part for each in settings for part in ("--set", each)]


def test_an_image_and_its_labels_run_without_an_input_file_to_the_bits_of_the_input_they_stand_for(image):
    done = finish(start(["run", "../data/scene.npy", "--labels", "3", "--quiet", *sets(*QUICK)]), 600)
    assert done.code == 0, done.stderr
    output = image.parent / "scene_3_labels"
    made = {path.name for path in output.iterdir()}
    assert {"input.toml", "binding.h5", "result.h5", "report.html"} <= made
    again = finish(start(["run", output / "input.toml", "--quiet"]), 600)
    assert again.code == 0 and "there already" in again.stdout
    elsewhere = image.parent / "other"
    done = finish(start(["run", output / "input.toml", "--quiet", "--output", elsewhere]), 600)
    assert done.code == 0, done.stderr
    results = (path / "result.h5" for path in (output, elsewhere))
    one, other = (reading.read(path, "mpi_potts result", 1)[1] for path in results)
    assert same_bits(one, other) == [] and "marginal/beta" in one


def test_the_input_that_an_image_stands_for_has_its_keys_and_paths_relative_to_it(image):
    np.save("mask.npy", np.ones((16, 18)))
    chosen = ["image.mask=mask.npy", "fit.start=prior", "seed=4"]
    config = image_input.load("../data/scene.npy", chosen, None, "4")
    assert config.output.resolve() == (image.parent / "scene_4_labels").resolve()
    assert config.path == config.output / "input.toml" and not config.path.exists()
    assert config.image.path.resolve() == image and config.image.mask.resolve().samefile("mask.npy")
    assert (config.model.labels, config.fit.start, config.seed) == (4, "prior", 4)
    written = tomllib.loads(config.text)
    assert written["image"] == {"mask": "../../here/mask.npy", "path": "../scene.npy"}


def test_output_is_where_it_is_asked_for(image):
    config = image_input.load(str(image), [], "results", "3")
    assert str(config.output) == "results" and config.image.path.resolve() == image


def test_labels_of_an_input_file_are_changed_too(tmp_path):
    (tmp_path / "a.toml").write_text("[image]\nshape = [4, 4]\n")
    assert image_input.load(str(tmp_path / "a.toml"), [], None, "5").model.labels == 5


@pytest.mark.parametrize(
    ("labels", "said"),
    [(None, "--labels is missing"), ("x", "--labels x"), ("6:2", "--labels 6:2"), ("1", "model.labels = 1")],
)
def test_labels_that_cannot_be_are_refused(image, labels, said):
    with pytest.raises(InputError, match=said):
        image_input.load(str(image), [], None, labels)


def test_a_table_that_is_set_to_a_value_is_refused(image):
    for setting in ("image=3", "model=3"):
        with pytest.raises(InputError, match=f"--set {setting}"):
            image_input.load(str(image), [setting], None, None)


def test_another_image_beside_the_one_of_the_command_is_refused(image):
    with pytest.raises(InputError, match=r"--set image\.path=other\.tif"):
        image_input.load(str(image), ["image.path=other.tif"], None, "3")


def test_an_image_that_is_not_there_is_refused(image):
    with pytest.raises(InputError, match=r"nothing.tif: does not exist"):
        image_input.load("nothing.tif", [], None, "3")


def test_several_numbers_of_labels_are_a_list():
    assert image_input._labels("2:6") == "[2, 3, 4, 5, 6]"


def test_the_input_of_a_fit_that_may_be_another_is_left_as_it_is(image):
    config = image_input.load(str(image), [], None, "3")
    image_input.keep(ALONE, config)
    other = image_input.load(str(image), ["seed=2"], None, "3")
    image_input.keep(ALONE, other, only_new=True)
    assert config.path.read_text() == config.text
    image_input.keep(ALONE, other)
    assert config.path.read_text() == other.text != config.text


def test_a_band_of_several_is_asked_for_with_the_option_that_says_it(image):
    tifffile = pytest.importorskip("tifffile")
    values = np.random.default_rng(0).integers(0, 255, (3, 8, 9), dtype=np.uint8)
    tifffile.imwrite("bands.tif", values, photometric="minisblack", planarconfig="separate")
    done = finish(start(["check", "bands.tif", "--labels", "3"]), 300)
    assert done.code == 2 and "--set image.band=3" in done.stderr
    done = finish(start(["check", "bands.tif", "--labels", "3", "--set", "image.band=2"]), 300)
    assert done.code == 0 and 'being "image"' in done.stdout
