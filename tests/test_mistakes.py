"""Mistakes that users make, on every command: one line, exit code 2, nothing written, never a traceback."""

import numpy as np
import pytest

from mpi_potts import __main__ as program
from mpi_potts.cli import parser

INPUT = """\
[image]
path = "image.npy"
[precompute]
grid = "critical"
points = 4
iterations = 20
burn_in = 5
[fit]
final_sweeps = 10
[simulate]
sweeps = 5
"""
WITH_INPUT = [each.name for each in parser.COMMANDS if each.target == parser.INPUT]
WITH_FILE = [each.name for each in parser.COMMANDS if each.target == "FILE.h5"]

# What follows the input file.
SETTINGS = [
    "model.labels=0",
    "model.labels=3.0",
    "model.labels=[3]",
    "model=3",
    "modle.labels=3",
    "seed=-1",
    "seed=99999999999999999999999",
    "prior.beta=[0, 0]",
    "prior.beta=[0, 99]",
    "prior.beta=0.5",
    "prior.mean.mean=[1, 2]",
    "prior.mean.sd=0",
    "prior.variance.shape=nan",
    "precompute.grid=[]",
    "precompute.starts=cold",
    "precompute.points=1",
    "fit.method=magic",
    "smc.alpha=1",
    "run.writer=tape",
    "image.shape=[0, 3]",
    "image.crop=[5, 2, 0, 1]",
    "image.ndvi={red=1}",
    "image.nodata=none",
    "image.path.x=3",
    "simulate.beta=[1, 2]",
    "simulate.images=0",
    'study.methods=["magic"]',
    "=3",
    "a.b.c",
    "seed=[1",
    "seed=",
]
OPTIONS = [["--output", ""], ["--nonsense"], ["--set"], ["another.toml"], ["--output"]]
INPUTS = {
    "absent.toml": None,
    "binary.toml": b"\xff\xfe\x00",
    "broken.toml": b"[image\n",
    "twice.toml": b"seed = 1\nseed = 2\n",
    "empty.toml": b"",
    "nested.toml": b"a = " + b"[" * 3000,
    "image.npy": None,
    ".": None,
    "": None,
}
# Images that no one can segment: simulate and study make their own where image.shape is given.
IMAGES = {
    "absent.npy": None,
    "text.npy": b"text",
    "words.csv": b"1,2\n3,x\n",
    "ragged.csv": b"1,2\n3\n",
    "picture.jpg": b"123",
    "picture.png": b"123",
    "scene.tif": b"II*\0",
    "volume.nii": b"123",
    "file.h5": b"123",
    ".": None,
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.toml").write_text(INPUT)
    np.save("image.npy", np.arange(72.0).reshape(8, 9) % 7)
    for name, content in (INPUTS | IMAGES).items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(here, capfd, arguments):
    before = sorted(here.rglob("*"))
    code = program.main(arguments)
    said = capfd.readouterr()
    assert (code, len(said.err.splitlines())) == (2, 1), (arguments, code, said.err)
    assert "Traceback" not in said.err and said.out == ""
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("command", WITH_INPUT)
def test_settings_options_and_inputs(here, capfd, command):
    refused(here, capfd, [command])
    for setting in SETTINGS:
        refused(here, capfd, [command, "input.toml", "--set", setting])
    for options in OPTIONS:
        refused(here, capfd, [command, "input.toml", *options])
    for name in INPUTS:
        refused(here, capfd, [command, name])


@pytest.mark.parametrize("command", ["precompute", "fit", "run", "check"])
def test_images(here, capfd, command):
    for name in IMAGES:
        refused(here, capfd, [command, "input.toml", "--set", f"image.path={name}"])
    for change in (
        ["image.band=2"],
        ["image.ndvi={red=1, nir=2}"],
        ["image.crop=[0, 90, 0, 9]"],
        ["image.shape=[3, 3]"],
        ["image.mask=absent.npy"],
        ["image.kind=labels"],
        ["model.labels=8"],
    ):
        refused(here, capfd, [command, "input.toml", *(part for each in change for part in ("--set", each))])


@pytest.mark.parametrize("command", WITH_FILE)
def test_files(here, capfd, command):
    refused(here, capfd, [command])
    for name in (*INPUTS, *IMAGES, "absent.h5", "absent.nc"):
        refused(here, capfd, [command, name])
    for options in (["--fresh"], ["--max-hours", "1"], ["another.h5"], ["--nonsense"]):
        refused(here, capfd, [command, "file.h5", *options])


def test_the_rest(here, capfd):
    for arguments in (["doctor", "x"], ["doctor", "--set", "seed=1"], ["chekc"], [], ["--nonsense"], ["-x"]):
        refused(here, capfd, arguments)
