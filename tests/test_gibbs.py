"""The Gibbs kernels of every lattice: where labels are, S(z) and sums by definition, splits, distributions.

Distributions are compared with enumeration.  A lattice is made of many copies of a tiny one, apart from each
other, so that one sweep draws all of them: independent, and spread over rows, pieces and blocks.
"""

import hashlib
import itertools
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from enumeration import average, copies, features, hold, labellings_of, neighbours

from mpi_potts import rng
from mpi_potts.kernels import gaussian, gibbs, gibbs_blocks, gibbs_data
from mpi_potts.kernels.gibbs_layout import BLOCK, PIECE, from_labels, layout, to_labels
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.rng import Purpose
from mpi_potts.runtime.threads import Team

SWEEPS = rng.stream(3, Purpose.LABEL_SWEEP)
PLANES, VOLUMES = ("first", "second", "hexagonal"), ("first", 18, "second")


def holes(shape, share, seed=1):
    """A random mask with an island in the last corner and two neighbours in the first."""
    mask = np.random.default_rng(seed).random(shape) < share
    mask[tuple(slice(-2, None) for _ in shape)] = False
    mask[(-1,) * len(shape)] = True
    mask[tuple(slice(0, min(2, n)) for n in shape)] = True
    return mask


def sheet(shape):
    """A surface of one pixel's thickness across all rows, at a slant."""
    index = np.indices(shape)
    return index[-1] == (index[:-1].sum(axis=0) * 3) % shape[-1]


def one_row(shape):
    """Pixels of two colours, or fewer, only."""
    mask = np.zeros(shape, dtype=bool)
    mask[(2,) * (len(shape) - 1)] = True
    return mask


def lattices():
    for shape, names in (((33, 70), PLANES), ((9, 10, 43), VOLUMES)):
        for name in names:
            yield Lattice(shape, name)
            yield from (Lattice(shape, name, holes(shape, share)) for share in (0.9, 0.4, 0.05))
            yield Lattice(shape, name, one_row(shape))
    for name in VOLUMES[1:]:
        yield Lattice((12, 11, 50), name, sheet((12, 11, 50)))
    yield from (Lattice(shape, name) for shape in ((1, 3000), (3000, 1), (2, 1)) for name in PLANES)
    yield from (Lattice(shape, name) for shape in ((1, 1, 700), (5, 1, 2)) for name in VOLUMES)


def identify(lattice):
    shape = "x".join(map(str, lattice.shape))
    return f"{shape}-{lattice.neighbourhood}-{lattice.sites}"


ALL = list(lattices())
SOME = ALL[1:24:4]


class Chain:
    """A kernel with data, at fixed mean and sd, on a lattice with random labels."""

    def __init__(self, lattice, k, values=None, mean=None, sd=None):
        draw = np.random.default_rng(1)
        self.lattice, self.layout = lattice, layout(lattice, k)
        self.state = from_labels(self.layout, draw.integers(0, k, lattice.shape).astype(np.uint8))
        self.values = draw.normal(size=lattice.shape) if values is None else values
        data = gaussian.prepare(self.layout, self.values)
        self.sites = gibbs_data.Sites(self.state, self.layout.pieces, data)
        mean = np.linspace(-1.5, 1.5, k) if mean is None else mean
        self.terms = gaussian.terms_of(mean, np.full(k, 0.7) if sd is None else sd, data)
        self.sums = np.zeros((k, gaussian.COLUMNS), np.int64)

    def arguments(self, beta, number):
        key = rng.key(SWEEPS, number)
        return self.sites, self.terms, beta, key

    def sweep(self, beta, number):
        return gibbs_data.sweep(*self.arguments(beta, number), self.sums)

    @property
    def labels(self):
        return to_labels(self.layout, self.state)


def check_labels(lattice, k, labels, state):
    assert labels[lattice.exists].max() < k
    assert np.all(labels[~lattice.exists] == 255)
    assert np.sum(state != 255) == lattice.sites


@pytest.mark.parametrize("lattice", ALL, ids=identify)
def test_labels_and_values_survive_the_layout(lattice):
    draw = np.random.default_rng(0)
    places = layout(lattice, 200)
    labels = draw.integers(0, 200, lattice.shape).astype(np.uint8)
    back = to_labels(places, from_labels(places, labels))
    assert np.array_equal(back, np.where(lattice.exists, labels, 255))
    values = draw.normal(size=(*lattice.shape, 2))
    dense = np.stack([places.scatter(values[..., i], 0.0) for i in range(2)], axis=1)
    assert np.array_equal(places.gather(dense, -1.0), np.where(lattice.exists[..., None], values, -1.0))


