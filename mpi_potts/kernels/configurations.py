"""What the neighbourhoods of an image look like: the table from which its pseudolikelihood follows.

Of the neighbours of a pixel the pseudolikelihood needs only the partition: how many labels are there once,
twice, and so on.  There are few partitions (12 of up to four neighbours), so the pixels are counted by
partition, in a hash table.  The code of a partition is the sum of one random word for each of its parts; it
changes by the difference of two words as each neighbour is looked at, and no loop over the labels is needed.
"""

import numpy as np
from numba import njit, uint64

from ..lattice import MASKED
from .neighbours import offsets_at


@njit(cache=True)
def tabulate(state, neighbours, words, codes, count, parts):
    """Count the pixels of a padded state by the partition of their neighbours.

    words (d + 1,) uint64, the first 0; codes (h,) uint64 and count (h,) int64, a hash table with h a power of
    two, empty; parts (h, d + 1) int64: parts[., c] of a used place is the number of labels seen c times.
    """
    number = np.zeros(256, np.int64)
    mask = uint64(codes.size - 1)
    for i in range(neighbours.sites.size):
        site, code = uint64(neighbours.sites[i]), uint64(0)
        around = offsets_at(neighbours, site)
        for offset in around:
            label = state[site + offset]
            if label != MASKED:
                code += words[number[label] + 1] - words[number[label]]
                number[label] += 1
        place = code & mask
        while count[place] > 0 and codes[place] != code:
            place = (place + uint64(1)) & mask
        new = count[place] == 0
        codes[place] = code
        count[place] += 1
        for offset in around:
            label = state[site + offset]
            if label != MASKED and number[label] > 0:
                if new:
                    parts[place, number[label]] += 1
                number[label] = 0
