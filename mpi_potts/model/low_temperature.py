"""log C(beta) at large beta without any simulation: the low-temperature expansion, with its error.

With x = exp(-beta) and |E| edges, C(beta) = exp(beta |E|) sum_z x^cut(z), where cut(z) counts the unlike
pairs: few at large beta, where most sites have one label.  Three things make the sum:

- A site with one neighbour is summed out exactly, by the factor 1 + (k - 1) x, and so is every tree.
- Connected sets c of few sites, of which any may differ from a ground state around them.  With Z(A) the sum
  over the labels of the sites A alone,

      log sum = components log k + sum over c of phi(c),
      phi(c) = sum over A in c of (-1)^|c - A| log Z(A)

  (the linked clusters; phi of a set that is not connected is 0).  phi(c) follows from the neighbours that
  each of its sites has and from the pairs inside c, so sets are counted by these: for a box in a small one,
  since their numbers are linear in each side, else all over the mask.
- Walls from side to side, on both sides of which the lattice is ordered: in a corridor of a mask they may be
  short.  They are not summed, only counted into the error.

The error is twice the sum of the walls and of the terms of the largest sets that were summed, more for the
derivatives: those beyond add less, where the expansion is of any use.  That is beyond beta_crit only: in all,
C(beta) is at least

    k^n (1 + (exp(beta) - 1) / k)^|E|

(a set of edges A leaves n - |A| pieces of n sites or more), the disordered phase, and where it has more than
the ordered one, the difference is an error.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from .. import arithmetic
from ..graph import Graph
from ..lattice import LARGEST_BETA, Lattice, half_offsets
from .transition import transition

# Sites of the largest sets, by dimensions, and how many sets may be looked at for them.
_LARGEST = {1: 3, 2: 4, 3: 3}
_MOST_SETS = 300_000_000
_MOST_AROUND = 30_000_000
# Leaves are taken away in rounds, while these look at no more than so many sites in all.
_MOST_LOOKED_AT = 500_000_000
# How often the largest terms are taken for what is left out, in log C, mean and variance: larger sets cut
# more edges, which every derivative brings forward once more.
_AMPLE = np.array([2.0, 3.0, 5.0])
# An ordered phase may look stable below beta_crit too, which is only an estimate on some lattices.
_BEYOND = 1.1
# Sites that are looked at together.
_SLAB = 1 << 20

Site = tuple[int, ...]
# A connected set: the pairs of neighbours among its sites, and the number of neighbours of each.
Kind = tuple[tuple[tuple[int, int], ...], tuple[int, ...]]


class Anchor(NamedTuple):
    """log C, mean and variance of S at one beta, known without a simulation, and the error of each."""

    beta: float
    log_normaliser: float
    error: float
    mean: float
    mean_error: float
    variance: float
    variance_error: float

    @property
    def possible(self) -> bool:
        """Whether these are finite numbers, and errors are not below 0."""
        errors = (self.error, self.mean_error, self.variance_error)
        return bool(np.isfinite(self).all()) and min(self.beta, *errors) >= 0.0


class LowTemperature:
    """The expansion on one lattice, for any large beta."""

    def __init__(self, lattice: Lattice, labels: int) -> None:
        self.lattice, self.labels = lattice, labels
        core = _Core(lattice)
        self._leaves, self._components = core.leaves, core.components
        self._clusters = [_Terms(kinds, labels) for kinds in core.clusters()]
        self._exact = not any(terms.multiples.size for terms in self._clusters)
        cuts = core.walls()
        self._walls = (
            np.array(sorted(cuts), dtype=np.float64),
            np.array([cuts[cut] * (labels - 1.0) for cut in sorted(cuts)]),
        )

    def anchor(self, beta: float) -> Anchor:
        """What is known at this beta, with errors that are large where beta is not."""
        k, edges = self.labels, self.lattice.edges
        x = arithmetic.exp(-beta)
        leaf = (k - 1) * x / (1 + (k - 1) * x)
        total = self._leaves * np.array([arithmetic.log1p((k - 1) * x), -leaf, leaf * (1 - leaf)])
        total += [edges * beta + self._components * arithmetic.log(k), edges, 0.0]
        orders = np.array([terms.derivatives(beta) for terms in self._clusters])
        for order in orders:
            total += order
        cut, count = self._walls
        walls = count * arithmetic.exp(-beta * cut)
        errors = np.array([walls.sum(), (walls * cut).sum(), (walls * cut * cut).sum()])
        errors += _remainder(np.abs(orders))
        disordered = self.lattice.sites * arithmetic.log(k) + edges * arithmetic.log1p((1 / x - 1) / k)
        if disordered > total[0] and not self._exact:
            errors += [disordered - total[0], edges, float(edges) * edges]
        (log_c, mean, variance), (error, mean_error, variance_error) = total, _AMPLE * errors
        return Anchor(
            beta,
            float(log_c),
            float(error),
            float(mean),
            float(mean_error),
            float(variance),
            float(variance_error),
        )

    def reach(self, error: float) -> float:
        """The smallest beta, to 0.01, from which on log C is known to this error; at most LARGEST_BETA.

        It is well beyond beta_crit.
        """
        low, high = _BEYOND * transition(self.lattice, self.labels), LARGEST_BETA
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (low, middle) if self.anchor(middle).error <= error else (middle, high)
        return high


def _remainder(orders: np.ndarray) -> np.ndarray:
    """(3,) what larger sets may add: no more than the largest that were summed, if these fall off at all."""
    last, before = orders[-1], orders[-2]
    return last * np.maximum(1.0, last / np.maximum(before, 1e-300))


class _Terms:
    """The sum of phi over sets of as many sites, as a sum of multiples of log Z of kinds of sets."""

    def __init__(self, kinds: Counter[Kind], labels: int) -> None:
        multiples: Counter[Kind] = Counter()
        for (pairs, degrees), count in kinds.items():
            m = len(degrees)
            for size in range(1, m + 1):
                signed = -count if (m - size) % 2 else count
                for chosen in combinations(range(m), size):
                    multiples[_within(pairs, degrees, chosen)] += signed
        items = sorted((kind, number) for kind, number in multiples.items() if number)
        polynomials = [sorted(_polynomial(kind, labels).items()) for kind, _ in items]
        width = max((len(p) for p in polynomials), default=0)
        self.multiples = np.array([number for _, number in items], dtype=np.float64)
        self.powers, self.coefficients = np.zeros((2, len(items), width))
        for row, polynomial in enumerate(polynomials):
            for column, (power, coefficient) in enumerate(polynomial):
                self.powers[row, column], self.coefficients[row, column] = power, coefficient

    def derivatives(self, beta: float) -> np.ndarray:
        """(3,) the sum and its first two derivatives by beta."""
        terms = self.coefficients * arithmetic.exp(-beta * self.powers)
        z = terms.sum(axis=1)
        first = -(self.powers * terms).sum(axis=1) / (1 + z)
        second = (self.powers * self.powers * terms).sum(axis=1) / (1 + z) - first * first
        return np.array([(self.multiples * d).sum() for d in (arithmetic.log1p(z), first, second)])


def _within(pairs: tuple, degrees: tuple[int, ...], chosen: tuple[int, ...]) -> Kind:
    """The kind of a part of a set; of several ways to number its sites the first in order."""
    place = {site: i for i, site in enumerate(sorted(chosen, key=lambda site: degrees[site]))}
    inner = [(place[i], place[j]) for i, j in pairs if i in place and j in place]
    inner = sorted((min(pair), max(pair)) for pair in inner)
    return tuple(inner), tuple(sorted(degrees[site] for site in chosen))


def _polynomial(kind: Kind, labels: int) -> Counter[int]:
    """{power: coefficient} of Z - 1 in x: any of the sites take any labels but that of the ground state."""
    pairs, degrees = kind
    result: Counter[int] = Counter()
    for blocks in _colourings(len(degrees)):
        # Block 0 has the label of the ground state; the others differ from it and from each other.
        ways = 1
        for j in range(max(blocks)):
            ways *= labels - 1 - j
        cut = sum(d for d, block in zip(degrees, blocks) if block)
        for i, j in pairs:
            if blocks[i] and blocks[j]:
                cut -= 2 if blocks[i] == blocks[j] else 1
        if any(blocks) and ways:
            result[cut] += ways
    return result


@cache
def _colourings(size: int) -> tuple[tuple[int, ...], ...]:
    """Labels up to the names of those that are not 0: each new one is the next number."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(size):
        found = [(*c, new) for c in found for new in range(max(c, default=0) + 2)]
    return tuple(found)


