"""The job scripts on a real Slurm: `make test-slurm`.  Where it is missing this fails, it does not skip."""

import os
import re
import subprocess
import sys

import pytest
from cluster import Cluster, missing
from jobs import HELD, IMAGES, INPUT, ROOT, image_options

LOG = re.compile(r"(^|\.)log$|\.[oe][-_\d]+$")  # of a job under Slurm, or under qsub


def pytest_sessionstart(session):
    if missing():
        pytest.exit(f"the job scripts cannot be tried: {missing()}", 3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the jobs and the daemons wrote: a job may fail before its script says a word."""
    report = yield
    cluster, work = (item.funcargs.get(name) for name in ("cluster", "work"))
    said = cluster.said() if cluster else {}  # also after setup, so that a test is shown its own lines
    if report.when == "call" and report.failed and work:
        logs = [path for path in sorted(work.iterdir()) if LOG.search(path.name)]
        said |= {path.name: path.read_text(errors="replace") for path in logs}
        report.sections += list(said.items())
    return report


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """What a user has after logging in: the program in the path, compiled kernels kept between the jobs."""
    bin = tmp_path_factory.mktemp("bin")
    program = bin / "mpi-potts"
    held = f'[ -e hold ] && exec "{sys.executable}" "{HELD}" "$@"'
    program.write_text(f'#!/bin/sh\n{held}\nexec "{sys.executable}" -m mpi_potts "$@"\n')
    program.chmod(0o755)
    return {
        "HOME": os.environ["HOME"],
        "PATH": f"{bin}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("numba")),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


@pytest.fixture(scope="session")
def cluster(environment):
    with Cluster(**environment) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def reference(tmp_path_factory, environment):
    """A directory with two images, their binding function and their fits, never interrupted, on one rank."""
    directory = tmp_path_factory.mktemp("reference")
    (directory / "input.toml").write_text(INPUT)
    commands = [["simulate", "--output", "images"], ["precompute"]]
    commands += [["fit", *image_options(f"{number:03d}")] for number in range(IMAGES)]
    for name, *options in commands:
        subprocess.run(
            ["mpi-potts", name, "input.toml", "--quiet", *options],
            cwd=directory,
            env=environment,
            check=True,
            timeout=600,
        )
    return directory


@pytest.fixture
def work(tmp_path, reference):
    """A directory with the input and the images, and nothing computed yet."""
    (tmp_path / "input.toml").write_text(INPUT)
    (tmp_path / "images").symlink_to(reference / "images")
    return tmp_path
