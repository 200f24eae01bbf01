"""The package as others get it: an sdist, the wheel made from it, what it installs and what it declares."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from launch import ROOT, environment

import mpi_potts

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mpi_potts").rglob("*.py")}
# Modules that are not called as the distribution that brings them.
DISTRIBUTIONS = {"PIL": "pillow"}


def run(*command, cwd, **changes):
    """Run to the end as in a fresh shell that does not know of this checkout; returns stdout."""
    shell = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [*map(str, command)], cwd=cwd, env=shell | changes, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    return ended.stdout


def pip(*arguments, cwd):
    run(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A directory with the sdist of this checkout, and a wheel built from that sdist alone."""
    directory = tmp_path_factory.mktemp("built")
    copy = directory / "checkout"
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "out")
    shutil.copytree(ROOT, copy, ignore=ignored)
    # With the setuptools that is here: an isolated build would fetch its own.
    run(sys.executable, "-c", "from setuptools import build_meta as b; b.build_sdist('..')", cwd=copy)
    shutil.rmtree(copy)
    (sdist,) = directory.glob("*.tar.gz")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", sdist, cwd=directory)
    return directory


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The bin directory of an environment with the wheel in it, and beside it the libraries it needs."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=built)
    (wheel,) = built.glob("*.whl")
    pip("--python", venv / "bin" / "python", "install", "--no-index", "--no-deps", wheel, cwd=built)
    # What a .pth adds comes after the environment's own packages, and its own .pth files are not read: a
    # checkout that is installed beside the tests is not seen.
    (own,) = venv.glob("lib/python*/site-packages")
    (own / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return venv / "bin"


def test_the_sdist_and_the_wheel_hold_every_module_and_the_types(built):
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
    assert {*names} == SOURCES | {"mpi_potts/py.typed"}
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert names >= SOURCES | {"mpi_potts/py.typed", "pyproject.toml", "README.md", "LICENSE"}


def test_the_version_has_one_place(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(file.read(name).decode())
    assert metadata["Version"] == mpi_potts.__version__
    assert "version" not in PROJECT and "version" in PROJECT["dynamic"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == mpi_potts.__version__


def test_the_installed_program_runs_where_there_is_no_checkout(installed, tmp_path):
    said = run(installed / "python", "-c", "import mpi_potts; print(mpi_potts.__file__)", cwd=tmp_path)
    assert Path(said.strip()).is_relative_to(installed.parent)
    said = run(installed / "mpi-potts", "doctor", cwd=tmp_path)
    assert said.startswith(f"mpi-potts  {mpi_potts.__version__}, ") and str(installed) in said
    assert "everything needed is there" in said
    assert os.listdir(tmp_path) == []


def imported(text):
    """The first part of the name of everything that a source imports, except from the package itself."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def test_what_is_imported_is_declared():
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    declared = {re.match(r"[\w-]+", line)[0] for line in [*PROJECT["dependencies"], *extras]}
    modules = {name for file in SOURCES for name in imported((ROOT / file).read_text())}
    foreign = modules - sys.stdlib_module_names - {"mpi_potts"}
    assert {"llvmlite", "numba"} <= foreign
    assert {DISTRIBUTIONS.get(name, name) for name in foreign} <= declared
