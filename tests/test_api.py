"""The program from Python: the bits of the command line, nothing left behind, mistakes in one line."""

import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from fitting import image_of, same_bits
from launch import ROOT, environment

import mpi_potts as mp
from mpi_potts import __main__ as program
from mpi_potts.config import keywords
from mpi_potts.io import reading
from mpi_potts.report import fit as fit_report

# One small fit, as keywords and as an input file.
KEYS = {
    "seed": 5,
    "labels": 3,
    "beta": [0.0, 1.3],
    "mean": {"mean": "image", "sd": 10.0},
    "variance": {"shape": 1.0, "scale": 0.1},
    "points": 12,
    "precompute": {"grid": "critical", "iterations": 60, "burn_in": 10},
    "chains": 2,
    "final_sweeps": 60,
    "final_burn_in": 10,
    "particles": 60,
    "replicates": 8,
    "alpha": 0.8,
    "label_sweeps": 10,
    "max_iterations": 4,
}
INPUT = """
seed = 5
[image]
path = "given.npy"
[prior]
beta = [0.0, 1.3]
mean = { mean = "image", sd = 10.0 }
variance = { shape = 1.0, scale = 0.1 }
[precompute]
grid = "critical"
points = 12
iterations = 60
burn_in = 10
[fit]
chains = 2
final_sweeps = 60
final_burn_in = 10
[smc]
particles = 60
replicates = 8
alpha = 0.8
label_sweeps = 10
max_iterations = 4
"""
ANYWHERE = {"fit": None, "precompute": (7, 8), "simulate": (7, 8)}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory, and a directory for temporary files that must be empty at the end."""
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    yield tmp_path / "work"
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture(scope="module")
def image():
    return image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(9, 11))[1]


def arrays_of(path):
    return reading.read(path, "mpi_potts result", 1)


def test_importing_starts_nothing():
    code = "import sys, mpi_potts; print(sorted({'mpi4py', 'numpy', 'numba', 'h5py'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    assert set(mp.__all__) <= set(dir(mp))
    with pytest.raises(AttributeError, match="nothing"):
        mp.nothing  # noqa: B018


def libraries_after(code, *arguments):
    """Those of our libraries that are loaded after a piece of Python; this very process has them all."""
    code += "\nimport sys; print(sorted({'mpi4py', 'numba', 'llvmlite', 'matplotlib'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def output(image, tmp_path_factory):
    """The directory of a small fit."""
    directory = tmp_path_factory.mktemp("result") / "out"
    mp.fit(image, output=directory, **KEYS)
    return directory


def test_who_opens_a_result_needs_neither_mpi_nor_a_compiler(output):
    code = """
