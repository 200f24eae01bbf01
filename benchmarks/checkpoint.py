"""What a checkpoint costs: the file of a fit by SMC-ABC, at the paper's N and M, written after every step.

The fit is short (few sweeps, few iterations), its arrays are those of a long one: a checkpoint while the SMC
runs, and one of the final sweeps, which has the counts of every label at every pixel.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from mpi_potts.cli import fit, precompute
from mpi_potts.config import inputs
from mpi_potts.io import fit_file, store
from mpi_potts.labels import ensemble
from mpi_potts.runtime.control import Control
from mpi_potts.runtime.parallel import ALONE

INPUT = """
[image]
path = "image.npy"
[precompute]
grid = "regular"
points = 12
iterations = 12
burn_in = 2
keep_states = false
[fit]
final_sweeps = 12
final_burn_in = 0
[smc]
label_sweeps = 4
warm_up = 2
max_iterations = 4
[run]
checkpoint_minutes = 1e-9
threads = 1
"""
OPTIONS = SimpleNamespace(max_hours=None, quiet=True, fresh=True)


def measure(side: int, writer: str) -> list[tuple[float, float, int]]:
    """(elapsed seconds, CPU seconds, bytes) of every checkpoint of a fit of side x side pixels."""
    costs, write, sites = [], fit_file.write_checkpoint, ensemble.SLICE_SITES

    def timed(comm, paths, *rest):
        elapsed, cpu = time.perf_counter(), time.process_time()
        write(comm, paths, *rest)
        size = paths.checkpoint.stat().st_size
        costs.append((time.perf_counter() - elapsed, time.process_time() - cpu, size))

    with tempfile.TemporaryDirectory() as room:
        path = Path(room, "input.toml")
        path.write_text(INPUT)
        values = np.random.default_rng(1).normal(size=(side, side))  # what is in the arrays does not matter
        np.save(Path(room, "image.npy"), values)
        loaded = inputs.load(path, (f"run.writer={writer}",), Path(room, "out"))
        fit_file.write_checkpoint, ensemble.SLICE_SITES = timed, 4 * side * side
        try:
            problem = fit.pose(ALONE, loaded)
            with Control() as control:
                binding = precompute.obtain(ALONE, loaded, problem.lattice, control, quiet=True)
                fit.fit_image(ALONE, replace(problem, binding=binding), control, OPTIONS)
        finally:
            fit_file.write_checkpoint, ensemble.SLICE_SITES = write, sites
    return costs


def table(side: int, found: dict[str, list[tuple[float, float, int]]]) -> list[str]:
    """Seconds of a checkpoint, and its part of the default interval."""
    interval = 60.0 * inputs.RunKeys().checkpoint_minutes
    lines = [
        f"Checkpoints of a fit of {side}x{side} pixels; the default interval is {interval:g} s",
        "  writer checkpoints      MB  seconds  longest   CPU s of run time",
        "-" * 66,
    ]
    for writer, costs in found.items():
        elapsed, cpu, size = np.array(costs).T
        lines.append(
            f"{writer:>8s} {len(costs):11d} {size.max() / 1e6:7.1f} {np.median(elapsed):8.3f} "
            f"{elapsed.max():8.3f} {np.median(cpu):7.3f} {100 * elapsed.max() / interval:9.3f} %"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--side", type=int, default=1000)
    side = parser.parse_args().side
    writers = store.WRITERS if store.parallel_hdf5() else ("gather",)
    print(*table(side, {writer: measure(side, writer) for writer in writers}), sep="\n")


if __name__ == "__main__":
    main()
