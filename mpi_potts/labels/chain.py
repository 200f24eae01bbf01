"""The label chain: z, mu, sigma of one image, one sweep at a time (paper, section 4.2).

Given beta, a step draws z from p(z | y, mu, sigma, beta), then mu and sigma from their conjugate posteriors;
where the priors are the same for all labels, the labels are then named in the order of their means.  `sweep`
takes the betas, one for each step; `final` draws them from p(beta | S(z)) by a binding function's table, so
that beta and z together sample their posterior, and counts the labels of every pixel.

Inside, y has mean 0 and variance 1: that keeps float32 good enough for the weights of the fast path.  Steps
are numbered, and all their draws are addressed by (seed, chain, number): chains with the same arguments are
the same bits, however their steps are divided between calls or between a run and its continuation.
"""

import numpy as np

from .. import arithmetic, rng
from ..errors import InputError
from ..kernels.chain import Noise, Trace
from ..kernels.label_sums import scale_of
from ..lattice import MASKED, Lattice
from ..model.noise import Priors
from ..rng import Purpose
from ..runtime.threads import ALONE, Team
from .routes import route

MARGINALS = ("path", "synthetic")

# Of the start: the noise added to the observations, in their standard deviations, and the spread of the
# logarithms of the sizes of the labels in all chains but the first.
JITTER = 0.25
UNEVEN = 0.5

# The start draws from the stream of the sweeps, under numbers that no step reaches.
START = 2**62


def grain_of(pixels: np.ndarray) -> float:
    """What the pixels (n,) of an image are multiples of inside, in the image's units: see `label_sums`."""
    unit = float(pixels.std())
    return unit / scale_of(float(np.abs(pixels - pixels.mean()).max()) / unit)


