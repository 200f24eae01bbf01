"""Several numbers of labels in one run: `mpi-potts run` where model.labels is a list.

Every k is a run of its own in labels_K/, with its binding function, result and report, and its evidence after
it.  What is there is not done again, so that a run that was stopped goes on with the k that it was at.  The
table of all is written at the end: choice.txt, choice.csv, choice.h5 and choice.html.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..config import inputs
from ..config.inputs import Config
from ..errors import InputError
from ..estimation.evidence import probabilities
from ..io import files, reading, store
from ..io.fit_file import FitPaths
from ..io.formats import CHOICE
from ..methods.base import check_method, is_hidden, needs_binding
from ..posterior import evidence
from ..posterior.choice import Comparison, directory_of
from ..posterior.evidence import Evidence
from ..runtime.control import Control
from ..runtime.parallel import Comm, on_root
from . import fit, image_input, report
from .say import say

Run = Callable[[Comm, Config, Namespace], int]


def execute(comm: Comm, config: Config, options: Namespace, run: Run) -> int:
    """Collective.  Run every number of labels by `run`, then compare them."""
    image_input.keep(comm, config, only_new=not options.fresh)
    found = []
    for each in on_root(comm, inputs_of, config):
        say(comm, f"{each.model.labels} labels, in {each.output}")
        run(comm, each, options)
        found.append(evidence_of(comm, each, options))
    choice = write(comm, config, found)
    say(comm, f"{choice}\n{config.output / 'choice.h5'}: written, with choice.txt and choice.csv")
    report.after(comm, config.output / "choice.h5")
    return 0


def inputs_of(config: Config) -> list[Config]:
    """The input of every number of labels; what cannot be compared is refused; on one rank."""
    check_method(config)
    listed = list(config.choices)
    if not is_hidden(config):
        raise InputError(
            f"{config.path}: model.labels = {listed}: one number is accepted for observed labels"
        )
    if not needs_binding(config) or config.fit.final_sweeps == 0:
        raise InputError(
            f"{config.path}: model.labels = {listed}: the evidence of several needs a binding function and "
            f'final sweeps: fit.method = "path", "synthetic" or "smc-abc" is accepted'
        )
    every = [
        inputs.parse(
            config.text,
            config.path,
            (*config.overrides, f"model.labels={k}"),
            directory_of(config.output, k),
        )
        for k in config.choices
    ]
    # The input of an image alone need not be written yet, nor its directory be there, that files are beside.
    return [replace(each, image=config.image) for each in every]


def evidence_of(comm: Comm, config: Config, options: Any) -> Evidence:
    """Collective.  The evidence of the number of labels of an input whose fit is done.

    options : has `max_hours`
    """
    problem = fit.pose(comm, config)
    problem = replace(problem, binding=on_root(comm, fit.read_binding, problem))
    with Control(options.max_hours) as control:
        return evidence.obtain(comm, problem, FitPaths(config.output), control)


def write(comm: Comm, config: Config, found: list[Evidence]) -> Comparison:
    """Collective.  Compare the numbers of labels, and write the table; on every rank the choice."""
    choice = on_root(comm, compare, config, found)
    attributes = {
        "recommended": choice.recommended,
        "sure": choice.sure,
        "words": choice.words,
        "input": config.text,
        "overrides": "\n".join(config.overrides),
        "seed": config.seed,
    }
    store.write(comm, config.output / "choice.h5", *CHOICE, attributes, choice.arrays(), config.run.writer)
    on_root(comm, lambda: files.write_text(config.output / "choice.txt", f"{choice}\n"))
    on_root(comm, lambda: files.write_text(config.output / "choice.csv", choice.csv))
    return choice


def compare(config: Config, found: list[Evidence]) -> Comparison:
    """The choice, from the evidence of every number and what its result says; on one rank."""
    results = [
        reading.contents(FitPaths(directory_of(config.output, e.labels)).result).attributes for e in found
    ]
    return Comparison(
        labels=np.array([e.labels for e in found]),
        log_evidence=(values := np.array([e.value for e in found])),
        error=(errors := np.array([e.error for e in found])),
        probability=probabilities(values, errors),
        criterion=np.array([e.criterion for e in found]),
        beta=np.array([r["beta_mean"] for r in results]),
        beta_sd=np.array([r["beta_sd"] for r in results]),
        warnings=np.array([len(r["warnings"].splitlines()) for r in results]),
    )
