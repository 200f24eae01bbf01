"""What the states of label chains leave of their image."""

from collections.abc import Sequence

import numpy as np

from ..kernels.neighbours import neighbours, pad
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
        lattice = chain.lattice
        state, y = pad(chain.labels, lattice.exists, MASKED), pad(values, lattice.exists, 0.0)
        density = chain.noise.density(chain.values)
        row[:] = residual_sums(state, y, neighbours(lattice), labels, density)
    return sums
