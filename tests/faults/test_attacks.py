"""A job that is attacked at any moment goes on, on any number of ranks, to the bits of the undisturbed one.

The attacks here are chosen so that every kind of stop, file and writer is met; `make faults` draws as many
others as you like, and the long test a hundred.
"""

import importlib.util
import os
import random
import shutil
from pathlib import Path

import h5py
import jobs
import kinds
import pytest
from attacks import LATE, Plan

# kind, job, writer, ranks, ranks afterwards, moment, which of the times it comes, rank
CHOSEN = (
    Plan("kill -9 of one rank", "fit", "mpio", 2, 3, "dataset created", 0.6, 1),
    Plan("kill -9 of all", "fit", "mpio", 2, 1, "after a rename", 0.7, 0),
    Plan("kill -9 of mpirun", "precompute", "gather", 3, 2, "before a rename", 0.5, 1),
    Plan("kill -9 of all, any time", "fit", "mpio", 2, 2, "between steps", 0.4, 0),
    Plan("SIGTERM to mpirun", "precompute", "gather", 2, 2, "a sweep of the prior", 0.3, 0),
    Plan("SIGUSR1 to mpirun", "fit", "mpio", 2, 3, "a sweep of the labels", 0.5, 0),
    Plan("SIGUSR1 to one rank", "study", "gather", 2, 3, "a sweep of the labels", 0.4, 1),
    Plan("the disk fills", "fit", "mpio", 2, 2, "between steps", 0.4, 0),
    Plan("directory removed", "precompute", "gather", 2, 2, "a sweep of the prior", 0.4, 1),
    Plan("directory read-only", "fit", "mpio", 2, 2, "between steps", 0.3, 0),
    # Not between its two renames: for that moment there is no checkpoint.h5.
    Plan("checkpoint truncated", "fit", "mpio", 2, 2, "before synchronising", 0.6, 0),
    Plan("checkpoint with a changed bit", "precompute", "gather", 2, 3, "before a rename", 0.6, 0),
    Plan("two jobs", "precompute", "gather", 2, 2, "a sweep of the prior", 0.4, 0),
    Plan("another seed", "fit", "mpio", 2, 2, "after a rename", 0.4, 0),
    Plan("the time limit", "study", "gather", 2, 2, "between steps", 0.4, 0),
)


@pytest.mark.parametrize("plan", CHOSEN, ids=lambda plan: plan.kind)
def test_the_same_command_goes_on_to_the_same_bits(bench, tmp_path, plan):
    outcome, _ = kinds.carry_out(bench, plan, tmp_path)
    assert outcome != LATE, "the job ended before it could be attacked"


def test_a_difference_is_seen(bench, tmp_path):
    """Or the attacks would prove nothing."""
    reference, other = bench.reference("precompute", "gather"), tmp_path / "other"
    shutil.copytree(reference, other)
    assert jobs.differences(reference, other) == []
    with h5py.File(other / "binding.h5", "r+") as file:
        file["mean"][3] += 1e-12
    with pytest.raises(Exception, match="damaged"):
        jobs.differences(reference, other)
    (other / "binding.h5").unlink()
    assert jobs.differences(reference, other) == ["binding.h5 is in one of them only"]


@pytest.mark.long
def test_a_hundred_random_attacks(bench):
    path = Path(__file__).with_name("__main__.py")
    spec = importlib.util.spec_from_file_location("faults_command", path)
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    seed = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(10**6)))
    number = int(os.environ.get("FAULT_ATTACKS", "115"))
    outcomes, failed = command.series(bench, seed, range(number))
    print("", *command.table(outcomes), sep="\n")
    assert not failed, "\n".join(f"python tests/faults {each}" for each in failed)
    late = sum(found[LATE] for found in outcomes.values())
    assert late < number / 4, f"{late} of {number} attacks came too late, even at the third try"
