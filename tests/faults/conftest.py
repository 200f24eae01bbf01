"""One bench for all attacks of a session: the undisturbed runs are made once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jobs
import pytest


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    return jobs.Bench(tmp_path_factory.mktemp("bench"))
