"""`mpi-potts study INPUT.toml`: many simulated images, each fitted by each method, in one table.

The images are those of `simulate`, made again from their numbers instead of being stored.  One binding
function is computed first, by all ranks.  Then each rank fits its own images alone, and every finished fit
leaves one small file, `image_003/path.h5`: what is there is never done again, and a fit that was stopped goes
on from its checkpoint.  Each image is fitted with a seed of its own, so that the images are independent and
do not depend on who fits them.  The table is written when the fits of all images are there.
"""

import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config import inputs, registry
from ..config.inputs import Config
from ..errors import InputError, Interrupted
from ..image.pixels import lattice_of
from ..io import files, store
from ..io.formats import STUDY
from ..lattice import Lattice
from ..methods.base import check_method, is_hidden, method_of, needs_binding
from ..model.noise import noise_kind
from ..model.scale import before_images
from ..runtime.control import Control
from ..runtime.parallel import ALONE, Bell, Comm, agree, on_root, raise_together, warm_up
from ..runtime.progress import Progress
from ..study import scores as study
from ..study.fits import Listener, Study, compile_all, fit_one
from ..study.scores import COLUMNS, Fits, Scores
from . import precompute, report
from .say import say


def execute(comm: Comm, config: Config, options: Namespace) -> int:
    """Collective.  Do what is left of the study, and write the table when all is there."""
    methods, lattice = on_root(comm, prepare, config)
    config = before_images(config, lattice)
    table = config.output / "study.h5"
    before = on_root(comm, _time_of, table)
    with Control(options.max_hours) as control:
        binding = None
        if any(needs_binding(each) for each in methods.values()):
            binding = precompute.obtain(comm, config, lattice, control, options.quiet)
        plan = Study(config, methods, lattice, binding)
        work(comm, plan, control, options)
    left = on_root(comm, _unfinished, plan)
    if left:
        say(comm, f"{left} fits of other images are not there yet: the table is written after the last")
        return 0
    # Of jobs that end at the same time each may see that all fits are there.
    with files.locked(comm, config.output / ".study.lock", wait=True):
        if on_root(comm, _written_since, plan, table, before):
            say(comm, f"{table}: another job that ended now has written it, with all fits")
            return 0
        say(comm, on_root(comm, write_table, plan))
        report.after(comm, table)
    return 0


def prepare(config: Config) -> tuple[dict[str, Config], Lattice]:
    """The input of each method, and the lattice of the images; on one rank."""
    keys, n = config.study, config.simulate.images
    last = n if keys.images_to is None else keys.images_to
    if not keys.images_from < last <= n:
        raise InputError(
            f"{config.path}: study.images_from = {keys.images_from}, study.images_to = {last}: "
            f"from < to <= {n} (simulate.images) is accepted"
        )
    if len(set(keys.methods)) < len(keys.methods):
        raise InputError(f"{config.path}: study.methods = {list(keys.methods)}: each once is accepted")
    lattice = lattice_of(config)
    return {name: before_images(method_config(config, name), lattice) for name in keys.methods}, lattice


def choice_of(name: str) -> dict[str, Any]:
    """The keys of [fit] that an entry of study.methods stands for; a name of the user's may follow an _."""
    method, pseudo_data = registry.studied()[name.partition("_")[0]]
    return {"method": method, "pseudo_data": pseudo_data}


def method_config(config: Config, name: str) -> Config:
    """The input of one method: with its study.changes."""
    changes = []
    for text in config.study.changes:
        method, _, change = text.strip().partition(" ")
        if method not in config.study.methods:
            known = ", ".join(config.study.methods)
            raise InputError(
                f'{config.path}: study.changes: "{text}": "METHOD table.key=value" is accepted, with METHOD '
                f"one of study.methods: {known}"
            )
        changes += [change] if method == name else []
    changes += [f"fit.{key}={str(value).lower()}" for key, value in choice_of(name).items()]
    try:
        changed = inputs.load(config.path, (*config.overrides, *changes), config.output)
    except InputError as error:  # the input itself was accepted
        raise InputError(str(error).replace("--set", "study.changes")) from None
    for table in ("image", "model", "prior", "simulate", "study"):
        if getattr(changed, table) != getattr(config, table):
            raise InputError(f"{config.path}: study.changes: all methods have the same [{table}]")
    if not isinstance(changed.fit.start, str):
        raise InputError(
            f"{config.path}: fit.start = {changed.fit.start}: a study has many images; "
            f'"best", "paper" or "prior" is accepted'
        )
    if replace(changed.precompute, interpolation=config.precompute.interpolation) != config.precompute:
        raise InputError(
            f"{config.path}: study.changes: all methods have the same [precompute], but for its interpolation"
        )
    check_method(changed)
    return changed


