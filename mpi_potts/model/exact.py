"""The exact distribution of S(z) on small lattices, by a frontier transfer matrix.

    C(beta) = sum_z exp(beta S(z)) = sum_s g(s) exp(beta s),

with g(s) the number of labellings that have s like neighbour pairs.  The sites are processed one by one.  Of
those already processed, only the frontier (sites with neighbours still to come) matters for the rest, and of
its labels only which are equal: a *pattern*, a partition of the frontier into at most k blocks, written as a
restricted-growth string.  B[pattern, s] counts the labellings of all other processed sites with s like pairs
so far, given one labelling of the frontier that has the pattern.  Two steps are repeated until no site is
left:

    add v:     B'[pattern on F + v] = B[pattern on F], shifted by the like neighbours of v in F;
    remove u:  B'[pattern on F - u] = sum over the k labels of u of B[pattern on F]: once for each of its m
    blocks,
               and k - m times for a block of its own.

The counts are integers of up to n log2(k) bits: they are found modulo several primes and put together by the
Chinese remainder theorem, so that g sums to k^n exactly.
"""

from functools import cached_property

import numpy as np

from .. import arithmetic
from ..errors import InputError
from ..lattice import Lattice

# Counts modulo primes below 2^54: sums over k <= 255 labels stay below 2^64.
_BITS = 54

# The largest array B that is attempted, in bytes; about three of them exist at a time.
_LIMIT = 2**29

# The largest lattice that is looked at, before its frontier is known.
_SITES = 2000

# In place of the name of a block that has none yet.
_NAMELESS = 255


def count_labellings(lattice: Lattice, labels: int) -> list[int]:
    """g(s) for s = 0..edges: the number of labellings with s like neighbour pairs."""
    if not 2 <= labels <= 255:
        raise InputError(f"model.labels = {labels}: 2 to 255 is accepted")
    if lattice.sites > _SITES:
        raise InputError(f"the exact distribution on {lattice.sites} sites: at most {_SITES} is accepted")
    steps = _plan(lattice)
    _refuse_too_large(lattice, labels, steps)
    moduli = _primes(lattice.sites * (labels - 1).bit_length() + 1)
    tables: dict[tuple, tuple] = {}
    residues = [_count_modulo(lattice, labels, steps, tables, p) for p in moduli]
    return [_remainder(row, moduli) for row in zip(*residues)]


