"""Priors on the scale of the image and the lattice: what "image" and "auto" stand for, and what follows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fitting import image_of

import mpi_potts as mp
from mpi_potts.cli import fit, study
from mpi_potts.config import inputs
from mpi_potts.graph import LARGEST_POWER, Graph
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.model.scale import BEYOND, Scale, before_images, on_image, on_lattice
from mpi_potts.model.transition import transition
from mpi_potts.posterior.cautions import far_from_prior

SCENE = Path(__file__).resolve().parents[2] / "shared" / "data" / "L7_ETMs.tif"
QUICK = {"method": "path", "precompute": {"points": 30, "iterations": 100, "burn_in": 20}}
QUICK |= {"final_sweeps": 300, "final_burn_in": 50}


def settings(tmp_path, *overrides, shape=(8, 9)):
    path = tmp_path / "input.toml"
    path.write_text(f"[image]\nshape = {list(shape)}\n")
    return inputs.load(path, overrides)


def grey():
    """A picture of 8 bits, with noise that makes labels uncertain, and a few saturated pixels."""
    _, values = image_of(0.95, [70.0, 120.0, 180.0], [22.0, 18.0, 26.0], (48, 48))
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def in_units(picture):
    return {
        "8 bits": picture,
        "16 bits": picture.astype(np.uint16) * np.uint16(200),
        "0 to 1": picture / 255.0,
        "0 to 1 in single precision": (picture / 255.0).astype(np.float32),
    }


def test_the_numbers_of_the_priors_are_those_of_the_image(tmp_path):
    pixels = np.random.default_rng(0).normal(40.0, 8.0, 72)
    prior = on_image(settings(tmp_path, "model.labels=4"), pixels).prior
    scale = Scale.of(pixels)
    assert scale.centre == pixels.mean() and scale.spread == pytest.approx(pixels.std(), rel=0.02)
    assert prior.mean.mean == (scale.centre,) * 4 and prior.mean.sd == (5.0 * scale.spread,) * 4
    assert prior.variance.shape == (1.5,) * 4
    assert prior.variance.scale == pytest.approx((scale.spread**2 / 32,) * 4)


def test_numbers_that_are_given_stay_as_they_are(tmp_path):
    asked = settings(tmp_path, "prior.mean.sd=[1, 2, 3]", "prior.variance.scale=0.5", "prior.beta=[0, 1]")
    found = on_image(on_lattice(asked, Lattice((8, 9))), np.arange(72.0)).prior
    assert found.beta == (0.0, 1.0)
    assert found.mean.sd == (1.0, 2.0, 3.0) and found.mean.mean == (35.5,) * 3
    assert found.variance.scale == (0.5,) * 3 and found.variance.shape == (1.5,) * 3


def test_a_few_pixels_however_far_do_not_set_the_scale():
    pixels = np.random.default_rng(1).normal(size=10_000)
    before = Scale.of(pixels).spread
    pixels[:5] = 1e4
    assert Scale.of(pixels).spread == pytest.approx(np.hypot(before, pixels.mean()), rel=0.01)
    assert pixels.std() > 200 * before


def test_an_image_that_is_nearly_plain_has_the_spread_of_all_its_pixels():
    pixels = np.zeros(10_000)
    pixels[:5] = 7.0
    assert Scale.of(pixels).spread == pytest.approx(pixels.std())


@pytest.mark.parametrize(
    ("shape", "neighbourhood", "k"),
    [((8, 9), "first", 2), ((8, 9), "hexagonal", 5), ((4, 4, 4), "second", 3)],
)
def test_the_interval_of_beta_is_that_of_the_lattice_and_k(tmp_path, shape, neighbourhood, k):
    lattice = Lattice(shape, neighbourhood)
    found = on_lattice(settings(tmp_path, f"model.labels={k}", shape=shape), lattice)
    assert found.prior.beta == (0.0, BEYOND * transition(lattice, k))


def test_a_hub_of_a_graph_limits_the_interval_of_beta(tmp_path):
    hub = Graph(2000, np.array([(0, i) for i in range(1, 2000)]))
    assert on_lattice(settings(tmp_path), hub).prior.beta == (0.0, LARGEST_POWER / 1999)


def test_images_that_are_simulated_have_the_scale_of_a_standard_one(tmp_path):
    found = before_images(settings(tmp_path), Lattice((8, 9))).prior
    assert found.mean.mean == (0.0,) * 3 and found.mean.sd == (5.0,) * 3
    assert found.variance.scale == pytest.approx((1 / 18,) * 3)
    # What is given is drawn from no prior: the fits take the scale of each image.
    given = settings(tmp_path, "simulate.mean=[1, 2, 3]", "simulate.sd=[1, 1, 1]")
    found = before_images(given, Lattice((8, 9))).prior
    assert {found.mean.mean, found.mean.sd, found.variance.shape, found.variance.scale} == {"image"}


def test_the_fits_of_a_study_have_the_priors_that_its_images_were_drawn_from(tmp_path):
    asked = settings(tmp_path)
    methods, lattice = study.prepare(asked)
    priors = {before_images(asked, lattice).prior, *(each.prior for each in methods.values())}
    assert len(priors) == 1


def assert_all_the_same(picture, labels):
    first, *others = (mp.fit(image, labels=labels, **QUICK) for image in in_units(picture).values())
    for result in others:
        # The chains draw the same random numbers, and may part only by rounding: then beta and the labels are
        # those of another chain, within the Monte Carlo error.
        other = result.labels != first.labels
        least, most = np.sort(result.probability[other], axis=-1)[:, -2:].T
        assert other.mean() < 0.01 and (most - least < 4 * np.sqrt(2 / first.summary.ess)).all()
        assert abs(result.mean - first.mean) < 4 * first.sd * np.sqrt(2 / first.summary.ess)


def test_the_same_picture_in_other_units_has_the_same_labels_and_beta():
    assert_all_the_same(grey(), 3)


@pytest.mark.skipif(not SCENE.is_file(), reason="the scene is not here")
def test_a_real_scene_in_other_units_has_the_same_labels_and_beta():
    tifffile = pytest.importorskip("tifffile")
    assert_all_the_same(tifffile.imread(SCENE)[100:180, 150:250, 3], 4)


def test_the_result_has_the_numbers_and_not_the_words(tmp_path):
    picture = grey()
    result = mp.fit(picture, labels=3, **QUICK)
    assert result.settings["prior.mean"]["mean"] == [picture.mean()] * 3
    assert result.settings["prior.beta"] == [0.0, BEYOND * transition(Lattice(picture.shape), 3)]


def test_a_problem_has_numbers_in_all_its_priors(tmp_path):
    np.save(tmp_path / "a.npy", grey())
    asked = settings(tmp_path)
    asked = replace(asked, image=replace(asked.image, path=tmp_path / "a.npy", shape=None))
    config, _, _ = fit.read_image(asked)
    assert not config.prior.left_to_lattice and config.prior.beta[0] == 0.0
    assert isinstance(config.prior.mean.mean, tuple) and isinstance(config.prior.variance.scale, tuple)


def test_a_label_far_from_its_prior_is_named_with_both_numbers():
    noise = gaussian_noise(3, mean=[-0.8, 0.0, 0.8], mean_sd=0.05)
    said = list(far_from_prior(noise, np.array([[-0.7, 0.185, 0.9], [0.1, 0.1, 0.1]])))
    assert len(said) == 1
    for part in ("label 2", "0.185", "3.7 prior sds", "prior mean 0 ", "sd 0.05", 'fit.start = "prior"'):
        assert part in said[0]
    same = list(far_from_prior(gaussian_noise(2, 0.0, 1.0), np.array([[-4.0, 1.0], [1.0, 1.0]])))
    assert len(same) == 1 and "label 1" in same[0] and "fit.start" not in same[0]