class LabelChain:
    """The labels and the noise of one image.

    Attributes: statistic, S(z) of the current labels; done, the number of steps so far; counted, the number
    of steps whose labels `final` has counted; mean, sd (k,), the current noise in the image's units.
    """

    def __init__(
        self,
        lattice: Lattice,
        values: np.ndarray,
        labels: int,
        priors: Priors,
        seed: int,
        chain: int = 0,
        team: Team = ALONE,
    ):
        """values: the image, of the lattice's shape.  Chains of different numbers start differently.

        team: the threads that sweep; the chain does not depend on how many there are.
        """
        observed = np.asarray(values, dtype=np.float64)[lattice.exists]
        self.centre, self.unit = float(observed.mean()), float(observed.std())
        if not (np.isfinite(self.unit) and self.unit > 0.0):
            raise InputError(
                "all pixels are equal, or some are not finite: their labels cannot be told apart"
            )
        self.lattice, self.k, self.priors = lattice, labels, priors
        self._prior = priors.standardised(self.centre, self.unit).rows()
        self._in_order = priors.exchangeable
        purposes = (Purpose.LABEL_SWEEP, Purpose.NOISE, Purpose.FINAL_BETA)
        self._streams = np.stack([rng.stream(seed, purpose, chain) for purpose in purposes])
        image = np.zeros(lattice.shape)
        image[lattice.exists] = (observed - self.centre) / self.unit
        self._route = route(lattice, labels, image, team)
        self.done = self.counted = 0
        self._start(image[lattice.exists], self._streams[0], chain)

    def _start(self, y, stream, chain):
        """Labels by quantiles of the jittered observations; the noise is that of the labels."""
        k = self.k
        size = arithmetic.exp(UNEVEN * rng.normals(stream, START, k)) if chain > 0 else np.ones(k)
        cuts = np.cumsum(size)[:-1] / size.sum()
        jittered = y + JITTER * rng.normals(stream, START + 1, y.size)
        group = np.searchsorted(np.quantile(jittered, cuts), jittered, side="right")
        # Where the priors identify the labels, the lowest group is the label of the lowest prior mean.
        z = np.argsort(self.priors.mean, kind="stable")[group]
        number = np.bincount(z, minlength=k)
        total, square = (np.bincount(z, weights=w, minlength=k) for w in (y, y * y))
        self._mean = total / np.maximum(number, 1)
        spread = square / np.maximum(number, 1) - self._mean * self._mean
        self._sd = np.sqrt(np.maximum(spread, 1.0 / (k * k)))
        self._load(z.astype(np.uint8))

    def _load(self, labels):
        """Take labels (of the pixels that exist) as the state, with nothing counted."""
        image = np.full(self.lattice.shape, MASKED, dtype=np.uint8)
        image[self.lattice.exists] = labels
        self._route.put(image)
        self.statistic = self.lattice.statistic(image)

    @property
    def labels(self) -> np.ndarray:
        """The current labels: uint8 of the lattice's shape, 255 where masked."""
        return self._route.labels()

    @property
    def mean(self) -> np.ndarray:
        return self.centre + self.unit * self._mean

    @property
    def sd(self) -> np.ndarray:
        return self.unit * self._sd

    def sweep(self, betas: np.ndarray) -> Trace:
        """A step at each of the betas."""
        betas = np.ascontiguousarray(betas, dtype=np.float64)
        trace = self._trace(betas.copy())
        self._route.run(self._noise, self._streams, self.done, trace)
        return self._advance(trace)

    def final(
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
        low, high = map(float, interval)
        if not table[0, 0] <= low < high <= table[0, -1]:
            raise InputError(
                f"prior.beta = {list(interval)}: within {table[0, [0, -1]].tolist()} is accepted"
            )
        if marginal not in MARGINALS:
            raise InputError(f"fit.marginal = {marginal!r}: one of {MARGINALS} is accepted")
        surrogate = np.ascontiguousarray(table, dtype=np.float64), low, high
        trace = self._trace(np.empty(steps))
        by_path, start = marginal == "path", (self.done, self.statistic)
        self._route.sample(self._noise, self._streams, *start, surrogate, by_path, trace, count)
        self.counted += steps if count else 0
        return self._advance(trace)

    def count(self) -> None:
        """Count the labels of the current step, after a `sweep`; `final` counts by itself."""
        self._route.count()
        self.counted += 1

    @property
    def _noise(self):
        """The current noise, which steps change in place."""
        return Noise(self._mean, self._sd, self._prior, self._in_order)

    def _trace(self, betas):
        n, k = betas.size, self.k
        return Trace(betas, np.empty(n, dtype=np.int64), np.empty((n, k)), np.empty((n, k)))

    def _advance(self, trace):
        self.done += trace.beta.size
        if trace.beta.size:
            self.statistic = int(trace.statistic[-1])
        return trace._replace(mean=self.centre + self.unit * trace.mean, sd=self.unit * trace.sd)

    @property
    def counts(self) -> np.ndarray:
        """(*shape, k) uint32: how often every pixel had every label in the steps that were counted."""
        return self._route.counts()

    def probabilities(self) -> np.ndarray:
        """(*shape, k) float32: the fraction of the counted steps; 0 where masked."""
        if self.counted == 0:
            raise ValueError("no step has been counted")
        return self.counts.astype(np.float32) / np.float32(self.counted)

    def pack(self) -> dict[str, np.ndarray]:
        """All that a chain with the same arguments needs to go on, as arrays."""
        packed = {
            "steps": np.array([self.done, self.counted], dtype=np.int64),
            "labels": self.labels[self.lattice.exists],
            "noise": np.stack([self._mean, self._sd]),
        }
        if self.counted:
            packed["counts"] = self.counts[self.lattice.exists]
        return packed

    def unpack(self, packed: dict[str, np.ndarray]) -> None:
        """Go on from where another chain with the same arguments was packed."""
        self.done, self.counted = (int(n) for n in packed["steps"])
        self._mean, self._sd = (np.array(row, dtype=np.float64) for row in packed["noise"])
        self._load(packed["labels"])
        if self.counted:
            counts = np.zeros((*self.lattice.shape, self.k), dtype=np.uint32)
            counts[self.lattice.exists] = packed["counts"]
            self._route.put_counts(counts)
