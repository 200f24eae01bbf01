"""Fits in a row in one process take no more memory and no more open files with every fit."""

import gc
import os
from pathlib import Path

import pytest
from fitting import image_of, run_fit, write_input

from mpi_potts.runtime.parallel import ALONE

SHORT = (
    "precompute.points=9",
    "precompute.iterations=20",
    "precompute.burn_in=5",
    "smc.max_iterations=3",
    "smc.particles=30",
    "smc.replicates=5",
    "smc.label_sweeps=5",
    "fit.final_sweeps=20",
    "fit.final_burn_in=5",
)
METHODS = ("smc-abc", "path", "exchange", "pseudolikelihood")
EXCHANGE = ("exchange.iterations=10", "exchange.burn_in=2", "exchange.auxiliary_sweeps=2")


def resident() -> int:
    """Bytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def fits(directory, numbers):
    """Short fits by every method in turn, with all their files."""
    path = directory / "input.toml"
    for number in numbers:
        method = METHODS[number % len(METHODS)]
        keys = (*SHORT, *EXCHANGE, f"fit.method={method}", f"seed={number % 7}")
        run_fit(ALONE, path, directory / "out", keys, fresh=True)
        (directory / "out" / "binding.h5").unlink(missing_ok=True)
        (directory / "out" / "binding.states.h5").unlink(missing_ok=True)


def soak(directory, settle, count):
    """Bytes a fit that the process grew by over `count` fits, after some in which caches fill, and files."""
    write_input(directory, image_of(0.8, [-1.0, 0.0, 1.0], [0.4] * 3, (10, 11))[1])
    fits(directory, range(settle))
    gc.collect()
    before, files = resident(), open_files()
    fits(directory, range(count))
    gc.collect()
    return (resident() - before) / count, open_files() - files


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells")
def test_a_few_fits_leave_no_file_open(tmp_path):
    assert soak(tmp_path, 8, 20)[1] == 0


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells")
def test_a_thousand_fits_do_not_grow(tmp_path):
    growth, files = soak(tmp_path, 100, 1000)
    print(f"{growth:.0f} bytes a fit, {files} files")
    assert files == 0
    # A leaked communicator, file or checkpoint is more than this; fragments of the heap are less.
    assert growth < 2000
