"""What a state of the label chain leaves of the data: sums of its residuals, by label and of neighbours.

The residual of an observation under its label is standard normal where the noise model is right (`noise`),
and independent of those of all other pixels.  Sums are taken in the order of the pixels.
"""

from numba import njit, uint64

from ..lattice import MASKED
from .neighbours import offsets_at
from .noise import residual

# The columns of a label: its number of pixels and the sums of the powers of their residuals, 1 to 4; the
# number of pairs of neighbours that both have it, and the sum of the products of their residuals.  The last
# row has the pairs of different labels.
COLUMNS = 7


@njit(cache=True)
def residual_sums(state, y, neighbours, k, density, sums):
    """Add to sums (k + 1, COLUMNS) float64 those over the sites and their pairs with later neighbours.

    state, y : flat, padded, as `neighbours` has them.  density : of the noise model, with k labels.
    """
    for i in range(neighbours.sites.size):
        place = uint64(neighbours.sites[i])
        label = state[place]
        e = residual(density, label, y[place])
        row, square = sums[label], e * e
        row[0] += 1.0
        row[1] += e
        row[2] += square
        row[3] += square * e
        row[4] += square * square
        for offset in offsets_at(neighbours, place):
            other = place + offset
            # Every pair once.
            if other > place and state[other] != MASKED:
                pair = sums[label if state[other] == label else k]
                pair[5] += 1.0
                pair[6] += e * residual(density, state[other], y[other])