def steps_of(places, colour, piece):
    """(steps, length) the places of a piece's neighbours."""
    p = places.pieces
    odd = int(p.place[piece] >= p.half)
    first = p.rows[piece, p.slot[colour]] + p.shift[colour, odd]
    assert first.min() >= 0 and first.max() + PIECE <= places.places
    return first[:, None] + np.arange(p.length[piece])


@pytest.mark.parametrize("lattice", ALL, ids=identify)
def test_every_piece_finds_the_neighbours_of_its_pixels_earlier_colours_first(lattice):
    places, around = layout(lattice, 3), neighbours(lattice)
    p, colours = places.pieces, lattice.colours[lattice.exists]
    number = np.full(places.places, -1)
    number[places.place] = np.arange(lattice.sites)
    met = []
    for colour, block in ((c, b) for c in range(places.colours) for b in range(p.first[c], p.first[c + 1])):
        for piece in range(p.start[block], p.start[block + 1]):
            mine = number[p.place[piece] + np.arange(p.length[piece])]
            found = number[steps_of(places, colour, piece)][:, mine >= 0]
            mine = mine[mine >= 0]
            earlier = np.arange(len(found)) < p.earlier[colour]
            assert np.all(colours[mine] == colour)
            for i, pixel in enumerate(mine.tolist()):
                here = found[:, i] >= 0
                assert set(found[here, i].tolist()) == around[pixel] and here.sum() == len(around[pixel])
                assert np.array_equal(colours[found[here, i]] < colour, earlier[here])
            met += mine.tolist()
    assert np.array_equal(np.argsort(places.position), met)


@pytest.mark.parametrize("lattice", ALL, ids=identify)
def test_no_block_writes_where_the_next_one_does(lattice):
    places = layout(lattice, 3)
    p = places.pieces
    owner = np.full(places.places, -1)
    owner[places.place] = places.position // BLOCK
    for block in range(places.blocks):
        # Whole vectors are written up to `apart`, and just the pixels from there on.
        first = p.place[p.start[block] : p.apart[block], None]
        assert np.all(np.isin(owner[first + np.arange(PIECE)], (-1, block)))


def test_memory_goes_with_what_exists():
    far = np.zeros((150, 160, 170), dtype=bool)
    far[0, 0, :2] = far[-1, -1, -2:] = far[70, 80, 90:92] = True
    ball = sum((i - 75) ** 2 for i in np.indices((150, 150, 150), sparse=True))
    shell = (ball > 70**2) & (ball < 72**2)
    for mask, most in ((far, 300), (shell, 40), (sheet((150, 150, 150)), 150)):
        places = layout(Lattice(mask.shape, "second", mask), 3)
        held = places.places + sum(a.nbytes for a in places.pieces if isinstance(a, np.ndarray))
        fixed = 4096
        assert held < fixed + most * mask.sum()


@pytest.mark.parametrize("k", [2, 3, 6, 9, 255])
@pytest.mark.parametrize("lattice", ALL, ids=identify)
def test_statistic_and_sums_are_those_of_the_labels(lattice, k):
    chain = Chain(lattice, k)
    for number in range(2):
        s = chain.sweep(0.4, number)
    z = chain.labels
    check_labels(lattice, k, z, chain.state)
    assert s == lattice.statistic(z)
    q = np.rint(chain.values * chain.sites.data.scale).astype(np.int64)[lattice.exists]
    distance = q - chain.terms.reference[z[lattice.exists]]
    for j in range(k):
        d = distance[z[lattice.exists] == j]
        n, first, high, low = chain.sums[j].tolist()
        assert (n, first) == (d.size, d.sum())
        assert (high << 32) + low == sum(v * v for v in d.tolist())


@pytest.mark.parametrize("k", [2, 3, 6, 12, 255])
@pytest.mark.parametrize("lattice", ALL, ids=identify)
def test_sweeps_of_the_prior_return_the_statistic(lattice, k):
    places = layout(lattice, k)
    labels = np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8)
    state = from_labels(places, labels)
    for beta in (0.0, 0.4, 25.0):
        s = gibbs.sweeps(places, state, beta, SWEEPS, 0, 2)
        labels = to_labels(places, state)
        check_labels(lattice, k, labels, state)
        assert s[-1] == lattice.statistic(labels)


