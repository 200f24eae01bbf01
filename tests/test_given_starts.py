"""Starts that a user chooses: the labels that the priors mean, or those of a file."""

import numpy as np
import pytest
from fitting import image_of, problem_of, run_fit, write_input

import mpi_potts as mp
from mpi_potts.cli import fit, study
from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.labels import starts
from mpi_potts.labels.chain import LabelChain
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.runtime.parallel import ALONE

MEANS = [-0.8, -0.4, 0.0, 0.4, 0.8]
PATH = ("fit.method=path", "prior.beta=[0.3, 1.6]", "fit.final_sweeps=60", "fit.final_burn_in=20")
PATH += ("precompute.points=20", "precompute.iterations=60", "precompute.burn_in=20")


def informative(k=3, sd=0.05):
    """A prior that puts every label at its place."""
    return gaussian_noise(k, MEANS[:k], sd, 2.0, 0.1)


def chain_of(values, noise, number=0):
    return LabelChain(Lattice(values.shape), values, noise.labels, noise, 7, number)


@pytest.fixture(scope="module")
def uneven():
    """A label with nine tenths of the pixels, from which single pixels do not tell the others."""
    return image_of(1.3, MEANS, [0.3] * 5, (64, 64), number=1)


def test_the_most_probable_label_is_that_of_the_largest_prior_density():
    noise = gaussian_noise(3, [0.0, 1.0, 3.0], [0.1, 0.1, 2.0], 2.0, [0.3, 0.3, 0.3])
    y = np.linspace(-4.0, 6.0, 401)
    variance = np.array([0.1, 0.1, 2.0]) ** 2 + 0.1
    density = np.exp(-((y[:, None] - noise.mean) ** 2) / (2 * variance)) / np.sqrt(variance)
    found = noise.most_probable(y)
    assert (found == density.argmax(axis=1)).all() and set(found) == {0, 1, 2}


def test_the_prior_leads_a_chain_to_the_labels_it_means_where_the_warm_up_does_not(uneven):
    z, values = uneven
    assert np.bincount(z.ravel()).max() > 0.9 * z.size
    far = {}
    for start in ("paper", "prior"):
        chain = chain_of(values, informative(5))
        chain.sweep(np.zeros(50))
        if start == "prior":
            starts.settle(chain, values, (0.3, 1.6), 7, 0, start)
        chain.sweep(np.full(50, 1.3))
        far[start] = np.abs(chain.values[0] - MEANS).max() / 0.05
    assert far["prior"] < 3.0 < far["paper"]


def test_the_best_start_is_chosen_among_those_of_the_prior_too(uneven):
    _, values = uneven
    for noise, more in ((informative(5), len(starts.SMOOTHINGS)), (gaussian_noise(5), 0)):
        found = list(starts._rivals(chain_of(values, noise), values, 7, 0, "best"))
        assert len(found) == 8 + more == starts.rivals_of("best", noise.exchangeable)
        assert sum(rival.held is not None for rival in found) == more


def test_labels_that_are_given_are_where_the_chain_starts():
    z, values = image_of(0.7, [-0.8, -0.4, 0.0], [0.05] * 3)
    noise, swapped = gaussian_noise(3, 0.0, 5.0), 2 - z
    chain = chain_of(values, noise)
    (rival,) = starts._rivals(chain, values, 7, 0, swapped.ravel())
    assert (rival.state["labels"] == swapped.ravel()).all()
    found = [values[swapped == j].mean() for j in range(3)]
    assert chain.centre + chain.unit * rival.state["noise"][0] == pytest.approx(found)


def write(tmp_path, *, mask=None):
    """An input whose image has labels at -2, 0, 2, and its true labels."""
    z, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.5] * 3, (20, 24), mask=mask)
    path = write_input(tmp_path, values)
    return path, z


