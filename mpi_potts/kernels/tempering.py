"""Label chains at several powers of the likelihood, which exchange their states (parallel tempering).

Rung r of a ladder has the target p(beta) p(z | beta) p(noise) p(y | z, noise)**power_r, the first with power
1.  A step is a step of the label chain on every rung; then neighbours on the ladder exchange their states,
pairs from the first and from the second rung on in turn (Okabe and others 2001), with probability

    min(1, exp((power_r - power_s) (L_s - L_r))),    L = log p(y | z, noise),

which keeps every rung's target: all else in the two targets is the same.  Where the power is small, states
pass between modes that the whole likelihood keeps apart.  There beta and S(z) hold each other and wander
slowly, by an sd of the one given the other, from one end of the prior to the other: the last rung makes HOT
sweeps in a step, which is little for all rungs together.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

from .chain import beta_given, key_of, step_work
from .elementary import exp, log
from .gibbs_blocks import tally
from .gibbs_data import Sites, sweep
from .names import match
from .noise import draw, log_likelihood, tempered, terms
from .variates import uniform
from .words import draw_words

# Sweeps of the last rung in a step.
HOT = 16


class Ladder(NamedTuple):
    """R rungs, and the states of R replicas: `at[r]` is the one on rung r."""

    power: np.ndarray  # (R,) descending from 1
    at: np.ndarray  # (R,) int64
    states: np.ndarray  # (R, places) uint8 labels
    values: np.ndarray  # (R, P, k) parameters of the noise
    statistic: np.ndarray  # (R,) int64 S(z)
    beta: np.ndarray  # (R,)
    likelihood: np.ndarray  # (R,) L
    moments: np.ndarray  # (R, 3) of every rung: steps, sum of L, sum of L**2
    accepted: np.ndarray  # (R, 2) from a rung to the next: exchanges tried, sum of their probabilities


@njit(cache=True)
def step_replica(sites, noise, surrogate, streams, number, ladder, r, work):
    """One sweep of rung r, and the noise after it."""
    i = ladder.at[r]
    own = Sites(ladder.states[i], sites.pieces, sites.data)
    state = tempered(noise, ladder.values[i], ladder.power[r])
    ladder.beta[i] = beta_given(ladder.statistic[i], surrogate, streams[2], number)
    now = terms(state, sites.data)
    key_of(streams[0], number, work.key)
    ladder.statistic[i] = sweep(own, now, ladder.beta[i], work.key, work.sums)
    key_of(streams[1], number, work.key)
    draw(state, now, work.sums, work.key)
    ladder.likelihood[i] = log_likelihood(state, now, work.sums)


@njit(cache=True)
def step_ladder(sites, noise, surrogate, streams, number, ladder, work):
    """Step `number` of all rungs."""
    last = ladder.power.size - 1
    for r in range(last + 1):
        if r < last or last == 0:
            step_replica(sites, noise, surrogate, streams[r], number, ladder, r, work)
        else:
            for n in range(HOT):
                step_replica(sites, noise, surrogate, streams[r], HOT * number + n, ladder, r, work)
        found = ladder.likelihood[ladder.at[r]]
        ladder.moments[r, 0] += 1.0
        ladder.moments[r, 1] += found
        ladder.moments[r, 2] += found * found


@njit(cache=True)
def exchange(ladder, stream, number):
    """The exchanges after step `number`."""
    k0, k1 = draw_words(uint64(number), uint64(0), stream[0], stream[1])
    for r in range(number % 2, ladder.power.size - 1, 2):
        one, two = ladder.at[r], ladder.at[r + 1]
        change = ladder.likelihood[two] - ladder.likelihood[one]
        change *= ladder.power[r] - ladder.power[r + 1]
        ladder.accepted[r, 0] += 1.0
        ladder.accepted[r, 1] += exp(min(change, 0.0))
        word, _ = draw_words(uint64(r), uint64(0), k0, k1)
        if log(uniform(word)) < change:
            ladder.at[r], ladder.at[r + 1] = two, one


@njit(cache=True)
def sample(sites, noise, names, streams, swaps, first, surrogate, ladder, trace, recent):
    """Steps of the ladder, numbered from `first`; the trace, and the counts, are those of the first rung.

    noise : a state of the noise model, for its prior.  names : by which the labels of the first rung are
    named, after every step.  streams : (R, 3, 2) of sweeps, noise and beta.  swaps : (2,) of exchanges.
    """
    work = step_work(sites, noise)
    blocks = sites.pieces.apart.size
    for t in range(trace.beta.size):
        step_ladder(sites, noise, surrogate, streams, first + t, ladder, work)
        exchange(ladder, swaps, first + t)
        i = ladder.at[0]
        if names.places.size > 0:
            match(ladder.states[i], ladder.values[i], names, work.table)
        trace.beta[t], trace.statistic[t] = ladder.beta[i], ladder.statistic[i]
        trace.noise[:, t] = ladder.values[i]
        tally(ladder.states[i], sites.pieces, recent, 0, blocks)
