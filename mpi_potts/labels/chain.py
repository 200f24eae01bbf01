"""The label chain: z and the noise of one image, one sweep at a time (paper, section 4.2).

Given beta, a step draws z from p(z | y, noise, beta), then the noise from its posterior given z.  Labels keep
their names: where the priors are the same for all labels, these follow the pixels that the labels hold
(`kernels/names.py`), and are put in order when all is done (`matching`).  `sweep` takes the betas, one for
each step; `sample` draws them from p(beta | S(z)) by a binding function's table, so that beta and z together
sample their posterior, and counts the labels of every pixel.

Inside, y has mean 0 and variance 1: that keeps float32 good enough for the weights of the fast path.  Steps
are numbered, and all their draws are addressed by (seed, chain, number): chains with the same arguments are
the same bits, however their steps are divided between calls or between a run and its continuation.
"""

import math
from collections.abc import Sequence

import numpy as np

from .. import arithmetic, rng
from ..errors import InputError
from ..kernels.chain import Surrogate, Trace, beta_given, draw_given
from ..kernels.flips import flip, flip_with_noise
from ..kernels.names import Names, identity, match
from ..kernels.neighbours import Neighbours, neighbours, pad, unpad
from ..lattice import MASKED, Lattice
from ..model.noise import NoiseModel
from ..rng import Purpose
from ..runtime.threads import ALONE, Team
from .routes import route
from .tempering import Tempered

MARGINALS = ("path", "synthetic")

# Of the start: the noise added to the observations, in their standard deviations, and the spread of the
# logarithms of the sizes of the labels in all chains but the first.
JITTER = 0.25
UNEVEN = 0.5

# The start draws from the stream of the sweeps, under numbers that no step reaches.
START = 2**62

# Whole clusters change their label before one step of so many: of those that are not counted, and of others
# on images of up to SMALL pixels and on larger ones.  The move takes as long as 40 to 50 sweeps.
EARLY_FLIPS = 25
SMALL, FLIPS, SELDOM_FLIPS = 4096, 200, 1000
# A chain whose steps are counted beyond so many waits for what sweeps seldom do: from there on it has this
# period, which divides it as those do, on images of up to SMALL pixels.
LATE, OFTEN = 4000, 50
# The same of a chain that is tempered, whose steps are long.
TEMPERED_FLIPS = 10

# Beyond so many pixels, only before the first step that is counted.
LARGE = 2**20

# Clusters of at least so many pixels, and of at least one in so many, may change their noise with the label.
FEWEST, PARTS = 16, 256

# What the move looks at is made once for images of up to so many pixels, and else every time.
KEPT = 2**16

# The names of labels are kept by at most about this many pixels.
WITNESSES = 4096


def witnesses(lattice: Lattice, noise: NoiseModel, sort_labels: bool = False) -> int:
    """By how many pixels the names of labels are kept: none where priors or the order of means name them."""
    if sort_labels or not noise.exchangeable:
        return 0
    return len(range(0, lattice.sites, _stride(lattice)))


def _stride(lattice):
    """Odd, so that the pixels are of both colours."""
    return lattice.sites // WITNESSES | 1


def join(traces: Sequence[Trace]) -> Trace:
    """Traces that follow each other, as one."""
    beta, statistic, noise = zip(*traces)
    return Trace(np.concatenate(beta), np.concatenate(statistic), np.concatenate(noise, axis=1))


def _surrogate(table, interval, marginal):
    low, high = map(float, interval)
    return Surrogate(np.ascontiguousarray(table, dtype=np.float64), low, high, marginal == "path")


