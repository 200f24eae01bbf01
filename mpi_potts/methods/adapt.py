"""The binding function of an input whose grid is adaptive: for one image, or for any.

For an image the curve is needed where the posterior of beta is.  Observed labels say where: their S.  Of a
hidden image the label chains find out: they start as those of the fit will, sweep with beta from the curve so
far, and S(z) after each bout says where the curve must be better, until neither moves.  A chain that stays in
a mode of its own has a target of its own.

All decisions are made from what every rank knows, so they are the same on any number of ranks; chains of the
prior are functions of their beta, start and length, so that a job that was stopped makes the same decisions
again, and finds what it had simulated.  That a binding file answers an input is written into it
(`answers`)."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..binding import adaptive, library
from ..binding import file as binding_file
from ..binding.adaptive import Aim, Limits, Request, Search, Sought, aim
from ..binding.bench import Bench
from ..binding.composition import Composed, CompositionCheck, references
from ..binding.compute import BindingPaths, find_anchor, prepare
from ..binding.estimates import Estimator
from ..binding.function import Binding
from ..config.inputs import Config
from ..io import files, reading
from ..labels.ensemble import LabelChains
from ..lattice import Lattice
from ..model.transition import first_order, transition
from ..runtime.control import Control
from ..runtime.parallel import Comm, decided, merge_rows, on_root, quiet_wait
from ..runtime.progress import Live
from . import answers
from .base import Problem

# Lattices of fewer sites have their pilot simulated on themselves, with so many sites times sweeps at each
# beta.
FEW_SITES = 40_000
PILOT_WORK = 3_000_000
PILOT_SWEEPS = (200, 2000)
# Sweeps of a bout of the label chains, by turns; the last number is that of all later ones.
BOUTS = (50, 50, 100, 100, 200)
MOST_BOUTS = 12
# S(z) stays where it moved by less than this part of the posterior's width from one bout to the next.
STAYS = 0.5
# Searches of chains whose posteriors are within so many sds of each other are one.
SAME = 2.0
MOST_ROUNDS = 60
# The width of the betas around a first-order transition, in beta_crit: of lattices for which that is only an
# estimate, and with first-order neighbours.
DOUBT = (0.03, 0.01)
# While S(z) still moves from bout to bout, the curve need only say where it is to this part of the move, or
# to so many posterior sds: what lies on the way is not simulated.
ON_THE_WAY = 0.5
EXPLORED = 1.0
# A posterior may be wider, or elsewhere, than the label chains of the search had it: an error that much
# larger.
TOLERATED = 1.5
# The betas at which what was composed is compared with short chains, where there are none within a tenth of
# the prior's interval: parts of it.
CHECKED, BESIDE = (0.5, 0.1, 0.9, 0.3, 0.7), 0.1


def left_the_window(config: Config, path: Path) -> np.ndarray | None:
    """S(z) (chains, n) of a result whose binding function, an adaptive one, is not good enough where its
    posterior lies; else None.  On one rank."""
    if config.precompute.grid != "adaptive" or config.precompute.interpolation != "smooth":
        return None
    content = reading.contents(path)
    found = content.attributes
    if found["binding_error"] <= TOLERATED * config.precompute.accuracy * found["beta_sd"]:
        return None
    if "marginal/statistic" not in content.shapes:
        return None
    return content.arrays(["marginal/statistic"])["marginal/statistic"].reshape(found["chains"], -1)


def obtain(
    comm: Comm,
    config: Config,
    lattice: Lattice,
    problem: Problem | None,
    control: Control,
    quiet: bool = False,
    fresh: bool = False,
    seen: np.ndarray | None = None,
) -> Binding:
    """Collective.  The binding function of the input: as it is there, or grown to what is asked.

    problem : the image that it is for, None for any
    seen    : (chains, n) S(z) of label chains of the image, where these have run already
    """
    paths = BindingPaths.of(config)
    digest = answers.data_of(problem)
    digest += "" if seen is None else hashlib.sha256(np.ascontiguousarray(seen).tobytes()).hexdigest()
    request = on_root(comm, answers.request_of, config, lattice, digest)
    on_root(comm, files.make_directory, paths.binding.parent)
    taken, form = answers.taken_by(config), config.precompute.interpolation
    if not fresh and on_root(comm, answers.answered, taken, request):
        return on_root(comm, binding_file.read_binding, taken, form)
    with files.locked(comm, paths.lock, wait=True):
        if fresh or not on_root(comm, answers.answered, paths.binding, request):
            prepare(comm, paths, fresh)
            _Adaptation(comm, config, lattice, problem, paths, control, quiet).run(request, seen)
        if taken != paths.binding:
            on_root(comm, answers.take, paths.binding, taken)
        return on_root(comm, binding_file.read_binding, paths.binding, form)


def composable(lattice: Lattice) -> bool:
    """Whether the pilot is composed of smaller lattices; else it is simulated on the lattice itself."""
    return lattice.sites >= FEW_SITES and bool(references(lattice))


def pilot_sweeps(lattice: Lattice, limit: int) -> int:
    """Sweeps at each beta of a pilot on the lattice itself; limit : those of any chain."""
    least, most = PILOT_SWEEPS
    return min(max(PILOT_WORK // lattice.sites, least), most, limit)


def pilot_work(lattice: Lattice, limit: int) -> int:
    """Sweeps of the lattice that its pilot takes, in all."""
    return 0 if composable(lattice) else library.POINTS * pilot_sweeps(lattice, limit)


def doubtful(lattice: Lattice, labels: int) -> tuple[float, float]:
    """The betas around a first-order transition at which chains may stay in the phase of their start."""
    critical, width = transition(lattice, labels), DOUBT[lattice.neighbourhood == "first"]
    return (critical * (1 - width), critical * (1 + width)) if first_order(lattice, labels) else (0.0, 0.0)


class _Adaptation:
    """One adaptive binding function in the making."""

    def __init__(
        self,
        comm: Comm,
        config: Config,
        lattice: Lattice,
        problem: Problem | None,
        paths: BindingPaths,
        control: Control,
        quiet: bool,
    ):
        """Collective.  Takes up what is there, and adds a pilot where there is none."""
        self.comm, self.config, self.lattice, self.problem = comm, config, lattice, problem
        keys = config.precompute
        asked = config.prior.beta, keys.accuracy, keys.points, keys.iterations, keys.starts
        between, patience = doubtful(lattice, config.model.labels), adaptive.patience_for(lattice.sites)
        self.limits = Limits(*asked, doubtful=between, patience=patience)
        self.bench = Bench(comm, config, lattice, paths, control, quiet)
        k = config.model.labels
        self.composed = self._composed()
        self.wider = 1.0
        self.grid = adaptive.pilot_grid(transition(lattice, k), self._highest(), library.POINTS)
        self.anchor = on_root(comm, find_anchor, lattice, k, self.grid)
        self.limited: list[str] = []
        self.error = math.inf  # of beta, the last time that it was looked at, in posterior sds
        self.live = Live(comm, quiet)
        self.estimator = self._estimator(self.wider)
        self._pilot()
        self._doubt()

    def _estimator(self, wider: float) -> Estimator:
        """The curve through simulated rows and composed ones, whose errors are so many times what they
        state."""
        composed = self.composed and self.composed.with_errors(wider)
        return Estimator(self.lattice, self.bench.identity, composed, self.anchor)

    def _highest(self) -> float:
        """The largest beta of the curve: far in the ordered phase, and no smaller than the prior's."""
        return max(library.highest(self.lattice, self.config.model.labels), self.config.prior.beta[1])

    def _composed(self) -> Composed | None:
        """Collective.  Composed rows, where the lattice is too large for a pilot of its own."""
        if not composable(self.lattice):
            return None
        path = self.config.precompute.library or library.default_path()
        return library.compose_pilot(self.comm, self.lattice, self.config.model.labels, path)

    def _pilot(self) -> None:
        """Collective.  Short chains on the lattice itself over all betas that are not composed, unless such
        chains are there."""
        lattice, k, (low, high) = self.lattice, self.config.model.labels, self.limits.interval
        sweeps, critical, grid = pilot_sweeps(lattice, self.limits.sweeps), transition(lattice, k), self.grid
        if self.composed is not None:
            grid = grid[grid > self.composed.beta[-1]]
            low = high
        known = np.array(sorted(self.bench.chains))
        if not grid.size or (known.size >= grid.size and known[0] <= low and known[-1] >= high):
            return
        starts = [("random" if beta < critical else "ordered") for beta in grid]
        self.bench.extend([Request(float(b), kind, sweeps) for b, kind in zip(grid, starts)], "pilot")

    def run(self, request: str, seen: np.ndarray | None) -> None:
        """Collective.  Grow the curve to what is asked, and write it."""
        if self.problem is None:
            self._cover()
        elif seen is not None:
            self._refine(decided(self.comm, targets_of, seen, self.curve(), self.limits.interval))
        elif self.problem.hidden:
            self._follow(self.problem)
        else:
            self._refine([Sought(float(self.problem.statistic))])
        self._say_reached()
        self._doubt()
        more = {"grid": "adaptive", "answers": " ".join([*self._answers(), request])}
        more["limited"] = "; ".join(self.limited)
        more["composition"] = decided(self.comm, self._against_composition)
        self.bench.write(self.estimator, more)

    def _say_reached(self) -> None:
        """The error that the search ended with, and why where it is not the one asked for."""
        why = f" ({'; '.join(self.limited)})" if self.limited else ""
        self.live.say(
            f"binding function: error of beta {self.error:.2g} posterior sds, {self.limits.accuracy:g} asked "
            f"for{why}"
        )

    def _comparison(self) -> CompositionCheck | None:
        """What was simulated beside what was composed, if there is any of both; on one rank."""
        rows = self.bench.chains
        if self.composed is None:
            return None
        beta = np.array([beta for beta in sorted(rows) if beta <= self.composed.beta[-1]])
        if not beta.size:
            return None
        curve = self._estimator(1.0).binding({})
        found = [self.estimator.moments(b, rows[b])[0] for b in beta.tolist()]
        mean, own, sd = (
            np.array([getattr(row, name) for row in found]) for name in ("mean", "mean_se", "sd")
        )
        apart = np.abs(mean - curve.moments(beta)[0])
        return CompositionCheck(beta, apart, own, curve.standard_errors(beta)[0], np.maximum(sd, 1e-9))

    def _against_composition(self) -> str:
        """How far what was simulated is from what was composed, in words; on one rank."""
        if self.composed is None:
            return ""
        found = self._comparison()
        return "not compared with a run on this lattice" if found is None else str(found)

    def _doubt(self) -> None:
        """Collective.  What was composed has errors that reach what was simulated."""
        if self.composed is None or not self.bench.chains:
            return
        found = decided(self.comm, self._comparison)
        if found is not None and found.widening != self.wider:
            self.wider = found.widening
            self.estimator = self._estimator(self.wider)

    def _check_composed(self) -> None:
        """Collective.  Short runs on the lattice itself, which say whether what was composed is right."""
        (low, high), known = self.limits.interval, np.array(sorted(self.bench.chains))
        width = high - low
        betas = [low + part * width for part in CHECKED]
        betas = [b for b in betas if np.abs(known - b).min(initial=np.inf) > BESIDE * width]
        requests = [
            Request(beta, kind, self.limits.first)
            for place, beta in enumerate(betas[: max(0, self.limits.points - known.size)])
            for kind in adaptive.kinds_at(self.limits, beta, place, ())
        ]
        self.bench.extend(requests, "binding function, a check of what was composed")
        self._doubt()

    def _answers(self) -> list[str]:
        base = self.bench.base
        return [] if base is None else str(base.attributes.get("answers", "")).split()

    def curve(self) -> Binding:
        """Collective.  The curve through all that is known."""
        return decided(self.comm, self.estimator.binding, self.bench.chains)

    def _cover(self) -> None:
        """Collective.  The whole interval of the prior."""
        if self.composed is not None:
            self._check_composed()
        limits = self.limits
        for _ in range(MOST_ROUNDS):
            curve = self.curve()
            requests, self.error = decided(
                self.comm, adaptive.cover, curve, self.bench.chains, limits, limits.first
            )
            if not requests:
                if self.error > limits.accuracy:
                    most = f"precompute.points = {limits.points}", f"precompute.iterations = {limits.sweeps}"
                    self.limited = [", ".join(most)]
                return
            swept = sum(chain.size for starts in self.bench.chains.values() for chain in starts.values())
            expected = max(0.0, adaptive.expected_to_cover(limits.accuracy) - swept)
            self.bench.extend(requests, _label(self.error, limits), expected)

    def _refine(
        self,
        targets: list[Sought],
        searches: list[Search] | None = None,
        enough: Sequence[float] | None = None,
    ) -> Binding:
        """Collective.  Better the curve around the targets, to the accuracy asked for.

        enough : errors of beta at each target, in posterior sds, that will do for now
        """
        searches = [Search(self.limits) for _ in targets] if searches is None else searches
        enough = [0.0] * len(targets) if enough is None else enough
        curve, rounds = self.curve(), 0
        while rounds < MOST_ROUNDS:
            aims = [aim(curve, target, self.limits.interval) for target in targets]
            self.error = max(a.error for a in aims)
            requests: dict[tuple[float, str], int] = {}
            for search, target, here, will_do in zip(searches, targets, aims, enough):
                if here.error < will_do:
                    continue
                for beta, kind, sweeps in search.plan(self.estimator, curve, self.bench.chains, target):
                    requests[beta, kind] = max(sweeps, requests.get((beta, kind), 0))
            if not requests:
                self.limited = sorted({search.limited for search in searches} - {""})
                return curve
            rounds += 1
            where = ", ".join(f"beta {a.beta:.5f}" for a in aims)
            expected = sum(search.expected for search in searches)
            self.bench.extend(
                [Request(beta, kind, n) for (beta, kind), n in requests.items()],
                _label(self.error, self.limits, where),
                expected,
            )
            curve = self.curve()
        return curve

    def _follow(self, problem: Problem) -> None:
        """Collective.  The targets of a hidden image, by its label chains, and the curve around them."""
        problem.compile(self.comm)
        chains = problem.chains(self.comm)
        curve = self.curve()
        chains.warm_up(problem.first_start)
        targets: list[Sought] = []
        searches: list[Search] = []
        settled, bout, interval = False, 0, self.limits.interval
        while not settled:
            before, sweeps = targets, BOUTS[min(bout, len(BOUTS) - 1)]
            statistic = _bout(self.comm, chains, curve, interval, sweeps)
            targets = decided(self.comm, targets_of, statistic, curve, interval)
            bout += 1
            moved = _moved(targets, before, curve, interval)
            known = all(aim(curve, target, interval).error <= EXPLORED for target in targets)
            settled = (known and max(moved) <= STAYS) or bout == MOST_BOUTS
            if settled:
                del chains  # whose memory the refinement can use
            if len(searches) != len(targets):
                searches = [Search(self.limits) for _ in targets]
            on_the_way = [max(EXPLORED, ON_THE_WAY * distance) for distance in moved]
            curve = self._refine(targets, searches, None if settled else on_the_way)


