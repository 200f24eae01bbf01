"""Run the jobs of a directory in one process and write down the bits: DIRECTORY OUTPUT [THREADS].

Under mpirun all ranks take part.  OUTPUT/bits.json has a digest of every dataset of every file that the jobs
wrote but the times, and of the attributes that are numbers.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from mpi_potts import __main__ as program
from mpi_potts.io import reading

JOBS = ("smc", "path", "exchange", "masked", "gibbs", "hexagonal", "graph")


def digests(path):
    attributes, arrays = reading.read(path, None, None)
    found = {
        name: hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
        for name, values in arrays.items()
        if not name.endswith("seconds")
    }
    return found | {
        f"@{name}": repr(value)
        for name, value in attributes.items()
        if isinstance(value, float) and not name.endswith("seconds")
    }


def main():
    directory, output, *threads = sys.argv[1:]
    settings = [word for count in threads for word in ("--set", f"run.threads={count}")]
    for job in JOBS:
        arguments = ["run", f"{directory}/{job}.toml", "--output", f"{output}/{job}", "--quiet", *settings]
        if code := program.main(arguments):
            sys.exit(code)
    if MPI.COMM_WORLD.rank == 0:
        files = [Path(output) / job / name for job in JOBS for name in ("binding.h5", "result.h5")]
        bits = {
            f"{file.parent.name}/{file.name}/{name}": digest
            for file in files
            if file.exists()
            for name, digest in digests(file).items()
        }
        (Path(output) / "bits.json").write_text(json.dumps(bits))


if __name__ == "__main__":
    main()
