"""Composed of a binding function from chains of unequal length: one row for each beta.

A chain counts from where it has settled (`estimation/settling.py`); of two starts at one beta as many sweeps
count as both have.  A chain that has not settled keeps an error as large as its drift.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .. import arithmetic
from ..estimation import autocorrelation
from ..estimation.autocorrelation import Moments
from ..estimation.settling import settled_from
from ..estimation.verdicts import FLAG_COMPOSED, FLAG_SHORT
from ..lattice import Lattice
from ..model.low_temperature import Anchor
from .composition import Composed
from .function import ARRAYS, Binding

# {beta: {kind of start: S(z) after each sweep (n,)}}
Chains = Mapping[float, Mapping[str, np.ndarray]]


def settled(starts: Mapping[str, np.ndarray]) -> bool:
    """Whether the chains of every start at one beta have settled."""
    return all(settled_from(statistic)[1] for statistic in starts.values())


def moments_of(starts: Mapping[str, np.ndarray], step: float) -> tuple[Moments, int]:
    """Moments of S at one beta from the chains of its starts, and the number of sweeps that count."""
    late = [statistic[settled_from(statistic)[0] :] for statistic in starts.values()]
    length = min(map(len, late))
    counted = np.stack([statistic[statistic.size - length :] for statistic in late])
    found = autocorrelation.moments(counted, step)
    if not settled(starts):
        drift = max(_drift(statistic) for statistic in starts.values())
        error = float(arithmetic.hypot(found.mean_se, drift))
        found = replace(found, mean_se=error, flag=found.flag | FLAG_SHORT)
    return found, counted.size


def _drift(statistic: np.ndarray) -> float:
    """How far the mean of the last quarter of a chain is from that of the quarter before."""
    quarter = max(1, statistic.size // 4)
    return abs(float(statistic[-quarter:].mean() - statistic[-2 * quarter : -quarter].mean()))


# The place of the error of the mean in a row.
ERROR = ARRAYS.index("mean_se")


class Estimator:
    """The binding function of all that is known so far; moments of chains that did not grow are kept."""

    def __init__(
        self, lattice: Lattice, identity: dict[str, Any], composed: Composed | None, anchor: Anchor | None
    ):
        """identity : of the chains.  composed : rows for where nothing is simulated.  anchor : at large
        beta."""
        self._lattice, self._identity, self._composed, self._anchor = lattice, identity, composed, anchor
        self._known: dict[tuple, tuple[Moments, int]] = {}

    def moments(self, beta: float, starts: Mapping[str, np.ndarray]) -> tuple[Moments, int]:
        """Moments at one beta, and the number of sweeps that count."""
        key = beta, tuple((kind, statistic.size) for kind, statistic in starts.items())
        if key not in self._known:
            self._known[key] = moments_of(starts, self._lattice.degree)
        return self._known[key]

    def columns(self, chains: Chains) -> dict[str, np.ndarray]:
        """The columns of the binding function, in the order of beta."""
        rows = {}
        for beta, starts in chains.items():
            found, draws = self.moments(beta, starts)
            numbers = (getattr(found, name) for name in ("mean", "sd", "mean_se", "sd_se", "tau", "flag"))
            rows[beta] = (beta, *numbers, draws)
        for row in self._pilot(rows):
            rows.setdefault(row[0], row)
        values = zip(*(rows[beta] for beta in sorted(rows)))
        names = (*ARRAYS, "draws")
        whole = ("flag", "draws")
        columns = {
            name: np.array(v, dtype=np.int64 if name in whole else np.float64)
            for name, v in zip(names, values)
        }
        return columns if self._anchor is None else columns | {"anchor": np.array(self._anchor)}

    def _pilot(self, simulated: Mapping[float, tuple]) -> Iterable[tuple]:
        """The composed rows, but for those beside which there are simulated ones that know better."""
        pilot = self._composed
        if pilot is None:
            return
        near = np.array(sorted(simulated))
        errors = np.array([simulated[beta][ERROR] for beta in near.tolist()])
        for i, beta in enumerate(pilot.beta.tolist()):
            gap = np.diff(pilot.beta[max(0, i - 1) : i + 2]).min() / 2
            beside = np.abs(near - beta) <= gap
            if not beside.any() or pilot.mean_se[i] <= errors[beside].min():
                numbers = (float(a[i]) for a in (pilot.mean, pilot.sd, pilot.mean_se, pilot.sd_se))
                yield (beta, *numbers, 1.0, FLAG_COMPOSED, 0)

    def settings(self, chains: Chains) -> dict[str, Any]:
        """What the binding function was computed from, as attributes of its file."""
        kinds = {kind for starts in chains.values() for kind in starts}
        lengths = [statistic.size for starts in chains.values() for statistic in starts.values()]
        return self._identity | {
            "iterations": max(lengths, default=0),
            "burn_in": 0,
            "starts": "both" if len(kinds) > 1 else next(iter(kinds), "random"),
        }

    def binding(self, chains: Chains) -> Binding:
        """The binding function, to be asked."""
        fields: dict[str, Any] = {**self.columns(chains), **self.settings(chains)}
        return Binding(**fields)
