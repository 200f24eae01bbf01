"""The evidence of the number of labels of a hidden image, after its fit: tasks over the ranks, and their sum.

`estimation.evidence` has the formula, `labels.evidence` the tasks: at every node of the path two runs, from
the labels of the fit and from a draw at beta = 0, and a run for every part of the ordinate.  Rank 0 finds the
point; then task t is that of rank t mod size, whatever their number, and rank 0 puts the parts together.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import arithmetic
from ..binding.function import Binding
from ..errors import Damaged, InputError
from ..estimation import evidence as formula
from ..io import reading, store
from ..io.fit_file import FitPaths
from ..io.formats import EVIDENCE
from ..labels import evidence as tasks
from ..labels.chain import LabelChain
from ..methods.base import Problem
from ..methods.driver import Asked
from ..runtime.parallel import Comm, bcast, bcast_first, decided, merge_rows, on_root
from ..runtime.threads import ALONE

# Sweeps at every node and draws for every part of the ordinate.  Differences between numbers of labels grow
# with the pixels, their errors with the root of them, so that a large image needs fewer.
MOST, FEWEST, PIXELS = (200, 300), (40, 100), 100_000
# Where an error is larger, a label that the image does not need has left for another mode: then another point
# is looked for, from where it has gone.
ATTEMPTS, ROUGH = 4, 3.0


@dataclass(frozen=True)
class Evidence:
    """log p(y | k), its standard error and the parts of that, and a cheap criterion, all in natural
    logarithms and in the units of the image.

    beta : where the identity was taken
    """

    labels: int
    value: float
    error: float
    path_error: float
    ordinate_error: float
    normaliser_error: float
    criterion: float
    beta: float


def path_of(paths: FitPaths) -> Path:
    """The file of the evidence, beside the result that it belongs to."""
    return paths.directory / "evidence.h5"


def obtain(comm: Comm, problem: Problem, paths: FitPaths, control: Asked) -> Evidence:
    """Collective.  The evidence that is there, or else a new one, after the fit of the problem.

    Raises Interrupted where it was asked to stop; the next call begins it again.
    """
    found, labels = on_root(comm, _prepare, problem, paths)
    if found is None:
        found = compute(comm, problem, labels, control, str(paths.result))
        attributes = asdict(found) | {"settings": json.dumps(problem.settings, sort_keys=True)}
        store.write(comm, path_of(paths), *EVIDENCE, attributes, {}, problem.config.run.writer)
    return found


def _prepare(problem: Problem, paths: FitPaths) -> tuple[Evidence | None, np.ndarray]:
    """The evidence where it is there and of this result; the labels of the fit (n,); on one rank."""
    if problem.curve.beta[0] > 0.0:
        raise InputError(
            f"{problem.config.path}: several model.labels need a binding function from beta = 0 on: "
            f"prior.beta from 0 on, or a list that begins with 0 as precompute.grid, is accepted"
        )
    content = reading.contents(paths.result)
    labels = content.arrays(["labels/map"])["labels/map"][problem.lattice.exists]
    path = path_of(paths)
    if path.exists():
        try:
            attributes, _ = reading.read(path, *EVIDENCE, ())
        except Damaged:
            return None, labels  # a pure function of what is there: it is computed again
        if json.loads(attributes["settings"]) == json.loads(json.dumps(problem.settings)):
            return of_attributes(attributes), labels
    return None, labels


def of_attributes(attributes: dict[str, Any]) -> Evidence:
    """From what its file says."""
    return Evidence(**{name: attributes[name] for name in Evidence.__dataclass_fields__})


def compute(comm: Comm, problem: Problem, labels: np.ndarray, control: Asked, where: str) -> Evidence:
    """Collective.  The evidence from the labels (n,) of the pixels that exist of a fit.

    where : what is there to go on from, should the run be stopped
    """
    problem = replace(problem, image=bcast_first(comm, problem.image, comm.size))
    config, binding, k = problem.config, problem.curve, problem.config.model.labels
    surrogate = tasks.surrogate_of(binding, config.prior.beta)
    chain = problem.label_chain(tasks.NUMBER, ALONE)
    sweeps, draws = (max(f, min(m, m * PIXELS // problem.lattice.sites)) for m, f in zip(MOST, FEWEST))
    found, start = None, labels
    for attempt in range(ATTEMPTS):
        first = attempt * (2 * formula.NODES + k + 2)
        point, begin = bcast(
            comm, tasks.find_point(chain, first, start, surrogate) if comm.rank == 0 else None
        )
        work = _Work(chain, 1 + first, begin, point, surrogate, binding, sweeps, draws)
        held, parts, start = _shared(comm, work, control, where)
        now = decided(comm, _together, problem, chain, point, labels, held, parts)
        found = now if found is None or now.error < found.error else found
        if found.ordinate_error < ROUGH:
            break
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class _Work:
    """What the tasks of one attempt have in common; `first` is the number of the first of them."""

    chain: LabelChain
    first: int
    start: np.ndarray
    point: tasks.Point
    surrogate: Any
    binding: Binding
    sweeps: int
    draws: int

    def held(self, task: int) -> np.ndarray:
        """S(z) of a run on the path."""
        beta = formula.nodes(self.point.beta)[0][task // 2]
        run = self.chain, self.first + task, self.start, self.point
        return tasks.held(*run, beta, self.sweeps, mixed=task % 2 == 1)

    def ordinate(self, task: int, part: int) -> tuple[float, float]:
        """A part of the ordinate, and its error."""
        run = self.chain, self.first + task, self.start, self.point
        return tasks.ordinate(*run, self.surrogate, self.binding, part, self.draws)


def _shared(comm: Comm, work: _Work, control: Asked, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Collective.  S(z) (2 nodes, sweeps) on the path, the parts (k + 1, 2) of the ordinate, and the labels
    (n,) at the end of that run which tells least of its part, from all ranks."""
    runs, parts = 2 * formula.NODES, work.chain.k + 1
    mine = np.arange(comm.rank, runs + parts, comm.size)
    series, logs, worst = [], [], (-1.0, work.start)
    for t in range(0, runs + parts, comm.size):
        task = t + comm.rank
        if task < runs:
            series.append(work.held(task))
        elif task < runs + parts:
            logs.append(work.ordinate(task, task - runs))
            worst = max(
                worst, (logs[-1][1], work.chain.labels[work.chain.lattice.exists]), key=lambda w: w[0]
            )
        if control.agreed(comm):
            raise control.interrupted(where)
    held = merge_rows(comm, mine[mine < runs], _rows(series, work.sweeps, np.int64), runs)
    found = merge_rows(comm, mine[mine >= runs] - runs, _rows(logs, 2, np.float64), parts)
    owner = (runs + int(np.argmax(found[:, 1]))) % comm.size == comm.rank
    labels = worst[1].astype(np.uint8)[None]
    return held, found, merge_rows(comm, np.arange(owner), labels[: int(owner)], 1)[0]


def _rows(rows, width, dtype):
    return np.array(rows, dtype=dtype).reshape(len(rows), width)


def _together(
    problem: Problem,
    chain: LabelChain,
    point: tasks.Point,
    labels: np.ndarray,
    held: np.ndarray,
    parts: np.ndarray,
) -> Evidence:
    """The evidence from S(z) (2 nodes, sweeps) on the path and the parts (k + 1, 2) of the ordinate, with
    their errors; on one rank."""
    interval = problem.config.prior.beta
    found = tasks.together(chain, problem.curve, interval, point, held, parts)
    units = problem.lattice.sites * float(arithmetic.log(chain.unit))
    errors = found.error, found.path_error, found.ordinate_error, found.normaliser_error
    cheap = tasks.criterion(chain, labels, interval) - units
    return Evidence(chain.k, found.value - units, *errors, cheap, point.beta)
