"""The command line as users and scripts meet it: exit codes, one line for bad input, nothing written."""

import os
import re

import h5py
import numpy as np
import pytest
from fitting import image_of, write_input
from launch import ROOT, launch
from mpi4py import MPI
from numba import njit

from mpi_potts import __main__ as program
from mpi_potts import __version__
from mpi_potts.cli import parser, simulate
from mpi_potts.config import inputs
from mpi_potts.io import formats, reading, store
from mpi_potts.kernels import compiling
from mpi_potts.posterior import summary

INPUTS = ROOT / "inputs"

SMALL = """\
[image]
shape = [12, 13]
[precompute]
grid = "critical"
points = 4
iterations = 20
burn_in = 5
[simulate]
images = 3
sweeps = 5
"""

# Arguments after the input file, and what the line must name.
BAD_INPUT = [
    (["--set", "model.lables=3"], ["model.lables", "3", "labels"]),
    (["--set", "model.labels=1"], ["model.labels", "1", "2 to 255"]),
    (["--set", "model.labels=many"], ["model.labels", "many", "2 to 255"]),
    (["--set", "precompute.burn_in=20"], ["precompute.burn_in", "20", "precompute.iterations"]),
    (["--set", "prior.beta=[-1, 1]"], ["prior.beta", "-1", ">= 0"]),
    (["--set", "prior.beta=[1, 0.5]"], ["prior.beta", "[1.0, 0.5]"]),
    (["--set", "smc.alpha=1.5"], ["smc.alpha", "1.5", "< 1"]),
    (["--set", "smc.particles=0"], ["smc.particles", "0"]),
    (["--set", "image.shape=[1, 1]"], ["neighbours"]),
    (["--set", "image.mask=empty.npy"], ["input.toml", "neighbours"]),
]

