"""The Swendsen-Wang sampler of every lattice: S(z), bonds, clusters, new labels, and moments of S(z)."""

import math
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from mpi_potts import rng
from mpi_potts.kernels import clusters as sw
from mpi_potts.lattice import Lattice
from mpi_potts.model.exact import Exact
from mpi_potts.model.transition import transition

LABELS = [2, 3, 4, 5, 6, 8, 9, 200, 255]
PLANES = (4, 8, "hexagonal")
VOLUMES = (6, 18, 26)

# Widths on both sides of a word, and so narrow that many rows share one; single rows, columns and sheets.
SHAPES = {
    2: [
        (1, 2),
        (2, 1),
        (1, 130),
        (130, 1),
        (70, 2),
        (50, 3),
        (3, 63),
        (5, 64),
        (4, 65),
        (7, 127),
        (6, 130),
        (40, 33),
    ],
    3: [
        (2, 2, 2),
        (1, 1, 70),
        (70, 1, 1),
        (1, 70, 1),
        (20, 30, 1),
        (5, 1, 66),
        (9, 10, 2),
        (3, 4, 63),
        (4, 3, 64),
        (3, 5, 65),
        (2, 3, 130),
        (11, 13, 7),
    ],
}


def stream(address=0):
    return rng.stream(20, rng.Purpose.PRIOR_SWEEP, address)


