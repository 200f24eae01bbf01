"""The command line: `mpi-potts COMMAND ...`, the same as `python -m mpi_potts COMMAND ...`.

Exit codes: 0 done; 2 bad input; 75 stopped early with a checkpoint written, run again to go on; 130
interrupted from the keyboard; anything else is a failure.  No way out leaves other ranks waiting.
"""

import argparse
import contextlib
import importlib
import io
import math
import os
import sys
import traceback

from . import signals

# A scheduler's warning may come while the libraries are loaded.
signals.listen()

# Pure MPI: one thread a rank, unless the user says otherwise.  The libraries read this when they are loaded.
for _variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as _error:
    sys.exit(f"mpi-potts: mpi4py finds no MPI library ({' '.join(str(_error).split())})")

try:
    from . import __version__, config, parallel
    from .errors import InputError, Interrupted, WriteFailed
except BaseException:  # on one rank, perhaps: MPI is at work already, and the others would wait
    traceback.print_exc()
    MPI.COMM_WORLD.Abort(1)

COMMANDS = (
    ("simulate", "INPUT.toml", "write synthetic images with known truth"),
    ("precompute", "INPUT.toml", "compute, continue or extend the binding function"),
    ("fit", "INPUT.toml", "fit the model to an image, with the binding function that is there"),
    ("run", "INPUT.toml", "the main job: precompute unless a valid one is there, fit, report"),
    ("study", "INPUT.toml", "fit many simulated images by many methods, and compare them in one table"),
    ("report", "FILE.h5", "write a page with figures beside a result, a study or a binding function"),
    ("inspect", "FILE.h5", "say what is in a file of this program, in a page"),
    ("check", "INPUT.toml", "validate only; print the plan, memory per rank and estimated time"),
    ("doctor", None, "say what this installation is made of, and whether it can work"),
)

EPILOG = """\
examples:
  mpi-potts check inputs/demo.toml
  mpirun -n 4 mpi-potts simulate inputs/simulation.toml --set simulate.images=8 --output out/images
  mpirun -n 2 mpi-potts run inputs/demo.toml
  mpirun -n 8 mpi-potts run inputs/satellite.toml --set image.path=/data/scene.tif --max-hours 23.5

Running a command again in the same output directory continues where it stopped; --fresh starts over.
exit codes: 0 done; 2 bad input; 75 stopped early with a checkpoint, run again to go on; else a failure.
"""


class _Parser(argparse.ArgumentParser):
    """Mistakes on the command line end like all other bad input: one line, from one rank."""

    def error(self, message):
        raise InputError(f"{message}; see {self.prog} --help")


def _hours(text):
    hours = float(text)
    if not (math.isfinite(hours) and hours > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of hours")
    return hours


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    add = common.add_argument
    add(
        "--set",
        metavar="TABLE.KEY=VALUE",
        action="append",
        default=[],
        help="change a key of the input; repeatable",
    )
    add("--output", metavar="DIR", help="directory for the results, instead of the one in the input")
    add("--quiet", action="store_true", help="no progress, only the result and errors")
    add("--fresh", action="store_true", help="start over instead of continuing")
    add(
        "--max-hours",
        metavar="HOURS",
        type=_hours,
        help="stop with a checkpoint shortly before (exit code 75)",
    )
    return common


def build_parser() -> argparse.ArgumentParser:
    """The parser, with every command bound to the function that carries it out."""
    parser = _Parser(
        prog="mpi-potts",
        description="Bayesian segmentation of images with the hidden Potts model, on MPI ranks.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mpi-potts {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    common = _common_options()
    for name, target, text in COMMANDS:
        described = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(
            name, help=text, description=described, parents=[common], allow_abbrev=False
        )
        if target:
            command.add_argument("target", metavar=target)
        if name == "report":
            text = "draw this binding function as a line beside that of the report"
            command.add_argument("--compare", metavar="BINDING.h5", help=text)
        command.set_defaults(process=_process(name, target), command=name)
    return parser


def _process(name, target):
    """`process(comm, options)` of one command: read the input file where it takes one."""

    def process(comm, options):
        if name != "doctor":  # which reports what is wrong with the launcher
            parallel.check_launcher(comm)
        takes_input = target == "INPUT.toml"
        settings = config.load(options.target, options.set, options.output) if takes_input else None
        # Imported when needed, so that doctor and --help work where a library cannot be loaded.
        command = importlib.import_module(f".commands.{name}", __package__)
        return command.execute(comm, settings, options)

    return process


def _parse(comm, argv):
    """Every rank parses; help and version are printed by rank 0 alone."""
    quiet = contextlib.redirect_stdout(io.StringIO()) if comm.rank else contextlib.nullcontext()
    with quiet:
        return build_parser().parse_args(argv)


def _say(text):
    print(f"mpi-potts: {' '.join(str(text).split())}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Carry out one command; returns the exit code."""
    comm = MPI.COMM_WORLD
    try:
        with parallel.abort_on_error(comm):
            options = _parse(comm, argv)
            return options.process(comm, options)
    except (InputError, Interrupted) as reason:  # the same on all ranks
        if comm.rank == 0:
            _say(reason)
        # A launcher may kill the others as soon as one rank ends with an error: not before rank 0 has spoken.
        comm.Barrier()
        if isinstance(reason, WriteFailed):  # the ordinary way out is closed
            comm.Abort(parallel.exit_code(reason))
        return parallel.exit_code(reason)
    except SystemExit as ended:  # --help, --version
        return parallel.exit_code(ended)


if __name__ == "__main__":
    sys.exit(main())
