"""The Gibbs kernels on every lattice and mask, beside the plane: time per site that exists and sweep.

All cases are timed in turn in each round, so that a slow moment of the machine hits all alike; the least time
of a case counts.  A sweep with data returns S(z) and the sums of every label; one without, S(z).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mpi_potts.kernels import chequerboard, gaussian, gibbs, gibbs_data, graph_gibbs
from mpi_potts.lattice import GRAPH, Lattice
from mpi_potts.model.transition import transition
from mpi_potts.rng import Purpose, key, normals, stream, uniforms

from .clusters import as_graph, brain_like

PLANE, VOLUME = (989, 989), (91, 109, 91)
SWEEPS, PRIOR = stream(1, Purpose.LABEL_SWEEP), stream(1, Purpose.PRIOR_SWEEP)


def lattices() -> dict[str, Lattice]:
    """The lattices that are timed, by name."""
    found = {f"2-D, {name}": Lattice(PLANE, name) for name in ("4", "8", "hexagonal")}
    rough = uniforms(PRIOR, 1, math.prod(PLANE)).reshape(PLANE) < 0.8
    found["2-D, 4, a fifth missing at random"] = Lattice(PLANE, 4, rough)
    found["2-D, hexagonal, as a graph"] = as_graph(found["2-D, hexagonal"])
    mask = brain_like(VOLUME)
    for number in (6, 18, 26):
        found[f"3-D, {number}"] = Lattice(VOLUME, number)
        found[f"3-D, {number}, brain-like mask"] = Lattice(VOLUME, number, mask)
    return found


def _start(lattice, k):
    """Labels, an image of them in noise, and the noise."""
    z = (uniforms(PRIOR, 2, math.prod(lattice.shape)) * k).astype(np.uint8).reshape(lattice.shape)
    y = z + 0.7 * normals(PRIOR, 3, z.size).reshape(lattice.shape)
    mean, sd = (np.arange(k) - y.mean()) / y.std(), np.full(k, 0.7 / y.std())
    return z, (y - y.mean()) / y.std(), mean, sd


def with_data(lattice: Lattice, k: int, beta: float) -> Callable[[int], None]:
    z, y, mean, sd = _start(lattice, k)
    prior, kernel = _kernels(lattice)
    layout = prior.layout(lattice, k)
    data = gaussian.prepare(layout, y)
    sites = gibbs_data.Sites(prior.from_labels(layout, z), layout.pieces, data)
    terms, sums = gaussian.terms_of(mean, sd, data), np.zeros((k, gaussian.COLUMNS), np.int64)
    return lambda t: kernel.sweep(sites, terms, beta, key(SWEEPS, t), sums)


def _kernels(lattice):
    """The kernels without and with data."""
    return (graph_gibbs, graph_gibbs) if lattice.neighbourhood == GRAPH else (gibbs, gibbs_data)


def without_data(lattice: Lattice, k: int, beta: float, kernel=None) -> Callable[[int], None]:
    kernel = kernel or _kernels(lattice)[0]
    layout = kernel.layout(lattice, k)
    state = kernel.from_labels(layout, _start(lattice, k)[0])
    return lambda t: kernel.sweeps(layout, state, beta, PRIOR, t, 1)


def without_data_plane(lattice: Lattice, k: int, beta: float) -> Callable[[int], None]:
    """The kernel that the plane with four neighbours has for itself."""
    return without_data(lattice, k, beta, chequerboard)


@dataclass
class Case:
    """One kernel on one lattice with k labels, and the least time per site and sweep so far."""

    name: str
    kernel: str
    k: int
    sites: int
    sweep: Callable = field(repr=False)
    best: float = math.inf

    def measure(self, site_sweeps: int) -> None:
        count = max(2, site_sweeps // self.sites)
        start = time.thread_time()
        for t in range(count):
            self.sweep(t)
        self.best = min(self.best, (time.thread_time() - start) / (count * self.sites))


def prepare(labels: list[int]) -> list[Case]:
    """Every lattice with and without data, compiled and warmed up, and the plane's own kernel."""
    cases = []
    for name, lattice in lattices().items():
        # Near the transition, where the labels are neither all alike nor all different.
        kernels = {"data": with_data, "prior": without_data}
        if name == "2-D, 4":
            kernels["plane's own"] = without_data_plane
        for kernel, build in kernels.items():
            for k in labels:
                sweep = build(lattice, k, 0.9 * transition(lattice, k))
                for t in range(10):
                    sweep(t)
                cases.append(Case(name, kernel, k, lattice.sites, sweep))
    return cases


def measure(labels: list[int], repeats: int, site_sweeps: int = 2_000_000) -> list[Case]:
    cases = prepare(labels)
    for _ in range(repeats):
        for case in cases:
            case.measure(site_sweeps)
    return cases


def table(cases: list[Case]) -> list[str]:
    """Lines of a table: lattices down, kernels and k across, in nanoseconds."""
    columns = sorted({(case.kernel, case.k) for case in cases})
    rows: dict[str, dict] = {}
    for case in cases:
        rows.setdefault(case.name, {})[case.kernel, case.k] = case.best * 1e9
    head = f"{'lattice':34s} " + " ".join(f"{f'{kernel}, k={k}':>16s}" for kernel, k in columns)
    lines = ["Gibbs sweeps: CPU time per existing site and sweep, ns", head, "-" * len(head)]
    for name, times in rows.items():
        cells = (f"{times[column]:16.2f}" if column in times else 16 * " " for column in columns)
        lines.append(f"{name:34s} " + " ".join(cells).rstrip())
    return lines