def holed(shape, share=0.65, seed=2):
    """A mask with pixels missing at random: holes, ragged edges, islands of one pixel."""
    mask = np.random.default_rng(seed).random(shape) < share
    mask[shape[0] // 2, ..., :2] = True
    return mask


def islands(shape):
    """Two far corners, and a pair of sites across the first word: nearly all words are empty."""
    mask = np.zeros(shape, dtype=bool)
    mask[(0,) * len(shape)] = mask[(-1,) * len(shape)] = True
    mask[(shape[0] // 2,) * (len(shape) - 1)][63:65] = True
    return mask


def sheets(shape):
    """Sheets one site thick across every axis, which meet in lines; the first rows are empty."""
    mask = np.zeros(shape, dtype=bool)
    for axis, n in enumerate(shape):
        mask[(slice(None),) * axis + (n // 2,)] = True
    mask[:3] = False
    return mask


@cache
def lattices(neighbourhood):
    """Shapes, with and without masks."""
    dimensions = 3 if neighbourhood in VOLUMES else 2
    found = []
    for shape in SHAPES[dimensions]:
        found.append(Lattice(shape, neighbourhood))
        if sorted(shape)[-2] > 1:
            found.append(Lattice(shape, neighbourhood, holed(shape)))
    size = (9, 11, 70)[-dimensions:]
    odd = holed(size, 0.9)
    odd[0], odd[..., :5] = False, False
    masks = [holed(size, 0.05), islands(size), sheets(size), odd]
    return found + [Lattice(size, neighbourhood, mask) for mask in masks]


EVERY = [lattice for neighbourhood in PLANES + VOLUMES for lattice in lattices(neighbourhood)]
every_neighbourhood = pytest.mark.parametrize("neighbourhood", PLANES + VOLUMES)


def random_state(lattice, k, seed=1):
    layout = sw.layout(lattice, k)
    labels = np.random.default_rng(seed).integers(0, k, lattice.shape).astype(np.uint8)
    return layout, sw.from_labels(layout, labels), labels


@pytest.mark.parametrize("k", LABELS)
def test_labels_survive_the_planes(k):
    for lattice in EVERY:
        layout, state, labels = random_state(lattice, k)
        assert np.array_equal(sw.to_labels(layout, state), np.where(lattice.exists, labels, 255))
        assert not sw.from_labels(layout, np.zeros(lattice.shape, np.uint8)).any()


@every_neighbourhood
def test_the_statistic_is_that_of_the_labels_after_every_sweep(neighbourhood):
    for number, lattice in enumerate(lattices(neighbourhood)):
        for k in LABELS:
            layout, state, _ = random_state(lattice, k)
            for sweep, beta in enumerate((0.0, 0.1, 0.3, 0.9, 1.2, 2.5, 800.0)):
                statistic = sw.swendsen_wang(layout, state, beta, stream(number), sweep, 1)
                labels = sw.to_labels(layout, state)
                assert statistic[0] == lattice.statistic(labels)
                assert labels[lattice.exists].max() < k
                # Nothing may stand outside the lattice, or states that are equal would differ in their bits.
                assert np.array_equal(state, sw.from_labels(layout, labels))


@every_neighbourhood
def test_the_bits_do_not_depend_on_how_sweeps_are_split_over_calls(neighbourhood):
    for lattice in lattices(neighbourhood)[-3:]:
        layout, together, _ = random_state(lattice, 3)
        apart = together.copy()
        expected = sw.swendsen_wang(layout, together, 0.4, stream(), 5, 12)
        pieces = [
            sw.swendsen_wang(layout, apart, 0.4, stream(), first, count)
            for first, count in ((5, 1), (6, 4), (10, 0), (10, 7))
        ]
        assert np.array_equal(np.concatenate(pieces), expected)
        assert np.array_equal(together, apart)


def edges(lattice):
    """(edges, 2) raster numbers of the sites of every edge, the earlier one first."""
    place = np.arange(math.prod(lattice.shape)).reshape(lattice.shape)
    ends = [
        np.stack([a[e & f], b[e & f]], axis=1)
        for (a, b), (e, f) in zip(lattice.pairs(place), lattice.pairs(lattice.exists))
    ]
    return np.concatenate(ends)


def inside(lattice, layout, places):
    """Raster numbers in the layout's box of raster numbers in the lattice."""
    where = np.array(np.unravel_index(places, lattice.shape)) - np.array([[s.start] for s in layout.box])
    return np.ravel_multi_index(tuple(where), [s.stop - s.start for s in layout.box])


def bonds(lattice, layout, state, beta, key):
    """The edges that a sweep of this state with this key bonds: (bonds, 2) raster numbers."""
    words = layout.words
    room = sw.scratch(layout)
    like = room.like[: words.possible.size].reshape(words.possible.shape)
    assert sw.like_neighbours(state, words, like) == lattice.statistic(sw.to_labels(layout, state))
    sw.draw_bonds(room.like, room.bonds, sw.threshold(beta), *key)
    drawn = room.bonds[: words.possible.size].reshape(words.possible.shape)
    assert not room.bonds[words.possible.size :].any()
    assert not (drawn & ~words.possible).any()
    # A direction is how far back its neighbours are; every bond stands at the later of its two sites.
    there = edges(lattice)
    earlier, later = (inside(lattice, layout, ends) for ends in there.T)
    back = np.union1d(later - earlier, [1])
    direction = np.searchsorted(back, later - earlier)
    word = layout.slots[np.searchsorted(layout.kept, later // 64)]
    bonded = (drawn[direction, word] >> (later % 64).astype(np.uint64)) & np.uint64(1) == 1
    assert bonded.sum() == np.bitwise_count(drawn).sum()
    return there[bonded]


def clusters(lattice, bonded):
    """The number of the cluster of every site, found by a graph library."""
    size = math.prod(lattice.shape)
    graph = coo_array((np.ones(len(bonded)), tuple(bonded.T)), shape=(size, size))
    return connected_components(graph, directed=False)[1][lattice.exists.ravel()]


@every_neighbourhood
@pytest.mark.parametrize("k", [2, 6])
def test_every_cluster_has_one_new_label_and_clusters_are_independent(neighbourhood, k):
    """Given the bonds, two clusters agree with probability 1/k, whichever clusters are compared."""
    agree = pairs = 0
    for lattice in lattices(neighbourhood):
        critical = transition(lattice, k)
        for beta in (0.0, 0.5 * critical, critical, 1.3 * critical, 2 * critical, 50.0):
            layout, state, _ = random_state(lattice, k)
            sw.swendsen_wang(layout, state, beta, stream(1), 0, 20)
            for sweep in range(20, 22):
                bonded = bonds(lattice, layout, state, beta, rng.key(stream(1), sweep))
                before = sw.to_labels(layout, state).ravel()
                assert np.array_equal(before[bonded[:, 0]], before[bonded[:, 1]])
                sw.swendsen_wang(layout, state, beta, stream(1), sweep, 1)
                cluster = clusters(lattice, bonded)
                label = sw.to_labels(layout, state)[lattice.exists]
                _, first = np.unique(cluster, return_index=True)
                lookup = np.zeros(cluster.max() + 1, dtype=np.uint8)
                lookup[cluster[first]] = label[first]
                assert np.array_equal(lookup[cluster], label)
                ordered = label[np.sort(first)]
                agree += int((ordered[1:] == ordered[:-1]).sum())
                pairs += ordered.size - 1
    # Agreements of consecutive clusters are independent Bernoulli(1/k); 12 cases, so 4.5 standard errors.
    assert abs(agree - pairs / k) <= 4.5 * math.sqrt(pairs / k * (1 - 1 / k))


def drawn(threshold, words, sweep):
    """Bonds of so many words of like pairs, 64 * words bits; words must be a multiple of 64."""
    like = np.full(words, sw.ALL)
    kept = np.empty_like(like)
    sw.draw_bonds(like, kept, np.uint64(threshold), *rng.key(stream(), sweep))
    return kept


@pytest.mark.parametrize("beta", [1e-3, 0.1, 0.5, 1.0, 1.2, 3.0, 8.0])
def test_bonds_are_kept_with_probability_one_minus_exp_minus_beta(beta):
    kept = np.unpackbits(drawn(sw.threshold(beta), 8000, 3).view(np.uint8)).reshape(-1, 64)
    p = -math.expm1(-beta)
    assert abs(kept.mean() - p) < 4.5 * math.sqrt(p * (1 - p) / kept.size)
    # Neighbouring bits, neighbouring words, and the words that share a counter are uncorrelated.
    for a, b in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1]), (kept[32:], kept[:-32])):
        r = ((a - p) * (b - p)).mean() / (p * (1 - p))
        assert abs(r) * math.sqrt(a.size) < 4.5


def test_bonds_follow_every_bit_of_the_probability():
    """Where the first 8 bits of the threshold are zeros or ones, the single draws decide."""
    words = 40_000
    for threshold, p in (
        (2**64 // 1000, 1e-3),
        (2**64 - 2**64 // 1000, 0.999),
        (2**55, 2**-9),
        (2**56, 2**-8),
    ):
        kept = np.bitwise_count(drawn(threshold, words, 4)).sum()
        assert abs(kept - 64 * words * p) < 4.5 * math.sqrt(64 * words * p * (1 - p))


def test_single_draws_of_a_word_are_independent():
    """Where the first 8 bits of the threshold are zeros, single draws keep the bonds: count pairs."""
    words, p = 80_000, 2**-9
    kept = np.bitwise_count(drawn(2**55, words, 5)).astype(np.int64)
    expected = words * 64 * 63 / 2 * p**2
    assert abs((kept * (kept - 1) // 2).sum() - expected) < 5 * math.sqrt(expected)


@every_neighbourhood
def test_the_extremes_of_beta_keep_no_bond_and_every_bond(neighbourhood):
    assert sw.threshold(0.0) == 0
    assert sw.threshold(1e6) == 2**64 - 1
    for lattice in lattices(neighbourhood):
        layout = sw.layout(lattice, 3)
        state = sw.from_labels(layout, np.zeros(lattice.shape, dtype=np.uint8))
        assert np.all(sw.swendsen_wang(layout, state, 1e6, stream(), 0, 5) == lattice.edges)
        statistic = sw.swendsen_wang(layout, state, 0.0, stream(), 5, 1)[0]
        assert abs(statistic - lattice.edges / 3) < 5 * math.sqrt(lattice.edges * 2 / 9)


@pytest.mark.parametrize("k", LABELS)
def test_new_labels_are_uniform_and_independent(k):
    """At beta 0 all sites are clusters; S then has mean |E| / k, and its pairs are uncorrelated."""
    shape = (20, 25, 30)
    lattice = Lattice(shape, 18, holed(shape, 0.8))
    layout, state, _ = random_state(lattice, k)
    chain, counts = [], np.zeros(k)
    for sweep in range(200):
        chain.append(sw.swendsen_wang(layout, state, 0.0, stream(k), sweep, 1)[0])
        counts += np.bincount(sw.to_labels(layout, state)[lattice.exists], minlength=k)
    expected = counts.sum() / k
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-5, k - 1)
    variance = lattice.edges / k * (1 - 1 / k)
    assert abs(np.mean(chain) - lattice.edges / k) < 4.5 * math.sqrt(variance / len(chain))
    assert abs(np.var(chain, ddof=1) / variance - 1) < 4.5 * math.sqrt(2 / len(chain))


def test_words_go_with_the_sites_and_not_with_the_box():
    """Four cubes in the corners of a box: no more words than rows of the cubes, and a gap to each."""
    mask = np.zeros((150, 150, 150), dtype=bool)
    for z, y, x in ((0, 0, 0), (140, 0, 140), (0, 140, 140), (140, 140, 0)):
        mask[z : z + 10, y : y + 10, x : x + 10] = True
    words = sw.layout(Lattice(mask.shape, 26, mask), 3).words
    assert words.exists.size <= 2 * 2 * 400 + 3
    assert len(words.pieces) <= words.source.size


RING = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
# A volume with a hole, and a voxel whose neighbours are all missing where only faces touch.
CAVES = np.ones((3, 3, 3), dtype=bool)
CAVES[0, 0, 1] = CAVES[0, 1, 0] = CAVES[1, 0, 0] = CAVES[2, 1, 1] = False
LATE = np.pad(CAVES[0], ((1, 0), (2, 1)))

# Small enough for a transfer matrix: tiny, with masks, and long enough to lie in several words.
EXACT = [
    (Lattice((3, 3), 4), 2),
    (Lattice((4, 4), 4, RING), 6),
    (Lattice((3, 130), 4), 3),
    (Lattice((130, 3), 4), 3),
    (Lattice((3, 3), 8), 5),
    (Lattice((4, 4), 8, RING), 3),
    (Lattice((3, 65), 8), 3),
    (Lattice((4, 4), "hexagonal"), 4),
    (Lattice((4, 6), "hexagonal", LATE), 3),
    (Lattice((4, 63), "hexagonal"), 2),
    (Lattice((2, 3, 3), 6), 3),
    (Lattice((3, 3, 3), 6, CAVES), 2),
    (Lattice((2, 2, 66), 6), 3),
    (Lattice((2, 3, 3), 18), 4),
    (Lattice((3, 3, 3), 18, CAVES), 2),
    (Lattice((2, 33, 2), 18), 3),
    (Lattice((2, 2, 3), 26), 6),
    (Lattice((3, 3, 3), 26, CAVES), 2),
    (Lattice((33, 2, 2), 26), 3),
    (Lattice((3, 3), 4), 11),
    (Lattice((2, 2, 2), 18), 40),
]


def name(case):
    lattice, k = case
    masked = "" if lattice.mask is None else "-masked"
    return f"{'x'.join(map(str, lattice.shape))}-{lattice.neighbourhood}{masked}-{k}"


def scores(lattice, k):
    """Deviations of mean and variance of S in standard errors, from beta 0 to nearly all pairs alike."""
    exact = Exact(lattice, k)
    grid = np.linspace(0.0, 8.0, 801)
    share = 1 / k + (1 - 1 / k) * np.array([0.0, 0.15, 0.4, 0.6, 0.8, 0.95])
    for beta in np.interp(share * lattice.edges, exact.moments(grid)[0], grid):
        mean, sd = exact.moments(beta)
        layout, state, _ = random_state(lattice, k)
        draws = rng.stream(lattice.edges * 1000 + k, rng.Purpose.PRIOR_SWEEP, rng.float_bits(beta))
        chain = sw.swendsen_wang(layout, state, beta, draws, 0, 40_200)[200:]
        for values, expected in ((chain, mean), ((chain - mean) ** 2, sd**2)):
            # 100 batches, much longer than the autocorrelation.
            batches = values.reshape(100, -1).mean(axis=1)
            yield (batches.mean() - expected) * 10 / batches.std(ddof=1)


def test_moments_agree_with_exact_ones():
    """252 scores, nearly Student's t on 99 degrees of freedom: beyond 5 with probability 252 * 2.5e-6."""
    found = {name(case): list(scores(*case)) for case in EXACT}
    z = np.array(list(found.values()))
    assert np.abs(z).max() < 5, found
    # Their mean square is about one; its error allows for the two scores of a chain to be the same.
    assert abs(np.mean(z**2) - 1) < 4 * math.sqrt(4 / z.size)
    # No small deviation of all of them to one side.
    assert np.abs(z.reshape(-1, 2).sum(axis=0)).max() < 4 * math.sqrt(z.size / 2)


SWEEPS = """
import hashlib, numpy as np
from mpi_potts import rng
from mpi_potts.kernels import clusters as sw
from mpi_potts.lattice import Lattice
from mpi_potts.model.transition import transition

found = hashlib.sha256()
for lattice in (Lattice((40, 65)), Lattice((31, 33), "hexagonal"), Lattice((9, 10, 11), 26)):
    for k in (2, 6):
        layout = sw.layout(lattice, k)
        state = sw.from_labels(layout, np.zeros(lattice.shape, dtype=np.uint8))
        draws = rng.stream(1, rng.Purpose.PRIOR_SWEEP, k)
        found.update(sw.swendsen_wang(layout, state, transition(lattice, k), draws, 0, 20))
        found.update(state)
print(found.hexdigest())
"""


def test_the_bits_do_not_depend_on_what_the_compiler_compiles_for(tmp_path):
    """This CPU, and the oldest of its kind, each compiled and then from the cache."""
    oldest = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    found = set()
    for name, target in (("this", {}), ("oldest", oldest)):
        for _ in range(2):
            environment = os.environ | target | {"NUMBA_CACHE_DIR": str(tmp_path / name)}
            run = subprocess.run(
                [sys.executable, "-c", SWEEPS], env=environment, capture_output=True, text=True, timeout=600
            )
            assert run.returncode == 0, run.stderr
            found.add(run.stdout)
    assert len(found) == 1
