"""Simulate the Potts prior p(z | beta) = exp(beta S(z)) / C(beta) (paper, section 4): labels, chains of S(z).

A `Sampler` hides which kernel runs.  Swendsen-Wang has one for all lattices.  The Gibbs sampler has one too,
and another for the plane with first-order neighbours, with or without a mask, where it takes a half to three
quarters of the time.  A graph has plain ones of its own.  The alternating sampler is both, one after the
other.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..errors import InputError
from ..kernels import alternating, chequerboard, gibbs, graph_gibbs, swendsen_wang, variates
from ..lattice import GRAPH, LARGEST_BETA, MASKED, Lattice
from ..rng import key

SAMPLERS = ("swendsen-wang", "gibbs", "alternating")

# What a kernel sweeps over: an array that only this kernel understands.
State = np.ndarray


class Kernel(Protocol):
    """What the sampler needs of a kernel: a layout for a lattice and k, which the other functions take."""

    layout: Callable
    from_labels: Callable
    to_labels: Callable
    sweeps: Callable


def _kernel(lattice: Lattice, name: str) -> Kernel:
    if name == "swendsen-wang":
        return swendsen_wang
    if name == "alternating":
        return alternating
    if lattice.neighbourhood == GRAPH:
        return graph_gibbs
    return chequerboard if lattice.first_order_plane else gibbs


def quickest(lattice: Lattice, labels: int) -> str:
    """The sampler whose S(z) is known best after a time: a Gibbs sweep after each of Swendsen-Wang pays from
    three labels on."""
    return "alternating" if labels > 2 and alternating.fast(lattice, labels) else "swendsen-wang"


def random_labels(lattice: Lattice, labels: int, stream: np.ndarray) -> np.ndarray:
    """Independent labels, exactly uniform on 0..k-1, addressed by raster index: uint8, 255 where masked."""
    z = np.empty(lattice.shape, dtype=np.uint8)
    variates.uniform_labels(z.reshape(-1), labels, *key(stream, 0))
    z[~lattice.exists] = MASKED
    return z


class Sampler:
    """Sweeps of one sampler of the prior on one lattice with labels 0..k-1.

    A state belongs to its sampler; `pack` gives bits that all of them understand.
    """

    def __init__(self, lattice: Lattice, labels: int, name: str = "swendsen-wang"):
        if not 2 <= labels <= 255:
            raise InputError(f"model.labels = {labels}: 2 to 255 are accepted")
        if name not in SAMPLERS:
            raise InputError(f"sampler {name!r}: one of {SAMPLERS} is accepted")
        self.lattice = lattice
        self.k = labels
        self.name = name
        self._kernel = _kernel(lattice, name)
        self._layout = self._kernel.layout(lattice, labels)

    def start(self, kind: str, stream: np.ndarray) -> State:
        """A first state: "random" (see `random_labels`), or "ordered", all label 0, which draws nothing.

        The stream must be another than that of the sweeps.
        """
        if kind == "random":
            return self.state(random_labels(self.lattice, self.k, stream))
        if kind == "ordered":
            return self.state(np.zeros(self.lattice.shape, dtype=np.uint8))
        raise InputError(f"start {kind!r}: random or ordered is accepted")

    def state(self, labels: np.ndarray) -> State:
        """The state of these labels: uint8 of the lattice's shape; masked pixels may hold anything."""
        return self._kernel.from_labels(self._layout, labels)

    def sweeps(self, state: State, beta: float, stream: np.ndarray, first: int, count: int) -> np.ndarray:
        """Advance `state` in place by the sweeps first..first+count-1; (count,) int64, S(z) after each.

        The draws belong to the number of a sweep: how sweeps are split over calls changes nothing.
        """
        if not 0.0 <= beta <= LARGEST_BETA:
            raise InputError(f"beta = {beta}: 0 to {LARGEST_BETA:g} is accepted")
        return self._kernel.sweeps(self._layout, state, float(beta), stream, int(first), int(count))

    def labels(self, state: State) -> np.ndarray:
        """The labels of a state: uint8 of the lattice's shape, 255 where masked."""
        return self._kernel.to_labels(self._layout, state)

    @property
    def packed_size(self) -> int:
        """The number of bytes of a packed state."""
        return self._planes * -(-self.lattice.sites // 8)

    @property
    def _planes(self):
        return (self.k - 1).bit_length()

    def pack(self, state: State) -> np.ndarray:
        """The labels of the sites that exist as bit planes, lowest bit first: (packed_size,) uint8."""
        z = self.labels(state)[self.lattice.exists]
        return np.concatenate([np.packbits((z >> p) & 1, bitorder="little") for p in range(self._planes)])

    def unpack(self, packed: np.ndarray) -> State:
        """The state that was packed, by any sampler on this lattice."""
        if packed.shape != (self.packed_size,):
            raise InputError(f"a packed state has {packed.size} bytes: {self.packed_size} are accepted")
        n = self.lattice.sites
        planes = np.unpackbits(packed.reshape(self._planes, -1), axis=1, count=n, bitorder="little")
        z = sum(plane << p for p, plane in enumerate(planes))
        if z.max() >= self.k:
            raise InputError(f"a packed state holds the label {z.max()}: 0 to {self.k - 1} are accepted")
        labels = np.full(self.lattice.shape, MASKED, dtype=np.uint8)
        labels[self.lattice.exists] = z
        return self.state(labels)