# All images, over the ranks


def work(comm: Comm, plan: Study, control: Control, options: Any) -> None:
    """Collective.  Do what is left of this job's images.  Raises Interrupted where it was asked to stop.

    options : has `fresh`, to start over, and `quiet`
    """
    on_root(comm, files.make_directory, plan.config.output)
    mine = plan.images[comm.rank :: comm.size]
    if options.fresh:
        _together(comm, lambda: _clear(plan, mine))
    todo = _together(comm, lambda: {n: [m for m in plan.methods if not plan.done(n, m)] for n in mine})
    todo = {number: methods for number, methods in todo.items() if methods}
    busy = {m for methods in comm.allgather(set().union(*todo.values())) for m in methods}
    warm_up(comm, lambda: compile_all(plan, [m for m in plan.methods if m in busy]))
    bell, left = Bell(comm), sum(map(len, todo.values()))
    error: InputError | None = None
    total = comm.allreduce(left)
    with Progress(comm, "study", total, "fits", options.quiet) as progress:
        try:
            for _ in _fits(plan, todo, Listener(control, bell)):
                left -= 1
                progress.advance(comm.size)
        except Interrupted:
            bell.ring()
        except InputError as caught:
            error = caught
            bell.ring()
        bell.close()
    raise_together(comm, error)
    if agree(comm, left > 0):
        raise control.interrupted(f"every finished fit in {plan.config.output}")


def _fits(plan: Study, todo: dict[int, list[str]], control: Listener) -> Iterator[None]:
    """The fits that are left, on this rank alone; yields after each."""
    for number, methods in todo.items():
        with _own(plan.directory(number)):
            for method in methods:
                if control.agreed(ALONE):
                    raise control.interrupted("")
                if not plan.done(number, method):  # by a job that was at work here a moment ago
                    fit_one(plan, method, number, control)
                yield


def _clear(plan: Study, numbers: range) -> None:
    """Start over, with the methods of this input."""
    for number in numbers:
        with _own(plan.directory(number)):
            for method in plan.methods:
                plan.part(number, method).unlink(missing_ok=True)
                shutil.rmtree(plan.directory(number) / method, ignore_errors=True)


@contextmanager
def _own(directory: Path) -> Iterator[None]:
    """Two jobs do not fit the same image at the same time."""
    files.make_directory(directory)
    with files.locked(ALONE, directory / ".study.lock"):
        yield


def _together(comm: Comm, function: Callable[[], Any]) -> Any:
    """Collective.  What a function returns on each rank; an InputError of one is raised on all."""
    value: Any = None
    error: InputError | None = None
    try:
        value = function()
    except InputError as caught:
        error = caught
    raise_together(comm, error)
    return value


# The table


def _unfinished(plan: Study) -> int:
    numbers = range(plan.config.simulate.images)
    return sum(not plan.part(n, m).exists() for n in numbers for m in plan.methods)


