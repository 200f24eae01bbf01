"""A method is one module: the example of CONTRIBUTING.md registers itself, and everything knows it."""

import re
import subprocess
import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest
from fitting import image_of, options, run_fit, same_bits, write_input
from launch import ROOT

import mpi_potts as mp
from mpi_potts.cli import check, study
from mpi_potts.config import inputs, registry
from mpi_potts.config.registry import OwnTable
from mpi_potts.config.schema import Integer, key
from mpi_potts.errors import InputError
from mpi_potts.io import formats, reading
from mpi_potts.lattice import Lattice
from mpi_potts.methods import needs
from mpi_potts.methods.base import Method, check_method, method_of
from mpi_potts.runtime.parallel import ALONE

STUDY = ROOT / "inputs" / "study_small.toml"


@pytest.fixture(scope="module")
def importance():
    """The module of CONTRIBUTING.md, as if it lay in the folder of the methods."""
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    module = types.ModuleType("mpi_potts.methods.importance")
    module.__package__ = "mpi_potts.methods"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        exec(compile(source, "CONTRIBUTING.md", "exec"), module.__dict__)
        yield module
    registry.forget("importance")


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """An input with observed labels, its directory and the labels."""
    directory = tmp_path_factory.mktemp("labels")
    values, _ = image_of(0.6, [0.0] * 2, [1.0] * 2, shape=(12, 13), number=2)
    return write_input(directory, values, kind="labels", labels=2), directory, values


def test_what_is_not_registered_is_refused_with_all_that_is(labels):
    path, *_ = labels
    words = '"exchange", "path", "pseudolikelihood", "rejection", "smc-abc" or "synthetic"'
    with pytest.raises(InputError, match=f"must be {words}"):
        inputs.load(path, ["fit.method=importance"])
    with pytest.raises(InputError, match="importance"):
        inputs.load(path, ["importance.draws=9"])


def test_the_input_knows_the_keys_of_a_registered_method(importance, labels):
    path, directory, _ = labels
    settings = inputs.load(path, ["fit.method=importance", "importance.draws=50"], directory)
    assert settings.of(importance.ImportanceKeys).draws == 50 == settings.table("importance").draws
    assert settings.with_keys({"importance": {"draws": 7}}).of(importance.ImportanceKeys).draws == 7
    assert inputs.load(path).of(importance.ImportanceKeys).draws == 10_000
    assert "importance.draws" in [row[0] for row in inputs.describe_keys()]
    with pytest.raises(InputError, match=r"importance\.draw = 9.*did you mean draws"):
        inputs.load(path, ["importance.draw=9"])
    with pytest.raises(InputError, match=r"importance\.draws = 1 \(from --set\): must be an integer >= 2"):
        inputs.load(path, ["importance.draws=1"])
    with pytest.raises(InputError, match="did you mean importance"):
        inputs.load(path, ["imprtance.draws=9"])


def test_it_fits_what_path_sampling_fits(importance, labels):
    path, directory, values = labels
    shared = [f'precompute.file="{directory / "binding.h5"}"', "precompute.iterations=2000"]
    attributes, arrays = run_fit(ALONE, path, directory / "one", [*shared, "fit.method=importance"])
    assert attributes["method"] == "importance" and '"importance.draws": 10000' in attributes["settings"]
    expected, _ = run_fit(ALONE, path, directory / "path", [*shared, "fit.method=synthetic"])
    error = expected["beta_sd"] / np.sqrt(attributes["beta_ess"])
    assert abs(attributes["beta_mean"] - expected["beta_mean"]) < 4.0 * error
    found = mp.fit(
        values, binding=directory / "binding.h5", kind="labels", labels=2, beta=[0.0, 1.3], seed=5,
        method="importance", importance={"draws": 10_000},
    )  # fmt: skip
    assert same_bits(arrays, found.arrays) == []


def test_check_says_what_it_takes(importance, labels, capfd):
    path, directory, _ = labels
    settings = inputs.load(path, ["fit.method=importance"], directory / "out")
    assert check.execute(ALONE, settings, options()) == 0
    assert "importance: 10000 draws" in capfd.readouterr().out


def test_a_study_compares_it(importance, tmp_path, monkeypatch):
    monkeypatch.setattr(study.report, "drawable", lambda: False)
    changes = ['image.kind="labels"', 'study.methods=["path", "importance", "importance_few"]']
    changes += ['study.changes=["importance_few importance.draws=500"]', "simulate.images=2"]
    study.execute(ALONE, inputs.load(STUDY, changes, tmp_path), options())
    _, arrays = reading.read(tmp_path / "study.h5", *formats.STUDY)
    assert {name.partition("/")[0] for name in arrays} == {"path", "importance", "importance_few"}
    assert (np.abs(arrays["path/mean"] - arrays["importance/mean"]) < 0.5 * arrays["path/sd"]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [("fit.pseudo_data=true", "false is accepted"), ('image.kind="observations"', "for observed labels")],
)
def test_what_it_cannot_do_is_refused_by_its_name(importance, labels, change, said):
    path, *_ = labels
    with pytest.raises(InputError, match=f"(?s)importance.*{said}|{said}.*importance"):
        check_method(inputs.load(path, ["fit.method=importance", change]))


class Other(Method):
    """A method with the name or the table of another."""

    def __init__(self, name, table):
        self.name, self.table = name, table


@dataclass(frozen=True)
class OtherKeys:
    draws: int = key(Integer(2), 3, "number of draws")


@pytest.mark.parametrize(
    ("name", "table"), [("path", None), ("other", OwnTable("exchange", OtherKeys, "not the exchange"))]
)
def test_a_name_that_is_taken_is_an_error(name, table):
    before = dict(registry.methods())
    with pytest.raises(ValueError, match="already"):
        registry.register(Other(name, table))
    assert registry.methods() == before


@pytest.mark.parametrize("name", [*registry.studied()])
def test_every_method_says_what_it_takes(labels, name):
    """In words and numbers, for observed labels and for hidden images where it fits them."""
    path, *_ = labels
    word, pseudo = registry.studied()[name]
    for kind in ("labels", "observations"):
        changes = [f"fit.method={word}", f"fit.pseudo_data={str(pseudo).lower()}", f'image.kind="{kind}"']
        settings = inputs.load(path, changes)
        method = method_of(settings)
        if kind == "observations" and not method.hidden:
            continue
        check_method(settings)
        assert method.sizes(settings) and sum(method.label_sweeps(settings)) > 0
        assert (method.simulated(settings) is not None) == (pseudo or name == "exchange")
        memory = needs.of_fit(settings, Lattice((12, 13), "first", None), 2)
        assert all(size > 0 for size in memory.values()) and memory
        assert method.draws(settings.with_keys(method.short()))[1] > 0


def test_a_stored_input_is_read_without_compiler_and_ranks(labels):
    path, *_ = labels
    program = f"""
import sys
from pathlib import Path
from mpi_potts.config import inputs
path = Path({str(path)!r})
assert inputs.parse_stored(path.read_text(), path).model.labels == 2
assert not {{"numba", "mpi4py", "mpi_potts.methods"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_a_stored_input_is_read_without_knowing_its_method(labels):
    path, directory, _ = labels
    text = path.read_text() + "\n[gone]\nkey = 1\n"
    stored = inputs.parse_stored(text, path, ["fit.method=gone", "gone.key=2"], directory)
    assert stored.image.path == directory / "image.npy" and stored.model.labels == 2
    with pytest.raises(InputError, match="unknown key"):
        inputs.parse(text, path)
