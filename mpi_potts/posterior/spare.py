"""Labels that an image does not need: they hold hardly a pixel, or share theirs with another label.

With p_i(j) the probability of label j at pixel i, label j holds sum_i p_i(j) pixels, and

    sure_j = sum_i p_i(j)**2 / sum_i p_i(j)

is its probability where it is: near 1 for a small class that is really there, near 0 for a label without any
pixels of its own, which wanders over its prior and has one here and there.  Two labels share their pixels at
random where the cosine of p(j) and p(l), over pixels, is large.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..labels.matching import overlap
from ..slabs import slabs

# A label below this share is named where it is nowhere sure, or holds fewer pixels than this.
SMALL, SURE, FEWEST = 0.01, 0.5, 5.0
# Two labels are one where their pixels are shared so evenly, and their noise is so near, in its own sd.
SHARED, ALIKE = 0.5, 0.5


@dataclass(frozen=True, eq=False)
class Holdings:
    """What the labels hold: share (k,) of the pixels, sure (k,) and shared (k, k), the cosines."""

    pixels: int
    share: np.ndarray
    sure: np.ndarray
    shared: np.ndarray


def holdings(counts: np.ndarray, pixels: int, drawn: int) -> Holdings:
    """counts : (k, m) how often, in so many draws, every pixel had every label; zeros where there is none."""
    # Sums of integers in units of a power of two, exact in any order.
    both = np.zeros((len(counts), len(counts)))
    for part in slabs(counts.shape[1]):
        both += overlap(np.ascontiguousarray(counts[:, part].T))
    held = counts.sum(axis=1, dtype=np.float64) / drawn
    size = np.sqrt(np.diag(both))
    shared = both / np.maximum(np.multiply.outer(size, size), 1e-300)
    return Holdings(pixels, held / pixels, np.diag(both) / np.maximum(held, 1e-300), shared)


def small(held: Holdings) -> np.ndarray:
    """The labels that hold hardly a pixel."""
    nowhere = (held.sure < SURE) | (held.share * held.pixels < FEWEST)
    return np.flatnonzero((held.share < SMALL) & nowhere)


def spare(held: Holdings, apart: np.ndarray) -> Iterator[str]:
    """Names every label without which fewer would do.

    apart : (k, k) how far the noise of label l is from that of label j, in the latter's sd
    """
    k = held.share.size
    few = small(held).tolist()
    may = _may_do(k - len(few))
    for j in few:
        yield f"label {j + 1} holds {_percent(held.share[j])} of the pixels: {may}"
    for j in range(k):
        for i in range(j + 1, k):
            near = max(apart[j, i], apart[i, j]) < ALIKE and held.shared[j, i] > SHARED
            if near and i not in few and j not in few:
                yield (
                    f"labels {j + 1} and {i + 1} cannot be told apart, in their noise or in the pixels that "
                    f"they hold: {_may_do(k - 1)}"
                )


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share >= 1e-4 else "less than 0.01 %"


def _may_do(k: int) -> str:
    return f"k = {k} may do" if k > 1 else "the image may have no labels to tell apart"