def _time_of(path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _written_since(plan, table, before: int) -> bool:
    """Whether another job has written the table while this one was at work, after the last of all fits."""
    parts = (plan.part(n, m) for n in range(plan.config.simulate.images) for m in plan.methods)
    return _time_of(table) > before and _time_of(table) >= max(map(_time_of, parts))


def collect(plan: Study) -> list[Fits]:
    """What all methods found, from the parts; on one rank."""
    rows: dict[str, list[dict]] = {}
    for method in plan.methods:
        for number in range(plan.config.simulate.images):
            attributes, arrays = plan.read(number, method)
            shared = {"truth": attributes["beta"], "cpu": arrays.pop("cpu/seconds")}
            shared["elapsed"] = arrays.pop("elapsed/seconds")
            for name in dict.fromkeys(key.rpartition("/")[0] for key in sorted(arrays)):
                columns = {column: arrays[f"{name}/{column}"] for column in COLUMNS}
                rows.setdefault(name, []).append(shared | columns)
    return [
        Fits(name, **{c: np.array([image[c] for image in images]) for c in images[0]})
        for name, images in rows.items()
    ]


def write_table(plan: Study) -> str:
    """Write study.h5, study.csv and study.txt; returns what the last says; on one rank."""
    config, fits = plan.config, collect(plan)
    calibrated = config.simulate.beta == "prior"
    rows = [study.scores(each, config.study.bins, calibrated) for each in fits]
    text = "\n".join([study.table(rows), "", *notes(plan, rows), *_other_ranks(plan, fits, calibrated)])
    attributes: dict[str, Any] = {
        "methods": list(plan.methods),
        "input": config.text,
        "overrides": "\n".join(config.overrides),
    }
    attributes |= {"seed": config.seed, "draws": config.study.draws, "images": config.simulate.images}
    attributes |= {"bins": config.study.bins, "calibrated": calibrated, "rows": [f.name for f in fits]}
    output, datasets = config.output, study.to_arrays(fits)
    store.write(ALONE, output / "study.h5", *STUDY, attributes, datasets, "gather")
    files.write_text(output / "study.csv", study.comma_separated(rows))
    files.write_text(output / "study.txt", f"{text}\n")
    return f"{text}\n{output / 'study.h5'}: written, with study.csv and study.txt"


def notes(plan: Study, rows: list[Scores]) -> Iterator[str]:
    """How to read the table, and what a method at reduced size would take at the size of the input."""
    yield "Times are means for one image on one rank, without the binding function."
    bins = max(row.rank_bins for row in rows)
    if bins > 1:
        yield (
            f"ranks p: the chance of a less even histogram of the true beta's ranks, in {bins} bins, where "
            f"the posterior is right; below {study.PASSES} fails."
        )
    for name, config in plan.methods.items():
        factor = _reduction(plan.config, config, name)
        if factor != 1.0:
            row = next(row for row in rows if row.method.partition(" ")[0] == name)
            seconds, each = factor * row.cpu_seconds / _rounds(plan, name), method_of(config).simulates_for
            yield (
                f"{name} ran at reduced size: without study.changes it simulates {factor:.4g} times the "
                f"sweeps, about {seconds:.3g} CPU seconds {each} (extrapolated, not measured)."
            )


def _other_ranks(plan: Study, fits: list[Fits], calibrated: bool) -> Iterator[str]:
    """p of the ranks of S(z) and of the noise, where the truth was drawn from the priors."""
    keys = plan.config.simulate
    noise = noise_kind(plan.config)
    if not calibrated or any(getattr(keys, name) != "prior" for name in noise.names):
        return
    for each in fits:
        found = study.other_ranks(each, noise.symbols, plan.config.study.bins)
        if found:
            text = ", ".join(f"{name} {p:.2g}" for name, p in found.items())
            yield f"{each.name}: p of the ranks of others: {text}."


def _reduction(whole: Config, config: Config, name: str) -> float:
    """How many times the sweeps over whole images a method has without its study.changes, in a round.

    1 for the methods that simulate nothing.
    """
    whole = whole.with_keys({"fit": choice_of(name)})
    before, after = (method_of(each).simulated(each) for each in (whole, config))
    if before is None or after is None:
        return 1.0
    return before.in_one_round(is_hidden(whole)) / after.in_one_round(is_hidden(config))


def _rounds(plan: Study, name: str) -> float:
    """How often a method simulated for all its particles, in the mean of all images."""
    numbers = range(plan.config.simulate.images)
    iterations = np.mean([plan.read(n, name, ())[0]["iterations"] for n in numbers])
    config = plan.methods[name]
    return method_of(config).rounds(config, float(iterations))
