"""The comparison of two versions of the program sees what differs in their files, and only that."""

import importlib.util
from pathlib import Path

import h5py
import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "compare_results.py"


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare_results", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def written(compare, tmp_path):
    """What a file with these datasets and attributes is made of, to the comparison."""

    def write(attributes=(), **datasets):
        path = tmp_path / "result.h5"
        with h5py.File(path, "w") as file:
            file.attrs.update({"seed": 1, "created": "today"} | dict(attributes))
            for name, values in ({"beta": np.arange(3.0), "trace/seconds": np.ones(2)} | datasets).items():
                file[name] = values
        return compare.parts(path)

    return write


def test_times_and_places_are_left_out(written):
    same = {"created": "yesterday", "input_directory": "elsewhere", "versions": "numpy 9", "program": "other"}
    assert written() == written(same, **{"trace/seconds": np.zeros(5)})


@pytest.mark.parametrize(
    ("attributes", "datasets"),
    [
        ({"seed": 2}, {}),
        ({"labels": 3}, {}),
        ({}, {"beta": np.nextafter(np.arange(3.0), 9.0)}),
        ({}, {"beta": np.arange(3.0, dtype=np.float32)}),
        ({}, {"beta": np.arange(3.0)[:, None]}),
        ({}, {"other": np.arange(3.0)}),
    ],
)
def test_everything_else_counts(written, attributes, datasets):
    assert written() != written(attributes, **datasets)


def test_every_input_is_run(compare):
    inputs = {path.name for path in (compare.ROOT / "inputs").glob("*.toml")}
    assert {case.input for case in compare.CASES} == inputs