class _Core:
    """A lattice without its trees: which sites are left, and how many neighbours each has among them.

    Of a box only a small one of its kind is looked at, with numbers that are linear in every side.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.exists, self.leaves = lattice.exists, 0
        self.whole = lattice.mask is None and not isinstance(lattice, Graph) and min(lattice.shape) > 1
        if not self.whole:
            self._strip()

    @cached_property
    def degree(self) -> np.ndarray:
        """The number of neighbours that are left; 0 where there is no site."""
        return np.where(self.exists, self.lattice.neighbour_sums(self.exists.astype(np.int64)), 0).astype(
            np.int64
        )

    def _strip(self) -> None:
        """Take the leaves away, and then those that have become leaves."""
        lattice = self.lattice
        exists = lattice.exists.copy()
        number = np.arange(exists.size).reshape(exists.shape)
        for _ in range(max(1, _MOST_LOOKED_AT // exists.size)):
            degree = lattice.neighbour_sums(exists.astype(np.int64))
            leaf = exists & (degree == 1)
            # Of two that have only each other, one stays.
            other = lattice.neighbour_sums(np.where(leaf, number + 1, 0)) - 1
            leaf &= ~(other > number)
            if not leaf.any():
                break
            exists &= ~leaf
            self.leaves += int(leaf.sum())
        # What is left alone is the root of a tree, or was alone from the start: a component, and no more.
        self.exists = exists & (lattice.neighbour_sums(exists.astype(np.int64)) > 0)

    @property
    def components(self) -> int:
        """The number of pieces that no edge connects; trees that were taken away belong to one."""
        if self.whole:
            return 1
        labels = np.arange(self.exists.size).reshape(self.exists.shape)
        exists = self.lattice.exists
        while True:
            before = labels.copy()
            _lower(self.lattice, exists, labels)
            flat = labels.ravel()
            labels = flat[flat].reshape(labels.shape)
            if np.array_equal(labels, before):
                return int(np.unique(labels[exists]).size)

    def clusters(self) -> list[Counter[Kind]]:
        """The numbers of connected sets of 1, 2, ... sites, by kind."""
        if isinstance(self.lattice, Graph):
            return _graph_clusters(self.exists, self.degree, self.lattice)
        most = _LARGEST[self.lattice.dimensions]
        if self.whole:
            return [self._box(m) for m in range(1, most + 1)]
        found, sites = [], int(self.exists.sum())
        for m in range(1, most + 1):
            shapes = [_shapes(self.lattice, m, row) for row in self._rows]
            if m > 2 and sites * max(map(len, shapes)) > _MOST_SETS:
                break
            found.append(_count(self.exists, self.degree, shapes))
        return found

    @property
    def _rows(self) -> range:
        """The parities of rows in which sets have shapes of their own."""
        return range(2 if self.lattice.neighbourhood == "hexagonal" else 1)

    def _box(self, size: int) -> Counter[Kind]:
        """Those of a box: linear in each side beyond a few sites, so two lengths of each side suffice."""
        shapes = [_shapes(self.lattice, size, row) for row in self._rows]
        step = len(self._rows)
        sides = []
        for length in self.lattice.shape:
            least = 2 * size + 4
            least += (length - least) % step
            times = (length - least) // step
            sides.append([(length, 1)] if times <= 1 else [(least, 1 - times), (least + step, times)])
        total: Counter[Kind] = Counter()
        for chosen in product(*sides):
            small = Lattice(tuple(length for length, _ in chosen), self.lattice.neighbourhood)
            weight = int(np.prod([times for _, times in chosen], dtype=object))
            degree = small.neighbour_sums(np.ones(small.shape, dtype=np.int64))
            for kind, count in _count(small.exists, degree, shapes).items():
                total[kind] += weight * count
        return total

    def walls(self) -> Counter[int]:
        """{edges that it cuts: number} of walls across the lattice, or a corridor of it, along an axis."""
        if isinstance(self.lattice, Graph):
            return _graph_walls(self.exists, self.lattice)
        if self.whole:
            return _box_walls(self.lattice)
        return _mask_walls(self.lattice, self.exists)


def _lower(lattice: Lattice, exists: np.ndarray, labels: np.ndarray) -> None:
    """Give every site the smallest label among its own and those of its neighbours, pair by pair."""
    if isinstance(lattice, Graph):
        one, other = lattice.ends[exists[lattice.ends].all(axis=1)].T
        least = np.minimum(labels[one], labels[other])
        np.minimum.at(labels, one, least)
        np.minimum.at(labels, other, least)
        return
    for (here, there), (is_here, is_there) in zip(lattice.pairs(labels), lattice.pairs(exists)):
        both = is_here & is_there
        least = np.minimum(here, there)
        # The two views overlap: what the first has lowered the second must not raise again.
        np.copyto(here, least, where=both)
        np.copyto(there, np.minimum(there, least), where=both)


def _shapes(lattice: Lattice, size: int, row: int) -> list["_Shape"]:
    """The connected sets whose first site in raster order is the origin, in a row of this parity."""
    origin = (0,) * lattice.dimensions

    def around(site: Site) -> Iterator[Site]:
        for step in lattice.offsets((row + site[-2]) % 2).tolist():
            yield tuple(a + b for a, b in zip(site, step))

    found: set[tuple[Site, ...]] = {(origin,)}
    for _ in range(size - 1):
        grown = ((sites, new) for sites in found for site in sites for new in around(site))
        found = {tuple(sorted((*sites, new))) for sites, new in grown if new > origin and new not in sites}
    shapes = []
    for sites in sorted(found):
        near = [set(around(site)) for site in sites]
        pairs = [(i, j) for i, j in combinations(range(size), 2) if sites[j] in near[i]]
        shapes.append(_Shape(sites, tuple(pairs)))
    return shapes


class _Shape(NamedTuple):
    sites: tuple[Site, ...]
    pairs: tuple[tuple[int, int], ...]


def _count(exists: np.ndarray, degree: np.ndarray, shapes: list[list[_Shape]]) -> Counter[Kind]:
    """The numbers of sets of these shapes, for each parity of the row of their first site, by kind."""
    total: Counter[Kind] = Counter()
    base, size = int(degree.max(initial=0)) + 1, len(shapes[0][0].sites)
    for row, of_row in enumerate(shapes):
        for shape in of_row:
            numbers: Counter[int] = Counter()
            for slab in _placements(exists.shape, shape.sites, row, len(shapes)):
                fits = np.logical_and.reduce([exists[place] for place in slab])
                code = np.zeros(fits.shape, dtype=np.int64)
                for place in slab:
                    code = code * base + degree[place]
                numbers.update(_occurring(code[fits], math.prod([base] * size)))
            for number, count in numbers.items():
                total[shape.pairs, _digits(number, base, size)] += count
    return total


def _occurring(codes: np.ndarray, limit: int) -> dict[int, int]:
    """{code: how often it occurs} of codes below a limit."""
    if limit > 1 << 20:
        values, counts = np.unique(codes, return_counts=True)
    else:
        counts = np.bincount(codes)
        values = np.flatnonzero(counts)
        counts = counts[values]
    return dict(zip(values.tolist(), counts.tolist()))


def _digits(code: int, base: int, size: int) -> tuple[int, ...]:
    digits = []
    for _ in range(size):
        code, digit = divmod(code, base)
        digits.append(digit)
    return tuple(digits[::-1])


def _placements(
    shape: tuple[int, ...], sites: tuple[Site, ...], row: int, step: int
) -> Iterator[list[tuple[slice, ...]]]:
    """Of every place of the origin inside the box, some at a time, the places of all sites as slices."""
    low = [max(0, -min(site[axis] for site in sites)) for axis in range(len(shape))]
    high = [n - max(0, max(site[axis] for site in sites)) for axis, n in enumerate(shape)]
    if any(a >= b for a, b in zip(low, high)):
        return
    steps = [1] * len(shape)
    if step == 2:
        steps[-2] = 2
        low[-2] += (row - low[-2]) % 2
    inner = max(1, int(np.prod(shape[1:])))
    slab = max(2, _SLAB // inner // 2 * 2)
    for start in range(low[0], high[0], slab):
        first = [(start, min(start + slab, high[0])), *zip(low[1:], high[1:])]
        yield [tuple(slice(a + s, b + s, d) for (a, b), s, d in zip(first, site, steps)) for site in sites]


def _graph_clusters(exists: np.ndarray, degree: np.ndarray, graph: Graph) -> list[Counter[Kind]]:
    """Sites, pairs, and triples around each site where there are not too many of them."""
    ends = graph.ends[exists[graph.ends].all(axis=1)]
    one: Counter[Kind] = Counter()
    for d, count in zip(*np.unique(degree[exists], return_counts=True)):
        one[(), (int(d),)] += int(count)
    two = _tally(((0, 1),), degree[ends])
    around = (degree * (degree - 1)).sum() // 2
    if around > _MOST_AROUND:
        return [one, two]
    return [one, two, _triples(ends, degree)]


def _tally(pairs: tuple[tuple[int, int], ...], degrees: np.ndarray) -> Counter[Kind]:
    """Sets (n, m) of sites with these degrees, by kind."""
    rows, counts = np.unique(degrees, axis=0, return_counts=True)
    return Counter({(pairs, tuple(row)): count for row, count in zip(rows.tolist(), counts.tolist())})


def _triples(ends: np.ndarray, degree: np.ndarray) -> Counter[Kind]:
    """Two neighbours of a site, by kind; three that are all neighbours are counted at the first alone."""
    both = np.concatenate([ends, ends[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    centre, near = both.T
    # Each neighbour of a centre with those that follow it.
    last = np.searchsorted(centre, centre, side="right")
    following = last - np.arange(len(centre)) - 1
    first = np.repeat(np.arange(len(centre)), following)
    second = np.arange(len(first)) - np.repeat(np.cumsum(following) - following, following) + first + 1
    triple = np.stack([centre[first], near[first], near[second]], axis=1)
    n = len(degree)
    edges = ends[:, 0] * n + ends[:, 1]
    closing = triple[:, 1] * n + triple[:, 2]
    place = np.minimum(np.searchsorted(edges, closing), len(edges) - 1)
    closed = edges[place] == closing if len(edges) else np.zeros(0, dtype=bool)
    once = closed & (triple[:, 0] < triple[:, 1])
    return _tally(((0, 1), (0, 2)), degree[triple[~closed]]) + _tally(
        ((0, 1), (0, 2), (1, 2)), degree[triple[once]]
    )


def _box_walls(lattice: Lattice) -> Counter[int]:
    """Planes across a box, between any two of its slices: at least one edge for each site of a slice."""
    walls: Counter[int] = Counter()
    sites = lattice.sites
    for length in lattice.shape:
        walls[sites // length] += length - 1
    return walls


def _mask_walls(lattice: Lattice, exists: np.ndarray) -> Counter[int]:
    """Across every corridor: as long as the runs of parallel edges side by side that it is made of, at least.

    In a volume the run along one axis and that along the other are the least that a wall through both has.
    """
    walls: Counter[int] = Counter()
    hexagonal = lattice.neighbourhood == "hexagonal"
    steps = [half_offsets(2, "hexagonal", row) for row in range(2)] if hexagonal else [lattice.half_offsets]
    for step, (here, there) in zip(np.concatenate(steps), lattice.pairs(exists)):
        edges = here & there
        runs = [_run_lengths(edges, axis) for axis in range(edges.ndim)]
        for axis in np.flatnonzero(step).tolist():
            others = [run for other, run in enumerate(runs) if other != axis]
            cut = sum(others[1:], others[0]) - (len(others) - 1)
            lengths, counts = np.unique(cut[edges], return_counts=True)
            for length, count in zip(lengths.tolist(), counts.tolist()):
                walls[length] += -(-count // length)
    return walls


def _run_lengths(exists: np.ndarray, axis: int) -> np.ndarray:
    """For each site the length of the run of sites along this axis that it is in."""
    lines = np.moveaxis(exists, axis, -1)
    padded = np.zeros((*lines.shape[:-1], lines.shape[-1] + 1), dtype=bool)
    padded[..., :-1] = lines
    flat = padded.ravel()
    starts = np.flatnonzero(flat & ~np.concatenate([[False], flat[:-1]]))
    stops = np.flatnonzero(flat & ~np.concatenate([flat[1:], [False]])) + 1
    lengths = np.zeros(flat.size, dtype=np.int64)
    lengths[flat] = np.repeat(stops - starts, stops - starts)
    return np.moveaxis(lengths.reshape(padded.shape)[..., :-1], -1, axis)


def _graph_walls(exists: np.ndarray, graph: Graph) -> Counter[int]:
    """At every edge, as few edges as there are ways of one or two steps between its ends."""
    ends = graph.ends[exists[graph.ends].all(axis=1)]
    near: list[set[int]] = [set() for _ in range(len(exists))]
    for i, j in ends.tolist():
        near[i].add(j)
        near[j].add(i)
    return Counter(1 + len(near[i] & near[j]) for i, j in ends.tolist())