import sys, mpi_potts as mp
result = mp.load(sys.argv[1])
assert result.mean and result.interval and result.particles and result.diagnostics and result.trace
assert str(result) and repr(result) and result.weight.size == result.beta.size
assert result.labels.shape == result.probability.shape[:2] and result.mu.shape == result.sigma.shape
"""
    assert libraries_after(code, output) == "[]"


def test_who_opens_a_simulated_image_needs_neither_mpi_nor_a_compiler(tmp_path):
    mp.simulate((6, 7), sweeps=5, output=tmp_path)
    code = "import sys, mpi_potts as mp; assert mp.load(sys.argv[1]).values.shape == (6, 7)"
    assert libraries_after(code, tmp_path / "image_000.h5") == "[]"


def test_who_inspects_a_file_needs_no_compiler(output):
    code = "import sys; from mpi_potts import __main__ as program; assert program.main(sys.argv[1:]) == 0"
    for name in ("result.h5", "binding.h5"):
        assert libraries_after(code, "inspect", output / name) == "['mpi4py']"


def test_the_bits_are_those_of_the_command_line(here, image):
    np.save("given.npy", image)
    (here / "input.toml").write_text(INPUT)
    assert program.main(["run", "input.toml", "--output", "command", "--quiet"]) == 0
    attributes, arrays = arrays_of(here / "command" / "result.h5")
    result = mp.fit(image, **KEYS)
    assert same_bits(arrays, result.arrays) == []
    assert result.attributes["binding"] == attributes["binding"]
    precompute = {key: KEYS[key] for key in ("seed", "labels", "points", "precompute")} | {
        "prior": {"beta": KEYS["beta"]}
    }
    assert mp.precompute((9, 11), **precompute).digest == attributes["binding"]
    assert mp.precompute(image=image, **precompute).digest == attributes["binding"]
    given = {key: value for key, value in KEYS.items() if key not in ("points", "precompute")}
    for binding in (mp.load("command/binding.h5"), "command/binding.h5"):
        assert same_bits(arrays, mp.fit("given.npy", binding=binding, **given).arrays) == []


def test_nothing_is_written_without_an_output(here, image, capfd):
    mp.precompute((5, 6), points=3, iterations=10, burn_in=2)
    mp.simulate((5, 6), images=2, sweeps=3)
    mp.fit(image, **KEYS)
    assert list(here.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_the_progress_has_a_heading_and_fits_a_terminal(image, capfd):
    mp.fit(image, quiet=False, **KEYS)
    lines = capfd.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 100
    first = next(i for i, line in enumerate(lines) if line.split()[:3] == ["iter", "epsilon", "ESS"])
    rows = lines[first + 1 : first + 1 + KEYS["max_iterations"]]
    assert [int(row.split()[0]) for row in rows] == [*range(1, KEYS["max_iterations"] + 1)]
    assert {len(row) for row in rows} == {len(lines[first])}
    assert "stopped" not in "".join(lines)  # that is said with the result


def test_an_output_holds_what_the_command_writes_and_the_image(here, image):
    result = mp.fit(image, output="out", **KEYS)
    assert {"binding.h5", "result.h5", "posterior.nc", "image.npy"} <= {
        p.name for p in (here / "out").iterdir()
    }
    assert same_bits(result.arrays, mp.load("out").arrays) == []
    # The report finds the image and the binding function.
    assert fit_report.report_of(reading.contents(here / "out" / "result.h5")).notes == ()
    written = (here / "out" / "result.h5").stat().st_mtime_ns
    assert same_bits(result.arrays, mp.fit(image, output="out", **KEYS).arrays) == []
    assert (here / "out" / "result.h5").stat().st_mtime_ns == written
    before = (here / "out" / "image.npy").read_bytes()
    with pytest.raises(mp.InputError, match=r"was made of an image .*fresh=True"):
        mp.fit(image + 1.0, output="out", **KEYS)
    assert (here / "out" / "image.npy").read_bytes() == before


def test_a_call_that_was_stopped_goes_on(here, image):
    with pytest.raises(mp.Interrupted, match="max-hours"):
        mp.fit(image, output="out", max_hours=1e-9, **KEYS)
    assert not (here / "out" / "result.h5").exists()
    assert same_bits(mp.fit(image, **KEYS).arrays, mp.fit(image, output="out", **KEYS).arrays) == []


def test_a_result_has_what_its_docstring_says(image):
    result = mp.fit(image, **KEYS)
    n, k = 2 * KEYS["final_sweeps"], 3
    assert result.beta.shape == result.weight.shape == (n,) and result.weight.sum() == pytest.approx(1.0)
    assert result.mean == pytest.approx(result.beta.mean()) and result.sd == pytest.approx(result.beta.std())
    assert result.interval[0] < result.summary.median < result.interval[1]
    assert result.mu.shape == result.sigma.shape == (n, k)
    assert result.labels.shape == image.shape and result.probability.shape == (*image.shape, k)
    assert (result.probability.argmax(axis=-1) == result.labels).all()
    assert result.trace["epsilon"].shape == result.trace["iteration"].shape == (KEYS["max_iterations"],)
    assert set(result.diagnostics) >= {"beta", "S(z)", "mu of label 1", "sigma of label 3"}
    assert any("smc.max_iterations" in text for text in result.warnings)
    assert tomllib.loads(result.input)["smc"]["particles"] == KEYS["particles"]
    assert str(result.particles) in str(result) and "warning: " in str(result)
    with pytest.raises(AttributeError):
        result.beta = None


def test_observed_labels_masks_and_files(here):
    labels, _ = image_of(0.8, [-2.0, 0.0, 2.0], [0.6, 0.6, 0.6], shape=(9, 11))
    result = mp.fit(labels, kind="labels", method="path", final_sweeps=20, points=8, beta=[0, 1.2])
    assert result.labels is None and result.mu is None and result.particles is None
    mask = np.ones(labels.shape)
    mask[2:4] = 0
    masked = mp.fit(labels + 0.1 * np.arange(11), mask=mask, method="path", final_sweeps=20, points=8)
    assert (masked.labels[2:4] == -1).all() and (masked.labels[4:] >= 0).all()
    lattice = mp.precompute(labels.shape, mask=mask, points=8).lattice
    assert lattice == masked.attributes["lattice"] != result.attributes["lattice"]


def test_simulated_images_are_those_of_the_command(here):
    (here / "input.toml").write_text(
        "seed = 4\n[image]\nshape = [6, 7]\n[simulate]\nimages = 2\nsweeps = 5\n"
    )
    assert program.main(["simulate", "input.toml", "--output", "images", "--quiet"]) == 0
    found = mp.simulate((6, 7), images=2, sweeps=5, seed=4)
    for number, each in enumerate(found):
        same = mp.load(f"images/image_00{number}.h5")
        assert (
            each.values.tobytes() == same.values.tobytes() and each.labels.tobytes() == same.labels.tobytes()
        )
        assert (each.beta, each.mean, each.sd, each.number) == (same.beta, same.mean, same.sd, number)


@pytest.mark.parametrize(
    ("call", "keys", "words"),
    [
        ("fit", {"lables": 3}, ["lables", "did you mean labels?"]),
        ("fit", {"labels": 1}, ["model.labels = 1", "2 to 255"]),
        ("fit", {"labels": np.arange(3)}, ["model.labels = [0, 1, 2]", "2 to 255"]),
        ("fit", {"labels": 3.5}, ["model.labels = 3.5"]),
        ("fit", {"labels": object()}, ["model.labels", "object"]),
        ("fit", {"burn_in": 3}, ["precompute.burn_in", "exchange.burn_in", "precompute={'burn_in': ...}"]),
        ("fit", {"smc": 3}, ["smc", "a dictionary", "particles"]),
        ("fit", {"smc": {"particle": 3}}, ["smc.particle", "did you mean particles?"]),
        ("fit", {"smc": {"particles": 3}, "particles": 3}, ["smc.particles", "twice"]),
        ("fit", {"images": 3}, ["images", "unknown key"]),
        ("fit", {"file": "x.h5"}, ["precompute.file", "binding"]),
        ("fit", {"binding": "none.h5"}, ["none.h5: no such file"]),
        ("fit", {"max_hours": 1.0}, ["max_hours", "output"]),
        ("fit", {"max_hours": "soon"}, ["max_hours = 'soon'", "positive number"]),
        ("fit", {"max_hours": -1, "output": "out"}, ["max_hours = -1", "positive number"]),
        ("fit", {"method": "magic"}, ["fit.method", "magic", "smc-abc"]),
        ("fit", {"mask": np.ones((2, 2))}, ["mask", "[9, 11]"]),
        ("fit", {"seed": -1}, ["seed = -1"]),
        ("precompute", {"points": 1}, ["precompute.points = 1"]),
        ("precompute", {"grid": "regular", "burn_in": 2000}, ["precompute.burn_in", "precompute.iterations"]),
        ("simulate", {"beta": "high"}, ["simulate.beta", "high"]),
        ("simulate", {"particles": 3}, ["particles", "unknown key"]),
    ],
)
def test_a_mistake_is_one_line_that_names_it(here, image, call, keys, words):
    subject = image if call == "fit" else ANYWHERE[call]
    with pytest.raises(mp.InputError) as caught:
        getattr(mp, call)(subject, **keys)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text and "mpi_potts-" not in text
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (None, "image is None"),
        (np.zeros((4, 5)), "image: all pixels are 0"),
        (np.full((4, 5), np.nan), "image: pixel [0, 0] is nan"),
        ([["a", "b"]], "image: holds values of type <U1"),
        ("none.npy", "none.npy: does not exist"),
        (np.arange(5.0), "shape [5]"),
    ],
    ids=str,
)
def test_an_image_that_cannot_be_segmented_is_refused(here, image, words):
    with pytest.raises(mp.InputError, match=re.escape(words)):
        mp.fit(image)


def test_load_refuses_what_it_cannot_give(here):
    for name in ("none.h5", "."):
        with pytest.raises(mp.InputError, match="no such file"):
            mp.load(name)
    (here / "text.h5").write_text("text")
    with pytest.raises(mp.InputError, match="not a file of mpi_potts"):
        mp.load("text.h5")


@pytest.mark.parametrize(
    "value",
    [True, 3, -0.1, 1e-9, 1e300, "text", 'a "quoted" \\ ü\n\x7f', [1, 2], [[0.5]], {"a b": 1, "c": "d"}, []],
    ids=repr,
)
def test_values_come_back_from_toml(value):
    tables = {"seed": 3, "table": {"key": value}}
    assert tomllib.loads(keywords.to_toml("call", tables)) == tables


def test_numpy_values_count_as_pythons():
    text = keywords.to_toml("call", {"t": {"a": np.float32(0.5), "b": np.arange(3), "c": np.bool_(True)}})
    assert tomllib.loads(text)["t"] == {"a": 0.5, "b": [0, 1, 2], "c": True}


def blocks():
    """Every piece of Python in the documents: (name, code)."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M)):
            yield pytest.param(code, id=f"{path.name}-{number}")


@pytest.mark.parametrize("code", [*blocks()])
def test_the_python_in_the_documents_runs(here, code):
    exec(compile(code, "document", "exec"), {})


def test_the_example_finds_the_truth(here):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "segment.py"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    mean, sd = map(float, re.search(r"labels  ([\d.]+) sd ([\d.]+)", done.stdout).groups())
    assert abs(mean - 0.8) < 4 * sd, done.stdout
    assert np.load("labels.npy").shape == (64, 64)
