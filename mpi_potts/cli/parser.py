"""The commands, the options that each takes, and their help.  Nothing is loaded or carried out here."""

import argparse
import math
import textwrap
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import __version__
from ..errors import InputError

INPUT = "INPUT.toml"
INPUT_OR_IMAGE = "INPUT.toml|IMAGE"
INPUTS = (INPUT, INPUT_OR_IMAGE)
PLACES = "image.path, image.mask or precompute.file"


@dataclass(frozen=True)
class Command:
    """A command: what it takes, what it does in a line and in a few, its options, and an example."""

    name: str
    target: str | None
    text: str
    more: str
    options: tuple[str, ...]
    example: str


WORK = ("set", "output", "quiet", "fresh", "max_hours")
COMMANDS = (
    Command(
        "simulate",
        INPUT,
        "write synthetic images with known truth",
        "Writes image_000.h5, image_001.h5, ... as [simulate], [model] and [prior] say.",
        WORK,
        "mpirun -n 4 mpi-potts simulate inputs/simulation.toml --set simulate.images=8 --output out/images",
    ),
    Command(
        "precompute",
        INPUT_OR_IMAGE,
        "compute, continue or extend the binding function",
        "Writes binding.h5: mean and sd of S(z) for each beta, on the lattice of the image or image.shape.  "
        "With --library it betters the small lattices instead, from which this one and others are composed.",
        (*WORK, "labels", "library"),
        "mpirun -n 2 mpi-potts precompute inputs/simulation.toml --set precompute.points=200",
    ),
    Command(
        "fit",
        INPUT_OR_IMAGE,
        "fit the model to an image, with the binding function that is there",
        "Writes result.h5 and posterior.nc.  Needs the binding function of `precompute`, for most methods.",
        (*WORK, "labels"),
        "mpirun -n 2 mpi-potts fit inputs/simulation.toml --set image.path=../out/simulation/image_000.h5",
    ),
    Command(
        "run",
        INPUT_OR_IMAGE,
        "the main job: precompute unless a valid one is there, fit, report",
        "Writes binding.h5, result.h5, posterior.nc, report.html, figures and maps.  --fresh starts the fit "
        "over and keeps a binding function that answers the input.  An image (npy, csv, h5, png, tif, nii) "
        "with --labels needs no input file: the output lies beside it, as IMAGE_K_labels, with the input "
        "that it stands for.",
        (*WORK, "labels"),
        "mpirun -n 8 mpi-potts run inputs/satellite.toml --set image.path=/data/scene.tif --max-hours 23.5",
    ),
    Command(
        "study",
        INPUT,
        "fit many simulated images by many methods, and compare them in one table",
        "Writes study.txt, study.csv, study.h5 and study.html; [study] and [simulate] say what is compared.",
        WORK,
        "mpirun -n 2 mpi-potts study inputs/study_small.toml --set simulate.images=8",
    ),
    Command(
        "report",
        "FILE.h5",
        "write a page with figures beside a result, a study or a binding function",
        "FILE.h5 is a result.h5, study.h5 or binding.h5, or the directory of one.  For a result, also maps "
        "of the labels in the format of the image.",
        ("places", "report_output", "compare", "silent"),
        "mpi-potts report out/demo/result.h5 --output out/page",
    ),
    Command(
        "inspect",
        "FILE.h5",
        "say what is in a file of this program, in a page",
        "FILE.h5 is any file of this program, posterior.nc too, or a directory with a result.  The checksum "
        "is verified.",
        ("silent",),
        "mpi-potts inspect out/demo/binding.h5",
    ),
    Command(
        "check",
        INPUT_OR_IMAGE,
        "validate only; print the plan, memory per rank and estimated time",
        "Reads the image, looks at what is in the output directory, and times the kernels for some seconds "
        "on the ranks it is started on.  Writes nothing.",
        ("set", "output", "silent", "labels"),
        "mpirun -n 8 mpi-potts check inputs/satellite.toml --set image.path=/data/scene.tif",
    ),
    Command(
        "doctor",
        None,
        "say what this installation is made of, and whether it can work",
        "Start it with the launcher that jobs will use.",
        (),
        "mpirun -n 2 mpi-potts doctor",
    ),
)