class LabelChain:
    """The labels and the noise of one image.

    Attributes: statistic, S(z) of the current labels; done, the number of steps so far; counted, the number
    of steps whose labels have been counted; noise, the model and prior of the noise; values (P, k), its
    current parameters in the image's units; standard_image (n,), the pixels with mean 0 and variance 1.
    """

    def __init__(
        self,
        lattice: Lattice,
        values: np.ndarray,
        labels: int,
        noise: NoiseModel,
        seed: int,
        chain: int = 0,
        team: Team = ALONE,
        sort_labels: bool = False,
        crossing: bool = True,
    ):
        """values: the image, of the lattice's shape.  Chains of different numbers start differently.

        sort_labels: where the priors are the same for all labels, name them by their means after every step.
        crossing: now and then whole clusters change their labels.
        team: the threads that sweep; the chain does not depend on how many there are.
        """
        image = np.asarray(values, dtype=np.float64)
        observed = lattice.pixels(image)
        self.centre, self.unit = float(observed.mean()), float(observed.std())
        if not (np.isfinite(self.unit) and self.unit > 0.0):
            raise InputError(
                "all pixels are equal, or some are not finite: their labels cannot be told apart"
            )
        self.lattice, self.k, self.noise = lattice, labels, noise
        self._noise = noise.standardised(self.centre, self.unit)
        purposes = (Purpose.LABEL_SWEEP, Purpose.NOISE, Purpose.FINAL_BETA, Purpose.FLIPS)
        self._streams = np.stack([rng.stream(seed, purpose, chain) for purpose in purposes])
        self._image = image
        del observed
        image = image - self.centre
        image /= self.unit
        if lattice.mask is not None:
            image[~lattice.mask] = 0.0
        self._route = route(lattice, noise, image, team)
        self._crossing, self._seed, self._number = crossing, seed, chain
        self._tempered: Tempered | None = None
        self._around: tuple[np.ndarray, Neighbours] | None = None
        self.done = self.counted = 0
        self._names = self._first_names(sort_labels)
        self._start(lattice.pixels(image), self._streams[0], chain)

    def _first_names(self, sort_labels):
        places = np.empty(0, np.int32)
        if witnesses(self.lattice, self.noise, sort_labels):
            places = np.ascontiguousarray(self._route.places[:: _stride(self.lattice)])
        before = np.zeros((places.size, self.k), np.uint32)
        return Names(sort_labels and self.noise.exchangeable, places, before, np.zeros(1, np.int64))

    def _start(self, y, stream, chain):
        """Labels by quantiles of the jittered observations; the noise is that of the labels."""
        k = self.k
        size = arithmetic.exp(UNEVEN * rng.normals(stream, START, k)) if chain > 0 else np.ones(k)
        cuts = np.cumsum(size)[:-1] / size.sum()
        jittered = rng.normals(stream, START + 1, y.size)
        jittered *= JITTER
        jittered += y
        group = arithmetic.groups(np.quantile(jittered, cuts), jittered)
        del jittered
        # Where the priors identify the labels, the lowest group is the label of the lowest prior mean.
        z = self.noise.order.astype(np.uint8)[group]
        least = 1.0 / (k * k)
        self._values = self.noise.of_labels(z, y, k, least, empty=least)
        self._put(z)

    def _put(self, labels):
        """Take labels (of the pixels that exist) as the state, with nothing counted."""
        image = np.full(self.lattice.shape, MASKED, dtype=np.uint8)
        image[self.lattice.exists] = labels
        self._route.put(image)
        self._tempered = None
        self.statistic = self.lattice.statistic(image)

    @property
    def labels(self) -> np.ndarray:
        """The current labels: uint8 of the lattice's shape, 255 where masked."""
        return self._route.labels()

    @property
    def standard_image(self) -> np.ndarray:
        """(n,) the pixels that exist with mean 0 and variance 1, made anew: the chain does not keep them."""
        y = self.lattice.pixels(self._image) - self.centre
        y /= self.unit
        return y

    @property
    def values(self) -> np.ndarray:
        """(P, k) the current parameters of the noise in the image's units."""
        return self.noise.in_units(self._values, self.centre, self.unit)

    @property
    def standard(self) -> np.ndarray:
        """(P, k) the current parameters of the noise of (y - centre) / unit."""
        return self._values.copy()

    def sweep(self, betas: np.ndarray) -> Trace:
        """A step at each of the betas."""
        betas = np.ascontiguousarray(betas, dtype=np.float64)
        pieces = [betas[piece] for piece in self._until_flips(betas.size, lambda _: self._usual_period)]
        return join([self._sweep(piece) for piece in pieces] or [self._trace(betas)])

    def _sweep(self, betas):
        if self.done % self._usual_period == 0:
            self.flip(float(betas[0]))
        trace = self._trace(betas.copy())
        self._route.run(self._state, self._names, self._streams, self.done, trace)
        return self._advance(trace)

    def _until_flips(self, steps, period):
        """Slices of the next steps, each to the next step before which clusters change their labels: one
        whose number is a multiple of its period."""
        pieces, place, last = [], self.done, self.done + steps
        while place < last:
            end = min(last, place + period(place) - place % period(place))
            pieces.append(slice(place - self.done, end - self.done))
            place = end
        return pieces

    def _period(self, counted):
        """Of flips in `sample`: a function of the number of a step."""
        if self._tempered is not None:
            return lambda _: TEMPERED_FLIPS
        if not counted:
            return lambda _: EARLY_FLIPS
        late = LATE if self.lattice.sites <= SMALL else math.inf
        return lambda number: self._usual_period if number < late else OFTEN

    @property
    def _usual_period(self):
        return FLIPS if self.lattice.sites <= SMALL else SELDOM_FLIPS

    def flip(self, beta: float, held: bool = False) -> None:
        """A move of whole clusters at beta, large ones with the noise unless that is held: see
        `kernels/flips.py`."""
        lattice = self.lattice
        # What it works in is not to come on top of the counts of a large image.
        if not self._crossing or self.k == 1 or (self.counted and lattice.sites > LARGE):
            return
        state = pad(self.labels, lattice.exists, MASKED)
        y, around = self._surroundings()
        key = rng.key(rng.stream(self._seed, Purpose.FLIPS, self._number), self.done)
        known = state, y, around, beta, self.k, self.noise.density(self._values)
        least = max(FEWEST, lattice.sites // PARTS)
        moved = flip(*known, 1.0, *key) if held else flip_with_noise(*known, self._state, least, *key)
        self.statistic = int(moved)
        self._route.replace(unpad(state, lattice.shape)[lattice.exists])
        if self._tempered is not None:
            self._tempered.take(self.statistic)
        elif self._names.places.size:
            # At once: with a region, labels may have exchanged their parts.
            self._names.switches[0] += match(self._route.sites.state, self._values, self._names, identity())

    def _surroundings(self):
        """The image and the neighbours in it as `flip` has them; kept where they are small."""
        found = self._around
        if found is None:
            image = self._route.layout.gather(self._route.data.values)
            found = pad(image, self.lattice.exists, 0.0), neighbours(self.lattice)
            self._around = found if self.lattice.sites <= KEPT else None
        return found

    def sample(
        self,
        table: np.ndarray,
        interval: tuple[float, float],
        steps: int,
        marginal: str = "path",
        count: bool = True,
    ) -> Trace:
        """Steps with beta drawn before each from its posterior given S(z), uniform prior on the interval.

        table: (4, nodes) beta, log C, mean, variance, as `Binding.table`.  Labels are counted unless `count`
        is False (burn-in).
        """
        low, high = interval
        if not table[0, 0] <= low < high <= table[0, -1]:
            raise InputError(
                f"prior.beta = {list(interval)}: within {table[0, [0, -1]].tolist()} is accepted"
            )
        if marginal not in MARGINALS:
            raise InputError(f"fit.marginal = {marginal!r}: one of {MARGINALS} is accepted")
        surrogate = _surrogate(table, interval, marginal)
        period = self._period(count)
        traces = [self._trace(np.empty(0))]
        for piece in self._until_flips(steps, period):
            if self.done % period(self.done) == 0:
                # Before step n of the others the draw is that of step n itself, for which it is made again.
                self.flip(beta_given(self.statistic, surrogate, self._streams[3], self.done))
            traces.append(self._sample(surrogate, piece.stop - piece.start, count))
        return join(traces)

    def _sample(self, surrogate, steps, count):
        trace = self._trace(np.empty(steps))
        if self._tempered is not None:
            for done, part, recent in self._route.pieces(trace, count):
                self._tempered.sample(self._names, self.done + done, surrogate, part, recent)
        else:
            start = self.done, self.statistic
            self._route.sample(self._state, self._names, self._streams, *start, surrogate, trace, count)
        self.counted += steps if count else 0
        return self._advance(trace)

    def hold(self, betas: np.ndarray) -> np.ndarray:
        """S(z) after a sweep of the labels at each of the betas, with the noise as it is."""
        return self._hold(np.ascontiguousarray(betas, dtype=np.float64))[0]

    def _hold(self, betas):
        statistic, sums = self._route.hold(self._state, self._streams[0], self.done, betas)
        self.done += betas.size
        self.statistic = int(statistic[-1])
        return statistic, sums

    def reduced(self, surrogate: Surrogate, held: np.ndarray) -> float:
        """A step as in `sample`, but with the noise of the labels `held` as it is, and under the names that
        labels have; its beta."""
        number = self.done
        beta = beta_given(self.statistic, surrogate, self._streams[2], number)
        _, sums = self._hold(np.array([beta]))
        before = self._values[:, held].copy()
        draw_given(self._state, self._route.data, sums, rng.key(self._streams[1], number))
        self._values[:, held] = before
        return beta

    def temper(self, table: np.ndarray, interval: tuple[float, float], marginal: str) -> None:
        """From now on `sample` makes the steps of a ladder of powers of the likelihood, which crosses between
        modes: see `tempering`.  The ladder is made, and settles, here."""
        self._tempered = self._ladder()
        surrogate = _surrogate(table, interval, marginal)
        self.done = self._tempered.make(self.statistic, self.lattice.sites, surrogate, self.done)
        self.statistic = self._tempered.statistic

    def _ladder(self):
        return Tempered(self._route.sites, self._route.places, self._state, self._seed, self._number)

    def count(self) -> None:
        """Count the labels of the current step, after a `sweep`; `sample` counts by itself."""
        self._route.count()
        self.counted += 1

    @property
    def _state(self):
        """The current noise, which steps change in place."""
        return self._noise.state(self._values)

    def _trace(self, betas):
        n, k = betas.size, self.k
        return Trace(betas, np.empty(n, dtype=np.int64), np.empty((len(self.noise.names), n, k)))

    def _advance(self, trace):
        self.done += trace.beta.size
        if trace.beta.size:
            self.statistic = int(trace.statistic[-1])
        return trace._replace(noise=self.noise.in_units(trace.noise, self.centre, self.unit))

    @property
    def counts(self) -> np.ndarray:
        """(*shape, k) uint32: how often every pixel had every label in the steps that were counted."""
        return self._route.counts()

    def count_totals(self) -> np.ndarray:
        """(k,) int64: the sum over pixels of the counts of every label."""
        return self._route.count_totals()

    def take_counts(self, label: int) -> np.ndarray:
        """(*shape) uint32: the same of one label, which the chain then no longer has, for the memory."""
        return self._route.take_counts(label)

    def some_counts(self, step: int) -> np.ndarray:
        """(m, k) uint32: the same of every `step`-th pixel that exists, in raster order."""
        return self._route.some_counts(step)

    @property
    def switches(self) -> int:
        """How often labels were renamed because they had exchanged what they hold."""
        return int(self._names.switches[0])

    def counts_at(self, pixels: np.ndarray) -> np.ndarray:
        """(k, p) the counts of some of the pixels that exist, by their numbers in raster order."""
        return self._route.counts_at(pixels)

    def forget_counts(self) -> None:
        """Count from 0 again: what was counted turned out to be burn-in."""
        self._route.forget_counts()
        self.counted = 0

    def probabilities(self) -> np.ndarray:
        """(*shape, k) float32: the fraction of the counted steps; 0 where masked."""
        if self.counted == 0:
            raise ValueError("no step has been counted")
        return self.counts.astype(np.float32) / np.float32(self.counted)

    def counts_of_pixels(self, first: int, last: int) -> np.ndarray:
        """(last - first, k) uint32: the counts of the pixels that exist with these numbers."""
        return self._route.counts_of_pixels(first, last)

    def pack(self, counts: bool = True) -> dict[str, np.ndarray]:
        """All that a chain with the same arguments needs to go on, as arrays; without the large counts of
        labels, if these are asked for pixel by pixel."""
        packed = {
            "steps": np.array([self.done, self.counted], dtype=np.int64),
            "labels": self.labels[self.lattice.exists],
            "noise": self._values.copy(),
        }
        if self._names.places.size:
            packed |= {"before": self._names.before.copy(), "switches": self._names.switches.copy()}
        if self._tempered is not None:
            packed |= self._tempered.pack()
        if self.counted and counts:
            packed["counts"] = self.counts_of_pixels(0, self.lattice.sites)
        return packed

    def unpack(self, packed: dict[str, np.ndarray]) -> None:
        """Go on from where another chain with the same arguments was packed; with labels and noise alone,
        their names are those of a start."""
        self.done, self.counted = (int(n) for n in packed["steps"])
        self._values = np.array(packed["noise"], dtype=np.float64)
        self._put(packed["labels"])
        if "ladder_power" in packed:
            self._tempered = self._ladder()
            self._tempered.unpack(packed)
        self._names.before[:] = packed.get("before", 0)
        self._names.switches[:] = packed.get("switches", 0)
        if self.counted:
            self._route.put_counts(packed["counts"])