@pytest.mark.parametrize("name", ["start.npy", "start.png", "start.csv", "start.tif", "start.h5"])
def test_a_file_of_labels_from_1_is_read_in_every_format(tmp_path, name):
    path, z = write(tmp_path)
    labels = (z + 1).astype(np.uint8)
    if name.endswith("png"):
        pytest.importorskip("PIL.Image").fromarray(labels).save(tmp_path / name)
    elif name.endswith("tif"):
        pytest.importorskip("tifffile").imwrite(tmp_path / name, labels)
    elif name.endswith("csv"):
        np.savetxt(tmp_path / name, labels, fmt="%d", delimiter=",")
    elif name.endswith("h5"):
        with pytest.importorskip("h5py").File(tmp_path / name, "w") as file:
            file["labels"] = labels
    else:
        np.save(tmp_path / name, labels)
    _, image, _ = fit.read_image(inputs.load(path, [f"fit.start={name}"], tmp_path / "out"))
    assert image.start.dtype == np.uint8 and (image.start == z.ravel()).all()


def test_masked_pixels_of_a_start_may_hold_anything(tmp_path):
    mask = np.random.default_rng(0).random((20, 24)) < 0.7
    path, z = write(tmp_path, mask=mask)
    np.save(tmp_path / "start.npy", np.where(mask, z + 1.0, np.nan))
    chosen = ["fit.start=start.npy", "image.nodata=nan"]
    _, image, _ = fit.read_image(inputs.load(path, chosen, tmp_path / "out"))
    assert (image.start == z[mask]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda z: z[:, 1:] + 1, ["has shape [20, 23]", "[20, 24]"]),
        (lambda z: z, ["pixel [", "has label 0", "1 to 3"]),
        (lambda z: z + 2, ["has label 4", "1 to 3"]),
        (lambda z: z + 1.5, ["has label", ".5"]),
    ],
)
def test_labels_that_cannot_be_a_start_are_refused(tmp_path, change, said):
    path, z = write(tmp_path)
    np.save(tmp_path / "start.npy", change(z.astype(float)))
    with pytest.raises(InputError) as error:
        fit.read_image(inputs.load(path, ["fit.start=start.npy"], tmp_path / "out"))
    for part in ["fit.start", "start.npy", *said]:
        assert part in str(error.value)


def test_a_start_that_is_no_word_and_no_file_is_refused(tmp_path):
    path, _ = write(tmp_path)
    with pytest.raises(InputError, match=r'fit.start = "bset".*"best", "paper" or "prior", or the name'):
        inputs.load(path, ["fit.start=bset"])
    with pytest.raises(InputError, match=r"fit.start: .*nowhere.npy: does not exist"):
        fit.read_image(inputs.load(path, ["fit.start=nowhere.npy"], tmp_path / "out"))
    with pytest.raises(InputError, match=r'fit.start = "prior".* left out where image.kind = "labels"'):
        inputs.load(path, ["fit.start=prior", "image.kind=labels"])
    with pytest.raises(InputError, match="a study has many images"):
        study.prepare(inputs.load(path, ["image.shape=[4, 4]", "fit.start=a.npy"]))


def test_a_start_by_priors_that_are_the_same_for_all_labels_is_refused(tmp_path):
    path, _ = write(tmp_path)
    with pytest.raises(InputError, match=r'fit.start = "prior": the priors are the same for all labels'):
        problem_of(ALONE, path, tmp_path / "out", ["fit.start=prior", *PATH])


def test_a_result_belongs_to_the_labels_it_started_from(tmp_path):
    path, z = write(tmp_path)
    np.save(tmp_path / "start.npy", z + 1)
    chosen = (*PATH, "fit.start=start.npy")
    run_fit(ALONE, path, tmp_path / "out", chosen)
    np.save(tmp_path / "other.npy", z + 1)
    run_fit(ALONE, path, tmp_path / "out", (*PATH, "fit.start=other.npy"))
    np.save(tmp_path / "start.npy", 3 - z)
    with pytest.raises(InputError, match=r"was made with fit\.start"):
        run_fit(ALONE, path, tmp_path / "out", chosen)


def test_python_takes_the_labels_of_a_start_as_an_array():
    z, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.5] * 3, (16, 16))
    keys = {"labels": 3, "method": "path", "final_sweeps": 20, "final_burn_in": 5}
    keys |= {"precompute": {"points": 10, "iterations": 40, "burn_in": 10}, "beta": [0.0, 1.5]}
    assert mp.fit(values, start=z + 1, **keys).labels.shape == z.shape
    with pytest.raises(InputError, match=r"fit.start: start: has shape \[16, 15\]"):
        mp.fit(values, start=z[:, 1:] + 1, **keys)
