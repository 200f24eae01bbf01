"""What a run leaves on a machine: its output, with the modes that the user chose, and nothing else; and the
memory that it takes.

Caches are the exceptions, as the documentation says: numba's and Python's beside the sources (or where the
user puts them), and matplotlib's list of fonts in its own directory.  Nothing is unpickled, and no shell run.
"""

import ast
import os
import re
import stat
from pathlib import Path

import launch
import numpy as np
import pytest
from fitting import image_of, write_input
from test_house import SOURCES

from mpi_potts.config import inputs
from mpi_potts.lattice import Lattice
from mpi_potts.methods import needs

SHORT = ("precompute.points=9", "precompute.iterations=20", "precompute.burn_in=5", "smc.max_iterations=3")
SHORT += ("smc.particles=30", "smc.replicates=5", "smc.label_sweeps=5", "fit.final_sweeps=20")
OUTPUT = {
    "binding.h5",
    "binding.states.h5",
    ".binding.lock",
    ".fit.lock",
    "result.h5",
    "posterior.nc",
    "end.h5",
    "report.html",
    "labels.png",
    "entropy.png",
    "probability.png",
}
FIGURES = "figure_"
UMASK = "import os, runpy; os.umask(0o027); runpy.run_module('mpi_potts', None, '__main__', True)"


def tree(directory):
    """Every path below a directory, with its content where it is a file."""
    found = sorted(directory.rglob("*"))
    return {str(p.relative_to(directory)): p.read_bytes() if p.is_file() else None for p in found}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A whole run on two ranks with a home, a temporary and a working directory of its own."""
    base = tmp_path_factory.mktemp("footprint")
    places = {name: base / name for name in ("home", "tmp", "work", "input")}
    for place in places.values():
        place.mkdir()
    path = write_input(places["input"], image_of(0.8, [-1.0, 0.0, 1.0], [0.4] * 3, (12, 13))[1])
    before = tree(places["input"])
    sets = [part for change in SHORT for part in ("--set", change)]
    done = launch.launch(
        ["run", path, "--output", base / "out", "--quiet", *sets],
        2,
        180,
        cwd=places["work"],
        program=["-c", UMASK],
        HOME=str(places["home"]),
        TMPDIR=str(places["tmp"]),
        # The kernels that earlier tests compiled, wherever they are.
        NUMBA_CACHE_DIR=os.environ.get("NUMBA_CACHE_DIR", ""),
        MPLCONFIGDIR=str(places["home"] / "matplotlib"),
    )
    assert done.code == 0, done.stderr
    return base, places, before


def test_nothing_is_written_outside_the_output(ran):
    _, places, before = ran
    assert tree(places["input"]) == before
    assert tree(places["work"]) == {}
    home = {name for name in tree(places["home"]) if not name.startswith("matplotlib")}
    assert home == set()
    # The launcher's own session directory aside, which it removes when it can.
    left = {name for name in tree(places["tmp"]) if not name.startswith(("ompi.", "prte.", "pmix"))}
    assert left == set()


def test_the_output_is_what_the_documentation_names(ran):
    names = set(tree(ran[0] / "out"))
    assert {name for name in names if not name.startswith(FIGURES)} == OUTPUT
    assert any(name.startswith(FIGURES) for name in names)


def test_modes_follow_the_umask(ran):
    output = ran[0] / "out"
    assert stat.S_IMODE(output.stat().st_mode) == 0o750
    modes = {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in output.iterdir()}
    assert set(modes.values()) == {"0o640"}, modes


# Memory

PEAK = """
import atexit, runpy
def say():
    with open("/proc/self/status") as file:
        print("peak", next(line.split()[1] for line in file if line.startswith("VmHWM")), flush=True)
atexit.register(say)
runpy.run_module("mpi_potts", None, "__main__", True)
"""
FEW = ("precompute.grid=[0.0, 0.6, 1.2, 1.3]", "precompute.iterations=8", "precompute.burn_in=2")
FEW += ("fit.method=path", "fit.final_sweeps=12", "fit.final_burn_in=2", "smc.warm_up=5")


def peak(directory, side, k):
    """Bytes that a fit on an image of so many rows and columns holds, at most."""
    data = np.random.default_rng(1)
    regions = np.repeat(np.repeat(data.integers(0, k, (20, 20)), side // 20, axis=0), side // 20, axis=1)
    path = write_input(directory, regions + 0.2 * data.normal(size=regions.shape), labels=k)
    sets = [part for change in (*FEW, "run.checkpoint_minutes=60") for part in ("--set", change)]
    rest = ["--output", directory / f"out{side}", "--quiet", *sets]
    done = launch.launch(["precompute", path, *rest], launcher=False, seconds=300)
    assert done.code == 0, done.stderr
    done = launch.launch(["fit", path, "--fresh", *rest], launcher=False, seconds=300, program=["-c", PEAK])
    assert done.code == 0, done.stderr
    return path, 1024 * int(re.findall(r"peak (\d+)", done.stdout)[0])


def test_a_fit_holds_less_than_60_bytes_a_site_and_what_check_says(tmp_path):
    """Of k = 6 labels in one chain: what a larger image takes more, and not what any fit takes."""
    small, large, k = 1200, 2400, 6  # both beyond LARGE of labels/chain.py, where clusters change less often
    peak(tmp_path, small, k)  # so that no kernel is compiled below
    _, least = peak(tmp_path, small, k)
    path, most = peak(tmp_path, large, k)
    lattice = Lattice((large, large))
    found = (most - least) / (large * large - small * small)
    predicted = sum(needs.of_fit(inputs.load(path, FEW), lattice, 1).values()) / lattice.sites
    assert found < 60.0, (found, predicted)
    assert 0.85 * predicted < found < 1.15 * predicted, (found, predicted)


# The sources

SHELLS = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn")
UNPICKLERS = (
    "pickle.load",
    "pickle.loads",
    "np.load",
    "numpy.load",
    "joblib.load",
    "eval",
    "exec",
    "__import__",
)
ALLOWED = {("image/readers.py", "np.load")}  # with allow_pickle=False, as test_house.py holds


def calls(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_shell_is_run():
    for file, text in SOURCES.items():
        for name, node in calls(text):
            assert name not in SHELLS, f"{file}:{node.lineno} runs a shell"
            assert all(k.arg != "shell" for k in node.keywords), f"{file}:{node.lineno} names a shell"


def test_nothing_is_unpickled():
    found = {(file, name) for file, text in SOURCES.items() for name, _ in calls(text) if name in UNPICKLERS}
    assert found == ALLOWED
    for name, node in calls(SOURCES["image/readers.py"]):
        if name == "np.load":
            assert {k.arg: ast.unparse(k.value) for k in node.keywords} == {"allow_pickle": "False"}


def test_a_pickle_in_place_of_an_array_is_not_run(tmp_path):
    """np.load runs a pickle whose name ends in .npy, unless it is told not to."""
    import pickle

    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / "image.npy").write_bytes(pickle.dumps(Trap()))
    path = tmp_path / "input.toml"
    path.write_text('[image]\npath = "image.npy"\n')
    done = launch.launch(["check", path], launcher=False)
    assert done.code == 2 and len(done.said) == 1, done.stderr
    assert not (tmp_path / "sprung").exists()
    np.save(tmp_path / "image.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    done = launch.launch(["check", path], launcher=False)
    assert done.code == 2 and "never loaded" in done.stderr and not (tmp_path / "sprung").exists()
    # The trap works: unpickling it, as np.load would, springs it.
    pickle.loads(pickle.dumps(Trap()))
    assert (tmp_path / "sprung").exists()