@pytest.mark.parametrize("k", [2, 9, 40])
@pytest.mark.parametrize("lattice", SOME, ids=identify)
def test_strong_interaction_keeps_order(lattice, k):
    # But for pixels without neighbours, all of which are uniform and have no edges.
    places = layout(lattice, k)
    state = from_labels(places, np.ones(lattice.shape, dtype=np.uint8))
    assert np.all(gibbs.sweeps(places, state, 25.0, SWEEPS, 0, 20) == lattice.edges)


def parts(count):
    """A range in pieces, in another order."""
    ends = sorted({0, count // 3, count // 2, count})
    return list(itertools.pairwise(ends))[::-1]


LONG = [
    Lattice((3, 5000)),
    Lattice((70, 90), "second"),
    Lattice((70, 90), "hexagonal", holes((70, 90), 0.7)),
    Lattice((9, 30, 40)),
    Lattice((1, 2, 9000), 18),
    Lattice((20, 30, 40), "second", holes((20, 30, 40), 0.8)),
]


@pytest.mark.parametrize("k", [3, 11])
@pytest.mark.parametrize("lattice", LONG, ids=identify)
def test_the_split_of_blocks_changes_no_bit(lattice, k):
    whole, split = Chain(lattice, k), Chain(lattice, k)
    for number in range(3):
        s = whole.sweep(0.5, number)
        found = [
            gibbs_data.update(*split.arguments(0.5, number), colour, *part)
            for colour in range(split.layout.colours)
            for part in parts(split.layout.blocks_of(colour))
        ]
        assert s == sum(like for like, _ in found)
        assert np.array_equal(whole.sums, sum(sums for _, sums in found))
        assert np.array_equal(whole.state, split.state)


@pytest.mark.parametrize("k", [3, 11])
@pytest.mark.parametrize("lattice", LONG, ids=identify)
def test_the_split_of_the_prior_changes_no_bit(lattice, k):
    places = layout(lattice, k)
    whole, split = (from_labels(places, np.zeros(lattice.shape, np.uint8)) for _ in range(2))
    s = gibbs.sweeps(places, whole, 0.5, SWEEPS, 5, 3)
    for number in range(5, 8):
        key = rng.key(SWEEPS, number)
        like = sum(
            gibbs.update(split, places.pieces, k, 0.5, key, colour, *part)
            for colour in range(places.colours)
            for part in parts(places.blocks_of(colour))
        )
        assert like == s[number - 5]
    assert np.array_equal(whole, split)


def test_threads_do_not_touch_each_others_labels():
    # Every row is longer than a block, so that the parts of all threads end amid pieces that lie close.
    one, many = (Chain(Lattice((4, 20_001)), 3) for _ in range(2))
    team = Team(4)
    for number in range(150):
        one.sweep(0.8, number)
        for colour in range(2):
            work = partial(gibbs_data.update, *many.arguments(0.8, number), colour)
            team.share(many.layout.blocks_of(colour), work)
    assert np.array_equal(one.state, many.state)


@pytest.mark.parametrize("lattice", SOME, ids=identify)
def test_labels_are_counted_where_they_are(lattice):
    k = 5
    chain = Chain(lattice, k)
    small = np.zeros((k, chain.layout.blocks * BLOCK), np.uint8)
    large = np.zeros(small.shape, np.uint32)
    expected = np.zeros((*lattice.shape, k), np.uint32)
    for number in range(7):
        chain.sweep(0.3, number)
        expected += chain.labels[..., None] == np.arange(k)
        for part in parts(chain.layout.blocks):
            gibbs_blocks.tally(chain.state, chain.layout.pieces, small, *part)
        if number in (3, 6):
            gibbs_blocks.flush(small, large)
    assert not small.any()
    assert np.array_equal(chain.layout.gather(large.T), expected)


# Tiny lattices, with holes: neighbours in all directions, and pixels that lack some.
RING = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=bool)
BENT = np.ones((2, 2, 3), dtype=bool)
BENT[0, 0, 0] = BENT[1, 1, 1] = BENT[1, 0, 2] = BENT[0, 1, 0] = False
TINY = [(RING, name) for name in PLANES] + [(BENT, name) for name in VOLUMES]
# Of nine labels, fewer sites.
PAIRS = [(RING[:2, :2], name) for name in PLANES] + [(BENT[:, :, 1:2], name) for name in VOLUMES]


@pytest.mark.parametrize(("tiny", "name"), TINY + PAIRS)
def test_labels_given_data_have_the_distribution_found_by_enumeration(tiny, name):
    k, beta = (9, 0.9) if tiny.sum() < 5 else (3, 0.6)
    lattice, number = copies(tiny, name)
    labellings, statistic, edges = labellings_of(Lattice(tiny.shape, name, tiny), k)
    y = np.linspace(-1.2, 1.0, tiny.sum()) ** 3
    mean, sd = np.linspace(-1.0, 0.9, k), np.linspace(0.5, 1.1, k)
    density = -0.5 * ((y[:, None] - mean) / sd) ** 2 - np.log(sd)
    weight = beta * statistic + sum(density[i, labellings[:, i]] for i in range(y.size))
    weight = np.exp(weight - weight.max())
    chain = Chain(lattice, k, np.where(number >= 0, y[number], 0.0), mean, sd)

    def labels_after(t):
        chain.sweep(beta, t)
        return chain.labels

    draws = average(labels_after, number, k, edges, 30, 200)
    hold(draws, weight / weight.sum() @ features(labellings, k, edges))


@pytest.mark.parametrize(("tiny", "name"), TINY + PAIRS)
def test_the_prior_has_the_distribution_found_by_enumeration(tiny, name):
    # Nine labels are many where there are four or six neighbours, few where there are more.
    k = 9 if tiny.sum() < 5 else 3
    lattice, number = copies(tiny, name)
    labellings, statistic, edges = labellings_of(Lattice(tiny.shape, name, tiny), k)
    places = layout(lattice, k)
    for beta in (0.2, 0.8):
        state = from_labels(places, np.random.default_rng(1).integers(0, k, lattice.shape).astype(np.uint8))
        weight = np.exp(beta * statistic)

        def labels_after(t, state=state, beta=beta):
            gibbs.sweeps(places, state, beta, SWEEPS, t, 1)
            return to_labels(places, state)

        draws = average(labels_after, number, k, edges, 30, 200)
        hold(draws, weight / weight.sum() @ features(labellings, k, edges))


@pytest.mark.parametrize(
    ("lattice", "k"),
    [
        (Lattice((4, 5)), 12),
        (Lattice((4, 4), "second"), 12),
        (Lattice((4, 5), "hexagonal"), 12),
        (Lattice((2, 3, 3)), 12),
        (Lattice((2, 2, 3), 18), 24),
        (Lattice((2, 2, 3), "second"), 40),
    ],
    ids=str,
)
def test_many_labels_have_the_moments_of_the_transfer_matrix(lattice, k):
    """More labels than neighbours: a uniform label, or that of a neighbour."""
    exact, places = Exact(lattice, k), layout(lattice, k)
    found = []
    for beta in (0.3, 1.0):
        state = from_labels(places, np.zeros(lattice.shape, np.uint8))
        s = gibbs.sweeps(places, state, beta, SWEEPS, 0, 20_500)[500:].astype(float)
        mean, sd = exact.moments(beta)
        for x, expected in ((s, mean), ((s - mean) ** 2, sd**2)):
            batches = x.reshape(50, -1).mean(axis=1)
            found.append((batches.mean() - expected) / batches.std(ddof=1) * np.sqrt(50))
    # Student's distribution with 49 degrees of freedom lies beyond 4.9 once in 10^5.
    assert np.abs(found).max() < 4.9


def digest():
    """The bits of a few sweeps on several lattices, with data and without."""
    found = hashlib.sha256()
    for lattice, k in itertools.product(LONG, (2, 3, 6, 11)):
        chain = Chain(lattice, k)
        places, state = chain.layout, chain.state.copy()
        for number in range(4):
            found.update(np.int64(chain.sweep(0.5, number)))
            found.update(chain.sums)
        found.update(chain.state)
        found.update(gibbs.sweeps(places, state, 0.6, SWEEPS, 0, 4))
        found.update(state)
    return found.hexdigest()


@pytest.mark.long
def test_the_bits_do_not_depend_on_what_the_compiler_compiles_for(tmp_path):
    """This CPU, one with 256-bit vectors, and the oldest, each compiled and then from the cache."""
    targets = {
        "this": {},
        "v3": {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi2"},
        "oldest": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    }
    command = [sys.executable, "-c", "import test_gibbs; print(test_gibbs.digest())"]
    found = set()
    for name, target in targets.items():
        for _ in range(2):
            environment = os.environ | target | {"NUMBA_CACHE_DIR": str(tmp_path / name)}
            run = subprocess.run(
                command,
                env=environment,
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                timeout=900,
            )
            assert run.returncode == 0, run.stderr
            found.add(run.stdout)
    assert len(found) == 1
