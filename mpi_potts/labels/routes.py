"""How a label chain's steps are made on a lattice: by which kernels, in which layout, by how many threads.

On a first-order plane a call of the kernel runs a whole series of steps; where the image is large and there
are threads for it, each half of a sweep is divided between them instead.  All other lattices take the
general kernels, a call for each step.
"""

from functools import partial

import numpy as np

from .. import rng
from ..kernels import chain as plane_chain
from ..kernels import chequerboard, general
from ..kernels.chequerboard_data import parameters, prepare
from ..kernels.label_sums import references
from ..lattice import Lattice
from ..runtime.threads import Team


def path(lattice: Lattice, labels: int, image: np.ndarray, team: Team) -> "Plane | General":
    """The labels of an image with values of about mean 0 and variance 1."""
    if lattice.first_order_plane:
        return Plane(lattice, labels, image) if team.size == 1 else SharedPlane(lattice, labels, image, team)
    return General(lattice, labels, image)


class Stepwise:
    """Series of steps, a call of `step` for each."""

    def run(self, betas, mean, sd, prior, in_order, streams, first, statistic, means, sds):
        for t, beta in enumerate(betas):
            statistic[t] = self.step(beta, mean, sd, prior, in_order, streams, first + t)
            means[t], sds[t] = mean, sd

    def final(self, last, surrogate, path, mean, sd, prior, in_order, streams, first, *trace_and_count):
        betas, statistic, means, sds, count = trace_and_count
        for t in range(betas.size):
            betas[t] = plane_chain.beta_given(last, surrogate, path, streams[2], first + t)
            last = self.step(betas[t], mean, sd, prior, in_order, streams, first + t)
            statistic[t], means[t], sds[t] = last, mean, sd
            if count:
                self.count()


class Plane:
    """First-order plane: whole chains run in a kernel, on the chequerboard layout."""

    def __init__(self, lattice, k, image):
        self.layout = chequerboard.layout(lattice, k)
        self.place = (self.layout.absent, *self.layout.geometry)
        self.data = prepare(self.layout, image)

    def load(self, labels):
        self.state = chequerboard.from_labels(self.layout, labels)
        self.tally = self.recent = None
        self.waiting = 0

    def labels(self):
        return chequerboard.to_labels(self.layout, self.state)

    def run(self, betas, *rest):
        plane_chain.run(self.state, self.place, self.data, betas, *rest)

    def final(self, last, surrogate, path, mean, sd, prior, in_order, streams, first, *trace_and_count):
        *trace, count = trace_and_count
        counts = self._counts() if count else np.empty((4, 0, self.state.shape[1]), np.uint32)
        noise = mean, sd, prior, in_order, streams
        plane_chain.final(
            self.state, self.place, self.data, last, surrogate, path, *noise, first, *trace, counts
        )

    def count(self):
        """Count in bytes, and add them to the counts before they overflow."""
        if self.recent is None:
            self.recent = np.zeros((4, self.layout.labels, self.state.shape[1]), dtype=np.uint8)
        self._tally()
        self.waiting += 1
        if self.waiting == plane_chain.FULL:
            self._counts()

    def _tally(self):
        plane_chain.tally(self.state, self.recent, 0, self.state.shape[1])

    def _counts(self):
        if self.tally is None:
            self.tally = np.zeros((4, self.layout.labels, self.state.shape[1]), dtype=np.uint32)
        if self.waiting:
            plane_chain.flush(self.recent, self.tally)
            self.waiting = 0
        return self.tally

    def counts(self):
        return self.layout.gather(np.moveaxis(self._counts(), 1, 2))

    def load_counts(self, counts):
        for j in range(self.layout.labels):
            self._counts()[:, j] = self.layout.scatter(counts[..., j], 0)


class SharedPlane(Stepwise, Plane):
    """The same steps, bit for bit, by several threads."""

    def __init__(self, lattice, k, image, team):
        super().__init__(lattice, k, image)
        self.team, self.blocks = team, 2 * self.place[-1]
        self.table = plane_chain.identity()

    def step(self, beta, mean, sd, prior, in_order, streams, number):
        scale = float(self.data[1])
        noise, reference = parameters(mean, sd), references(mean, scale)
        arguments = self.state, self.place, self.data, beta, noise, reference, rng.key(streams[0], number)
        halves = [
            self.team.share(self.blocks, partial(plane_chain.half, *arguments, colour)) for colour in range(2)
        ]
        sums = sum(part for half in halves for _, part in half)
        rest = *rng.key(streams[1], number), self.state, self.table
        plane_chain.settle_noise(
            *plane_chain.in_units(sums, reference, scale), prior, in_order, mean, sd, *rest
        )
        return sum(like for like, _ in halves[1])

    def _tally(self):
        self.team.share(self.state.shape[1], partial(plane_chain.tally, self.state, self.recent))


class General(Stepwise):
    """Any lattice: the general kernels."""

    def __init__(self, lattice, k, image):
        self.layout = general.layout(lattice, k)
        self.k = k
        self.exists = lattice.exists
        self.y = general.pad_values(self.layout, image)

    def load(self, labels):
        self.state = general.from_labels(self.layout, labels)
        self.tally = None

    def labels(self):
        return general.to_labels(self.layout, self.state)

    def step(self, beta, mean, sd, prior, in_order, streams, number):
        s, *sums = general.gibbs_with_data(
            self.layout, self.state, self.y, beta, mean, sd, streams[0], number
        )
        totals = np.stack(sums, axis=1).astype(np.float64)
        k0, k1 = rng.key(streams[1], number)
        table = plane_chain.identity()
        plane_chain.settle_noise(
            totals, np.zeros(self.k), prior, in_order, mean, sd, k0, k1, self.state, table
        )
        return s

    def count(self):
        self._counts()[...] += self.labels()[..., None] == np.arange(self.k)

    def _counts(self):
        if self.tally is None:
            self.tally = np.zeros((*self.exists.shape, self.k), dtype=np.uint32)
        return self.tally

    def counts(self):
        return self._counts()

    def load_counts(self, counts):
        self._counts()[...] = counts
