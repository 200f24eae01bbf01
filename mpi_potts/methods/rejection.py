"""ABC rejection for observed labels (paper, section 2): draws from the prior, of which the nearest are kept.

Each of the draws of beta has one pseudo-statistic x, from the binding function or from a simulated image.
Kept are those with |x - S| up to the tolerance, or up to the distance that a given part of them has.  The
draws are split over the ranks in blocks; what is kept is decided on all of them, gathered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..config.inputs import Config
from ..config.registry import OwnTable, register
from ..config.schema import Flag, Integer, Number, key
from ..errors import InputError
from ..estimation import regression
from ..io import fit_file
from ..io.rows import Rows
from ..kernels import smc as kernels
from ..labels.ensemble import SLICE_SITES
from ..rng import Purpose
from ..runtime.parallel import Comm, agree, allgather_rows, block, on_root, warm_up
from ..runtime.progress import Live, Progress
from ..smc.sources import BindingSource, SimulationSource, Source, check_support
from . import needs
from .base import Fit, Method, Problem, Simulation

# Draws from the binding function in a slice of the work.
SLICE_DRAWS = 1_000_000


@dataclass(frozen=True)
class RejectionKeys:
    """The table [rejection] of the input."""

    draws: int = key(Integer(2), 100_000, "number of draws from the prior")
    tolerance: float | None = key(Number(0.0), None, "largest distance accepted; instead of quantile")
    quantile: float = key(
        Number(0.0, 1.0, True), 0.01, "part of the draws accepted, the nearest (not used with tolerance)"
    )
    adjust: bool = key(Flag(), False, "local-linear regression adjustment of the accepted draws")


@dataclass(frozen=True, eq=False)
class Accepted:
    """The draws that are kept: beta, weight and pseudo-statistic x of each, (n,), and the tolerance."""

    tolerance: float
    beta: np.ndarray
    weight: np.ndarray
    x: np.ndarray


class RejectionFit(Fit):
    """The pseudo-statistics of this rank's block of draws, nan where not yet drawn; then what is kept."""

    length = "rejection.draws"
    _source: Source

    def __init__(self, comm: Comm, problem: Problem):
        """Collective.  Before the first draw."""
        super().__init__(comm, problem)
        config = problem.config
        keys, (low, high) = config.of(RejectionKeys), config.prior.beta
        self._keys = keys
        self._kept: Accepted | None = None
        self._index = np.arange(*block(keys.draws, comm.size, comm.rank))
        uniform = rng.uniforms(rng.stream(config.seed, Purpose.REJECTION), 0, keys.draws)
        self._beta = low + (high - low) * uniform
        self._x = np.full(self._index.size, np.nan)
        if config.fit.pseudo_data:
            simulation = SimulationSource(problem.sampler(comm), 1, config.seed, config.pseudo_data)
            self._source = simulation
            self._slice = max(1, SLICE_SITES // (problem.lattice.sites * simulation.sweeps))
        else:
            self._source = BindingSource(problem.curve, 1, config.seed)
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

    def conclude(self) -> None:
        """Collective.  Decide on the draws of all ranks which are kept."""
        keys = self._keys
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
            beta = regression.adjust(beta, offset[kept], weight, self.problem.config.prior.beta)
        self._kept = Accepted(tolerance, beta, weight / weight.sum(), x[kept])

    @property
    def accepted(self) -> Accepted:
        """The draws that are kept, after `conclude`."""
        if self._kept is None:
            raise RuntimeError("what is accepted is known once the fit is concluded")
        return self._kept

    @property
    def where(self) -> str:
        return "an earlier run"

    def headline(self) -> str:
        kept = self.accepted
        return f"{kept.beta.size} of {self._keys.draws} draws accepted, tolerance {kept.tolerance:g}"

    def particles(self) -> tuple[np.ndarray, np.ndarray]:
        return self.accepted.beta, self.accepted.weight

    def traces(self) -> dict[str, np.ndarray]:
        kept = self.accepted
        acceptance = kept.beta.size / self._keys.draws
        row = {"epsilon": kept.tolerance, "acceptance": acceptance}
        row["statistic"] = float(self.problem.statistic)
        columns = {f"trace/{name}": np.array([value]) for name, value in row.items()}
        return columns | {"posterior/statistic": kept.x}

    def pack(self) -> dict[str, Any]:
        return {"rejection/statistic": Rows(self._index, self._x, self._keys.draws)}

    def resume(self, path: Path) -> None:
        self._x = on_root(self.comm, fit_file.read_group, path, "rejection")["statistic"][self._index]


class RejectionMethod(Method):
    """method = "rejection"."""

    name = "rejection"
    table = OwnTable("rejection", RejectionKeys, "ABC rejection")
    pseudo_data = True
    hidden = False

    def fit(self, comm: Comm, problem: Problem) -> RejectionFit:
        return RejectionFit(comm, problem)

    def short(self) -> dict[str, dict[str, Any]]:
        return {"rejection": {"draws": 8, "quantile": 0.5}}

    def sizes(self, config: Config) -> str:
        return f"{config.of(RejectionKeys).draws} draws"

    def memory(self, config: Config, size: int) -> dict[str, float]:
        draws = config.of(RejectionKeys).draws
        return {f"rejection.draws = {draws}": 2.0 * needs.NUMBER * draws}

    def simulated(self, config: Config) -> Simulation | None:
        if not config.fit.pseudo_data:
            return None
        data = config.pseudo_data
        return Simulation(config.of(RejectionKeys).draws, data.burn_in + data.spacing, 1)


register(RejectionMethod())
