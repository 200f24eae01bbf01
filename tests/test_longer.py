"""A finished fit goes on where its input asks for more of the same, to the bits of one long run."""

import re

import pytest
from fitting import image_of, problem_of, run_fit, same_bits, write_input
from method_cases import Impatient

from mpi_potts.cli import check
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.io import fit_file
from mpi_potts.runtime.parallel import ALONE

AUTO = ["fit.method=path", "fit.final_sweeps=auto", "run.checkpoint_minutes=60"]
FIXED = ["fit.method=path", "run.checkpoint_minutes=60"]
EXCHANGE = ["fit.method=exchange", "exchange.auxiliary_sweeps=3", "exchange.burn_in=20"]


@pytest.fixture
def path(tmp_path):
    _, values = image_of(0.8, [-2.0, 0.0, 2.0], [0.8, 0.8, 0.8], shape=(16, 15))
    return write_input(tmp_path, values, chains=2, final_sweeps=120)


LONGER = [
    (FIXED, ["fit.final_sweeps=120"], ["fit.final_sweeps=300"]),
    (AUTO, ["fit.max_sweeps=500"], ["fit.max_sweeps=1300"]),
    (AUTO, ["fit.target.ess=60", "fit.target.rhat=1.1"], ["fit.target.ess=300", "fit.target.rhat=1.02"]),
    (EXCHANGE, ["exchange.iterations=60"], ["exchange.iterations=150"]),
    (["smc.max_iterations=4", "smc.particles=50"], ["fit.final_sweeps=0"], ["fit.final_sweeps=90"]),
]


@pytest.mark.parametrize("keys, short, long", LONGER)
def test_a_longer_fit_goes_on_from_the_end_to_the_same_bits(tmp_path, path, keys, short, long):
    _, first = run_fit(ALONE, path, tmp_path / "twice", [*keys, *short])
    attributes, twice = run_fit(ALONE, path, tmp_path / "twice", [*keys, *long])
    whole, once = run_fit(ALONE, path, tmp_path / "once", [*keys, *long])
    assert same_bits(twice, once) == [] and same_bits(first, once) != []
    assert attributes["warnings"] == whole["warnings"]
    assert attributes["settings"] == whole["settings"]


def test_a_longer_fit_that_is_stopped_goes_on_too(tmp_path, path):
    run_fit(ALONE, path, tmp_path / "out", [*AUTO, "fit.max_sweeps=300"])
    longer = [*AUTO, "fit.max_sweeps=1300"]
    with pytest.raises(Interrupted):
        run_fit(ALONE, path, tmp_path / "out", longer, control=Impatient(9))
    _, arrays = run_fit(ALONE, path, tmp_path / "out", longer)
    _, once = run_fit(ALONE, path, tmp_path / "once", longer)
    assert same_bits(arrays, once) == []


def test_the_limits_that_warnings_name_lead_to_the_target(tmp_path, path):
    limits, keys = [300], [*AUTO, "fit.target.ess=300"]
    while len(limits) < 5:
        attributes, _ = run_fit(ALONE, path, tmp_path / "out", [*keys, f"fit.max_sweeps={limits[-1]}"])
        named = re.search(r"raise fit\.max_sweeps from (\d+) to (\d+)", attributes["warnings"])
        if named is None:
            break
        assert int(named[1]) == limits[-1]
        limits.append(int(named[2]))
    assert 2 <= len(limits) <= 4 and "fit.target" not in attributes["warnings"]


REFUSED = [
    (FIXED, "fit.final_sweeps=100"),
    (FIXED, 'fit.final_sweeps="auto"'),
    (FIXED, "fit.marginal=synthetic"),
    (AUTO, "fit.max_sweeps=19999"),
    (AUTO, "fit.target.ess=50"),
]


