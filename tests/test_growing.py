"""A binding file that grows: from one image to the next, from a fixed grid, after a stop at any moment."""

import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
from fitting import image_of
from method_cases import StopAt

from mpi_potts.binding.adaptive import Sought, aim
from mpi_potts.cli import fit, precompute
from mpi_potts.config import inputs
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.io import formats, reading
from mpi_potts.methods import answers
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

INPUT = """
seed = 4
[image]
path = "labels.npy"
kind = "labels"
[model]
labels = 3
[prior]
beta = [0.0, 1.3]
[precompute]
accuracy = 0.2
file = "binding.h5"
[fit]
method = "path"
[run]
checkpoint_minutes = 1e-9
"""
FINER = ["precompute.accuracy=0.01"]


def directory_of(parent, name):
    """An input with the labels of two images, in a directory of its own."""
    directory = parent / name
    directory.mkdir()
    (directory / "input.toml").write_text(INPUT)
    for number, beta in enumerate((0.6, 0.8)):
        labels, _ = image_of(beta, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(40, 30), number=number)
        np.save(directory / f"{'other' if number else 'labels'}.npy", labels)
    return directory


def grow(directory, changes=(), control=None):
    """The binding function for the input, as `mpi-potts precompute` has it."""
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", changes, directory / "out"))
    with control or Control() as control:
        return precompute.obtain(ALONE, problem.config, problem.lattice, control, quiet=True, problem=problem)


def stopped(directory, changes, looks):
    """Stop the work when it is looked at for the n-th time; whether it came to that."""
    try:
        grow(directory, changes, StopAt(looks))
    except Interrupted:
        return True
    return False


def content(directory):
    attributes, arrays = reading.read(directory / "binding.h5", *formats.BINDING)
    del attributes["created"]
    return attributes, {name: values.tobytes() for name, values in arrays.items()}


def sweeps(directory):
    """The sweeps of all chains in the file."""
    return int(reading.read(directory / "binding.h5", *formats.BINDING)[1]["done"].sum())


@pytest.mark.parametrize("keep", ["true", "false"])
@pytest.mark.parametrize("looks", [0, 1, 8])
def test_an_extension_that_is_stopped_goes_on_to_the_same_bits(tmp_path, keep, looks):
    changes = [f"precompute.keep_states={keep}"]
    for name in ("whole", "stopped"):
        grow(directory_of(tmp_path, name), changes)
    whole, half = tmp_path / "whole", tmp_path / "stopped"
    assert content(whole) == content(half)
    grow(whole, changes + FINER)
    assert stopped(half, changes + FINER, looks)
    assert list((half / "binding.parts").glob("*.h5"))
    grow(half, changes + FINER)
    assert content(whole) == content(half)
    assert (half / "binding.states.h5").exists() == (keep == "true")
    assert not (half / "binding.parts").exists()


def test_the_same_image_needs_no_sweep_and_leaves_the_file_as_it_is(tmp_path):
    directory = directory_of(tmp_path, "a")
    first = grow(directory)
    before = (directory / "binding.h5").read_bytes()
    assert grow(directory, control=StopAt(0)).digest == first.digest
    assert (directory / "binding.h5").read_bytes() == before


def test_another_image_of_the_lattice_starts_from_the_file_and_both_are_answered(tmp_path):
    directory, alone = directory_of(tmp_path, "a"), directory_of(tmp_path, "b")
    other = ['image.path="other.npy"']
    grow(directory)
    before = sweeps(directory)
    found = grow(directory, other)
    assert sweeps(directory) > before
    grow(alone, other)
    assert sweeps(directory) - before < sweeps(alone)
    # Neither is asked for again.
    assert grow(directory, control=StopAt(0)).digest == found.digest
    assert grow(directory, other, control=StopAt(0)).digest == found.digest
    assert len(content(directory)[0]["answers"].split()) == 2


def test_more_accuracy_lengthens_the_chains_that_are_there(tmp_path):
    directory = directory_of(tmp_path, "a")
    first = grow(directory)
    finer = grow(directory, FINER)
    assert set(first.beta) <= set(finer.beta)
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", FINER, directory / "out"))
    target = Sought(float(problem.statistic))
    errors = [aim(curve, target, (0.0, 1.3)).error for curve in (first, finer)]
    assert errors[1] <= 0.01 < errors[0]


def test_a_fixed_grid_is_taken_up_and_extended(tmp_path):
    directory = directory_of(tmp_path, "a")
    fixed = ["precompute.grid=critical", "precompute.points=50", "precompute.iterations=300"]
    fixed += ["precompute.burn_in=100"]
    before = grow(directory, fixed)
    after = grow(directory, FINER)
    assert set(before.beta) < set(after.beta)
    there = sweeps(directory) - 50 * 300
    assert after.beta.size < 70 and there > 0
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", FINER, directory / "out"))
    assert aim(after, Sought(float(problem.statistic)), (0.0, 1.3)).error <= 0.01


