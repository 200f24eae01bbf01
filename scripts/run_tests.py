"""Run the suite as `make test` means it: first what is no test of ranks, its files dealt to two processes,
then tests/mpi under mpirun on every number of ranks.

    python scripts/run_tests.py              # what must pass before a change is kept
    python scripts/run_tests.py --long       # the statistical checks marked `long`
    python scripts/run_tests.py --ranks 2 3  # other numbers of ranks

A rank that waits for ever is a failure (every mpirun has a time limit), and so is a run in which MPI or
parallel HDF5 was not exercised: a job of the wrong size, a skipped or missing parallel test.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "--color=no", "-p", "no:cacheprovider"]
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)")

# Where there are two cores: compiling and the time that subprocesses take to start is most of the work.  The
# tests of one file share what they have made, so a file stays with one process.
DEALT = ["-n", str(min(2, len(os.sched_getaffinity(0)))), "--dist", "loadfile", "--no-loadscope-reorder"]

# Standard output of the first rank is shown; that of the others is kept, for when something fails.
ONE_RANK = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec > "$LOGS/$OMPI_COMM_WORLD_RANK" 2>&1; exec "$0" "$@"'


class Failure(Exception):
    """The reason why the suite did not pass."""


def run(command, limit, **environment):
    """Run a command, show its output as it comes, and return it; a failure or the time limit raises."""
    shown = [str(part) for part in command if part not in ("sh", "-c", ONE_RANK)]
    print("\n$", " ".join(shown), flush=True)
    command = ["timeout", "--kill-after=20", str(limit), *map(str, command)]
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | environment,
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        timed_out = process.returncode in (124, 137)
        raise Failure(f"no end within {limit} s" if timed_out else f"exit code {process.returncode}")
    return "".join(lines)


def counts(output):
    """What pytest's closing line says: Counter of passed, failed, skipped, ..."""
    closing = [line for line in output.splitlines() if COUNT.search(line) and " in " in line][-1:]
    if not closing:
        raise Failure("pytest printed no closing line")
    return Counter({outcome: int(number) for number, outcome in COUNT.findall(closing[0])})


def serial(selection, limit):
    return counts(run([*PYTEST, "tests", "--ignore=tests/mpi", "-rs", *DEALT, *selection], limit))


def on_ranks(ranks, selection, limit):
    """tests/mpi on this many ranks: the same tests on all of them, none of them skipped."""
    suite = [*PYTEST, "tests/mpi", "--timeout=120", "--timeout-method=thread", *selection]
    with tempfile.TemporaryDirectory() as logs:
        try:
            output = run(
                ["mpirun", "-n", ranks, "sh", "-c", ONE_RANK, *suite],
                limit,
                MPI_POTTS_EXPECT_RANKS=str(ranks),
                LOGS=logs,
            )
        except Failure:
            for log in sorted(Path(logs).iterdir()):
                print(f"--- rank {log.name}\n{log.read_text(errors='replace')[-6000:]}")
            raise
        outcomes = [counts(output), *(counts(log.read_text()) for log in Path(logs).iterdir())]
    if len(outcomes) != ranks or any(outcome != outcomes[0] for outcome in outcomes):
        raise Failure(f"the ranks did not run the same tests: {[dict(outcome) for outcome in outcomes]}")
    if outcomes[0]["skipped"]:
        raise Failure("a parallel test was skipped")
    return outcomes[0]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="the tests marked long, instead of the others")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--limit", type=int, help="seconds for each part", default=None)
    return parser.parse_args()


def main():
    options = arguments()
    selection = ["-m", "long" if options.long else "not long"]
    limit = options.limit or (7200 if options.long else 2400)
    begin = time.perf_counter()
    check = [sys.executable, "scripts/check_parallel.py", 2, "--hdf5"]
    parts = [("two ranks write one file", lambda: run(["mpirun", "-n", 2, *check], 60) and Counter())]
    parts.append(("serially", lambda: serial(selection, limit)))
    if not options.long:
        for n in options.ranks:
            parts.append((f"on {n} ranks", lambda n=n: on_ranks(n, selection, limit)))
    total, report = Counter(), []
    for name, part in parts:
        start = time.perf_counter()
        try:
            outcome = part()
        except Failure as failure:
            sys.exit(f"\nFAILED {name}: {failure}")
        total += outcome
        words = ", ".join(f"{number} {what}" for what, number in outcome.items()) or "works"
        report.append(f"{name:26s} {words} in {time.perf_counter() - start:.2f}s")
    print("\n" + "\n".join(report))
    words = ", ".join(f"{number} {what}" for what, number in total.items())
    print(f" {words} in {time.perf_counter() - begin:.2f}s ".center(80, "="))


if __name__ == "__main__":
    main()
