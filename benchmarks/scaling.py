"""Strong scaling of the precomputation: the same work on more ranks, as a user starts it."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

INPUT = """\
seed = 1
output = "out"
[image]
shape = [125, 125]
[model]
labels = 3
[precompute]
grid = "critical"
points = {points}
iterations = 1000
burn_in = 500
"""


def precompute_seconds(folder: Path, ranks: int, output: str) -> float:
    """Wall-clock time of one whole command, start-up included, into an output directory of its own."""
    program = [sys.executable, "-m", "mpi_potts", "precompute", "input.toml", "--quiet", "--output", output]
    start = time.perf_counter()
    done = subprocess.run(
        ["mpirun", "-n", str(ranks), *program],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    if done.returncode:
        sys.exit(f"precompute on {ranks} ranks ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def measure(all_ranks, points: int, repeats: int) -> dict[int, float]:
    """The least time for each number of ranks over interleaved repeats."""
    best: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input.toml").write_text(INPUT.format(points=points))
        for repeat in range(repeats):
            for ranks in all_ranks:
                seconds = precompute_seconds(folder, ranks, f"out-{repeat}-{ranks}")
                best[ranks] = min(seconds, best.get(ranks, seconds))
    return best


def table(best: dict[int, float], points: int) -> list[str]:
    head = f"{'ranks':>5s} {'seconds':>9s} {'speed-up':>9s} {'efficiency':>11s}"
    lines = [
        f"precompute, 125x125, k = 3, {points} betas of 1000 sweeps, start-up included",
        head,
        "-" * len(head),
    ]
    least = min(best)
    for ranks, seconds in sorted(best.items()):
        gain = best[least] / seconds
        lines.append(f"{ranks:5d} {seconds:9.2f} {gain:9.2f} {gain * least / ranks:11.2f}")
    return lines
