"""The command line: `mpi-potts COMMAND ...`, the same as `python -m mpi_potts COMMAND ...`.

Exit codes: 0 done; 2 bad input; 75 stopped early with a checkpoint written, run again to go on; 130
interrupted from the keyboard; anything else is a failure.  No way out leaves other ranks waiting.
"""

import contextlib
import importlib
import io
import os
import sys
import traceback

from .runtime import signals

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
    from .cli import parser
    from .config import inputs
    from .errors import InputError, Interrupted, WriteFailed
    from .runtime import memory, parallel
except BaseException:  # on one rank, perhaps: MPI is at work already, and the others would wait
    traceback.print_exc()
    MPI.COMM_WORLD.Abort(1)


def _carry_out(comm, options) -> int:
    """Carry out a command: read the input file where it takes one."""
    name, takes_input = options.command.name, options.command.target in parser.INPUTS
    if name != "doctor":  # which reports what is wrong with the launcher
        parallel.check_launcher(comm)
    settings = _input_of(options) if takes_input else None
    if settings is not None and settings.choices and name not in ("run", "check"):
        raise InputError(
            f"{options.target}: model.labels = {list(settings.choices)}: one number is accepted by "
            f"`mpi-potts {name}`; `mpi-potts run` compares several"
        )
    # Imported when needed, so that doctor and --help work where a library cannot be loaded.
    command = importlib.import_module(f".cli.{name}", __package__)
    with _compiling_said(comm, options.quiet) if takes_input else contextlib.nullcontext():
        return command.execute(comm, settings, options)


def _input_of(options):
    """The input that a command is given: a file, or for some the image that one would name."""
    given = options.target, options.set, options.output
    if options.command.target == parser.INPUT:
        return inputs.load(*given)
    return importlib.import_module(".cli.image_input", __package__).load(*given, options.labels)


def _compiling_said(comm, quiet):
    """A context in which the user is told when kernels are compiled, which takes a while."""
    compiling = importlib.import_module(".kernels.compiling", __package__)
    speaks = comm.rank == 0 and not quiet
    return compiling.announced(
        lambda: print(compiling.SAYING, file=sys.stderr, flush=True) if speaks else None
    )


def _parse(comm, argv):
    """Every rank parses; help and version are printed by rank 0 alone."""
    quiet = contextlib.redirect_stdout(io.StringIO()) if comm.rank else contextlib.nullcontext()
    with quiet:
        return parser.parse(argv)


def _say_why(reason: BaseException) -> None:
    """Why the program ends, in one line."""
    print(f"mpi-potts: {' '.join(str(reason).split())}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Carry out one command; returns the exit code."""
    comm = MPI.COMM_WORLD
    memory.give_back()
    try:
        with parallel.abort_on_error(comm):
            options = _parse(comm, argv)
            return _carry_out(comm, options)
    except (InputError, Interrupted) as reason:  # the same on all ranks
        if comm.rank == 0:
            _say_why(reason)
        # A launcher may kill the others as soon as one rank ends with an error: not before rank 0 has spoken.
        comm.Barrier()
        if isinstance(reason, WriteFailed):  # the ordinary way out is closed
            comm.Abort(parallel.exit_code(reason))
        return parallel.exit_code(reason)
    except SystemExit as ended:  # --help, --version
        return parallel.exit_code(ended)


if __name__ == "__main__":
    sys.exit(main())