EPILOG = """\
examples:
  mpi-potts check inputs/demo.toml
  mpirun -n 2 mpi-potts run inputs/demo.toml
  mpirun -n 2 mpi-potts run scene.tif --labels 5 --set image.band=4
  mpirun -n 8 mpi-potts run inputs/satellite.toml --set image.path=/data/scene.tif --max-hours 23.5

`mpi-potts COMMAND --help` has the options of a command.
Running a command again in the same output directory continues where it stopped; --fresh starts over.
exit codes: 0 done; 2 bad input; 75 stopped early with a checkpoint, run again to go on; else a failure.
"""


def _hours(text: str) -> float:
    hours = float(text)
    if not (math.isfinite(hours) and hours > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of hours")
    return hours


# Name and arguments of every option.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "set": (
        "--set",
        {
            "metavar": "TABLE.KEY=VALUE",
            "action": "append",
            "help": "change a key of the input, as in --set model.labels=4; repeatable",
        },
    ),
    "output": (
        "--output",
        {"metavar": "DIR", "help": "directory for the results, instead of the one in the input"},
    ),
    "labels": (
        "--labels",
        {
            "metavar": "K",
            "help": "number of labels, needed with an image in place of an input file; 2:6: which of these",
        },
    ),
    "quiet": ("--quiet", {"action": "store_true", "help": "no progress, only the result and errors"}),
    "fresh": ("--fresh", {"action": "store_true", "help": "start over instead of continuing"}),
    "max_hours": (
        "--max-hours",
        {"metavar": "HOURS", "type": _hours, "help": "stop with a checkpoint shortly before (exit code 75)"},
    ),
    "places": (
        "--set",
        {
            "metavar": "KEY=FILE",
            "action": "append",
            "help": f"where a file of the fit lies now: {PLACES}; repeatable",
        },
    ),
    "report_output": ("--output", {"metavar": "DIR", "help": "directory for the page, instead of FILE.h5's"}),
    "library": (
        "--library",
        {
            "metavar": "FILE",
            "nargs": "?",
            "const": "",
            "help": "better a library of small lattices (FILE, or precompute.library) instead",
        },
    ),
    "compare": (
        "--compare",
        {"metavar": "BINDING.h5", "help": "draw this binding function as a line beside that of the report"},
    ),
    # There is no progress to leave out; scripts may say it to every command.
    "silent": ("--quiet", {"action": "store_true", "help": argparse.SUPPRESS}),
}
DEFAULTS: dict[str, Any] = {
    "set": [],
    "output": None,
    "quiet": False,
    "fresh": False,
    "max_hours": None,
    "labels": None,
    "library": None,
    "compare": None,
}


class _Parser(argparse.ArgumentParser):
    """Mistakes on the command line end like all other bad input: one line, from one rank."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """The parser; what it finds has `command`, a Command, and every option of any command."""
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog="mpi-potts",
        description="Bayesian segmentation of images with the hidden Potts model, on MPI ranks.",
        epilog=EPILOG,
        **form,
    )
    parser.add_argument("--version", action="version", version=f"mpi-potts {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for each in COMMANDS:
        described = f"{each.text[0].upper()}{each.text[1:]}.\n\n{textwrap.fill(each.more, 100)}"
        epilog = f"example:\n  {each.example}"
        command = commands.add_parser(each.name, help=each.text, description=described, epilog=epilog, **form)
        if each.target:
            command.add_argument("target", metavar=each.target)
        for option in each.options:
            flag, arguments = OPTIONS[option]
            command.add_argument(flag, **arguments)
        given = {OPTIONS[option][0][2:].replace("-", "_") for option in each.options}
        # argparse would append to a default list itself.
        command.set_defaults(command=each, **{n: v for n, v in DEFAULTS.items() if n not in given})
    return parser


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command and its options; InputError for what it does not take."""
    options = build_parser().parse_args(arguments)
    options.set = options.set or []
    return options