def _label(error: float, limits: Limits, where: str = "") -> str:
    """Of the progress: the error of beta so far, and the one asked for, in posterior sds."""
    parts = "binding function", where, f"error {error:.2g}, asked {limits.accuracy:g}"
    return ", ".join(part for part in parts if part)


def _bout(
    comm: Comm, chains: LabelChains, curve: Binding, interval: tuple[float, float], sweeps: int
) -> np.ndarray:
    """Collective.  (chains, sweeps) S(z) of every label chain in a bout, beta drawn from the curve before
    each sweep."""
    own = [chain.sample(curve.table, interval, sweeps, count=False).statistic for chain in chains.chains]
    quiet_wait(comm)
    return merge_rows(
        comm, chains.numbers, np.array(own, dtype=np.int64).reshape(len(own), sweeps), chains.count
    )


def targets_of(statistic: np.ndarray, curve: Binding, interval: tuple[float, float]) -> list[Sought]:
    """The distinct targets of chains (chains, sweeps): means over the later half, those of one mode
    together."""
    late = statistic[:, statistic.shape[1] // 2 :]
    found: list[tuple[Sought, Aim]] = []
    for row in late[np.argsort(late.mean(axis=1), kind="stable")]:
        mean, spread = float(row.mean()), float(row.var())
        beta = aim(curve, Sought(mean), interval).beta
        variance = max(float(curve.moments(beta)[1]), 1e-9)
        widening = float(np.sqrt(1.0 + spread / (variance * variance)))
        target = Sought(mean, widening)
        here = aim(curve, target, interval)
        if found and here.beta - found[-1][1].beta <= SAME * found[-1][1].sd:
            continue
        found.append((target, here))
    return [target for target, _ in found]


def _moved(
    now: Sequence[Sought], before: Sequence[Sought], curve: Binding, interval: tuple[float, float]
) -> list[float]:
    """How far each target is from the nearest of those before, in widths of its posterior; farther than any
    number where there was none."""
    there = [aim(curve, target, interval).beta for target in before]
    here = [aim(curve, target, interval) for target in now]
    return [min((abs(a.beta - beta) / a.sd for beta in there), default=math.inf) for a in here]
