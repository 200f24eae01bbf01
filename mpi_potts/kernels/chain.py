"""The label chain: sweeps with data, each followed by a draw of the noise.

One step, at a given beta, is a Gibbs sweep of the labels given the noise, then the noise given the labels;
`names` says when labels are renamed after it, which is seldom.  `run` makes a step for each of the betas it
is given; `sample` draws beta before every step from its posterior given the statistic, and counts the labels
of every pixel.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from .gibbs_blocks import tally
from .gibbs_data import sweep
from .names import identity, keep_names
from .noise import draw, no_sums, terms
from .surrogate import draw_beta
from .variates import uniform
from .words import draw_words

# Bytes count up to here before they are added to the counts.
FULL = 255


class Surrogate(NamedTuple):
    """p(beta | S(z)) by a binding function: see `surrogate`."""

    table: np.ndarray  # (4, nodes) beta, log C, mean, variance
    low: float  # the ends of the interval on which beta is uniform a priori
    high: float
    path: bool  # whether by log C, else by the synthetic likelihood


class Trace(NamedTuple):
    """One row for each step: beta (n,), S(z) (n,) int64, and the P parameters of the noise (P, n, k)."""

    beta: np.ndarray
    statistic: np.ndarray
    noise: np.ndarray


class StepWork(NamedTuple):
    """What a step works in: a key (2,), the sums of the labels, and a table of their new names."""

    key: np.ndarray
    sums: np.ndarray
    table: np.ndarray


@njit(cache=True)
def terms_of(noise, data):
    """The terms of a sweep with this noise, where it is not called from a kernel."""
    return terms(noise, data)


@njit(cache=True)
def update_noise(state, noise, names, terms, sums, key, number, table):
    """Draw the noise given the sums of sweep `number`, in place; rename labels where it is time to."""
    draw(noise, terms, sums, key)
    keep_names(state, noise.values, names, number, table)


@njit(cache=True)
def key_of(stream, number, key):
    """The key of step `number` of a stream, into `key` (2,)."""
    key[0], key[1] = draw_words(uint64(number), uint64(0), stream[0], stream[1])


@njit(cache=True)
def step(sites, noise, names, beta, streams, number, work):
    """One sweep at beta and the noise after it, in place; S(z)."""
    now = terms(noise, sites.data)
    key_of(streams[0], number, work.key)
    statistic = sweep(sites, now, beta, work.key, work.sums)
    key_of(streams[1], number, work.key)
    update_noise(sites.state, noise, names, now, work.sums, work.key, number, work.table)
    return statistic


@njit(cache=True)
def step_work(sites, noise):
    """Room for steps."""
    return StepWork(np.empty(2, np.uint64), no_sums(terms(noise, sites.data)), identity())


@njit(cache=True)
def record(t, statistic, noise, trace):
    """Row t of the trace: what a step has left."""
    trace.statistic[t] = statistic
    for p in range(noise.values.shape[0]):
        for j in range(noise.values.shape[1]):
            trace.noise[p, t, j] = noise.values[p, j]


@njit(cache=True)
def run(sites, noise, names, streams, first, trace):
    """A step for each of the betas of the trace, numbered from `first`; the rest of the trace is filled.

    noise : the state of a noise model, and names : those of the labels, which change in place.  streams :
    (3, 2) of sweeps, noise and beta.
    """
    work = step_work(sites, noise)
    for t in range(trace.beta.size):
        statistic = step(sites, noise, names, trace.beta[t], streams, first + t, work)
        record(t, statistic, noise, trace)


@njit(cache=True)
def hold(sites, noise, stream, first, beta, statistic):
    """Sweeps at the betas (n,) with the noise as it is, numbered from `first`; fills S(z) (n,).

    stream : (2,) that of the sweeps.  Returns the sums of the labels after the last.
    """
    work, now = step_work(sites, noise), terms(noise, sites.data)
    for t in range(beta.size):
        key_of(stream, first + t, work.key)
        statistic[t] = sweep(sites, now, beta[t], work.key, work.sums)
    return work.sums


@njit(cache=True)
def draw_given(noise, data, sums, key):
    """Draw the noise given the sums of a sweep that was made with it, in place."""
    draw(noise, terms(noise, data), sums, key)


@njit(cache=True)
def beta_given(statistic, surrogate, stream, number):
    """The draw of beta before sweep `number`, given S(z) of the sweep before it.

    surrogate : a `Surrogate`.  stream : (2,) that of beta.
    """
    k0, k1 = draw_words(uint64(number), uint64(0), stream[0], stream[1])
    word, _ = draw_words(uint64(0), uint64(0), k0, k1)
    table, low, high, path = surrogate
    return draw_beta(table, low, high, statistic, path, uniform(word))


@njit(cache=True)
def sample(sites, noise, names, streams, first, statistic, surrogate, trace, recent):
    """Steps with beta drawn given the statistic, here that before the first step; fills the trace.

    recent (k, blocks * BLOCK) uint8 grow by one at every pixel's label after every step, of which there must
    not be more than they hold; none if k is 0.
    """
    work = step_work(sites, noise)
    blocks = sites.pieces.apart.size
    for t in range(trace.beta.size):
        trace.beta[t] = beta_given(statistic, surrogate, streams[2], first + t)
        statistic = step(sites, noise, names, trace.beta[t], streams, first + t, work)
        record(t, statistic, noise, trace)
        tally(sites.state, sites.pieces, recent, 0, blocks)
