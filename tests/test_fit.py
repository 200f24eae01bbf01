"""The fit of a hidden image: the truth is found, nothing is lost, nothing is ever not a number."""

import contextlib
import importlib
import signal
import time
from dataclasses import replace

import launch
import numpy as np
import pytest
from fitting import image_of, problem_of, run_fit, same_bits, write_input

from mpi_potts.binding.function import Binding
from mpi_potts.errors import InputError
from mpi_potts.io import fit_file, reading
from mpi_potts.io.formats import CHECKPOINT
from mpi_potts.runtime.parallel import ALONE
from mpi_potts.smc.sampler import Stop
from mpi_potts.smc.weights import Reason

SEPARATED = ([-2.0, 0.0, 2.0], [0.4, 0.4, 0.4])
OVERLAPPING = ([-1.5, 0.0, 1.5], [0.7, 0.6, 0.7])


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """One fit with two chains, from which many tests read."""
    directory = tmp_path_factory.mktemp("hidden")
    labels, values = image_of(0.8, *SEPARATED)
    path = write_input(directory, values, chains=2)
    attributes, arrays = run_fit(ALONE, path, directory / "out")
    return directory, path, attributes, arrays, labels


@pytest.mark.parametrize("beta", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("noise", [SEPARATED, OVERLAPPING], ids=["separated", "overlapping"])
def test_the_truth_is_recovered(tmp_path, beta, noise):
    mean, sd = noise
    labels, values = image_of(beta, mean, sd, shape=(64, 64), number=int(10 * beta))
    path = write_input(tmp_path, values, final_sweeps=4000)
    changes = ["precompute.points=200", "smc.label_sweeps=200", "smc.max_iterations=100"]
    attributes, arrays = run_fit(ALONE, path, tmp_path / "out", changes)
    # Four posterior sd: seven numbers in six images leave one false alarm in four hundred runs.
    draws = arrays["marginal/beta"]
    assert abs(draws.mean() - beta) < 4.0 * draws.std()
    for name, truth in (("noise/mean", mean), ("noise/sd", sd)):
        assert (np.abs(arrays[name].mean(axis=0) - truth) < 4.0 * arrays[name].std(axis=0)).all()
    # The true labels are as probable as the probabilities claim, in the mean over the pixels.
    claimed = np.take_along_axis(arrays["labels/probability"], labels[..., None].astype(int), -1)
    expected = (arrays["labels/probability"] ** 2).sum(axis=-1)
    error = claimed[..., 0].mean() - expected.mean()
    assert abs(error) < 4.0 * claimed.std() / np.sqrt(claimed.size / 4.0)
    assert attributes["stopped_because"] == Stop.NOISE
    assert attributes["warnings"] == ""


def test_nothing_in_a_result_is_not_a_number(hidden):
    _, _, attributes, arrays, _ = hidden
    for name, values in arrays.items():
        assert np.isfinite(values).all(), name
    assert "stopped_because" in attributes


def test_weights_sum_to_one_and_probabilities_too(hidden):
    arrays = hidden[3]
    assert abs(arrays["posterior/weight"].sum() - 1.0) < 1e-12
    assert (arrays["posterior/weight"] >= 0.0).all()
    assert np.abs(arrays["labels/probability"].sum(axis=-1) - 1.0).max() < 1e-6
    assert (arrays["labels/map"] == arrays["labels/probability"].argmax(axis=-1)).all()


def test_the_ess_is_within_one_per_cent_of_its_target_or_the_reason_is_recorded(hidden):
    arrays = hidden[3]
    off = np.abs(arrays["trace/ess"] / arrays["trace/target"] - 1.0) > 0.01
    assert (arrays["trace/reason"][off] != Reason.SOLVED).all()
    assert (arrays["trace/reason"][~off] == Reason.SOLVED).any()


def test_the_map_is_the_truth_where_labels_are_well_apart(hidden):
    _, _, _, arrays, labels = hidden
    assert (arrays["labels/map"] == labels).mean() > 0.97


def test_labels_are_in_the_order_of_their_means(hidden):
    assert (np.diff(hidden[3]["noise/mean"], axis=1) > 0.0).all()


def test_masked_pixels_have_no_label(tmp_path):
    labels, values = image_of(0.8, *SEPARATED, shape=(20, 24))
    values[3:7, 5:9] = np.nan
    values[0, 1] = values[1, 0] = np.nan  # leaves the corner an island of one pixel
    path = write_input(tmp_path, values, final_sweeps=200)
    _, arrays = run_fit(ALONE, path, tmp_path / "out", ["image.nodata=nan"])
    masked = np.isnan(values)
    assert (arrays["labels/map"][masked] == -1).all()
    assert (arrays["labels/probability"][masked] == 0.0).all()
    assert (arrays["labels/map"][~masked] == labels[~masked]).mean() > 0.95


def test_a_volume_is_fitted_by_the_general_kernels(tmp_path):
    z = np.zeros((8, 9, 10))
    z[:, :, 5:] = 1.0
    noise = np.random.default_rng(3).normal(0.0, 0.2, z.shape)
    path = write_input(tmp_path, z + noise, labels=2, final_sweeps=100, max_iterations=5)
    _, arrays = run_fit(ALONE, path, tmp_path / "out", ["precompute.points=30"])
    assert arrays["labels/probability"].shape == (8, 9, 10, 2)
    assert (arrays["labels/map"] == z).all()


def test_observed_labels_have_no_chain(tmp_path):
    labels, _ = image_of(0.7, *SEPARATED)
    path = write_input(tmp_path, labels, kind="labels")
    attributes, arrays = run_fit(ALONE, path, tmp_path / "out")
    assert not [name for name in arrays if name.startswith(("labels/", "noise/", "marginal/"))]
    assert np.ptp(arrays["trace/statistic"]) == 0.0
    mean = (arrays["posterior/beta"] * arrays["posterior/weight"]).sum()
    assert mean == pytest.approx(attributes["beta_mean"])
    assert abs(mean - 0.7) < 4.0 * attributes["beta_sd"]


def test_a_finished_fit_is_not_done_again(hidden, capsys):
    directory, path, *_ = hidden
    before = (directory / "out" / "result.h5").stat().st_mtime_ns
    run_fit(ALONE, path, directory / "out")
    assert "already" in capsys.readouterr().out
    assert (directory / "out" / "result.h5").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "change, named",
    [("seed=6", "seed"), ("smc.alpha=0.8", "smc.alpha"), ("prior.beta=[0.0,1.2]", "prior.beta")],
)
def test_a_result_of_another_input_is_refused_by_name(hidden, change, named):
    directory, path, *_ = hidden
    changes = [change, f"precompute.file={directory / 'out' / 'binding.h5'}"]
    if named == "seed":
        changes[1] = f"precompute.file={directory / 'other.h5'}"
    with pytest.raises(InputError, match=named):
        run_fit(ALONE, path, directory / "out", changes)