BAD_COMMAND_LINES = [
    [],
    ["chekc", "input.toml"],
    ["check"],
    ["check", "input.toml", "--nonsense"],
    ["check", "input.toml", "--max-hours", "soon"],
    ["check", "input.toml", "--max-hours", "-1"],
    ["check", "input.toml", "--max-hours", "nan"],
    ["check", "input.toml", "--output", ""],
    ["check", "input.toml", "--set", "seed"],
    ["check", "input.toml", "--fres"],
    ["check", "missing.toml"],
    ["inspect", "missing.h5"],
    ["inspect", "input.toml"],
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An input file in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.toml").write_text(SMALL)
    np.save(tmp_path / "empty.npy", np.zeros((12, 13)))
    return tmp_path


def everything_in(directory):
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def refuse(here, capfd, arguments):
    """Run in this process; the one line that was said."""
    before = everything_in(here)
    assert program.main(arguments) == 2
    said = capfd.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1
    assert everything_in(here) == before
    return said.err


@pytest.mark.parametrize(("arguments", "parts"), BAD_INPUT)
@pytest.mark.parametrize("command", ["check", "simulate", "precompute"])
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(here, capfd, command, arguments, parts):
    said = refuse(here, capfd, [command, "input.toml", *arguments])
    assert all(part in said for part in parts), said


@pytest.mark.parametrize("arguments", BAD_COMMAND_LINES)
def test_a_bad_command_line_is_one_line_and_exit_code_2(here, capfd, arguments):
    refuse(here, capfd, arguments)


@pytest.mark.parametrize("command", parser.COMMANDS, ids=lambda each: each.name)
def test_help_says_what_a_command_takes_and_no_more(here, capfd, command):
    assert program.main([command.name, "--help"]) == 0
    page = capfd.readouterr().out
    flags = {parser.OPTIONS[name][0] for name in command.options if name != "silent"}
    assert set(re.findall(r"(?<!\S)--[a-z-]+(?= |\n)", page.partition("example:")[0])) - {"--help"} == flags
    assert max(map(len, page.splitlines())) <= 110
    example = page.partition("example:\n")[2]
    assert f"mpi-potts {command.name}" in example
    # The example is one that the parser accepts.
    parser.parse(example.split()[example.split().index("mpi-potts") + 1 :])
    others = {flag for flag, _ in parser.OPTIONS.values()} - flags - {"--quiet"}
    target = ["input.toml"] if command.target else []
    for flag in sorted(others):
        value = [] if flag == "--fresh" else ["1"]
        assert flag in refuse(here, capfd, [command.name, *target, flag, *value])


def test_help_names_every_command(capfd):
    assert program.main(["--help"]) == 0
    page = capfd.readouterr().out
    for each in parser.COMMANDS:
        assert re.search(rf"^    {each.name}\s", page, re.M) and each.text in " ".join(page.split())


def test_compiling_is_said_once_and_only_where_it_happens():
    told, double = [], njit(lambda x: 2 * x)
    with compiling.announced(lambda: told.append("now")):
        assert double(2) == 4 and told == ["now"]
        assert double(2.0) == 4.0
    with compiling.announced(lambda: told.append("again")):
        double(3)
    assert told == ["now"]


def test_a_missing_image_is_refused_except_where_the_shape_is_enough(here, capfd):
    missing = ["input.toml", "--set", "image.path=none.npy", "--quiet"]
    assert "none.npy: does not exist" in refuse(here, capfd, ["check", *missing])
    assert program.main(["simulate", *missing]) == 0


@pytest.mark.parametrize("command", ["fit", "run"])
def test_fit_needs_an_image_that_can_be_segmented(here, capfd, command):
    assert "image.path is missing" in refuse(here, capfd, [command, "input.toml"])
    pixels = np.arange(156.0).reshape(12, 13)
    for value, part in ((np.nan, "pixel [3, 4] is nan"), (np.inf, "pixel [3, 4] is inf")):
        pixels[3, 4] = value
        np.save(here / "image.npy", pixels)
        said = refuse(here, capfd, [command, "input.toml", "--set", "image.path=image.npy"])
        assert "image.npy" in said and part in said
    np.save(here / "image.npy", np.ones((12, 13)))
    assert "all pixels are 1" in refuse(here, capfd, [command, "input.toml", "--set", "image.path=image.npy"])
    np.save(here / "image.npy", pixels > 70)
    assert "2 different" in refuse(here, capfd, [command, "input.toml", "--set", "image.path=image.npy"])


def test_version(capfd):
    assert program.main(["--version"]) == 0
    assert capfd.readouterr().out == f"mpi-potts {__version__}\n"


def test_check_prints_the_plan_and_writes_nothing(here, capfd):
    before = everything_in(here)
    assert program.main(["check", "input.toml"]) == 0
    page = capfd.readouterr().out
    assert everything_in(here) == before
    for part in ("12 x 13", "4 betas", "ns a site", "MB a rank", "time"):
        assert part in page


def test_check_sees_what_the_output_holds(here, capfd):
    np.save(here / "image.npy", np.arange(156.0).reshape(12, 13) % 17)
    image = ["input.toml", "--set", "image.path=image.npy", "--output", "out"]
    image += ["--set", "fit.method=path", "--set", "fit.final_sweeps=5"]
    assert program.main(["check", *image]) == 0
    page = capfd.readouterr().out
    assert "4 betas" in page and "label means" in page and "there already" not in page
    assert "for fit on 1 rank(s)" in page and "apart from starting" in page
    assert program.main(["run", *image, "--quiet"]) == 0
    capfd.readouterr()
    assert program.main(["check", *image]) == 0
    page = capfd.readouterr().out
    assert page.count("there already") == 2 and "for precompute" not in page and "for fit" not in page
    assert "made with seed = 1" in refuse(
        here, capfd, ["check", *image, "--set", "seed=2", "--set", "precompute.file=none.h5"]
    )
    assert "out/binding.h5" in refuse(here, capfd, ["check", *image, "--set", "model.labels=4"])
    assert program.main(["check", *image, "--set", "precompute.points=5"]) == 0
    assert "will be extended" in capfd.readouterr().out


def test_check_plans_the_smc_and_studies_and_no_noise_for_observed_labels(here, capfd):
    np.save(here / "labels.npy", np.arange(156).reshape(12, 13) % 3)
    labels = ["--set", "image.path=labels.npy", "--set", "image.kind=labels", "--set", "smc.particles=20"]
    assert program.main(["check", "input.toml", *labels]) == 0
    page = capfd.readouterr().out
    assert "label means" not in page and "ms an iteration" in page and "compiling" in page
    study = [
        "--set",
        'study.methods=["path", "smc-abc"]',
        "--set",
        "smc.particles=20",
        "--set",
        "smc.replicates=5",
    ]
    assert program.main(["check", "input.toml", *study]) == 0
    page = capfd.readouterr().out
    assert "3 simulated images" in page and "6 fits" in page
    assert re.findall(r"^method +([a-z-]+):", page, re.M) == ["path", "smc-abc"]


def test_simulate_writes_what_the_design_names_and_continues(here, capfd):
    arguments = ["simulate", "input.toml", "--output", "images", "--quiet"]
    assert program.main([*arguments, "--set", "simulate.images=2"]) == 0
    times = {path: path.stat().st_mtime_ns for path in (here / "images").iterdir()}
    assert program.main(arguments) == 0
    assert sorted(path.name for path in (here / "images").iterdir()) == [f"image_00{i}.h5" for i in range(3)]
    assert all(path.stat().st_mtime_ns == then for path, then in times.items())
    with h5py.File(here / "images" / "image_002.h5") as file:
        assert file["values"].shape == file["labels"].shape == (12, 13)
        assert 0.0 <= file.attrs["beta"] <= 1.005
        assert file.attrs["mean"].shape == file.attrs["sd"].shape == (3,)
        assert file.attrs["seed"] == 1
    said = refuse(here, capfd, [*arguments, "--set", "seed=2"])
    assert "image_000.h5: has seed = 1" in said and "--fresh" in said
    assert program.main([*arguments, "--set", "seed=2", "--fresh"]) == 0
    with h5py.File(here / "images" / "image_000.h5") as file:
        assert file.attrs["seed"] == 2


def test_simulate_stops_at_the_time_limit_and_goes_on(here, capfd):
    arguments = ["simulate", "input.toml", "--output", "images", "--quiet"]
    assert program.main([*arguments, "--max-hours", "1e-9"]) == 75
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1 and "--max-hours" in said and "again" in said
    assert not list((here / "images").iterdir())
    assert program.main(arguments) == 0
    assert len(list((here / "images").iterdir())) == 3


def test_the_inputs_that_come_with_the_program_are_right(capfd):
    for path in sorted(INPUTS.glob("*.toml")):
        inputs.load(path)
    for name in ("demo", "labels", "simulation"):
        assert program.main(["check", str(INPUTS / f"{name}.toml"), "--set", "precompute.points=2"]) == 0


def test_the_image_of_the_demonstration_is_what_its_input_says():
    settings = inputs.load(INPUTS / "demo.toml")
    expected = simulate.plan(settings, simulate.lattice_to_simulate(settings), 0).attributes
    found, data = reading.read(settings.image.path, *formats.IMAGE)
    assert {name: found[name] for name in expected} == expected
    assert found["statistic"] == simulate.lattice_to_simulate(settings).statistic(data["labels"])


def test_simulated_images_can_be_read_as_values_and_as_labels(here, capfd):
    beta = ["--set", "simulate.beta=0.2", "--output", "images", "--quiet"]
    assert program.main(["simulate", "input.toml", *beta]) == 0
    for extra in ([], ["--set", "image.dataset=labels", "--set", "image.kind=labels"]):
        assert program.main(["check", "input.toml", "--set", "image.path=images/image_001.h5", *extra]) == 0


def test_a_file_of_others_is_never_overwritten_by_a_binding_function(here, capfd):
    named = ["input.toml", "--set", "precompute.file=empty.npy"]
    for command in ("precompute", "study", "check"):
        assert "empty.npy: not a file of mpi_potts" in refuse(here, capfd, [command, *named])


def test_a_directory_that_cannot_be_written_is_one_line(here, capfd):
    (here / "file").write_text("in the way")
    for output in ("file", "file/below"):
        assert "file" in refuse(here, capfd, ["check", "input.toml", "--output", output])
    assert "file" in refuse(here, capfd, ["simulate", "input.toml", "--output", "file"])
    assert "file" in refuse(here, capfd, ["simulate", "input.toml", "--output", "file/below"])


def test_inspect_shows_the_file_in_a_page(here, capfd):
    assert program.main(["simulate", "input.toml", "--output", "images", "--quiet"]) == 0
    capfd.readouterr()
    assert program.main(["inspect", "images/image_000.h5"]) == 0
    page = capfd.readouterr().out
    for part in ("mpi_potts image", "beta", "12 x 13", "values", "labels", "checksum right", "points = 4"):
        assert part in page
    assert len(page.splitlines()) < 60


def test_inspect_says_of_beta_what_the_result_says(here, capfd):
    beta = np.linspace(0.5, 0.7, 2001)
    weight = np.where(beta < 0.6, 3.0, 1.0) / np.where(beta < 0.6, 3.0, 1.0).sum()
    datasets = {"posterior/beta": beta, "posterior/weight": weight, "marginal/beta": beta}
    numbers = {"mean": 0.61, "sd": 0.02, "low": 0.57, "median": 0.612, "high": 0.65, "ess": 321.0}
    attributes = {f"beta_{name}": value for name, value in numbers.items()} | {"warnings": "with care"}
    store.write(MPI.COMM_SELF, here / "result.h5", "mpi_potts result", 1, attributes, datasets)
    assert program.main(["inspect", "result.h5"]) == 0
    page = capfd.readouterr().out
    said = re.findall(r"  ([\d.]+) sd ([\d.]+), 95 % ([\d.]+) to ([\d.]+) \(ESS ([\d.]+)", page)
    marginal, particles = np.array(said, dtype=float)
    assert marginal.tolist() == [0.61, 0.02, 0.57, 0.65, 321.0]
    expected = summary.of_particles(beta, weight)
    np.testing.assert_allclose(
        particles[:4], [expected.mean, expected.sd, expected.low, expected.high], atol=5e-6
    )
    # Three quarters of the weight is uniform on 0.5 to 0.6, a quarter on 0.6 to 0.7; steps of 1e-4.
    np.testing.assert_allclose(
        particles[:4], [0.575, np.sqrt(0.1**2 / 12 + 0.05**2 * 0.75), 0.50333, 0.69], atol=2e-4
    )
    assert "warning: with care" in page


def test_inspect_takes_a_directory_and_the_draws_for_other_programs(here, capfd):
    draws = np.linspace(0.5, 0.7, 400).reshape(2, 200)
    store.write_draws(here / "posterior.nc", {"beta": draws})
    assert program.main(["inspect", "posterior.nc"]) == 0
    said = capfd.readouterr().out
    assert "2 chain(s) of 200" in said and str(summary.of_chains(draws, 1.0, 1.0)).split(" (")[0] in said
    assert "no result.h5" in refuse(here, capfd, ["inspect", "."])
    assert "no result.h5" in refuse(here, capfd, ["report", "."])
    assert "no such file" in refuse(here, capfd, ["inspect", "none.nc"])
    (here / "text.nc").write_text("text")
    assert "text.nc" in refuse(here, capfd, ["inspect", "text.nc"])
    store.write(MPI.COMM_SELF, here / "study.h5", "mpi_potts study", 1, {}, {"x": np.arange(3)})
    assert program.main(["inspect", "."]) == 0
    assert "study.h5: mpi_potts study" in capfd.readouterr().out


def test_inspect_refuses_what_is_not_a_whole_file_of_this_program(here, capfd):
    assert program.main(["simulate", "input.toml", "--output", "images", "--quiet"]) == 0
    capfd.readouterr()
    whole = (here / "images" / "image_000.h5").read_bytes()
    (here / "truncated.h5").write_bytes(whole[: len(whole) // 2])
    (here / "empty.h5").write_bytes(b"")
    (here / "noise.h5").write_bytes(os.urandom(5000))
    with h5py.File(here / "foreign.h5", "w") as file:
        file["x"] = np.arange(5)
    with h5py.File(here / "changed.h5", "w") as file, h5py.File(here / "images" / "image_000.h5") as source:
        file.attrs.update(source.attrs)
        file["labels"] = source["labels"][()]
        file["values"] = source["values"][()] + 1
    for name in ("truncated", "empty", "noise", "foreign", "changed"):
        assert f"{name}.h5" in refuse(here, capfd, ["inspect", f"{name}.h5"])


@pytest.mark.parametrize("ranks", [1, 2])
def test_doctor_finds_the_launcher_and_the_libraries(ranks):
    ended = launch(["doctor"], ranks)
    assert ended.code == 0, ended.stderr + ended.stdout
    assert f"the communicator has {ranks}" in ended.stdout
    assert ended.stdout.count("verdict") == 1 and "everything needed is there" in ended.stdout
    parallel = "yes" if store.parallel_hdf5() else "no"
    for part in ("mpi4py", "h5py", f"parallel {parallel}", "NUMBA_NUM_THREADS=1", "cpu", "vectors", "numpy"):
        assert part in ended.stdout
    assert "prefer-256-bit" not in ended.stdout


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_a_launcher_of_another_library_is_found_and_refused(here, variable):
    ended = launch(["doctor"], launcher=False, **{variable: "4"})
    assert ended.code == 1 and "WRONG" in ended.stdout and variable in ended.stdout
    ended = launch(["check", "input.toml"], launcher=False, **{variable: "4"})
    assert ended.code == 2 and len(ended.stderr.splitlines()) == 1 and variable in ended.stderr


def test_on_several_ranks_bad_input_is_said_once_and_ends_all(here):
    for arguments in (
        ["check", "input.toml", "--set", "smc.alpha=2"],
        ["nonsense"],
        ["inspect", "input.toml"],
    ):
        ended = launch(arguments, ranks=3, cwd=here)
        assert ended.code == 2
        assert len(ended.said) == 1, ended.stderr


def test_any_number_of_ranks_simulates_the_same_images(here):
    for ranks in (1, 2, 4):
        ended = launch(["simulate", "input.toml", "--output", str(ranks)], ranks, seconds=300, cwd=here)
        assert ended.code == 0, ended.stderr
    for number in range(3):
        files = [h5py.File(here / str(ranks) / f"image_00{number}.h5") for ranks in (1, 2, 4)]
        for name in ("values", "labels"):
            assert len({file[name][()].tobytes() for file in files}) == 1
        assert len({file.attrs["checksum"] for file in files}) == 1
        for file in files:
            file.close()


def test_an_error_on_one_rank_shows_its_traceback_and_ends_all(tmp_path):
    """The program must not hang when one rank fails in a way that nobody foresaw."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('OMPI_COMM_WORLD_RANK', os.environ.get('PMI_RANK')) == '1':\n"
        "    import socket\n"
        "    def gethostname():\n"
        "        raise ZeroDivisionError('rank one is broken')\n"
        "    socket.gethostname = gethostname\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    ended = launch(["doctor"], ranks=2, PYTHONPATH=path)
    assert ended.code not in (0, 2, 75)
    assert "rank one is broken" in ended.stderr and "rank 1" in ended.stderr


def test_run_fresh_starts_over_with_what_is_its_own_and_keeps_what_is_shared(tmp_path, capfd):
    _, values = image_of(0.8, [-2.0, 2.0], [0.6, 0.6], shape=(8, 9))
    path = write_input(tmp_path, values, labels=2, final_sweeps=20, max_iterations=2)
    short = ["--set", "precompute.points=6", "--set", "precompute.iterations=40"]
    short += ["--set", "precompute.burn_in=10", "--quiet", "--output", str(tmp_path / "out")]
    command = ["run", str(path), *short]
    assert program.main(command) == 0
    other = [*command, "--set", "seed=6"]
    assert program.main(other) == 2
    assert "computed for seed = 5" in capfd.readouterr().err
    assert program.main([*other, "--fresh"]) == 0
    assert reading.read(tmp_path / "out" / "binding.h5", "mpi_potts binding", 1)[0]["seed"] == 6
    shared = tmp_path / "out" / "binding.h5"
    before = shared.read_bytes()
    elsewhere = ["--fresh", "--set", f"precompute.file='{shared}'", "--set", "seed=7"]
    assert program.main([*command, *elsewhere]) == 2
    assert shared.read_bytes() == before


def test_check_plans_a_curve_for_any_image_or_for_one(here, capfd):
    np.save(here / "image.npy", np.arange(156.0).reshape(12, 13) % 17)
    adaptive = ["input.toml", "--set", "precompute.grid=adaptive", "--set", "precompute.accuracy=0.2"]
    assert program.main(["check", *adaptive]) == 0
    page = capfd.readouterr().out
    assert "over the interval of the prior" in page and f"about {round(4000 / 0.2)} sweeps of" in page
    assert program.main(["check", *adaptive, "--set", "image.path=image.npy"]) == 0
    page = capfd.readouterr().out
    assert "where the posterior is" in page and "for a first curve" in page
