"""The kernels that are timed, and how: time per site and sweep, minima over interleaved repeats.

A kernel is a function (lattice, k, beta) -> advance, where advance(first, count) carries out the sweeps
first..first+count-1.  Add one with the decorator `@kernel("name")`.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mpi_potts.labels.chain import LabelChain
from mpi_potts.lattice import Lattice
from mpi_potts.model.gaussian import gaussian_noise
from mpi_potts.model.potts import Sampler
from mpi_potts.model.transition import transition
from mpi_potts.rng import Purpose, float_bits, normals, stream

KERNELS: dict[str, Callable] = {}


def kernel(name: str):
    """Register a kernel under a name."""

    def register(prepare):
        KERNELS[name] = prepare
        return prepare

    return register


def _prior(sampler):
    """A sampler of the prior, started on the side of the transition where beta lies: soon in equilibrium."""

    def prepare(lattice, k, beta):
        chain = Sampler(lattice, k, sampler)
        kind = "ordered" if beta > transition(lattice, k) else "random"
        state = chain.start(kind, stream(1, Purpose.START))
        draws = stream(1, Purpose.PRIOR_SWEEP, float_bits(beta))
        return lambda first, count: chain.sweeps(state, beta, draws, first, count)

    return prepare


for _sampler, _title in (("swendsen-wang", "Swendsen-Wang"), ("gibbs", "prior Gibbs")):
    kernel(_title)(_prior(_sampler))


@kernel("label chain (data, noise)")
def _label_chain(lattice, k, beta):
    """Sweeps with data at beta, S(z) and all sums, and the conjugate draws after each."""
    sampler = Sampler(lattice, k)
    state = sampler.start("random", stream(1, Purpose.START))
    sampler.sweeps(state, beta, stream(1, Purpose.PRIOR_SWEEP), 0, 50)
    sites = lattice.sites
    noise = normals(stream(1, Purpose.SIMULATE_NOISE), 0, sites).reshape(lattice.shape)
    values = 2.0 * sampler.labels(state) + 0.7 * noise
    chain = LabelChain(lattice, values, k, gaussian_noise(k, mean_sd=10.0), seed=1)
    return lambda first, count: chain.sweep(np.full(count, beta))


@dataclass
class Case:
    """One kernel at one size, k and beta, with the least time seen so far."""

    kernel: str
    shape: tuple[int, int]
    k: int
    beta: float
    count: int
    advance: Callable = field(repr=False)
    first: int = 0
    best: float = math.inf

    def measure(self) -> None:
        # The kernels run in this thread: its CPU time does not count what other jobs take of the machine.
        start = time.thread_time()
        self.advance(self.first, self.count)
        seconds = time.thread_time() - start
        self.first += self.count
        self.best = min(self.best, seconds / (self.count * math.prod(self.shape)))


def prepare(names, sizes, labels, betas, site_sweeps: int, warm_up: int) -> list[Case]:
    """All combinations, compiled and warmed up; one timing makes about `site_sweeps` updates of a site."""
    cases = []
    for size in sizes:
        lattice = Lattice((size, size))
        count = max(1, site_sweeps // lattice.sites)
        for name in names:
            for k in labels:
                for beta in betas:
                    advance = KERNELS[name](lattice, k, beta)
                    advance(0, warm_up)
                    cases.append(Case(name, lattice.shape, k, beta, count, advance, first=warm_up))
    return cases


def measure(cases: list[Case], repeats: int) -> None:
    """Time every case once in each of `repeats` rounds: a slow moment of the machine hits all alike."""
    for _ in range(repeats):
        for case in cases:
            case.measure()


def table(cases: list[Case]) -> list[str]:
    """Lines of a table: kernel, size and k down, beta across, in nanoseconds."""
    betas = sorted({case.beta for case in cases})
    rows: dict[tuple, dict] = {}
    for case in cases:
        rows.setdefault((case.kernel, case.shape, case.k), {})[case.beta] = case.best * 1e9
    head = f"{'kernel':28s} {'size':>11s} {'k':>3s} " + " ".join(f"{f'beta {b:g}':>9s}" for b in betas)
    lines = ["CPU time per site and sweep, ns", head, "-" * len(head)]
    for (name, shape, k), times in rows.items():
        cells = " ".join(f"{times[b]:9.2f}" for b in betas)
        lines.append(f"{name:28s} {'x'.join(map(str, shape)):>11s} {k:3d} {cells}")
    return lines