def test_a_binding_function_of_another_lattice_or_k_is_refused(hidden):
    directory, path, *_ = hidden
    problem = problem_of(ALONE, path, directory / "out")
    for name, value in (("labels", 4), ("lattice", "0" * 64)):
        fields = problem.binding.__dataclass_fields__
        other = Binding(**{f: getattr(problem.binding, f) for f in fields} | {name: value})
        with pytest.raises(InputError, match=name):
            replace(problem, binding=other)


@pytest.mark.filterwarnings("ignore")  # other people's
def test_arviz_opens_the_posterior(hidden):
    arviz = importlib.import_module("arviz")
    directory, _, _, arrays, _ = hidden
    posterior = arviz.from_netcdf(directory / "out" / "posterior.nc").posterior
    assert posterior["beta"].dims == ("chain", "draw")
    assert posterior["mu"].dims == ("chain", "draw", "label")
    assert np.array_equal(posterior["beta"].values.ravel(), arrays["marginal/beta"])
    assert np.array_equal(posterior["sigma"].values.reshape(-1, 3), arrays["noise/sd"])


def written(output, pattern):
    """When the newest file of this pattern was written; 0 where there is none."""
    times = [0]
    for file in output.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # replaced meanwhile
            times.append(file.stat().st_mtime_ns)
    return max(times)


def signalled(path, output, ranks, pattern):
    """Run the fit and interrupt it once it has written a file of this pattern; its exit code and words."""
    before = written(output, pattern)
    process = launch.start(["run", path, "--output", output, "--quiet"], ranks)
    while written(output, pattern) == before and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGUSR1)
    finished = launch.finish(process, 120)
    return finished.code, finished.stderr


def test_interrupted_and_continued_on_other_ranks_gives_the_same_bits(hidden):
    directory, path, _, arrays, _ = hidden
    output = directory / "interrupted"
    # As soon as something is written, so that dozens of iterations are left however fast the machine is.
    for ranks, pattern in ((2, "*.h5"), (3, "checkpoint.h5"), (1, "checkpoint.h5")):
        code, said = signalled(path, output, ranks, pattern)
        assert code == 75, said
    finished = launch.finish(launch.start(["run", path, "--output", output, "--quiet"], 2), 120)
    assert finished.code == 0, finished.stderr
    _, continued = reading.read(output / "result.h5", "mpi_potts result", 1)
    assert same_bits(arrays, continued) == []
    assert not list(output.glob("checkpoint*"))


def test_a_checkpoint_of_an_older_program_is_refused_by_name(tmp_path, monkeypatch):
    paths, settings = fit_file.FitPaths(tmp_path), {"seed": 1}
    with monkeypatch.context() as older:
        older.setattr(fit_file, "CHECKPOINT", CHECKPOINT._replace(version=1))
        fit_file.write_checkpoint(ALONE, paths, settings, {"final": np.zeros(2)}, "gather")
    with pytest.raises(InputError, match=r"checkpoint\.h5: version 1 of an older mpi_potts.*--fresh"):
        fit_file.find_checkpoint(paths, settings)
    fit_file.write_checkpoint(ALONE, paths, settings, {"final": np.zeros(2)}, "gather")
    assert fit_file.find_checkpoint(paths, settings) == (paths.checkpoint, [])


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it(hidden):
    directory, path, _, arrays, _ = hidden
    output = directory / "damaged"
    process = launch.start(["run", path, "--output", output, "--quiet"], 1)
    previous = output / "checkpoint.previous.h5"
    while not previous.exists() and process.poll() is None:
        time.sleep(0.01)
    launch.kill(process)
    process.communicate()
    checkpoint = output / "checkpoint.h5"
    if not checkpoint.exists():  # killed between the two renames
        checkpoint.write_bytes(b"")
    checkpoint.write_bytes(checkpoint.read_bytes()[: checkpoint.stat().st_size // 2])
    finished = launch.finish(launch.start(["run", path, "--output", output], 2), 120)
    assert finished.code == 0, finished.stderr
    assert "checkpoint.previous.h5, the one before it, is used" in finished.stderr
    assert "checkpoint.previous.h5: continued" in finished.stderr
    _, continued = reading.read(output / "result.h5", "mpi_potts result", 1)
    assert same_bits(arrays, continued) == []


def test_more_ranks_than_particles_are_refused(hidden):
    directory, path, *_ = hidden
    arguments = ["run", path, "--output", directory / "few", "--set", "smc.particles=2"]
    finished = launch.finish(launch.start(arguments, 3), 120)
    assert finished.code == 2
    assert "smc.particles = 2" in finished.said[0]
