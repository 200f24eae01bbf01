"""`mpi-potts simulate`: images with known truth, `image_000.h5`, `image_001.h5`, ..., split over the ranks.

An image that is there already and was made with the same settings is left as it is; one made with others is
refused, unless `--fresh` replaces it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..config.inputs import Config
from ..errors import InputError
from ..image.pixels import lattice_of, load_image
from ..io import files, reading, store
from ..io.formats import IMAGE
from ..lattice import Lattice
from ..model.noise import noise_kind
from ..model.scale import before_images
from ..model.simulate import simulate_image, simulate_labels, truth_of
from ..runtime import parallel
from ..runtime.control import Control
from ..runtime.parallel import Comm
from ..runtime.progress import Progress


@dataclass(frozen=True)
class Job:
    """One image to make: where, and everything that it is a function of."""

    number: int
    path: Path
    attributes: dict[str, Any]


def execute(comm: Comm, config: Config, options: Any) -> int:
    """Collective.  Make the images that are not there yet.

    options : has `fresh`, to make all of them again, `quiet` and `max_hours`
    """
    lattice = parallel.on_root(comm, lattice_to_simulate, config)
    writer = store.choose_writer(config.run.writer)
    mine = range(*parallel.block(config.simulate.images, comm.size, comm.rank))
    jobs: list[Job] = []
    error: InputError | None = None
    try:
        jobs = [plan(config, lattice, number) for number in mine]
        jobs = [job for job in jobs if options.fresh or not finished(job)]
    except InputError as caught:
        error = caught
    parallel.raise_together(comm, error)
    parallel.on_root(comm, files.make_directory, config.output)
    parallel.warm_up(comm, lambda: _small_simulation(config, lattice))
    _make_all(comm, config, lattice, jobs, writer, options)
    if comm.rank == 0 and not options.quiet:
        last = config.simulate.images - 1
        print(f"{config.output / 'image_000.h5'}{f' to image_{last:03d}.h5' if last else ''}: written")
    return 0


def lattice_to_simulate(config: Config) -> Lattice:
    """image.shape where it is given; else the lattice of the image that the input names."""
    return lattice_of(config, None if config.image.shape is not None else load_image(config))


def plan(config: Config, lattice: Lattice, number: int) -> Job:
    """What image `number` will be."""
    keys, k = config.simulate, config.model.labels
    true = truth_of(before_images(config, lattice), number)
    attributes = {
        "seed": config.seed,
        "beta": true.beta,
        **{name: row.tolist() for name, row in zip(noise_kind(config).names, true.noise)},
        "number": number,
        "labels": k,
        "sweeps": keys.sweeps,
        "shape": list(lattice.shape),
        "neighbourhood": lattice.neighbourhood,
        "lattice": lattice.digest,
    }
    return Job(number, config.output / f"image_{number:03d}.h5", attributes)


def finished(job: Job) -> bool:
    """Whether this very image is there; another one in its place is refused."""
    if not job.path.exists():
        return False
    stored, _ = reading.read(job.path, *IMAGE, names=())
    for name, value in job.attributes.items():
        if stored.get(name) != value:
            raise InputError(
                f"{job.path}: has {name} = {stored.get(name)}, this input gives {value}; "
                f"another --output is accepted, or --fresh to replace it"
            )
    return True


def _make_all(
    comm: Comm, config: Config, lattice: Lattice, jobs: list[Job], writer: str, options: Any
) -> None:
    """Collective.  Each rank makes its own images, until all are made or one rank is asked to stop."""
    alone = comm.Split(comm.rank)  # every rank writes its own files
    bell, left = parallel.Bell(comm), len(jobs)
    error: InputError | None = None
    with (
        Control(options.max_hours) as control,
        Progress(comm, "simulate", len(jobs), "images", options.quiet) as progress,
    ):
        for job in jobs:
            if control.stop:
                bell.ring()
            if bell.heard():
                break
            try:
                _make(alone, config, lattice, job, writer)
            except InputError as caught:
                error = caught
                bell.ring()
                break
            left -= 1
            progress.advance(1)
        bell.close()
        parallel.raise_together(comm, error)
        if parallel.agree(comm, left > 0):
            raise control.interrupted("every image that was finished")
    alone.Free()


def _make(alone: Comm, config: Config, lattice: Lattice, job: Job, writer: str) -> None:
    a, model = job.attributes, noise_kind(config)
    noise = np.array([a[name] for name in model.names])
    labels, values = simulate_image(
        lattice, a["labels"], a["beta"], noise, config.seed, job.number, a["sweeps"], model
    )
    attributes = a | {"statistic": lattice.statistic(labels), "input": config.text}
    store.write(alone, job.path, *IMAGE, attributes, {"values": values, "labels": labels}, writer)


def _small_simulation(config: Config, lattice: Lattice) -> None:
    """The same kernels on a lattice of a few sites: enough to compile them."""
    simulate_labels(lattice.small, config.model.labels, 0.5, config.seed, 0, 1)
