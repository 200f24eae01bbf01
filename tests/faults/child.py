"""One rank of a job under attack: the real program, with something that happens to it at a chosen moment.

The environment variable FAULT has the attack as JSON: {"moment", "count", "rank", "action", "room"}.  At the
`count`-th time that rank `rank` comes to the moment, the action is taken:

    kill            this rank, by SIGKILL                  usr1, term           a signal to this rank
    kill all        every process of the job               mpirun usr1, term, kill    a signal to the launcher
    pause           wait until the file `go` is in `room`  raise                an exception in its place
    full            no file may grow any more

With {"counts": FILE} nothing happens, and how often each moment came is written at the end.  Nothing of the
program is replaced: the functions at the moments are called as ever.
"""

import atexit
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

# moment: module, the function (or class and method) in it, and whether it comes before or after the call.
MOMENTS = {
    "dataset created": ("mpi_potts.io.store", "_create", "after"),
    "bytes written": ("mpi_potts.io.files", "Sink.write", "before"),
    "rows written": ("mpi_potts.io.store", "_put_rows", "before"),
    "before the seal": ("mpi_potts.io.store", "seal", "before"),
    "after the seal": ("mpi_potts.io.store", "seal", "after"),
    "before synchronising": ("os", "fsync", "before"),
    "before a rename": ("os", "replace", "before"),
    "after a rename": ("os", "replace", "after"),
    "before a removal": ("os", "unlink", "before"),
    "after a removal": ("os", "unlink", "after"),
    "between steps": ("mpi_potts.methods.driver", "Saver.between", "before"),
    "a sweep of the prior": ("mpi_potts.model.potts", "Sampler.sweeps", "before"),
    "a sweep of the labels": ("mpi_potts.labels.chain", "LabelChain.sweep", "before"),
}
# Where else an exception may come from.
STAGES = {
    "reading the input": ("mpi_potts.config.inputs", "load", "before"),
    "reading the image": ("mpi_potts.image.readers", "read", "before"),
    "reading the binding function": ("mpi_potts.binding.file", "read_binding", "before"),
    "writing a part": ("mpi_potts.binding.work", "Part.save", "before"),
    "writing the binding function": ("mpi_potts.binding.file", "write_binding", "before"),
    "finding a checkpoint": ("mpi_potts.io.fit_file", "find_checkpoint", "before"),
    "an iteration": ("mpi_potts.smc.sampler", "_adapt", "before"),
    "resampling": ("mpi_potts.smc.sampler", "_resample", "before"),
    "mutation": ("mpi_potts.smc.sampler", "_mutate", "before"),
    "writing a checkpoint": ("mpi_potts.io.fit_file", "write_checkpoint", "before"),
    "a final sweep": ("mpi_potts.labels.chain", "LabelChain.sample", "before"),
    "writing the result": ("mpi_potts.io.fit_file", "write_result", "before"),
    "writing the draws": ("mpi_potts.io.store", "write_draws", "before"),
    "reporting": ("mpi_potts.cli.report", "_write", "before"),
    "fitting an image of a study": ("mpi_potts.cli.study", "fit_one", "before"),
    "the table of a study": ("mpi_potts.cli.study", "write_table", "before"),
}
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))


class Injected(Exception):
    """What is raised where an attack asks for it."""


def main():
    fault = json.loads(os.environ["FAULT"])
    if fault.get("moment") == "loading the libraries" and fault["rank"] == RANK:
        sys.modules["tomllib"] = None  # the import of it fails
        fault["action"] = ""
    from mpi_potts import __main__ as program

    small_steps()
    if "counts" in fault:
        count_all(Path(fault["counts"]))
    elif fault["rank"] == RANK and fault["action"]:
        meet(fault["moment"], at(fault["count"], lambda: act(fault)))
    sys.exit(program.main())


def small_steps():
    """Many steps in a short job: slices, saves and checkpoints come after a moment instead of a second."""
    from mpi_potts.binding import work as precompute
    from mpi_potts.cli import report
    from mpi_potts.labels import ensemble

    for module, name, value in (
        (precompute, "SLICE", 0.0),
        (precompute, "SAVE_FRACTION", 1e9),
        (ensemble, "SLICE_SITES", 500),
    ):
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__}.{name} is gone: the attacks would test too little")
        setattr(module, name, value)
    if not os.environ.get("FAULT_FIGURES"):  # they take longer than everything else
        report.drawable = lambda: False


def meet(moment, met):
    """Call met() whenever this rank comes to the moment."""
    module, name, when = (MOMENTS | STAGES)[moment]
    place = importlib.import_module(module)
    *outer, name = name.split(".")
    for part in outer:
        place = getattr(place, part)
    function = getattr(place, name)

    def watched(*arguments, **options):
        # The compiler renames what it keeps, in a job that finds its cache cold and in none of the others.
        if any(str(each).endswith((".nbi", ".nbc")) for each in arguments):
            return function(*arguments, **options)
        if when == "before":
            met()
        value = function(*arguments, **options)
        if when == "after":
            met()
        return value

    setattr(place, name, watched)


def at(count, action):
    left = count

    def met():
        nonlocal left
        left -= 1
        if left == 0:
            action()

    return met


def count_all(path):
    counts = dict.fromkeys(MOMENTS, 0)

    def counted(moment):
        def met():
            counts[moment] += 1

        return met

    for moment in MOMENTS:
        meet(moment, counted(moment))
    atexit.register(lambda: path.with_name(f"{path.name}.{RANK}").write_text(json.dumps(counts)))


def act(fault):
    action, room = fault["action"], Path(fault["room"])
    (room / "met").write_text(fault["moment"])
    if action == "raise":
        raise Injected(f"injected at {fault['moment']!r}")
    if action == "pause":
        while not (room / "go").exists():
            time.sleep(0.005)
    elif action == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    elif action == "kill all":
        kill_session()
    else:
        name, pid = (action.split()[1], os.getppid()) if " " in action else (action, os.getpid())
        os.kill(pid, {"kill": signal.SIGKILL, "usr1": signal.SIGUSR1, "term": signal.SIGTERM}[name])


def kill_session():
    """Every process of this job, this one last."""
    session, others = os.getsid(0), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.getsid(int(entry.name)) == session:
                    others.append(int(entry.name))
            except ProcessLookupError:
                continue
    for pid in [*others, os.getpid()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
