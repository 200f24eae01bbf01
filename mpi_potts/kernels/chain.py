"""The label chain on a first-order plane: sweeps with data, each followed by draws of the noise.

One step, at a given beta, is a chequerboard sweep of the labels given mu and sigma, then mu and sigma given
the labels, then, where the priors do not tell the labels apart, a renaming of the labels in the order of
their means.  `run` makes a step for each of the betas it is given; `final` draws beta before every step from
its posterior given the statistic, and counts the labels of every pixel.

The order changes seldom, so the labels are renamed by a pass of their own, and only then.  The counts need no
renaming: they are of labels that have been put in order.
"""

import numpy as np
from numba import njit, uint8, uint64

from .chequerboard_data import half_sweep, parameters, sweep
from .chequerboard_layout import ABSENT, BLOCK
from .conjugate import draw_noise, relabel, sort_by_mean
from .label_sums import COLUMNS, references
from .surrogate import draw_beta
from .variates import uniform
from .words import draw_words

# Bytes count up to here before they are added to the counts.
FULL = 255


@njit(cache=True)
def identity():
    """The table that renames no label."""
    table = np.empty(ABSENT + 1, np.uint8)
    for label in range(table.size):
        table[label] = label
    return table


@njit(cache=True)
def settle_noise(totals, centre, prior, in_order, mean, sd, k0, k1, planes, table):
    """Draw the noise of one sweep; put the labels in order of their means where `in_order`."""
    draw_noise(totals, centre, prior, mean, sd, k0, k1)
    if in_order and sort_by_mean(mean, sd, table):
        relabel(planes.reshape(-1), table)


@njit(cache=True)
def in_units(sums, reference, scale):
    """From grains to the units of the observations: sums (k, 3) in float64, and what they are about (k,)."""
    grain = 1.0 / scale
    totals, centre = np.empty((reference.size, 3)), np.empty(reference.size)
    for j in range(reference.size):
        totals[j, 0], totals[j, 1] = sums[j, 0], sums[j, 1] * grain
        totals[j, 2] = (sums[j, 2] * 2.0**32 + sums[j, 3]) * grain * grain
        centre[j] = reference[j] * grain
    return totals, centre


@njit(cache=True)
def step(planes, place, data, beta, mean, sd, prior, in_order, streams, number, sums, table):
    """One sweep at beta and the noise after it, in place; S(z).  place, data: as `half_sweep`."""
    scale = float(data[1])
    k0, k1 = draw_words(uint64(number), uint64(0), streams[0, 0], streams[0, 1])
    noise, reference = parameters(mean, sd), references(mean, scale)
    statistic = sweep(planes, place, data, beta, noise, reference, k0, k1, sums)
    totals, centre = in_units(sums, reference, scale)
    k0, k1 = draw_words(uint64(number), uint64(0), streams[1, 0], streams[1, 1])
    settle_noise(totals, centre, prior, in_order, mean, sd, k0, k1, planes, table)
    return statistic


@njit(cache=True)
def record(t, mean, sd, means, sds):
    for j in range(mean.size):
        means[t, j], sds[t, j] = mean[j], sd[j]


@njit(cache=True)
def run(planes, place, data, betas, mean, sd, prior, in_order, streams, first, statistic, means, sds):
    """A step for each of the betas, numbered from `first`; traces (n,), (n, k), (n, k) of S, mean, sd."""
    sums, table = np.empty((mean.size, COLUMNS), np.int64), identity()
    for t in range(betas.size):
        statistic[t] = step(
            planes, place, data, betas[t], mean, sd, prior, in_order, streams, first + t, sums, table
        )
        record(t, mean, sd, means, sds)


@njit(cache=True)
def beta_given(statistic, surrogate, path, stream, number):
    """The draw of beta before sweep `number`.  surrogate: the table, and the ends of the prior's interval."""
    table, low, high = surrogate
    k0, k1 = draw_words(uint64(number), uint64(0), stream[0], stream[1])
    word, _ = draw_words(uint64(0), uint64(0), k0, k1)
    return draw_beta(table, low, high, statistic, path, uniform(word))


@njit(cache=True, nogil=True)
def half(planes, place, data, beta, noise, reference, key, colour, first, last):
    """Blocks first..last-1 of half a sweep, for a thread: what `half_sweep` returns, and the sums."""
    sums = np.zeros((reference.size, COLUMNS), np.int64)
    like = half_sweep(planes, place, data, beta, noise, reference, key[0], key[1], colour, first, last, sums)
    return like, sums


@njit(cache=True)
def tally_block(z, label, count):
    for i in range(z.size):
        count[i] = uint8(count[i] + uint8(z[i] == label))


@njit(cache=True, nogil=True)
def tally(planes, bytes_, first, last):
    """Count the labels of places first..last-1 once more: bytes_ (4, k, places)."""
    for s in range(4):
        for start in range(first, last, 8 * BLOCK):
            stop = min(start + 8 * BLOCK, last)
            z = planes[s, start:stop]
            for j in range(bytes_.shape[1]):
                tally_block(z, uint8(j), bytes_[s, j, start:stop])


@njit(cache=True)
def flush(bytes_, counts):
    """Add the bytes to the counts, and empty them."""
    for s in range(4):
        for j in range(bytes_.shape[1]):
            small, large = bytes_[s, j], counts[s, j]
            for i in range(small.size):
                large[i] += small[i]
                small[i] = 0


@njit(cache=True)
def final(
    planes,
    place,
    data,
    last,
    surrogate,
    path,
    mean,
    sd,
    prior,
    in_order,
    streams,
    first,
    betas,
    statistic,
    means,
    sds,
    counts,
):
    """Steps with beta drawn given the statistic, `last` before the first; traces as `run`, and of beta.

    counts (4, k, places) uint32 grows by one at every place's label after every step.
    """
    sums, table = np.empty((mean.size, COLUMNS), np.int64), identity()
    bytes_ = np.zeros(counts.shape, np.uint8)
    for t in range(betas.size):
        betas[t] = beta_given(last, surrogate, path, streams[2], first + t)
        last = step(planes, place, data, betas[t], mean, sd, prior, in_order, streams, first + t, sums, table)
        statistic[t] = last
        record(t, mean, sd, means, sds)
        tally(planes, bytes_, 0, planes.shape[1])
        if (t + 1) % FULL == 0:
            flush(bytes_, counts)
    flush(bytes_, counts)
