"""What the states of label chains leave of their image."""

from collections.abc import Sequence

import numpy as np

from ..kernels.neighbours import by_slabs, pad
from ..kernels.residuals import COLUMNS, residual_sums
from ..lattice import MASKED
from .chain import LabelChain


def residuals(chains: Sequence[LabelChain], values: np.ndarray | None, labels: int) -> np.ndarray:
    """(chains, k + 1, 7) sums over the residuals of the image, of the lattice's shape, under the labels and
    the noise of every chain: see `kernels.residuals`.

    values : None where there are no chains
    """
    sums = np.zeros((len(chains), labels + 1, COLUMNS))
    if values is None:
        return sums
    for row, chain in zip(sums, chains):
        state, exists = chain.labels, chain.lattice.exists
        density = chain.noise.density(chain.values)
        for rows, near in by_slabs(chain.lattice):
            here = exists[rows]
            y = pad(values[rows], here, 0.0)
            residual_sums(pad(state[rows], here, MASKED), y, near, labels, density, row)
    return sums
