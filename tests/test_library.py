"""The library of reference boxes: what it keeps is what would be computed again, and it is never needed."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from mpi_potts.binding import composition, library
from mpi_potts.binding import file as binding_file
from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.io import formats, reading, store
from mpi_potts.lattice import Lattice
from mpi_potts.methods import adapt
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

LATTICE = Lattice((30, 41))
NAMES = ("beta", "mean", "sd", "mean_se", "sd_se")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A recipe of moments: three small boxes, few sweeps."""
    monkeypatch.setattr(composition, "SIDES", {2: ((4, 6, 8, 12),) * 2})
    monkeypatch.setattr(library, "SWEEPS", 60)


def bits(composed):
    return {name: getattr(composed, name).tobytes() for name in NAMES}


def pilot(path, lattice=LATTICE, labels=3):
    return bits(library.compose_pilot(ALONE, lattice, labels, path))


@pytest.fixture
def refused(monkeypatch):
    """No reference may be simulated from here on."""

    def simulate(*_):
        raise AssertionError("a reference is simulated")

    return lambda: monkeypatch.setattr(library, "_Reference", simulate)


def references_in(path):
    _, arrays = reading.read(path, *formats.LIBRARY)
    return {name.split("/")[0] for name in arrays}


def test_a_library_gives_the_bits_of_none_and_saves_the_simulation(tmp_path, refused):
    path = tmp_path / "cache" / "library.h5"
    without, first = pilot(None), pilot(path)
    refused()
    assert first == without and pilot(path) == without
    assert pilot(path, Lattice((55, 20))) != without  # of the same boxes


def test_references_of_another_kind_are_added_and_the_others_stay(tmp_path):
    path = tmp_path / "library.h5"
    pilot(path)
    before = references_in(path)
    assert before == {f"{n}x{n}-first-3" for n in (4, 6, 8, 12)}
    pilot(path, labels=2)
    pilot(path, Lattice((30, 41), "second"))
    assert len(references_in(path)) == 12 and before < references_in(path)


@pytest.mark.parametrize("kept", [100, -100])
def test_a_damaged_library_is_computed_again(tmp_path, kept):
    path = tmp_path / "library.h5"
    whole = pilot(path)
    path.write_bytes(path.read_bytes()[:kept])
    assert pilot(path) == whole
    assert len(references_in(path)) == 4


def test_a_file_that_is_no_library_is_refused_and_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes of mine\n" * 99)
    with pytest.raises(InputError, match=r"notes\.txt.*not overwritten"):
        pilot(path)
    with pytest.raises(InputError, match=r"notes\.txt.*not overwritten"):
        library.improve(ALONE, LATTICE, 3, path, (0.0, 1.5), 100.0, 60, print)
    assert path.read_text() == "notes of mine\n" * 99


def test_a_library_that_cannot_be_written_is_not_needed(tmp_path):
    (tmp_path / "file").write_text("")
    assert pilot(tmp_path / "file" / "library.h5") == pilot(None)


