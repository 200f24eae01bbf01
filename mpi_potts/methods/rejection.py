"""ABC rejection for observed labels (paper, section 2): draws from the prior, of which the nearest are kept.

Each of the draws of beta has one pseudo-statistic x, from the binding function or from a simulated image.
Kept are those with |x - S| up to the tolerance, or up to the distance that a given part of them has.  The
draws are split over the ranks in blocks; what is kept is decided on all of them, gathered.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .. import rng
from ..errors import InputError
from ..estimation import regression
from ..io import fit_file
from ..io.store import Rows
from ..kernels import smc as kernels
from ..labels.ensemble import SLICE_SITES
from ..rng import Purpose
from ..runtime.parallel import Comm, agree, allgather_rows, block, on_root, warm_up
from ..runtime.progress import Live, Progress
from ..smc.sources import BindingSource, SimulationSource, check_support
from .base import Fit, Problem

# Draws from the binding function in a slice of the work.
SLICE_DRAWS = 1_000_000


class RejectionFit(Fit):
    """The pseudo-statistics of this rank's block of draws, nan where not yet drawn."""

    length = "rejection.draws"

    def __init__(self, comm: Comm, problem: Problem):
        super().__init__(comm, problem)
        config = problem.config
        keys, (low, high) = config.rejection, config.prior.beta
        self._index = np.arange(*block(keys.draws, comm.size, comm.rank))
        uniform = rng.uniforms(rng.stream(config.seed, Purpose.REJECTION), 0, keys.draws)
        self._beta = low + (high - low) * uniform
        self._x = np.full(self._index.size, np.nan)
        if config.fit.pseudo_data:
            self._source = SimulationSource(problem.sampler(comm), 1, config.seed, config.pseudo_data)
            self._slice = max(1, SLICE_SITES // (problem.lattice.sites * self._source.sweeps))
        else:
            self._source = BindingSource(problem.binding, 1, config.seed)
            self._slice = SLICE_DRAWS
        check_support(self._source, config.prior.beta)

    def advance(self, live: Live, quiet: bool) -> Iterator[None]:
        warm_up(self.comm, kernels.compile_all)
        left = np.flatnonzero(np.isnan(self._x))
        with Progress(self.comm, "draws", left.size, "draws of this rank", quiet) as progress:
            while agree(self.comm, left.size > 0):
                now, left = left[: self._slice], left[self._slice :]
                out, index = np.empty((now.size, 1)), self._index[now]
                self._source.draw(out, self._beta[index], np.zeros(now.size, dtype=np.int64), index)
                self._x[now] = out[:, 0]
                progress.advance(now.size)
                yield

    @cached_property
    def _accepted(self):
        """(tolerance, beta, weight, x) of what is kept; collective the first time."""
        config, keys = self.problem.config, self.problem.config.rejection
        x = allgather_rows(self.comm, self._x, keys.draws)
        offset = x - self.problem.statistic
        distance = np.abs(offset)
        tolerance = keys.tolerance
        if tolerance is None:
            tolerance = regression.tolerance_of(distance, keys.quantile)
        kept = np.flatnonzero(distance <= tolerance)
        if kept.size == 0:
            raise InputError(
                f"rejection.tolerance = {tolerance:g}: the nearest of {keys.draws} draws is at "
                f"{distance.min():g}; a larger tolerance or more draws are needed"
            )
        beta, weight = self._beta[kept], np.ones(kept.size)
        if keys.adjust:
            weight = regression.epanechnikov(distance[kept], tolerance)
            beta = regression.adjust(beta, offset[kept], weight, config.prior.beta)
        return tolerance, beta, weight / weight.sum(), x[kept]

    @property
    def where(self) -> str:
        return "an earlier run"

    def headline(self) -> str:
        tolerance, beta, *_ = self._accepted
        return f"{beta.size} of {self.problem.config.rejection.draws} draws accepted, tolerance {tolerance:g}"

    def particles(self) -> tuple[np.ndarray, np.ndarray]:
        return self._accepted[1], self._accepted[2]

    def traces(self) -> dict[str, np.ndarray]:
        tolerance, beta, _, x = self._accepted
        acceptance = beta.size / self.problem.config.rejection.draws
        row = {"epsilon": tolerance, "acceptance": acceptance, "statistic": float(self.problem.statistic)}
        return {f"trace/{name}": np.array([value]) for name, value in row.items()} | {
            "posterior/statistic": x
        }

    def pack(self) -> dict[str, Any]:
        return {"rejection/statistic": Rows(self._index, self._x, self.problem.config.rejection.draws)}

    def resume(self, path) -> None:
        self._x = on_root(self.comm, fit_file.read_group, path, "rejection")["statistic"][self._index]
