"""Where a label chain starts: the best of a few candidates, so that it does not stay in a minor mode.

At beta = 0, where the paper's chain warms up, every label has the same share of the pixels.  Where one label
has nearly all of them, that chain splits it in two and merges small labels; at beta > 0 it seldom leaves
such a mode.  Every chain is right in the limit, whatever its start; this only chooses the start.

**Candidates.** The state after the paper's warm-up; all pixels with one label; and thresholds of the image,
smoothed by 0, 1 or 2 passes of the binomial filter (1, 2, 1) along every axis over the pixels that exist: a
label of compact regions stands out where the noise is averaged. In a hexagonal plane and a graph, whose
neighbours do not lie along axes, a pass weighs a pixel twice and each of its neighbours once. The k - 1
thresholds are the best for the histogram of the smoothed values, by dynamic programming, under two criteria:
least squares (Otsu 1979), which cuts large groups, and the least error of a mixture of normals with shares
(Kittler and Illingworth 1986), which leaves them whole.

Where the priors identify the labels, so do these: in the same smoothed images every pixel has the label under
whose prior it is most probable.  In the first stage the means are held at those of the prior,
until the labels have found together: single pixels that noise has put under a label would move its mean.

**Settling.** Every candidate makes some sweeps of the chain itself, in rounds, each at the beta that
maximises the pseudolikelihood of its labels (by Newton's method, one step a round, within the prior).

**Choice.** The log joint density of a state does not compare modes: one of high entropy, say a label split
in two at random, has many states of low density.  The evidence of a mode would; it is approximated, as in the
pseudolikelihood information criterion (Stanford and Raftery 2002), by

    sum_i log sum_j p(z_i = j | neighbours of i, beta) p(y_i | z_i = j)  +  log p(noise),

which sums over the label of every pixel given its neighbours, and so counts the entropy of labels that the
data leave open, instead of rewarding or punishing it.  Most of the worse half of the candidates are dropped
after the first stage.  Labels that have not settled have too high a score: at first, thresholds that split a
label with nearly all pixels were ahead of the right mode, 5000 behind which they ended.  So those that are
left make as many rounds again before the ones that count.

The labels that surround a pixel were drawn with the data, and where a label has nearly all pixels, the same
label split in two that follow the noise has as high a score, or one higher by some thousandths a pixel.
Splits leave labels missing elsewhere, though, so that they describe the values worse.  Among candidates whose
scores do not tell, one that has a decisively larger sum_i log sum_j share_j p(y_i | z_i = j) is taken, which
may be behind in score by `LEVERAGE` times as much.
"""

import math
import time
from collections.abc import Iterator

import numpy as np

from .. import arithmetic, rng
from ..kernels.evidence import evidence, mixture
from ..kernels.neighbours import neighbours, pad
from ..lattice import GRAPH, MASKED, Lattice, pairs
from ..model.transition import transition
from ..rng import Purpose
from ..slabs import slabs
from .chain import LabelChain

SMOOTHINGS = (0, 1, 2)
# Rounds of settling in every stage, of which the last counts, and the sweeps of a round.
STAGES, SWEEPS = (4, 4, 8), 5
# The evidence of a candidate is summed over about this many pixels at most, the same for all candidates.
PIXELS = 250_000
BINS = 256
# The noise on the image from which all chains but the first take their thresholds, in its sd.
JITTER = 0.25
# What the image is rounded to before it is divided, in its sd.
FINE = 2.0**-30
# Bins of the histograms lie between these quantiles; what is beyond is in the first and the last.
TAILS = (1e-4, 1.0 - 1e-4)
# A mode has no weight where its score is behind the best by more than this times the root of the number of
# pixels, of which within a mode a score has an sd of up to 0.3, and by more than so much a pixel: one label
# split in two was 0.002 ahead.
MINOR, UNTOLD = 1.5, 0.005
# A candidate that describes the values better by this much, in log likelihood, does so decisively: within a
# mode that varies by a few.  Splits were ahead in score by up to 9 times what they were behind in this.
DECISIVE, LEVERAGE = 10.0, 20.0
# The smallest variance of a label at its start, in that of the image; the largest change of beta in a round.
SMALLEST = 1e-6
LARGEST_STEP = 0.5
# Clusters are flipped while candidates settle on images of at most so many pixels.
FLIPPED = 2**18


