"""Where to simulate, and for how long: decisions from the curve so far.  Formulas only; `bench` carries them
out.

Given S, the posterior of beta lies where E[S | beta] = S, with standard deviation r / sd_S; r = 1 where the
labels are observed, and r^2 = 1 + Var(S(z) | y) / Var(S | beta) where they are hidden.  An error of the
curve's mean there, of standard error se, moves it by r se / sd_S of its own standard deviations (`aim`).  So
only the curve near the posterior matters, and about tau / error^2 sweeps there, in all, are needed.  From the
curve so far, each round either

- locates: the error is larger than the posterior, so a few betas are spread over it, with short chains;
- or refines: a window of betas over the posterior, whose chains are lengthened, by a factor 2 at most, until
  the error is what was asked for.

Betas are multiples of powers of two near the posterior's sd, and where chains are nearby theirs, so that a
window that moves, or that of another image with nearly the same S, falls on betas that are there.  Half of
the chains of a window start from random labels, half from ordered ones: where they disagree, S has two
phases, and chains from both starts at every beta tell how far they are apart.  That error does not fall with
more sweeps, and the search ends with it.

Without an image, `cover` asks that the error be small everywhere on the prior's interval.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import arithmetic
from ..estimation.verdicts import FLAG_DISAGREE
from .chains import KINDS
from .estimates import Chains, Estimator, settled
from .function import Binding

# An error of more than this many posterior sds is located before it is refined.
FAR = 0.75
# Multiples of the quantum at which a search places its betas; a quantum is a quarter to a half of the scale.
LOCATE = (-4, 0, 4)
WINDOW = (-4, -2, -1, 1, 2, 4)
FEWER = (-4, -1, 1, 4)  # where each has two chains
# Sweeps of a new chain; the least and greatest growth of chains in a round; a chain counts from so many tau
# on.
FIRST = 300
LEAST, GREATEST = 1.25, 2.0
ENOUGH = 8.0
# The chains of the two starts in a window disagree beyond so many standard errors of their difference.
APART = 4.0
# Sweeps after which starts that disagree are not waited for any longer: on small lattices, where chains pass
# from phase to phase, as many more as make this number of sites times sweeps.
PATIENCE = 1000
PATIENCE_WORK = 80_000_000
# Betas that are added in one round of `cover`, at most, and at least.
MOST_NEW, LEAST_NEW = 64, 8


class Sought(NamedTuple):
    """A statistic around which the curve is needed, and by how much the posterior of beta is wider than
    1/sd_S."""

    statistic: float
    widening: float = 1.0


class Aim(NamedTuple):
    """Where the posterior of beta is by the curve so far: its mean and sd, and the curve's error in such
    sds."""

    beta: float
    sd: float
    error: float


class Request(NamedTuple):
    """A chain at beta from a kind of start, and how many sweeps it shall have."""

    beta: float
    kind: str
    sweeps: int


@dataclass(frozen=True)
class Limits:
    """What is asked for, and how much may be spent on it.

    accuracy : error of beta by the curve, in posterior sds.  points : betas.  sweeps : of one chain.  starts
    : "auto", or the start of all chains, or "both".  patience : sweeps after which chains that have not
    settled, or starts that disagree, are not waited for"""

    interval: tuple[float, float]
    accuracy: float
    points: int
    sweeps: int
    starts: str = "auto"
    doubtful: tuple[float, float] = (0.0, 0.0)
    patience: int = PATIENCE

    @property
    def first(self) -> int:
        """Sweeps of a new chain."""
        return min(FIRST, self.sweeps)

    def in_doubt(self, beta: float) -> bool:
        """Whether chains from both starts are needed at a beta, to see whether they meet."""
        low, high = self.doubtful
        return self.starts == "both" or (self.starts == "auto" and low < beta < high)


def aim(curve: Binding, target: Sought, interval: tuple[float, float]) -> Aim:
    """Where the posterior of beta given a target lies."""
    low, high = interval
    beta = float(arithmetic.interp(target.statistic, curve.table[2], curve.table[0]))
    beta = min(max(beta, low), high)
    mean, sd = (float(value) for value in curve.moments(beta))
    # Beyond the end of the prior the posterior is exponential, by the distance of S from the mean there.
    beyond = abs(target.statistic - mean) if beta in (low, high) else 0.0
    width = target.widening / max(sd, beyond, 1e-9)
    # At beta alone, as in `posterior/precision.py`: errors of the slope move beta to either side as much.
    error = target.widening * float(curve.standard_errors(beta)[0]) / max(sd, 1e-9)
    return Aim(beta, width, error)


@dataclass
class Search:
    """The betas around one target: the quantum of their spacing, the number of the middle one, and all."""

    limits: Limits
    refining: bool = False
    quantum: float = 0.0
    middle: int = 0
    betas: tuple[float, ...] = ()
    length: int = 0  # sweeps that every chain shall have
    apart: bool = False
    done: bool = False
    limited: str = ""  # why the error asked for was not reached, in words
    expected: float = 0.0  # sweeps until the error is reached

    def plan(self, estimator: Estimator, curve: Binding, chains: Chains, target: Sought) -> list[Request]:
        """What to simulate next; nothing where the error is reached, or cannot be."""
        self.done, self.limited = False, ""
        self.length = max(self.length, self.limits.first)
        if unsettled := self._unsettled(chains):
            return unsettled
        found = aim(curve, target, self.limits.interval)
        self._place(found, chains)
        betas = self.betas
        if self.refining:
            self.apart = self.apart or disagree(estimator, curve, chains, betas)
        requests = self._missing(chains, betas) + (self._alone(chains, betas) if self.apart else [])
        if requests:
            return requests if self._room(chains, requests) else []
        if self.refining and found.error <= self.limits.accuracy:
            taus = [estimator.moments(beta, chains[beta]) for beta in betas]
            if all(draws >= ENOUGH * moments.tau for moments, draws in taus):
                self.done = True
                return []
        if self._split(estimator, chains, betas):
            shortest = _shortest(chains, betas)
            most = max(min(self.limits.patience, self.limits.sweeps), shortest)
            self.length = min(math.ceil(shortest * GREATEST), most)
            longer = self._missing(chains, betas)
            self.limited = "" if longer else "chains from the two starts stay apart: there are two phases"
            return longer
        ratio = found.error / self.limits.accuracy
        need = ratio * ratio
        growth = GREATEST if not self.refining else min(max(1.1 * need, LEAST), GREATEST)
        shortest = _shortest(chains, betas)
        self.length = min(math.ceil(shortest * growth), self.limits.sweeps)
        self.expected = len(betas) * shortest * (need - 1.0) if self.refining else 0.0
        if self.length <= shortest:
            sweeps = math.ceil(len(betas) * shortest * max(need, LEAST))
            self.limited = (
                f"precompute.iterations = {self.limits.sweeps}, where about {sweeps} sweeps in all would do"
            )
            return []
        return self._missing(chains, betas)

    def _unsettled(self, chains: Chains) -> list[Request]:
        """Chains of the betas at hand that have not forgotten their start, to be made longer before all
        else."""
        asked = []
        for beta in self.betas:
            for kind, statistic in chains.get(beta, {}).items():
                longer = min(math.ceil(statistic.size * GREATEST), self.limits.sweeps, self.limits.patience)
                if longer > statistic.size and not settled({kind: statistic}):
                    asked.append(Request(beta, kind, longer))
        return asked

    def _place(self, found: Aim, chains: Chains) -> None:
        """Move the betas where the curve says now, but not for every little change of it."""
        low, high = self.limits.interval
        refining = found.error <= FAR
        scale = found.sd if refining else min(max(found.error * found.sd, found.sd), (high - low) / 8)
        quantum = below(scale / 2)
        middle = round(found.beta / quantum)
        same = refining == self.refining and self.quantum > 0.0 and 0.7 < scale / (2 * self.quantum) < 2.8
        if same and abs(found.beta / self.quantum - self.middle) <= 2.0:
            return
        if refining != self.refining or quantum != self.quantum:
            self.length = self.limits.first
        self.refining, self.quantum, self.middle = refining, quantum, middle
        self.betas = self._around(chains)

    def _around(self, chains: Chains) -> tuple[float, ...]:
        """The betas to simulate, by the quantum and the middle: where chains are within a quantum, theirs."""
        low, high = self.limits.interval
        steps: tuple[int, ...] = WINDOW if self.refining else LOCATE
        if self.refining and self.limits.in_doubt(self.middle * self.quantum):
            steps = FEWER
        wanted = sorted({min(max((self.middle + step) * self.quantum, low), high) for step in steps})
        betas, reach = list(wanted), [math.inf] * len(wanted)
        for beta in sorted(chains):
            place = min(range(len(wanted)), key=lambda i: abs(wanted[i] - beta))
            distance = abs(wanted[place] - beta)
            if low <= beta <= high and distance <= self.quantum and distance < reach[place]:
                betas[place], reach[place] = beta, distance
        return tuple(betas)

    def _missing(self, chains: Chains, betas: Sequence[float]) -> list[Request]:
        """The chains of these betas that are shorter than they shall be."""
        starts = [
            kinds_at(self.limits, beta, place, chains.get(beta, {}), self.apart)
            for place, beta in enumerate(betas)
        ]
        if (
            self.refining
            and self.limits.starts == "auto"
            and len({kind for own in starts for kind in own}) == 1
        ):
            # A window that moved over betas that were there: one start alone cannot be found to disagree.
            starts = [KINDS if place % 2 else own for place, own in enumerate(starts)]
        return [
            Request(beta, kind, self.length)
            for beta, own in zip(betas, starts)
            for kind in own
            if _size(chains.get(beta, {}), kind) < self.length
        ]

    def _alone(self, chains: Chains, betas: Sequence[float]) -> list[Request]:
        """The other starts of betas around the window that have one: they cannot tell which phase they are
        in."""
        reach = betas[-1] - betas[0]
        around = [beta for beta in sorted(chains) if betas[0] - reach <= beta <= betas[-1] + reach]
        return [
            Request(beta, kind, max(statistic.size for statistic in chains[beta].values()))
            for beta in around
            for kind in KINDS
            if kind not in chains[beta] and beta not in betas
        ]

    def _split(self, estimator: Estimator, chains: Chains, betas: Sequence[float]) -> bool:
        """Whether the two starts stay apart at half of the betas or more."""
        flags = [estimator.moments(beta, chains[beta])[0].flag & FLAG_DISAGREE for beta in betas]
        return 2 * sum(map(bool, flags)) >= len(betas)

    def _room(self, chains: Chains, requests: Sequence[Request]) -> bool:
        new = {request.beta for request in requests} - set(chains)
        if len(chains) + len(new) <= self.limits.points:
            return True
        self.limited = f"precompute.points = {self.limits.points}"
        return False


def below(scale: float) -> float:
    """The largest power of two that is not above a number."""
    return math.ldexp(0.5, math.frexp(scale)[1])


def patience_for(sites: int) -> int:
    """Sweeps for which starts that disagree are waited for."""
    return max(PATIENCE, PATIENCE_WORK // sites)


def _shortest(chains, betas):
    """The sweeps of the shortest chain of these betas; some may be longer, because they had not settled."""
    return min(statistic.size for beta in betas for statistic in chains[beta].values())


def _size(there, kind):
    return there[kind].size if kind in there else 0


def kinds_at(
    limits: Limits, beta: float, place: int, there: Iterable[str], apart: bool = False
) -> tuple[str, ...]:
    """The starts of the chains at a beta: those that are there, else by turns; both where starts disagree."""
    if apart or limits.in_doubt(beta):
        return KINDS
    if limits.starts != "auto":
        return (limits.starts,)
    return tuple(kind for kind in KINDS if kind in there) or (KINDS[place % 2],)


def disagree(estimator: Estimator, curve: Binding, chains: Chains, betas: Sequence[float]) -> bool:
    """Whether the chains of a window tell from which start they came."""
    sums: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for beta in betas:
        for kind, statistic in chains.get(beta, {}).items():
            if not settled({kind: statistic}):
                return False
            found, _ = estimator.moments(beta, {kind: statistic})
            distance = found.mean - float(curve.moments(beta)[0])
            sums[kind].append((distance, found.mean_se * found.mean_se))
    if not all(sums.values()):
        return False
    means, errors = [], []
    for rows in sums.values():
        weight = [1.0 / max(square, 1e-9) for _, square in rows]
        means.append(sum(w * d for w, (d, _) in zip(weight, rows)) / sum(weight))
        errors.append(1.0 / sum(weight))
    return abs(means[0] - means[1]) > APART * math.sqrt(sum(errors))


def cover(curve: Binding, chains: Chains, limits: Limits, length: int) -> tuple[list[Request], float]:
    """What to simulate so that the curve is good on the whole interval, and the largest error so far.

    length : sweeps of a new chain.
    """
    low, high = limits.interval
    inside = (curve.table[0] >= low) & (curve.table[0] <= high)
    nodes = np.unique(np.concatenate([[low, high], curve.table[0][inside]]))
    sd = np.maximum(curve.moments(nodes)[1], 1e-9)
    # An error of less than half a pair of neighbours is no error.
    error = curve.standard_errors(nodes)[0] / np.maximum(sd, 0.5 / limits.accuracy)
    worst = float(error.max())
    if worst <= limits.accuracy:
        return [], worst
    excess = np.where(error > 0.7 * limits.accuracy, error * error, 0.0)
    mass = np.append(0.0, np.cumsum((excess[1:] + excess[:-1]) / 2 * np.diff(nodes)))
    count = min(max(LEAST_NEW, len(chains)), MOST_NEW, limits.points - len(chains))
    if count <= 0 or mass[-1] <= 0.0:
        return _longer(chains, limits, nodes[error > limits.accuracy]), worst
    at = (np.arange(count) + 0.5) / count * mass[-1]
    quantum = below((high - low) / 2e5)
    betas = [min(max(round(b / quantum) * quantum, low), high) for b in arithmetic.interp(at, mass, nodes)]
    new = [beta for beta in sorted(set(betas)) if beta not in chains]
    if not new:
        return _longer(chains, limits, nodes[error > limits.accuracy]), worst
    return [Request(b, kind, length) for i, b in enumerate(new) for kind in kinds_at(limits, b, i, ())], worst


def _longer(chains: Chains, limits: Limits, bad: np.ndarray) -> list[Request]:
    """The chains around the betas where the curve is not good enough, twice as long."""
    betas = np.array(sorted(chains))
    near = {float(betas[min(i, betas.size - 1)]) for i in np.searchsorted(betas, bad)}
    near |= {float(betas[max(i - 1, 0)]) for i in np.searchsorted(betas, bad)}
    return [
        Request(beta, kind, min(2 * statistic.size, limits.sweeps))
        for beta in sorted(near)
        for kind, statistic in chains[beta].items()
        if statistic.size < limits.sweeps
    ]


def pilot_grid(transition: float, high: float, count: int) -> np.ndarray:
    """(count,) betas from 0 to `high`, dense around the transition."""
    width = 0.1 * transition
    t = np.linspace(
        float(arithmetic.asinh(-transition / width)),
        float(arithmetic.asinh((high - transition) / width)),
        count,
    )
    beta = transition + width * arithmetic.sinh(t)
    beta[0], beta[-1] = 0.0, high
    return beta


def expected_sweeps(sites: int, accuracy: float, sampler: str) -> int:
    """The sweeps that a search takes, about, away from the transition: locating, settling, and tau /
    error^2."""
    tau, chains = (30.0, 10) if sites >= 100_000 else (8.0, 8)
    if sampler == "alternating":
        tau *= 0.4
    return round(chains * FIRST + 1.5 * tau / (accuracy * accuracy))


def expected_to_cover(accuracy: float) -> int:
    """The sweeps that a curve over the whole prior takes, about.

    Seen at accuracies of 0.05, 0.1, 0.2 and 0.5: 84000, 33000, 17000, 7500 at 125x125; at 0.1 also 41000 at
    300x300 and 47000 at 30x30x30, all of three labels.
    """
    return round(4000.0 / accuracy)
