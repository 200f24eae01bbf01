"""What can be said of the scripts without running them."""

import subprocess

import pytest
from jobs import ROOT, SCRIPTS


@pytest.mark.parametrize(
    "script", sorted(SCRIPTS.rglob("*.sh")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_shellcheck_has_nothing_to_say(script):
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_there_are_scripts_for_both_schedulers():
    assert {path.parent.name for path in SCRIPTS.rglob("job.sh")} == {"slurm", "pbs"}