class Exact:
    """The exact distribution of S(z) given beta on a small lattice."""

    def __init__(self, lattice: Lattice, labels: int):
        self.lattice = lattice
        self.labels = labels
        self.counts = count_labellings(lattice, labels)

    @cached_property
    def _log_counts(self):
        return np.array([_log_integer(g) if g else -np.inf for g in self.counts])

    @cached_property
    def _values(self):
        return np.arange(len(self.counts), dtype=np.float64)

    def _log_terms(self, beta):
        """(..., edges + 1) log of every term of C(beta), and their maximum (..., 1)."""
        terms = self._log_counts + np.asarray(beta, dtype=np.float64)[..., None] * self._values
        return terms, terms.max(axis=-1, keepdims=True)

    def log_normaliser(self, beta: np.ndarray | float) -> np.ndarray:
        """log C(beta), for beta of any shape."""
        terms, top = self._log_terms(beta)
        return top[..., 0] + arithmetic.log(arithmetic.exp(terms - top).sum(axis=-1))

    def probabilities(self, beta: np.ndarray | float) -> np.ndarray:
        """P(S = s | beta), shape of beta + (edges + 1,)."""
        terms, top = self._log_terms(beta)
        weights = arithmetic.exp(terms - top)
        return weights / weights.sum(axis=-1, keepdims=True)

    def moments(self, beta: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of S given beta."""
        p = self.probabilities(beta)
        mean = (p * self._values).sum(axis=-1)
        deviation = self._values - mean[..., None]
        return mean, np.sqrt((p * deviation * deviation).sum(axis=-1))

    def posterior(self, statistic: int, beta: np.ndarray) -> np.ndarray:
        """(m,) density of beta given S(z), on the ascending grid `beta`, for a uniform prior over it."""
        beta = np.asarray(beta, dtype=np.float64)
        if not 0 <= statistic < len(self.counts) or not self.counts[statistic]:
            raise InputError(f"S(z) = {statistic}: no labelling of this lattice has that many like pairs")
        log_density = beta * statistic - self.log_normaliser(beta)
        density = arithmetic.exp(log_density - log_density.max())
        return density / np.sum((density[1:] + density[:-1]) * np.diff(beta) / 2)


def _log_integer(number):
    """The logarithm of an integer of any size."""
    beyond = max(0, number.bit_length() - 1000)
    return arithmetic.log(float(number >> beyond)) + beyond * arithmetic.log(2.0)


def _neighbours(lattice):
    """For each site, in the order of processing, the numbers of its neighbours in that order.

    The longest axis varies slowest, so that the frontier lies along the shorter ones.
    """
    order = sorted(range(lattice.dimensions), key=lambda axis: -lattice.shape[axis])
    exists = lattice.exists.transpose(order)
    number = np.full(exists.shape, -1)
    number[exists] = np.arange(lattice.sites)
    neighbours: list[list[int]] = [[] for _ in range(lattice.sites)]
    for here, there in lattice.pairs(number.transpose(np.argsort(order))):
        edge = (here >= 0) & (there >= 0)
        for i, j in zip(here[edge].tolist(), there[edge].tolist()):
            neighbours[i].append(j)
            neighbours[j].append(i)
    return neighbours


def _plan(lattice):
    """The steps: ("add", size of F, places in F of v's neighbours) and ("remove", size of F, place of u)."""
    neighbours = _neighbours(lattice)
    last = [max(around, default=v) for v, around in enumerate(neighbours)]
    frontier: list[int] = []
    steps: list[tuple[str, int, tuple[int, ...] | int]] = []
    for v, around in enumerate(neighbours):
        steps.append(("add", len(frontier), tuple(frontier.index(u) for u in around if u < v)))
        frontier.append(v)
        for u in [u for u in frontier if last[u] <= v]:
            steps.append(("remove", len(frontier), frontier.index(u)))
            frontier.remove(u)
    return steps


def _count_patterns(size, labels):
    """The number of partitions of `size` sites into at most `labels` blocks (Stirling numbers)."""
    row = [1]
    for _ in range(size):
        row = [m * a + b for m, (a, b) in enumerate(zip([*row, 0], [0, *row]))]
    return sum(row[: labels + 1])


def _refuse_too_large(lattice, labels, steps):
    widest = 1 + max(size for kind, size, _ in steps if kind == "add")
    need = 8 * _count_patterns(widest, labels) * (lattice.edges + 1)
    if need > _LIMIT:
        shape = "x".join(map(str, lattice.shape))
        raise InputError(
            f"the exact distribution on {shape} with {labels} labels needs arrays of {need / 2**30:.3g} GiB:"
            f" at most {_LIMIT / 2**30:.3g} GiB is accepted, for smaller lattices or fewer labels"
        )


def _count_modulo(lattice, labels, steps, tables, modulus):
    """g(s) modulo one prime, (edges + 1,) uint64."""
    ways = np.ones((1, 1), dtype=np.uint64)
    bound = 1
    for step in steps:
        if step not in tables:
            kind, size, place = step
            tables[step] = (_add_table if kind == "add" else _remove_table)(size, place, labels)
        if step[0] == "add":
            ways = _add(ways, tables[step])
            continue
        # Division is slow: reduce only when the next sum could overflow.
        if bound * labels >= 2**64:
            ways %= np.uint64(modulus)
            bound = modulus - 1
        ways = _remove(ways, tables[step])
        bound *= labels
    padded = np.zeros(lattice.edges + 1, dtype=np.uint64)
    padded[: ways.shape[1]] = ways[0] % np.uint64(modulus)
    return padded.tolist()


def _patterns(size, labels):
    """(P, size) restricted-growth strings in lexicographic order, and (P,) their numbers of blocks."""
    strings = np.zeros((1, 0), dtype=np.uint8)
    blocks = np.zeros(1, dtype=np.int64)
    for _ in range(size):
        strings, blocks, _ = _extend(strings, blocks, labels)
    return strings, blocks


def _extend(strings, blocks, labels):
    """Every pattern with one more site at the end, its number of blocks, and the row that it came from."""
    choices = np.minimum(blocks + 1, labels)
    source = np.repeat(np.arange(len(strings)), choices)
    first = np.cumsum(choices) - choices
    last = np.arange(len(source)) - first[source]
    strings = np.column_stack([strings[source], last.astype(np.uint8)])
    return strings, np.maximum(blocks[source], last + 1), source


def _add_table(size, places, labels):
    """For each number of like neighbours, the new patterns that have it and the rows they come from."""
    strings, blocks = _patterns(size, labels)
    strings, _, source = _extend(strings, blocks, labels)
    like = (strings[:, list(places)] == strings[:, -1:]).sum(axis=1)
    rows = [np.flatnonzero(like == shift) for shift in range(len(places) + 1)]
    return len(strings), [(into, source[into]) for into in rows]


def _add(ways, table):
    rows, shifts = table
    width = ways.shape[1]
    result = np.zeros((rows, width + len(shifts) - 1), dtype=np.uint64)
    for shift, (into, source) in enumerate(shifts):
        result[into, shift : shift + width] = ways[source]
    return result


def _remove_table(size, place, labels):
    """For each label of u: the multiplicity, the patterns without u, and the patterns with it."""
    codes = _codes(_patterns(size, labels)[0], labels)
    strings, blocks = _patterns(size - 1, labels)
    table = []
    for label in range(min(size, labels)):
        # Blocks that exist are chosen once each; a new one stands for all labels that do not occur.
        into = np.flatnonzero(blocks >= label)
        with_u = np.insert(strings[into], place, label, axis=1)
        times = np.where(blocks[into] > label, 1, labels - label).astype(np.uint64)
        table.append((times[:, None], into, np.searchsorted(codes, _codes(_canonical(with_u), labels))))
    return len(strings), table


def _remove(ways, table):
    rows, choices = table
    result = np.zeros((rows, ways.shape[1]), dtype=np.uint64)
    for times, into, source in choices:
        result[into] += times * ways[source]
    return result


def _canonical(strings):
    """Rename blocks in the order of their first sites."""
    rows = np.arange(len(strings))
    names = np.full((len(strings), int(strings.max(initial=0)) + 1), _NAMELESS, dtype=np.uint8)
    used = np.zeros(len(strings), dtype=np.uint8)
    result = np.empty_like(strings)
    for column in range(strings.shape[1]):
        block = strings[:, column]
        new = names[rows, block] == _NAMELESS
        names[rows[new], block[new]] = used[new]
        used += new
        result[:, column] = names[rows, block]
    return result


def _codes(strings, labels):
    """One integer per pattern, ascending in lexicographic order."""
    base = min(labels, max(1, strings.shape[1]))
    codes = np.zeros(len(strings), dtype=np.int64)
    for column in strings.T:
        codes = codes * base + column
    return codes


def _primes(bits):
    """Distinct primes just below 2^_BITS whose product has more than `bits` bits."""
    primes: list[int] = []
    candidate = (1 << _BITS) + 1
    while len(primes) * (_BITS - 1e-9) <= bits:
        candidate -= 2
        if _is_prime(candidate):
            primes.append(candidate)
    return primes


def _is_prime(n):
    """Miller and Rabin's test for odd n < 2^64: these twelve witnesses decide it."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        powers = [pow(witness, odd << i, n) for i in range(twos)]
        if powers[0] != 1 and n - 1 not in powers:
            return False
    return True


def _remainder(residues, moduli):
    """The least non-negative integer with these residues (Chinese remainder theorem, Garner's order)."""
    value, product = 0, 1
    for r, p in zip(residues, moduli):
        value += product * ((r - value) * pow(product, -1, p) % p)
        product *= p
    return value