@pytest.mark.parametrize("keys, change", REFUSED)
def test_what_is_no_continuation_is_refused(tmp_path, path, keys, change):
    keys = [*keys, "fit.target.ess=80", "fit.target.rhat=1.1"]
    run_fit(ALONE, path, tmp_path / "out", keys)
    with pytest.raises(InputError, match=change.partition("=")[0].replace(".", r"\.") + " = ") as refused:
        run_fit(ALONE, path, tmp_path / "out", [*keys, change])
    assert ("at least as much" in str(refused.value)) == ("marginal" not in change)


def test_without_the_end_a_longer_fit_is_refused(tmp_path, path):
    run_fit(ALONE, path, tmp_path / "out", [*FIXED, "run.keep_end=false"])
    assert not (tmp_path / "out" / "end.h5").exists()
    with pytest.raises(InputError, match=r"fit\.final_sweeps = 120.*keep_end"):
        run_fit(ALONE, path, tmp_path / "out", [*FIXED, "fit.final_sweeps=300"])


def test_check_foresees_that_a_fit_goes_on(tmp_path, path):
    run_fit(ALONE, path, tmp_path / "out", FIXED)
    rows = check.result_rows(problem_of(ALONE, path, tmp_path / "out", [*FIXED, "fit.final_sweeps=300"]))
    assert rows == [("checkpoint", f"{tmp_path / 'out' / 'end.h5'}: the fit goes on from it")]
    rows = check.result_rows(problem_of(ALONE, path, tmp_path / "out", FIXED))
    assert "there already" in rows[0][1]


@pytest.mark.parametrize("method", ["path", "pseudolikelihood"])
def test_a_wider_prior_keeps_the_labels_and_begins_again(tmp_path, path, capfd, method):
    # Looks at modes would make steps of their own.
    out, keys = tmp_path / "out", [f"fit.method={method}", "fit.crossing=false", "run.checkpoint_minutes=60"]
    narrow, _ = run_fit(ALONE, path, out, [*keys, "prior.beta=[0.0, 0.5]"])
    wider = re.search(r"widen prior\.beta, to \[0, ([0-9.]+)\] say", narrow["warnings"])
    assert 0.8 < float(wider[1]) <= 1.0
    before = fit_file.read_group(out / "end.h5", "labels")["chain/steps"]
    attributes, arrays = run_fit(ALONE, path, out, [*keys, "prior.beta=[0.0, 1.3]"])
    assert "prior.beta is wider" in capfd.readouterr().err
    # The chains go on from the step they had made, without another start, and all draws are new ones.
    steps = fit_file.read_group(out / "end.h5", "labels")["chain/steps"]
    assert (steps[:, 0] - before[:, 0]).tolist() == [220, 220]
    assert (attributes["sweeps"], attributes["burn_in"]) == (120, 100)
    assert arrays["marginal/beta"].mean() > 0.5


def test_a_wider_prior_of_an_smc_keeps_the_labels_too(tmp_path, path, capfd):
    out, keys = tmp_path / "out", ["smc.max_iterations=6", "smc.particles=50", "run.checkpoint_minutes=60"]
    run_fit(ALONE, path, out, [*keys, "prior.beta=[0.0, 0.5]"])
    rows = check.result_rows(problem_of(ALONE, path, out, [*keys, "prior.beta=[0.0, 1.3]"]))
    assert "prior.beta is wider" in rows[0][1]
    _, arrays = run_fit(ALONE, path, out, [*keys, "prior.beta=[0.0, 1.3]"])
    assert "prior.beta is wider" in capfd.readouterr().err
    assert arrays["trace/iteration"].tolist() == [1, 2, 3, 4, 5, 6][: arrays["trace/iteration"].size]
    assert arrays["marginal/beta"].mean() > 0.5


def test_a_narrower_prior_is_refused(tmp_path, path):
    run_fit(ALONE, path, tmp_path / "out", FIXED)
    with pytest.raises(InputError, match=r"prior\.beta"):
        run_fit(ALONE, path, tmp_path / "out", [*FIXED, "prior.beta=[0.0, 0.9]"])
