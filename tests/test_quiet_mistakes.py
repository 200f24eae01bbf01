"""Mistakes that would pass unseen: files that lie elsewhere, colours taken for numbers, no cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mpi_potts
from mpi_potts.cli import fit
from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.image.pixels import load_image
from mpi_potts.image.places import of_affine, of_tags

VALUES = np.random.default_rng(0).normal(size=(8, 9))
# Zone 32 north, pixels of 30 m.
KEYS = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32632)


def georeferenced(x=500_000.0, y=5_400_000.0, step=30.0, epsg=32632, point=False):
    keys = (*KEYS[:-1], epsg) if not point else (*KEYS[:11], 2, *KEYS[12:-1], epsg)
    shift = step / 2 if point else 0.0
    return {33550: (step, step, 0.0), 33922: (0.0, 0.0, 0.0, x + shift, y - shift, 0.0), 34735: keys}


def write_tiff(path, array, tags):
    tifffile = pytest.importorskip("tifffile")
    kinds = {33550: 12, 33922: 12, 34735: 3}
    extra = [(code, kinds[code], len(value), value, True) for code, value in tags.items()]
    tifffile.imwrite(path, array, extratags=extra)


def config_of(tmp_path, image, *more):
    (tmp_path / "input.toml").write_text(f'[image]\npath = "{image}"\n')
    return inputs.load(tmp_path / "input.toml", more)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsg": 32633}, ["EPSG:32633", "EPSG:32632"]),
        ({"x": 500_030.0}, ["transform", "500030.0", "500000.0"]),
        ({"step": 31.0}, ["transform", "31.0", "30.0"]),
    ],
)
def test_a_mask_that_lies_elsewhere_on_the_earth_is_refused_with_both_places(tmp_path, change, said):
    write_tiff(tmp_path / "a.tif", VALUES, georeferenced())
    write_tiff(tmp_path / "mask.tif", np.ones((8, 9), np.uint8), georeferenced(**change))
    with pytest.raises(InputError) as error:
        load_image(config_of(tmp_path, "a.tif", "image.mask=mask.tif"))
    for part in ["image.mask", "mask.tif", "a.tif", *said]:
        assert part in str(error.value)


SAME = georeferenced(), georeferenced(point=True), georeferenced(x=500_000.01), {}


@pytest.mark.parametrize("tags", SAME)
def test_a_mask_in_the_same_place_or_in_none_is_taken(tmp_path, tags):
    write_tiff(tmp_path / "a.tif", VALUES, georeferenced())
    write_tiff(tmp_path / "mask.tif", np.eye(8, 9, dtype=np.uint8), tags)
    image = load_image(config_of(tmp_path, "a.tif", "image.mask=mask.tif"))
    assert image.pixels.size == 8


def test_a_start_lies_where_the_cropped_image_does(tmp_path):
    write_tiff(tmp_path / "a.tif", VALUES, georeferenced())
    labels = (1 + np.arange(5 * 6) % 3).reshape(5, 6).astype(np.uint8)
    write_tiff(tmp_path / "start.tif", labels, georeferenced(x=500_060.0, y=5_399_910.0))
    chosen = config_of(tmp_path, "a.tif", "fit.start=start.tif", "image.crop=[3, 8, 2, 8]")
    assert fit.read_image(chosen)[1].start.size == 30
    with pytest.raises(InputError, match=r"fit.start: .*start.tif: lies elsewhere than .*a.tif"):
        fit.read_image(config_of(tmp_path, "a.tif", "fit.start=start.tif", "image.crop=[2, 7, 2, 8]"))


def test_a_mask_of_a_volume_with_another_affine_is_refused_with_both(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    volume = np.random.default_rng(1).normal(size=(5, 6, 4))
    moved = np.diag([2.0, 2.0, 3.0, 1.0])
    for name, affine in (("a", np.eye(4)), ("same", np.eye(4)), ("moved", moved)):
        values = volume if name == "a" else np.ones(volume.shape)
        nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / f"{name}.nii")
    assert load_image(config_of(tmp_path, "a.nii", "image.mask=same.nii")).pixels.size == 120
    said = r"moved.nii: lies elsewhere than .*a.nii: it has the affine \[\[2.0, .*image \[\[1"
    with pytest.raises(InputError, match=said):
        load_image(config_of(tmp_path, "a.nii", "image.mask=moved.nii"))


def test_a_matrix_and_a_scale_with_a_tie_point_say_the_same_place():
    matrix = {34264: (30.0, 0, 0, 5e5, 0, -30.0, 0, 54e5, 0, 0, 0, 0, 0, 0, 0, 1)}
    one, other = of_tags(georeferenced()), of_tags(matrix)
    assert one.unlike(other, (8, 9)) == "" and (one.matrix == other.matrix).all()
    assert of_tags({}) is None
    assert one.unlike(of_affine(np.eye(4)), (8, 9)) == ""


def test_colours_that_are_taken_for_planes_are_noted_with_the_key_that_says_otherwise(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(8, 9, 3)))
    (said,) = load_image(config_of(tmp_path, "a.npy")).notes
    assert "a.npy" in said and "3 planes" in said and "image.band = 1 to 3" in said
    assert load_image(config_of(tmp_path, "a.npy", "image.band=2")).notes == ()
    np.save(tmp_path / "b.npy", np.random.default_rng(0).normal(size=(8, 9, 7)))
    assert load_image(config_of(tmp_path, "b.npy")).notes == ()


def test_a_python_array_of_colours_has_a_word_on_the_screen(capsys):
    picture = np.random.default_rng(0).normal(size=(6, 7, 3))
    keys = {"labels": 2, "method": "pseudolikelihood", "final_sweeps": 4, "final_burn_in": 1}
    mpi_potts.fit(picture, **keys)
    said = capsys.readouterr().err
    assert said.count("note: ") == 1 and "image.band" in said


def test_a_palette_taken_for_numbers_is_noted_and_a_band_takes_its_colours(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    indices = np.random.default_rng(0).integers(0, 3, (8, 9), dtype=np.uint8)
    picture = pictures.fromarray(indices, mode="L").convert("P")
    picture.putpalette([200, 10, 20, 30, 240, 50, 60, 70, 180] + [0] * 759)
    picture.putdata(indices.ravel().tolist())
    picture.save(tmp_path / "a.png")
    image = load_image(config_of(tmp_path, "a.png"))
    assert (image.values == indices).all() and "palette" in image.notes[0] and "image.band" in image.notes[0]
    green = load_image(config_of(tmp_path, "a.png", "image.band=2"))
    assert (green.values == np.array([10, 240, 70])[indices]).all() and green.notes == ()
    assert load_image(config_of(tmp_path, "a.png", "image.kind=labels")).notes == ()
    grey = pictures.fromarray(indices, mode="L").convert("P")
    grey.save(tmp_path / "grey.png")
    assert load_image(config_of(tmp_path, "grey.png")).notes == ()


@pytest.fixture
def closed(tmp_path):
    """A copy of the package that cannot keep a cache beside its kernels, and a home that cannot either."""
    package = Path(mpi_potts.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "mpi_potts", ignore=shutil.ignore_patterns("__pycache__"))
    # A file where a directory would be: permissions would not stop an administrator.
    (tmp_path / "site" / "mpi_potts" / "kernels" / "__pycache__").touch()
    (tmp_path / "home").touch()
    (tmp_path / "room").mkdir()
    return tmp_path


def where_kernels_are_kept(closed, **more):
    script = "import mpi_potts.kernels.threefry, numba; print(numba.config.CACHE_DIR)"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(closed / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HOME": str(closed / "home"), "XDG_CACHE_HOME": str(closed / "home")}
    environment |= {name: str(value) for name, value in more.items()}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, cwd=closed, capture_output=True, text=True, timeout=300)


def test_without_a_home_or_an_installation_to_write_kernels_are_kept_in_the_temporary_directory(closed):
    done = where_kernels_are_kept(closed, TMPDIR=closed / "room")
    assert done.returncode == 0, done.stderr
    place = Path(done.stdout.strip())
    assert place.parent == closed / "room" and place.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_can_write_keeps_no_kernels(closed):
    place = closed / "room" / f"mpi_potts-numba-{os.getuid()}"
    place.mkdir()
    place.chmod(0o777)
    done = where_kernels_are_kept(closed, TMPDIR=closed / "room")
    assert done.returncode != 0 and "NUMBA_CACHE_DIR names a directory" in done.stderr.splitlines()[-1]


def test_a_cache_that_is_asked_for_and_cannot_be_is_refused_by_its_variable(closed):
    done = where_kernels_are_kept(closed, NUMBA_CACHE_DIR=closed / "home" / "cache")
    assert done.returncode != 0 and "NUMBA_CACHE_DIR = " in done.stderr.splitlines()[-1]
