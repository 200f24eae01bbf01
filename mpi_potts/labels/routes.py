"""How a label chain's steps are made on a lattice: by which kernel, in which layout, and by how many threads.

A call of the kernel runs a whole series of steps; where the image is large and there are threads for it, the
blocks of each colour of a sweep are divided between them instead, to the same bits.  So are those of a graph,
whose kernel makes no series, with one thread or many.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import rng
from ..kernels import chain, gibbs_blocks, gibbs_data, gibbs_layout, graph_gibbs
from ..kernels.chain import FULL, Surrogate, Trace
from ..kernels.gibbs_data import Sites
from ..kernels.gibbs_layout import BLOCK, BlockLayout
from ..kernels.names import Names, identity
from ..lattice import GRAPH, Lattice
from ..model.noise import NoiseModel
from ..runtime.threads import Team


class BlockKernel(NamedTuple):
    """What a route needs of a kernel that keeps sites in blocks."""

    layout: Callable[[Lattice, int], BlockLayout]
    from_labels: Callable[..., np.ndarray]
    to_labels: Callable[..., np.ndarray]
    places: Callable[..., np.ndarray]
    update: Callable[..., tuple]
    tally: Callable[..., None]


ON_LATTICE = BlockKernel(
    gibbs_layout.layout,
    gibbs_layout.from_labels,
    gibbs_layout.to_labels,
    gibbs_layout.places,
    gibbs_data.update,
    gibbs_blocks.tally,
)
ON_GRAPH = BlockKernel(*(getattr(graph_gibbs, name) for name in BlockKernel._fields))


def route(lattice: Lattice, noise: NoiseModel, image: np.ndarray, team: Team) -> "Route":
    """The labels of an image with values of about mean 0 and variance 1."""
    if lattice.neighbourhood == GRAPH:
        return SharedRoute(lattice, noise, image, team, ON_GRAPH)
    return Route(lattice, noise, image) if team.size == 1 else SharedRoute(lattice, noise, image, team)


class Route:
    """The labels of an image as the kernels have them, their steps, and how often each pixel had each."""

    def __init__(
        self, lattice: Lattice, noise: NoiseModel, image: np.ndarray, kernel: BlockKernel = ON_LATTICE
    ):
        self._kernel = kernel
        self.layout = kernel.layout(lattice, noise.labels)
        self.data = noise.data(self.layout, image)
        self._restart(np.empty(0, np.uint8))

    def _restart(self, state):
        self.sites = Sites(state, self.layout.pieces, self.data)
        # Counts of the labels of the pixels in the order of the blocks, and those that wait to be added.
        # Of every label an array of its own, so that each can be given away.
        self._total: list[np.ndarray] | None = None
        self._recent: np.ndarray | None = None
        self._waiting = 0

    def put(self, labels: np.ndarray) -> None:
        """Take labels, of the lattice's shape, as the state, with nothing counted."""
        self._restart(self._kernel.from_labels(self.layout, labels))

    def replace(self, labels: np.ndarray) -> None:
        """Take labels (n,) of the pixels that exist as the state; the counts stay."""
        self.sites.state[self.places] = labels

    @property
    def places(self) -> np.ndarray:
        """(n,) where in the state the pixels that exist are, in raster order."""
        return self._kernel.places(self.layout)

    def labels(self) -> np.ndarray:
        """The labels of the state: uint8 of the lattice's shape, 255 where masked."""
        return self._kernel.to_labels(self.layout, self.sites.state)

    def run(self, noise: Any, names: Names, streams: np.ndarray, first: int, trace: Trace) -> None:
        """A step for each of the betas of the trace: see `kernels.chain.run`.

        noise : the state of the noise model, and names : those of the labels, which change in place.
        """
        chain.run(self.sites, noise, names, streams, first, trace)

    def hold(
        self, noise: Any, stream: np.ndarray, first: int, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """S(z) after sweeps at each of the betas (n,), with the noise as it is, and the sums of the labels
        after the last."""
        statistic = np.empty(beta.size, np.int64)
        return statistic, chain.hold(self.sites, noise, stream, first, beta, statistic)

    def sample(
        self,
        noise: Any,
        names: Names,
        streams: np.ndarray,
        first: int,
        statistic: int,
        surrogate: Surrogate,
        trace: Trace,
        count: bool,
    ) -> None:
        """Steps with beta drawn given the statistic; labels are counted where `count`."""
        for done, part, recent in self.pieces(trace, count):
            chain.sample(self.sites, noise, names, streams, first + done, statistic, surrogate, part, recent)
            statistic = part.statistic[-1]

    def pieces(self, trace: Trace, count: bool) -> Iterator[tuple[int, Trace, np.ndarray]]:
        """The steps of a trace in pieces to be filled: the first step of each, its trace, and the counts (k,
        blocks * BLOCK) uint8 to add to, which hold those of a piece; where not `count`, of no label."""
        done, size = 0, trace.beta.size
        while done < size:
            recent = self._room() if count else np.empty((0, self.layout.blocks * BLOCK), np.uint8)
            last = min(size, done + FULL - self._waiting) if count else size
            noise = np.ascontiguousarray(trace.noise[:, done:last])
            yield done, Trace(trace.beta[done:last], trace.statistic[done:last], noise), recent
            trace.noise[:, done:last] = noise
            self._counted(last - done if count else 0)
            done = last

    def count(self) -> None:
        """Count the labels of the state once, in bytes that are added up before they overflow."""
        self._tally(self._room())
        self._counted(1)

    def _room(self):
        """(k, blocks * BLOCK) uint8 counts that wait to be added."""
        if self._recent is None:
            self._recent = np.zeros((self.layout.labels, self.layout.blocks * BLOCK), dtype=np.uint8)
        return self._recent

    def _counted(self, steps):
        self._waiting += steps
        if self._waiting == FULL:
            self._counts()

    def _tally(self, recent):
        self._kernel.tally(self.sites.state, self.layout.pieces, recent, 0, self.layout.blocks)

    def _counts(self):
        if self._total is None:
            size = self.layout.blocks * BLOCK
            self._total = [np.zeros(size, dtype=np.uint32) for _ in range(self.layout.labels)]
        if self._waiting and self._recent is not None:
            for recent, total in zip(self._recent, self._total):
                gibbs_blocks.flush(recent, total)
            self._waiting = 0
        return self._total

    def _final(self):
        """The counts, where no more are expected soon: without the room for those that wait."""
        total, self._recent = self._counts(), None
        return total

    def counts(self) -> np.ndarray:
        """(*shape, k) uint32: how often every pixel had every label."""
        return np.stack([self.layout.gather(total) for total in self._counts()], axis=-1)

    def count_totals(self) -> np.ndarray:
        """(k,) int64 the sum over pixels of the counts of every label: where there is no pixel they are 0."""
        return np.array([total.sum(dtype=np.int64) for total in self._counts()])

    def take_counts(self, label: int) -> np.ndarray:
        """(*shape) uint32: how often every pixel had this label; its counts are then gone."""
        total = self._final()
        taken, total[label] = total[label], np.zeros(0, dtype=np.uint32)
        return self.layout.gather(taken)

    def some_counts(self, step: int) -> np.ndarray:
        """(m, k) uint32: the same of every `step`-th pixel that exists, in raster order."""
        position = self.layout.position[::step]
        return np.stack([total[position] for total in self._final()], axis=-1)

    def counts_at(self, pixels: np.ndarray) -> np.ndarray:
        """(k, p) the counts of some of the pixels that exist, by their numbers in raster order."""
        position = self.layout.position[pixels]
        return np.stack([total[position] for total in self._counts()])

    def counts_of_pixels(self, first: int, last: int) -> np.ndarray:
        """(last - first, k) the counts of the pixels that exist with these numbers in raster order."""
        position = self.layout.position[first:last]
        return np.stack([total[position] for total in self._final()], axis=-1)

    def forget_counts(self) -> None:
        """Count from 0 again."""
        for total in self._counts():
            total[:] = 0

    def put_counts(self, counts: np.ndarray) -> None:
        """Go on from counts (sites, k) of the pixels that exist, in raster order."""
        for j, total in enumerate(self._counts()):
            total[:] = 0
            total[self.layout.position] = counts[:, j]


class SharedRoute(Route):
    """The same steps, bit for bit, by several threads, a call for each step."""

    def __init__(
        self,
        lattice: Lattice,
        noise: NoiseModel,
        image: np.ndarray,
        team: Team,
        kernel: BlockKernel = ON_LATTICE,
    ):
        super().__init__(lattice, noise, image, kernel)
        self._team, self._table = team, identity()

    def run(self, noise: Any, names: Names, streams: np.ndarray, first: int, trace: Trace) -> None:
        """A step for each of the betas of the trace."""
        for t, beta in enumerate(trace.beta):
            chain.record(t, self._step(noise, names, beta, streams, first + t), noise, trace)

    def sample(
        self,
        noise: Any,
        names: Names,
        streams: np.ndarray,
        first: int,
        statistic: int,
        surrogate: Surrogate,
        trace: Trace,
        count: bool,
    ) -> None:
        """Steps with beta drawn given the statistic; labels are counted where `count`."""
        for t in range(trace.beta.size):
            trace.beta[t] = chain.beta_given(statistic, surrogate, streams[2], first + t)
            statistic = self._step(noise, names, trace.beta[t], streams, first + t)
            chain.record(t, statistic, noise, trace)
            if count:
                self.count()

    def hold(
        self, noise: Any, stream: np.ndarray, first: int, beta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """S(z) after sweeps at each of the betas (n,), with the noise as it is, and the sums of the labels
        after the last."""
        terms, sums = chain.terms_of(noise, self.data), np.zeros(0, np.int64)
        statistic = np.empty(beta.size, np.int64)
        for t, b in enumerate(beta):
            statistic[t], sums = self._sweep(terms, b, rng.key(stream, first + t))
        return statistic, sums

    def _step(self, noise, names, beta, streams, number):
        terms = chain.terms_of(noise, self.data)
        statistic, sums = self._sweep(terms, beta, rng.key(streams[0], number))
        key = rng.key(streams[1], number)
        chain.update_noise(self.sites.state, noise, names, terms, sums, key, number, self._table)
        return statistic

    def _sweep(self, terms, beta, key):
        """S(z), and the sums of the labels."""
        parts = []
        for colour in range(self.layout.colours):
            work = partial(self._kernel.update, self.sites, terms, beta, key, colour)
            parts += self._team.share(self.layout.blocks_of(colour), work)
        return sum(like for like, _ in parts), sum(part for _, part in parts)

    def _tally(self, recent):
        work = partial(self._kernel.tally, self.sites.state, self.layout.pieces, recent)
        self._team.share(self.layout.blocks, work)