def settle(
    chain: LabelChain,
    values: np.ndarray,
    interval: tuple[float, float],
    seed: int,
    number: int,
    start: str | np.ndarray = "best",
    far: bool = False,
) -> np.ndarray:
    """Put a label chain, after its warm-up, at the best start that it finds; S(z) of the last sweeps there.

    values : the image, of the lattice's shape.  interval : beta is uniform on it a priori.  number : of the
    chain; all but chain 0 take their thresholds from the image with noise of their own added.  start :
    "best", "prior" to choose among the labels by the prior alone, or labels (n,) of the pixels that exist.
    far : not the best, but the one that differs most from it, in S(z), to find out whether there are modes.
    """
    # Odd, so that the pixels are of both colours.
    judge = _Judge(chain, values, interval, step=values.size // PIXELS | 1)
    rivals = list(_rivals(chain, values, seed, number, start))
    for stage, rounds in enumerate(STAGES):
        for rival in rivals:
            judge.run(rival, rounds)
        rivals.sort(key=lambda rival: -rival.score)
        if stage == 0:
            rivals = [_far(rivals, chain.lattice.sites)] if far else _better(rivals, judge)
    best = _best(rivals, judge, chain.lattice.sites)
    judge.put(best)
    return best.statistic


def _far(rivals, sites):
    """Of candidates, the best first, the one whose S(z) is farthest from its, but none whose score says
    for sure that its mode has no weight."""
    near = [rival for rival in rivals if rival.score > rivals[0].score - untold(sites)]
    late = [float(rival.statistic[rival.statistic.size // 2 :].mean()) for rival in near]
    return near[int(np.argmax(np.abs(np.array(late) - late[0])))]


def _better(rivals, judge):
    """The better half of candidates, the best first, and of the others the one that describes the values
    best."""
    half = (len(rivals) + 1) // 2
    return rivals[:half] + sorted(rivals[half:], key=judge.described)[-1:]


def _best(rivals, judge, sites):
    """Of candidates, the best first: that, or one that describes the values decisively better."""
    near = [rival for rival in rivals if rival.score > rivals[0].score - untold(sites)]
    if len(near) == 1:
        return near[0]
    described = np.array([judge.described(rival) for rival in near])
    other = int(np.argmax([rival.score for rival in near] + LEVERAGE * described))
    return near[other if described[other] > described[0] + DECISIVE else 0]


def untold(sites: int) -> float:
    """How far the score of a mode may be behind that of another which may yet have less weight."""
    return max(MINOR * math.sqrt(sites), UNTOLD * sites)


def work_of_settling(
    chain: LabelChain, values: np.ndarray, interval: tuple[float, float], rivals: int
) -> tuple[int, float]:
    """What `settle` takes: the sweeps, and the seconds of all else, from one candidate and one look at it of
    either kind."""
    rounds = rivals * STAGES[0] + min(rivals, (rivals + 1) // 2 + 1) * sum(STAGES[1:])
    sweeps, looks = rounds * SWEEPS, rivals + rounds
    started = time.perf_counter()
    next(candidates(chain.lattice, values.copy(), chain.k))
    divided = time.perf_counter()
    judge = _Judge(chain, values, interval, step=values.size // PIXELS | 1)
    judge.look(sum(interval) / 2)
    looked = time.perf_counter()
    judge.describe()
    described = time.perf_counter() - looked
    return sweeps, rivals * (divided - started + described) + looks * (looked - divided)


def score(chain: LabelChain, values: np.ndarray, beta: float) -> float:
    """The approximate log evidence of the mode that a chain is in, by its state.  Over the states of a mode
    it has an sd of up to 0.3 times the root of the number of pixels; of a part of them, scaled up to the
    whole, it would be more, so all count here."""
    return _Judge(chain, values, (beta, beta), step=1).look(beta)[0]


def _view(chain, values, seed, number):
    """The image that the thresholds are taken from: of mean 0 and sd 1, in multiples of `FINE`, so that
    rounding does not move a whole grey value across a threshold when the same picture comes in other units.
    """
    y = values - chain.centre
    y /= chain.unit * FINE
    np.rint(y, out=y)
    y *= FINE
    if number > 0:
        noise = rng.normals(rng.stream(seed, Purpose.CHAIN_START, number), 0, values.size)
        noise *= JITTER
        y += noise.reshape(values.shape)
    return y


def _rivals(chain, values, seed, number, start):
    """The candidates that a start chooses among."""
    if not isinstance(start, str):
        yield _Candidate(_from_labels(chain, values, start))
        return
    if start == "best":
        yield _Candidate(_state_of(chain))
        for group in candidates(chain.lattice, _view(chain, values, seed, number), chain.k):
            # Where the priors identify the labels, the lowest group is the label of the lowest prior mean.
            yield _Candidate(_from_labels(chain, values, chain.noise.order.astype(np.uint8)[group]))
        alone = np.full(chain.lattice.sites, chain.noise.order[chain.k // 2], np.uint8)
        yield _Candidate(_from_labels(chain, values, alone))
    if not chain.noise.exchangeable:
        prior = chain.noise.standardised(chain.centre, chain.unit)
        for smooth in _smoothed(chain.lattice, _view(chain, values, seed, number)):
            labels = prior.most_probable(smooth)
            yield _Candidate(_from_labels(chain, values, labels), prior.location_prior[0])


def rivals_of(start: str | np.ndarray, exchangeable: bool) -> int:
    """How many candidates a start chooses among."""
    if not isinstance(start, str):
        return 1
    return (2 + 2 * len(SMOOTHINGS)) * (start == "best") + len(SMOOTHINGS) * (not exchangeable)


def _from_labels(chain, values, labels):
    """A state of the chain, packed, with these labels and the noise that they have."""
    y = chain.lattice.pixels(values) - chain.centre
    y /= chain.unit
    # A label without pixels is as wide as the image, so that it is no spike in the middle of another.
    noise = chain.noise.of_labels(labels, y, chain.k, SMALLEST, empty=1.0)
    return {"labels": labels.astype(np.uint8), "noise": noise}


def _state_of(chain):
    """The labels and the noise of a chain: what its labels were called before, a start does not know."""
    return {name: values for name, values in chain.pack().items() if name in ("labels", "noise")}


class _Candidate:
    """A packed state, the beta that its labels suggest, its scores so far, and where means are held first."""

    def __init__(self, state, held=None):
        self.state: dict[str, np.ndarray] = state
        self.held: np.ndarray | None = held
        self.beta: float | None = None
        self.scores: list[float] = []
        self.statistic = np.zeros(0, dtype=np.int64)

    @property
    def score(self) -> float:
        """The mean over the later half."""
        return float(np.mean(self.scores[len(self.scores) // 2 :]))


class _Judge:
    """Runs candidates on one chain, and scores them by every `step`-th pixel."""

    def __init__(self, chain, values, interval, step):
        self._chain, self._interval = chain, interval
        self._neighbours = neighbours(chain.lattice, step)
        self._values = values
        self._y = np.ascontiguousarray(chain.lattice.pixels(values)[::step])

    def put(self, rival):
        """Give the chain the state of a candidate."""
        chain = self._chain
        chain.unpack(rival.state | {"steps": np.array([chain.done, 0])})

    def run(self, rival, rounds):
        chain = self._chain
        self.put(rival)
        if rival.beta is None:
            rival.beta = float(np.clip(transition(chain.lattice, chain.k), *self._interval))
            self._climb(rival)
        traces = []
        for _ in range(rounds):
            if (
                chain.lattice.sites <= FLIPPED
            ):  # beyond, the flips of all candidates take longer than the sweeps
                chain.flip(rival.beta, held=rival.held is not None)
            traces.append(self._sweeps(rival))
            rival.scores.append(self._climb(rival))
        rival.statistic, rival.held = np.concatenate(traces), None
        rival.state = _state_of(chain)

    def _sweeps(self, rival):
        """The sweeps of a round; S(z) after each."""
        chain = self._chain
        if rival.held is None:
            return chain.sweep(np.full(SWEEPS, rival.beta)).statistic
        found = []
        for _ in range(SWEEPS):
            found.append(chain.sweep(np.full(1, rival.beta)).statistic)
            rival.state = _state_of(chain)
            rival.state["noise"][0] = rival.held
            self.put(rival)
        return np.concatenate(found)

    def look(self, beta):
        """The score of the chain's state, and slope and curvature of its log pseudolikelihood."""
        chain = self._chain
        state = pad(chain.labels, chain.lattice.exists, MASKED)
        values = chain.values
        pixels, data, slope, curvature = evidence(
            state, self._y, self._neighbours, beta, chain.k, chain.noise.density(values)
        )
        whole = data * chain.lattice.sites / max(pixels, 1)
        return whole + chain.noise.log_prior(values), slope, curvature

    def described(self, rival):
        """The log likelihood of all values, by the shares and the noise of the labels of a candidate."""
        self.put(rival)
        return self.describe()

    def describe(self):
        """The same of the state that the chain is in."""
        chain, counts = self._chain, np.zeros(self._chain.k, np.int64)
        labels = chain.lattice.pixels(chain.labels)
        for part in slabs(labels.size):  # of whole images bincount makes numbers of eight bytes
            counts += np.bincount(labels[part], minlength=chain.k)
        shares = counts / chain.lattice.sites
        return mixture(chain.lattice.pixels(self._values), shares, chain.noise.density(chain.values))

    def _climb(self, rival):
        """The score; beta makes a step towards the maximum of the pseudolikelihood."""
        reached, slope, curvature = self.look(rival.beta)
        step = slope / curvature if curvature > 0.0 else math.copysign(LARGEST_STEP, slope)
        rival.beta += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        rival.beta = float(np.clip(rival.beta, *self._interval))
        return reached


def candidates(lattice: Lattice, values: np.ndarray, k: int) -> Iterator[np.ndarray]:
    """Yield labels 0..k-1 (n,) uint8 of the pixels that exist, in the order of their values, which the
    smoothing overwrites."""
    for smooth in _smoothed(lattice, values):
        bins = Histogram(smooth, max(BINS, 4 * k))
        found = [
            arithmetic.groups(bins.thresholds(cost(), k), smooth) for cost in (bins.squares, bins.errors)
        ]
        del smooth  # who takes the labels needs the memory
        while found:
            yield found.pop(0)


def _smoothed(lattice, values):
    """(n,) the image after each number of passes, of the pixels that exist; its values are overwritten."""
    if lattice.mask is not None:
        values[~lattice.mask] = 0.0
    # The weights are multiples of a power of two, of few digits: float32 holds those of a lattice, and where
    # all pixels exist products of those along the axes are the same.
    whole = lattice.mask is None and lattice.neighbourhood not in ("hexagonal", GRAPH)
    if whole:
        weights = [
            np.ones([n if d == axis else 1 for d in range(values.ndim)])
            for axis, n in enumerate(values.shape)
        ]
    else:
        weights = [lattice.exists.astype(np.float64 if lattice.neighbourhood == GRAPH else np.float32)]
    done = 0
    for passes in SMOOTHINGS:
        for _ in range(passes - done):
            values = _smooth(lattice, values)
            weights = [
                _along(weight, axis) if whole else _smooth(lattice, weight)
                for axis, weight in enumerate(weights)
            ]
        done = passes
        yield _divided(lattice, values, weights)


def _divided(lattice, numerator, weights):
    """(n,) the quotients at the pixels that exist, few rows at a time."""
    out, done = np.empty(lattice.sites), 0
    for rows in slabs(len(numerator), numerator.size // len(numerator)):
        weight = math.prod([weights[0][rows], *weights[1:]])
        here = lattice.exists[rows]
        part = numerator[rows][here] / np.broadcast_to(weight, here.shape)[here]
        out[done : done + part.size] = part
        done += part.size
    return out


def _smooth(lattice, array):
    """One pass, up to a constant; nothing beyond the edges."""
    if lattice.neighbourhood in ("hexagonal", GRAPH):
        return 2.0 * array + lattice.neighbour_sums(array)
    return _binomial(array)


def _binomial(array):
    """(1, 2, 1) / 4 along every axis, in place; nothing beyond the edges."""
    parts = list(slabs(len(array), array.size // len(array)))
    before = array[:0]  # the last row of the slab before, as it was
    for rows in parts:
        here = np.concatenate([before, array[rows.start : rows.stop + 1]])
        before, skip = array[rows][-1:].copy(), len(before)
        array[rows] = _along(here, 0)[skip : skip + len(array[rows])]
    for axis in range(1, array.ndim):
        for rows in parts:
            array[rows] = _along(array[rows], axis)
    return array


def _along(array, axis):
    """(1, 2, 1) / 4 along one axis."""
    out = 0.5 * array
    step = np.eye(array.ndim, dtype=int)[axis]
    (near, far), (to_near, to_far) = pairs(array, step), pairs(out, step)
    to_near += 0.25 * far
    to_far += 0.25 * near
    return out


class Histogram:
    """Numbers, sums and sums of squares of values in bins, and the best division of the bins into groups."""

    def __init__(self, values: np.ndarray, bins: int):
        low, high = np.quantile(values, TAILS)
        self.edges = np.linspace(low, high, bins + 1)[1:-1]
        mean, rows = values.mean(), np.zeros((3, bins))
        for part in slabs(values.size):
            which = np.searchsorted(self.edges, values[part], side="right")
            arithmetic.add_by(rows, which, values[part] - mean)
        sums = np.concatenate([np.zeros((3, 1)), np.cumsum(rows, axis=1)], axis=1)
        # Of the bins i..j-1: (bins + 1, bins + 1) each.
        self._n, total, square = (row[None, :] - row[:, None] for row in sums)
        many = np.maximum(self._n, 1.0)
        self._within = np.maximum(square - total * total / many, 0.0)
        width = (high - low) / bins
        self._least = width * width + np.finfo(float).tiny

    def squares(self) -> np.ndarray:
        """The sum of squares within each group."""
        return self._within

    def errors(self) -> np.ndarray:
        """- log of the likelihood of each group with a normal of its own, of its share; up to a constant."""
        many = np.maximum(self._n, 1.0)
        return self._n * (0.5 * arithmetic.log(self._within / many + self._least) - arithmetic.log(many))

    def thresholds(self, cost: np.ndarray, k: int) -> np.ndarray:
        """(k - 1,) edges between the groups of least total cost."""
        possible = np.triu(np.ones_like(cost, dtype=bool), 1)
        cost = np.where(possible, cost, np.inf)
        best, choices = cost[0], []
        for _ in range(k - 1):
            table = best[:, None] + cost
            choices.append(np.argmin(table, axis=0))
            best = np.min(table, axis=0)
        end, cuts = best.size - 1, []
        for choice in reversed(choices):
            end = int(choice[end])
            cuts.append(end)
        return self.edges[np.array(cuts[::-1]) - 1]