def test_two_jobs_at_once_leave_a_library_with_the_references_of_both(tmp_path):
    path, failed = tmp_path / "library.h5", []
    new = {
        labels: {
            library._name(LATTICE, labels): library.Kept(dict.fromkeys(library.COLUMNS, np.arange(3.0)), 3)
        }
        for labels in range(2, 10)
    }

    def job(columns):
        try:
            library._keep(path, columns)
        except BaseException as error:  # a thread would swallow it
            failed.append(error)

    threads = [threading.Thread(target=job, args=(columns,)) for columns in new.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert references_in(path) == {name for columns in new.values() for name in columns}


def test_the_library_of_a_user_is_in_the_cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert library.default_path() == tmp_path / "mpi_potts" / "library.h5"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert library.default_path() == tmp_path / "home" / ".cache" / "mpi_potts" / "library.h5"


# The curve over a prior, composed alone -----------------------------------------------------------

INPUT = """
[image]
shape = [{}, {}]
[model]
labels = 3
[prior]
beta = [0.2, {}]
[precompute]
library = "library.h5"
accuracy = {}
keep_states = false
"""


def covered(directory, accuracy, monkeypatch, highest=0.9, problem=None, changes=()):
    """The binding function of any image, or of one, of a lattice whose pilot is composed."""
    monkeypatch.setattr(adapt, "FEW_SITES", 0)
    (directory / "input.toml").write_text(INPUT.format(*LATTICE.shape, highest, accuracy))
    config = inputs.load(directory / "input.toml", changes, output=directory / "out")
    return adapt.obtain(ALONE, config, LATTICE, problem, Control(), quiet=True)


def said(directory):
    return reading.read(directory / "out" / "binding.h5", *formats.BINDING)[0]["composition"]


def test_a_curve_that_is_composed_well_enough_is_checked_by_short_runs_and_says_so(tmp_path, monkeypatch):
    binding = covered(tmp_path, 100.0, monkeypatch)
    at = sorted(0.2 + part * 0.7 for part in adapt.CHECKED)
    assert binding.beta[~binding.composed].tolist() == pytest.approx(at)
    assert "agrees with what was composed" in said(tmp_path)


def test_what_short_runs_contradict_has_errors_that_reach_them(tmp_path, monkeypatch):
    path = tmp_path / "library.h5"
    monkeypatch.setattr(library, "SWEEPS", 1000)
    pilot(path)
    _, arrays = reading.read(path, *formats.LIBRARY)
    for name in references_in(path):
        arrays[f"{name}/mean"] *= 1.1
    store.write(ALONE, path, *formats.LIBRARY, {}, arrays, "gather")
    binding = covered(tmp_path, 1.0, monkeypatch)
    assert "does not agree with what was composed" in said(tmp_path)
    # The rows that are still composed admit it: they are as far from the curve as their errors say.
    rows = binding.composed & (binding.beta > 0.2) & (binding.beta < 0.9)
    apart = np.abs(binding.mean - binding.moments(binding.beta)[0])[rows] / binding.mean_se[rows]
    assert np.count_nonzero(rows) >= 3 and (apart < composition.REACHED).all()
    alone = library.compose_pilot(ALONE, LATTICE, 3, path)
    assert (binding.mean_se[rows] > 2 * alone.mean_se[np.isin(alone.beta, binding.beta[rows])]).all()


def test_a_later_image_does_not_forget_what_was_contradicted(tmp_path, monkeypatch):
    test_what_short_runs_contradict_has_errors_that_reach_them(tmp_path, monkeypatch)
    before = binding_file.read_binding(tmp_path / "out" / "binding.h5", "smooth")
    facts = SimpleNamespace(digest="labels", start=None)
    observed = SimpleNamespace(hidden=False, statistic=1100, facts=facts)
    after = covered(tmp_path, 1.0, monkeypatch, problem=observed)
    assert "does not agree" in said(tmp_path)
    kept = after.composed & np.isin(after.beta, before.beta[before.composed])
    same = np.isin(before.beta, after.beta[kept])
    assert np.count_nonzero(kept) > 10
    assert after.mean_se[kept] == pytest.approx(before.mean_se[same], rel=0.5)


def test_a_prior_beyond_what_is_composed_is_simulated_there(tmp_path, monkeypatch):
    binding = covered(tmp_path, 100.0, monkeypatch, highest=5.5)
    assert binding.beta[-1] == 5.5 and not binding.composed[-1]
    assert float(binding.moments(5.5)[0]) == pytest.approx(LATTICE.edges, rel=1e-3)


def test_few_betas_allowed_leave_a_composed_curve_that_says_it_was_not_compared(tmp_path, monkeypatch):
    facts = SimpleNamespace(digest="labels", start=None)
    observed = SimpleNamespace(hidden=False, statistic=1100, facts=facts)
    binding = covered(tmp_path, 0.1, monkeypatch, problem=observed, changes=["precompute.points=5"])
    assert binding.composed.all()
    assert "not compared" in said(tmp_path)


def test_references_are_not_made_longer_where_that_no_longer_helps(tmp_path):
    exists = np.ones((60, 70), dtype=bool)
    exists[30, 30] = exists[10, 50] = False  # holes, whose error does not fall with sweeps
    lattice, seen = Lattice((60, 70), "first", exists), []
    path = tmp_path / "library.h5"
    error, limit = library.improve(ALONE, lattice, 3, path, (0.0, 0.8), 1e-3, 10**9, seen.append)
    assert error > 1e-3 and "what small boxes leave out" in limit and 1 < len(seen) < 12
    assert path.exists()


def lengths(path):
    """The sweeps of every reference in a library."""
    _, arrays = reading.read(path, *formats.LIBRARY)
    return {name.split("/")[0]: int(array) for name, array in arrays.items() if name.endswith("/sweeps")}


def test_references_become_longer_from_what_is_there_and_never_shorter(tmp_path):
    path = tmp_path / "library.h5"
    pilot(path)
    assert set(lengths(path).values()) == {60}
    _, limit = library.improve(ALONE, LATTICE, 3, path, (0.0, 1.5), 1e-3, 100, print)
    assert limit == "precompute.iterations = 100" and set(lengths(path).values()) == {100}
    whole = pilot(path)
    # Those of the recipe, which another job may have made meanwhile, do not take their place.
    library._keep(path, {name: library.Kept(*_short(path, name)) for name in references_in(path)})
    assert pilot(path) == whole and set(lengths(path).values()) == {100}
    library.improve(ALONE, Lattice((50, 40)), 3, path, (0.0, 1.5), 1e9, 100, print)
    assert pilot(path) == whole and set(lengths(path).values()) == {100}
    # The longer ones are what as many sweeps from nothing are.
    library.improve(ALONE, LATTICE, 3, tmp_path / "other.h5", (0.0, 1.5), 1e-3, 100, print)
    assert pilot(tmp_path / "other.h5") == whole


def _short(path, name):
    _, arrays = reading.read(path, *formats.LIBRARY)
    return {column: 0.5 * arrays[f"{name}/{column}"] for column in library.COLUMNS}, 60


def test_of_the_user_s_own_library_only_the_recipe_is_taken(tmp_path, monkeypatch):
    path = tmp_path / "library.h5"
    recipe = pilot(None)
    library.improve(ALONE, LATTICE, 3, path, (0.0, 1.5), 1e-3, 100, print)
    assert pilot(path) != recipe and library.longer_than_recipe(LATTICE, 3, path)
    monkeypatch.setattr(library, "default_path", lambda: path)
    assert pilot(path) == recipe and set(lengths(path).values()) == {60}
    assert library.longer_than_recipe(LATTICE, 3, path) == ""


def test_longer_references_are_part_of_what_a_curve_is_a_function_of(tmp_path, monkeypatch):
    digests = [covered(tmp_path, 100.0, monkeypatch).digest]
    library.improve(ALONE, LATTICE, 3, tmp_path / "library.h5", (0.0, 1.5), 1e-3, 100, print)
    digests.append(covered(tmp_path, 100.0, monkeypatch).digest)
    attributes, _ = reading.read(tmp_path / "out" / "binding.h5", *formats.BINDING)
    assert digests[0] != digests[1] and len(attributes["answers"].split()) == 2


def test_what_was_composed_reaches_what_was_simulated_where_it_contradicts_it():
    beta, one = np.array([0.2, 0.6]), np.ones(2)
    found = composition.CompositionCheck(beta, np.array([1.0, 30.0]), 3 * one, 2 * one, 10 * one)
    assert found.z == pytest.approx([1.0 / np.sqrt(13), 30.0 / np.sqrt(13)])
    assert 30.0 / np.hypot(3, 2 * found.widening) == pytest.approx(composition.REACHED)
    assert composition.CompositionCheck(beta, 3 * one, 3 * one, 2 * one, 10 * one).widening == 1.0
