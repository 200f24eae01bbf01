"""One image of a study, fitted by one method: the image from its number, the fit, and the part it leaves.

A part has for each row of the table the posterior mean and sd of beta, its quantiles, the effective sample
size, thinned draws, and the rank of the true beta among them; and the times of the fit.  Each image is
fitted with a seed of its own, so that the errors of two images are independent.
"""

import json
import shutil
import sys
import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..binding.function import INTERPOLATIONS, Binding
from ..config.inputs import Config
from ..errors import Damaged, Interrupted
from ..image.pixels import Image
from ..io import files, fit_file, reading, store
from ..io.fit_file import FitPaths
from ..io.formats import STUDY_PART
from ..lattice import Lattice
from ..methods import driver
from ..methods.base import SHORT, Problem, method_of, needs_binding, settings_of
from ..model.noise import noise_kind
from ..model.scale import on_image
from ..model.simulate import Truth, simulate_image, truth_of
from ..posterior.outcome import Outcome, outcome
from ..posterior.summary import Summary
from ..rng import Purpose
from ..runtime.control import Control
from ..runtime.parallel import ALONE, Bell, Comm
from ..runtime.progress import Live
from ..smc import weights
from . import scores as study
from .scores import COLUMNS, PROBABILITIES


@dataclass(frozen=True, eq=False)
class Study:
    """The input, with one input for each method, and what all fits share."""

    config: Config
    methods: dict[str, Config]
    lattice: Lattice
    binding: Binding | None

    @property
    def images(self) -> range:
        """The images of this job."""
        keys, n = self.config.study, self.config.simulate.images
        return range(keys.images_from, n if keys.images_to is None else keys.images_to)

    def curve(self, method: str) -> Binding | None:
        """The binding function as a method interpolates it, or None where it needs none."""
        config = self.methods[method]
        return self._curves[config.precompute.interpolation] if needs_binding(config) else None

    @cached_property
    def _curves(self) -> dict[str, Binding | None]:
        if self.binding is None:
            return dict.fromkeys(INTERPOLATIONS)
        return {form: replace(self.binding, interpolation=form) for form in INTERPOLATIONS}

    def directory(self, number: int) -> Path:
        """Where the parts of one image lie, and the checkpoints of its fits."""
        return self.config.output / f"image_{number:03d}"

    def part(self, number: int, method: str) -> Path:
        """What the fit of one image by one method leaves."""
        return self.directory(number) / f"{method}.h5"

    def settings(self, method: str) -> dict[str, Any]:
        """Everything that a part is a function of, beside the number of its image."""
        config, binding = self.methods[method], self.curve(method)
        draws = {"study.draws": config.study.draws}
        keys = settings_of(config, self.lattice, binding, ("model", "simulate"), draws)
        del keys["simulate.images"]  # more images can be added to a study
        return keys

    def done(self, number: int, method: str) -> bool:
        """Whether this very fit is there; one of another input in its place is refused."""
        path = self.part(number, method)
        if not path.exists():
            return False
        try:
            self.read(number, method, ())
        except Damaged as error:
            print(f"{error}: ignored, this fit is done again", file=sys.stderr, flush=True)
            return False
        return True

    def read(
        self, number: int, method: str, names: tuple[str, ...] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Attributes and datasets of a part; one of another input, or of an older program, is refused."""
        path = self.part(number, method)
        attributes, arrays = reading.read(path, *STUDY_PART, names)
        reading.refuse_older(path, attributes, STUDY_PART.version, "without ranks of the noise")
        fit_file.check_settings(path, attributes, self.settings(method))
        return attributes, arrays


def image_seed(config: Config, number: int) -> int:
    """The seed of the fits of one image."""
    return int(rng.words(rng.stream(config.seed, Purpose.STUDY, number), 0, 1)[0, 0] >> np.uint64(1))


def make_problem(plan: Study, method: str, number: int) -> tuple[Problem, Truth, int]:
    """Image `number`, to be fitted by `method`, its truth, and S of its true labels."""
    config, lattice, keys = plan.methods[method], plan.lattice, plan.config.simulate
    k = config.model.labels
    true = truth_of(config, number)
    sizes = config.seed, number, keys.sweeps, noise_kind(config)
    labels, values = simulate_image(lattice, k, true.beta, true.noise, *sizes)
    observed = config.image.kind == "labels"
    values = np.where(lattice.exists, labels if observed else values, 0.0)
    mask = None if lattice.exists.all() else lattice.exists
    image = Image(values, mask, labels if observed else None, config.path, (0,) * values.ndim)
    config = replace(on_image(config, image.pixels), seed=image_seed(config, number))
    if config.run.threads == "auto":  # the other ranks have images of their own
        config = replace(config, run=replace(config.run, threads=1))
    return Problem.of(config, image, lattice, plan.curve(method)), true, lattice.statistic(labels)


class Clock:
    """Processor and elapsed seconds of one fit, over the stops that it was told of."""

    def __init__(self, path: Path):
        self._path = path
        before = _numbers(path)
        self._start = time.process_time() - before[0], time.perf_counter() - before[1]

    def read(self) -> tuple[float, float]:
        """Processor and elapsed seconds so far."""
        return time.process_time() - self._start[0], time.perf_counter() - self._start[1]

    def save(self) -> None:
        """Keep the times, for when the fit goes on."""
        files.write_text(self._path, json.dumps(self.read()))


def _numbers(path: Path) -> tuple[float, float]:
    """The two times of a clock that was stopped; none where there is none, or it is damaged."""
    try:
        cpu, elapsed = json.loads(path.read_text())
        return float(cpu), float(elapsed)
    except (OSError, ValueError, TypeError):
        return 0.0, 0.0


class Listener:
    """A `Control` for one rank among others that work on their own: it stops when any of them should."""

    def __init__(self, control: Control, bell: Bell):
        self._control, self._bell = control, bell

    def agreed(self, comm: Comm) -> bool:
        """Whether any rank was asked to stop; told to the others where it was this one."""
        if self._control.stop:
            self._bell.ring()
        return self._bell.heard()

    def interrupted(self, where: str) -> Interrupted:
        """The exception of a fit that stops with a checkpoint."""
        return self._control.interrupted(where)


def fit_one(plan: Study, method: str, number: int, control: Listener) -> None:
    """Fit one image by one method, from the start or a checkpoint, and leave its part; on one rank."""
    paths = FitPaths(plan.directory(number) / method)
    files.make_directory(paths.directory)
    problem, true, statistic = make_problem(plan, method, number)
    clock = Clock(paths.directory / "clock.json")
    try:
        fit = driver.run(ALONE, problem, paths, control, True)
    except Interrupted:
        clock.save()
        raise
    result = outcome(ALONE, fit)
    cpu, elapsed = clock.read()
    attributes = {"settings": json.dumps(plan.settings(method), sort_keys=True), "number": number}
    attributes |= {"method": method, "beta": true.beta, "iterations": fit.iteration}
    attributes["stopped_because"] = fit.stopped_because
    datasets = {"cpu/seconds": np.array(cpu), "elapsed/seconds": np.array(elapsed)}
    for row, columns in posteriors(method, result, true, statistic, plan.config.study.draws).items():
        datasets |= {f"{row}/{name}": np.asarray(value) for name, value in columns.items()}
    store.write(ALONE, plan.part(number, method), *STUDY_PART, attributes, datasets, "gather")
    shutil.rmtree(paths.directory, ignore_errors=True)


def posteriors(
    method: str, result: Outcome, true: Truth, statistic: int, count: int
) -> dict[str, dict[str, Any]]:
    """The columns of every posterior of beta that a fit gives, by its name in the table.

    Of particles, of chains, or of both; ranks of the truth, S of whose labels is given, are among `count`
    draws.
    """
    beta = true.beta
    fit, sample = result.fit, result.fit.particles()
    rows: dict[str, dict[str, Any]] = {}
    if sample is not None and result.particles is not None:
        uniform = rng.uniforms(rng.stream(fit.problem.config.seed, Purpose.STUDY), 1, count)
        at = fit.density.quantiles if fit.density is not None else partial(weights.quantiles, *sample)
        name = f"{method} particles" if fit.problem.hidden else method
        rows[name] = _columns(result.particles, at(PROBABILITIES), at(uniform), beta)
        rows[name]["ranks"] = np.zeros(0, dtype=np.int64)
    summary = result.marginal or result.particles
    if result.draws is not None and summary is not None:
        draws, quantiles = result.draws.beta, np.quantile(result.draws.beta, PROBABILITIES)
        name = f"{method} marginal" if sample is not None else method
        rows[name] = _columns(summary, quantiles, study.thinned(draws, count), beta)
        rows[name]["ranks"] = _ranks(result, true, statistic, count)
    return rows


def _ranks(result: Outcome, true: Truth, statistic: int, count: int) -> np.ndarray:
    """Ranks of the true S, then of each parameter of the noise label by label, among draws.

    Where the priors are the same for all labels, these are in the order of their first parameter, in the
    truth as in every draw: then the ranks of a right posterior are uniform, whatever labels are called.
    """
    draws, noise = result.draws, result.fit.problem.noise
    if draws is None or not draws.noise:
        return np.zeros(0, dtype=np.int64)
    lot = rng.uniforms(rng.stream(result.fit.problem.config.seed, Purpose.STUDY), 2, 1)[0]
    found = [rank(study.thinned(draws.statistic, count), statistic, lot)]
    order, own = np.arange(noise.labels), np.arange(noise.labels)
    if noise.exchangeable:
        order = np.argsort(draws.noise[noise.names[0]], axis=2, kind="stable")
        own = np.argsort(true.noise[0], kind="stable")
    for name, truth in zip(noise.names, true.noise):
        values = draws.noise[name]
        values = np.take_along_axis(values, np.broadcast_to(order, values.shape), axis=2)
        found += [rank(study.thinned(values[:, :, j], count), truth[own[j]]) for j in range(noise.labels)]
    return np.array(found)


def rank(draws: np.ndarray, truth: float, lot: float = 0.0) -> int:
    """The number of draws below the truth; among equal ones, as of integers, its place is drawn by lot."""
    return int(np.count_nonzero(draws < truth)) + int(lot * (1 + np.count_nonzero(draws == truth)))


def _columns(summary: Summary, quantiles: np.ndarray, draws: np.ndarray, beta: float) -> dict[str, Any]:
    """What is kept of one posterior, by the names of `COLUMNS`."""
    values = summary.mean, summary.sd, quantiles, summary.ess, rank(draws, beta), draws
    return dict(zip(COLUMNS, values))


def shortened(config: Config) -> Config:
    """The input of a fit of a moment by the same method."""
    short = dict(SHORT)
    if config.fit.final_sweeps == 0:  # then there may be no binding function
        del short["fit"]
    return config.with_keys(short).with_keys(method_of(config).short())


def compile_all(plan: Study, methods: list[str]) -> None:
    """A fit of a moment by each method, so that compiling is in no one's times; on one rank."""
    for method in methods:
        problem, *_ = make_problem(plan, method, 0)
        problem = replace(problem, config=shortened(problem.config))
        fit = method_of(problem.config).fit(ALONE, problem)
        problem.compile(ALONE)
        for _ in fit.advance(Live(ALONE, True), True):
            pass
