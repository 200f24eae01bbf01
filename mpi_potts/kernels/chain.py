"""The label chain: sweeps with data, each followed by draws of the noise.

One step, at a given beta, is a Gibbs sweep of the labels given mu and sigma, then mu and sigma given the
labels, then, where the priors do not tell the labels apart, a renaming of the labels in the order of their
means.  `run` makes a step for each of the betas it is given; `sample` draws beta before every step from its
posterior given the statistic, and counts the labels of every pixel.

The order changes seldom, so the labels are renamed by a pass of their own, and only then.  The counts need no
renaming: they are of labels that have been put in order.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from ..lattice import MASKED
from .conditional import parameters
from .conjugate import draw_noise, relabel, sort_by_mean
from .gibbs_blocks import flush, tally
from .gibbs_data import sweep
from .gibbs_layout import Pieces
from .label_sums import COLUMNS, references
from .surrogate import draw_beta
from .variates import uniform
from .words import draw_words

# Bytes count up to here before they are added to the counts.
FULL = 255


class Sites(NamedTuple):
    """The labels of an image, where they are, and its observations, from `gibbs_data.prepare`."""

    state: np.ndarray
    pieces: Pieces
    data: tuple


class Noise(NamedTuple):
    """mu and sigma (k,) as they are now, their priors (4, k), and whether labels are named by their means."""

    mean: np.ndarray
    sd: np.ndarray
    prior: np.ndarray
    in_order: bool


class Trace(NamedTuple):
    """One row for each step: beta (n,), S(z) (n,) int64, mu and sigma (n, k)."""

    beta: np.ndarray
    statistic: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


@njit(cache=True)
def identity():
    """The table that renames no label."""
    table = np.empty(MASKED + 1, np.uint8)
    for label in range(table.size):
        table[label] = label
    return table


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
def update_noise(state, noise, sums, reference, scale, key, table):
    """Draw mu and sigma given the sums of a sweep, in place; name the labels in order where that is asked."""
    totals, centre = in_units(sums, reference, scale)
    draw_noise(totals, centre, noise.prior, noise.mean, noise.sd, key[0], key[1])
    if noise.in_order and sort_by_mean(noise.mean, noise.sd, table):
        relabel(state, table)


@njit(cache=True)
def key_of(stream, number, key):
    """The key of step `number` of a stream, into `key` (2,)."""
    key[0], key[1] = draw_words(uint64(number), uint64(0), stream[0], stream[1])


@njit(cache=True)
def step(sites, noise, beta, streams, number, key, sums, table):
    """One sweep at beta and the noise after it, in place; S(z)."""
    scale = float(sites.data[1])
    weights, reference = parameters(noise.mean, noise.sd), references(noise.mean, scale)
    key_of(streams[0], number, key)
    statistic = sweep(sites.state, sites.pieces, sites.data, beta, weights, reference, key, sums)
    key_of(streams[1], number, key)
    update_noise(sites.state, noise, sums, reference, scale, key, table)
    return statistic


@njit(cache=True)
def workspace(k):
    """What a step works in: a key, the sums of the labels, and a table of their names."""
    return np.empty(2, np.uint64), np.empty((k, COLUMNS), np.int64), identity()


@njit(cache=True)
def record(t, statistic, noise, trace):
    """Row t of the trace: what a step has left."""
    trace.statistic[t] = statistic
    for j in range(noise.mean.size):
        trace.mean[t, j], trace.sd[t, j] = noise.mean[j], noise.sd[j]


@njit(cache=True)
def run(sites, noise, streams, first, trace):
    """A step for each of the betas of the trace, numbered from `first`; the rest of the trace is filled."""
    key, sums, table = workspace(noise.mean.size)
    for t in range(trace.beta.size):
        statistic = step(sites, noise, trace.beta[t], streams, first + t, key, sums, table)
        record(t, statistic, noise, trace)


@njit(cache=True)
def beta_given(statistic, surrogate, path, stream, number):
    """The draw of beta before sweep `number`.  surrogate: the table, and the ends of the prior's interval."""
    table, low, high = surrogate
    k0, k1 = draw_words(uint64(number), uint64(0), stream[0], stream[1])
    word, _ = draw_words(uint64(0), uint64(0), k0, k1)
    return draw_beta(table, low, high, statistic, path, uniform(word))


@njit(cache=True)
def sample(sites, noise, streams, first, statistic, surrogate, path, trace, counts):
    """Steps with beta drawn given the statistic, here that before the first step; fills the trace.

    counts (k, blocks * BLOCK) uint32 grow by one at every pixel's label after every step; none if k is 0.
    """
    key, sums, table = workspace(noise.mean.size)
    recent = np.zeros(counts.shape, np.uint8)
    blocks = sites.pieces.apart.size
    for t in range(trace.beta.size):
        trace.beta[t] = beta_given(statistic, surrogate, path, streams[2], first + t)
        statistic = step(sites, noise, trace.beta[t], streams, first + t, key, sums, table)
        record(t, statistic, noise, trace)
        tally(sites.state, sites.pieces, recent, 0, blocks)
        if (t + 1) % FULL == 0:
            flush(recent, counts)
    flush(recent, counts)