def test_another_seed_extends_the_file_with_the_seed_that_it_has(tmp_path):
    directory = directory_of(tmp_path, "a")
    grow(directory)
    before = sweeps(directory)
    grow(directory, [*FINER, "seed=9"])
    attributes, _ = content(directory)
    assert attributes["seed"] == 4 and sweeps(directory) > before
    assert len(attributes["answers"].split()) == 2


def test_a_truncated_file_is_grown_again_to_the_same_bits(tmp_path, capsys):
    directory = directory_of(tmp_path, "a")
    grow(directory)
    whole, path = content(directory), directory / "binding.h5"
    path.write_bytes(path.read_bytes()[:-100])
    (directory / "out" / "binding.h5").unlink()  # the fit's own copy, which would do
    grow(directory)
    assert "binding.h5" in capsys.readouterr().err
    assert content(directory) == whole


def test_a_fit_finds_the_file_that_it_began_with_when_others_have_extended_it(tmp_path):
    directory = directory_of(tmp_path, "a")
    first = grow(directory)
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", FINER, directory / "other"))
    with Control() as control:
        later = precompute.obtain(ALONE, problem.config, problem.lattice, control, True, problem=problem)
    assert later.digest != first.digest
    assert grow(directory).digest == first.digest


def fitted(directory, changes=(), fresh=False):
    """The digest of the binding function of the result, after `mpi-potts fit` alone."""
    config = inputs.load(directory / "input.toml", changes, directory / "out")
    fit.execute(ALONE, config, Namespace(max_hours=None, fresh=fresh, quiet=True))
    settings = reading.contents(directory / "out" / "result.h5").attributes["settings"]
    return json.loads(settings)["binding"]


def extended(directory):
    """Let another output make the shared file better; its digest."""
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", FINER, directory / "other"))
    with Control() as control:
        return precompute.obtain(
            ALONE, problem.config, problem.lattice, control, True, problem=problem
        ).digest


@pytest.mark.parametrize("for_this_image", [True, False])
def test_a_fit_alone_finds_the_file_that_it_began_with(tmp_path, capsys, for_this_image):
    directory = directory_of(tmp_path, "a")
    before = grow(directory).digest if for_this_image else other_image(directory)
    assert fitted(directory) == before
    later = extended(directory)
    assert later != before and fitted(directory) == before
    assert "there already" in capsys.readouterr().out
    # Starting over begins with what is there now, unless what it had was made for the image.
    assert fitted(directory, fresh=True) == (before if for_this_image else later)


def other_image(directory):
    """The shared file made for another image, by another output; its digest."""
    changes = ["image.path=other.npy"]
    problem = fit.pose(ALONE, inputs.load(directory / "input.toml", changes, directory / "third"))
    with Control() as control:
        return precompute.obtain(
            ALONE, problem.config, problem.lattice, control, True, problem=problem
        ).digest


def test_a_fit_alone_takes_what_was_computed_for_it_since(tmp_path):
    directory = directory_of(tmp_path, "a")
    other_image(directory)
    fitted(directory)
    now = grow(directory, FINER).digest
    with pytest.raises(InputError, match="another binding function"):
        fitted(directory, FINER)
    assert fitted(directory, FINER, fresh=True) == now


def test_the_settings_are_those_of_the_input(tmp_path):
    directory = directory_of(tmp_path, "a")
    config = inputs.load(directory / "input.toml", [], directory / "out")
    problem = fit.pose(ALONE, config)
    requests = {
        answers.request_of(replace(problem.config, seed=seed), problem.lattice, digest)
        for seed in (4, 5)
        for digest in ("", problem.facts.digest)
    }
    assert len(requests) == 4


def test_what_the_label_chains_of_a_search_depend_on_is_asked_for_anew(tmp_path):
    directory = directory_of(tmp_path, "a")
    _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(40, 30))
    np.save(directory / "image.npy", values)
    for number in (0, 1):
        np.save(directory / f"start{number}.npy", np.full((40, 30), 1 + number))

    def asks(*changes):
        hidden = ["image.path=image.npy", "image.kind=observations"]
        config = inputs.load(directory / "input.toml", [*hidden, *changes], directory / "out")
        problem = fit.pose(ALONE, config)
        return answers.request_of(problem.config, problem.lattice, answers.data_of(problem))

    changes = [[], ["fit.crossing=false"], ["fit.sort_labels=true"]]
    changes += [[f'fit.start="{directory}/start.npy"'] for _ in range(2)]
    found = []
    for number, change in enumerate(changes):
        if change and "start" in change[0]:
            (directory / f"start{number - 3}.npy").rename(directory / "start.npy")
        found.append(asks(*change))
    assert len(set(found)) == len(changes)
