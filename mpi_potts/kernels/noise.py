"""What the kernels that sweep labels ask of a noise model, whichever it is.

A noise model is a module, such as `gaussian`, with a few records and one function for each of those below.
Which function a kernel calls is a matter of the type of its first argument, a record of the model: numba
compiles a kernel for the types that it is given, and finds here what belongs to them.  So `gibbs_data`,
`graph_gibbs`, `chain` and `evidence` serve every model, each compiled for it alone, and no call is decided
while a sweep runs.

The records of a model, NamedTuples: its *state*, what is drawn after every sweep, with `values` (P, k), its P
parameters of every label; the *data*, an image in the order of the blocks, with `values` (blocks * BLOCK,);
the *terms* of one sweep; and the *density* of an observation.  Inside, images have mean 0 and variance 1.

`NoData` are the terms of labels without data: all labels are equally likely, and nothing is summed.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32, types
from numba.extending import overload

from .float32 import fma, larger
from .gibbs_layout import BLOCK

# As in `leaf`.
_LEAF = {"_nrt": False}


def implements(question: Callable, record: type, leaf: bool = False) -> Callable[[Callable], Callable]:
    """The function that is decorated answers a question of this module where its first argument is such a
    record.

    leaf : it is called for every block, and compiled as in `leaf`.  Its loops are better in functions of
    their own, which take the few numbers and arrays that they need: a record is handed over with all its
    parts.  (Put into its caller, by `forceinline` or `inline`, it was slower.)
    """

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def choose(first, *rest):
            mine = isinstance(first, types.BaseNamedTuple) and first.instance_class is record
            return function if mine else None

        overload(question, jit_options=_LEAF if leaf else {})(choose)
        return function

    return decorate


def terms(state: Any, data: Any) -> Any:
    """The terms of a sweep with these parameters."""
    raise NotImplementedError


def log_weights(
    terms: Any,
    label: int,
    count: np.ndarray,
    y: np.ndarray,
    slope: np.float32,
    before: np.ndarray,
    weight: np.ndarray,
    largest: np.ndarray,
) -> None:
    """The logarithms to base 2 of the weights of one label for the sites of a block, into `weight` (BLOCK,)
    float32: `slope` times `count`, the number of like neighbours, plus the log likelihood of the observation
    y; and the larger of these and `before`, into `largest`.

    `before` and `largest` are different arrays: a maximum in place becomes a masked store, which is slow.
    """
    raise NotImplementedError


def no_sums(terms: Any) -> np.ndarray:
    """(k, columns) int64 zeros: the sums by label over no block."""
    raise NotImplementedError


def add_block(terms: Any, data: Any, block: int, z: np.ndarray, sums: np.ndarray) -> None:
    """Add a block, whose labels are z (BLOCK,), to the sums, exactly: the order of blocks does not matter."""
    raise NotImplementedError


def draw(state: Any, terms: Any, sums: np.ndarray, key: np.ndarray) -> None:
    """Draw the parameters given the sums of a sweep and the terms it was made with, in place."""
    raise NotImplementedError


def tempered(state: Any, values: np.ndarray, power: float) -> Any:
    """A state with other parameters (P, k) and the same prior, in which the likelihood of the observations
    counts to the given power: in its terms, and in draws of its parameters."""
    raise NotImplementedError


def log_likelihood(state: Any, terms: Any, sums: np.ndarray) -> float:
    """The logarithm of the likelihood of all observations under the parameters as they are now, up to a
    constant, given the sums of a sweep and the terms it was made with."""
    raise NotImplementedError


def log_density(density: Any, label: int, y: float) -> float:
    """The logarithm of the density of an observation under a label, in float64."""
    raise NotImplementedError


def residual(density: Any, label: int, y: float) -> float:
    """What an observation leaves under a label, in float64: standard normal where the model is right, as the
    quantile of a standard normal that belongs to its distribution function."""
    raise NotImplementedError


def no_moments(state: Any, sets: int) -> np.ndarray:
    """(sets, columns) float64 zeros: what `redraw` needs of observations, of sets without any.  The first
    column is their number, and those of two sets together are the sums of theirs."""
    raise NotImplementedError


def add_observation(state: Any, y: float, moments: np.ndarray) -> None:
    """Add an observation to the moments (columns,) of a set."""
    raise NotImplementedError


def redraw(
    state: Any, label: int, moments: np.ndarray, index: int, k0: int, k1: int, values: np.ndarray
) -> None:
    """Draw parameters (P,) of a label from a density near their posterior given its observations, whatever
    they were before.  Words of `index` from 0 on are taken."""
    raise NotImplementedError


def log_excess(state: Any, label: int, moments: np.ndarray, values: np.ndarray) -> float:
    """The logarithm of prior times likelihood over the density of which `redraw` draws, at parameters (P,) of
    a label, up to a constant for every observation; 0 where there is none."""
    raise NotImplementedError


class NoData(NamedTuple):
    """The terms of a sweep of the prior, and the data of no image."""

    labels: int  # k
    values: np.ndarray  # (blocks * BLOCK,) anything: it is not looked at


@implements(log_weights, NoData, leaf=True)
def _log_weights(terms, label, count, y, slope, before, weight, largest):
    for i in range(BLOCK):
        w = fma(float32(int32(count[i])), slope, float32(0))
        weight[i] = w
        largest[i] = larger(before[i], w)


@implements(no_sums, NoData)
def _no_sums(terms):
    return np.zeros((terms.labels, 0), np.int64)


@implements(add_block, NoData, leaf=True)
def _add_block(terms, data, block, z, sums):
    pass
