"""Exact log C(beta) for k = 2 on a free-boundary first-order plane of any size: an oracle for the samplers.

With spins +-1 the number of like pairs is S = (|E| + sum s_i s_j) / 2, so that with J = beta / 2

    log C(beta) = |E| J + log Z(J),        Z(J) = 2^n cosh(J)^|E| sqrt(det(1 - tanh(J) T))

(Kac and Ward 1952).  T acts on the 2 |E| directed edges: T[e, f] = exp(i a / 2) where f continues e without
turning back and a is the angle of the turn from e to f.
"""

import math
from functools import cache

import numpy as np
from scipy.sparse import coo_array, eye_array
from scipy.sparse.linalg import splu

# East, north, west, south: a turn by d quarters of a circle to the left has the angle d pi / 2.
_STEPS = ((0, 1), (-1, 0), (0, -1), (1, 0))


@cache
def _turns(rows, columns):
    """The sparse matrix T of a rows x columns lattice."""
    number = {}
    for r in range(rows):
        for c in range(columns):
            for d, (dr, dc) in enumerate(_STEPS):
                if 0 <= r + dr < rows and 0 <= c + dc < columns:
                    number[r, c, d] = len(number)
    source, target, phase = [], [], []
    for (r, c, d), e in number.items():
        for turn in (-1, 0, 1):
            f = number.get((r + _STEPS[d][0], c + _STEPS[d][1], (d + turn) % 4))
            if f is not None:
                source.append(e)
                target.append(f)
                phase.append(np.exp(0.25j * math.pi * turn))
    return coo_array((phase, (source, target)), shape=(len(number),) * 2).tocsc()


def log_normaliser(rows: int, columns: int, beta: float) -> float:
    """log C(beta) of the rows x columns lattice with two labels."""
    edges = rows * (columns - 1) + columns * (rows - 1)
    turns = _turns(rows, columns)
    lu = splu((eye_array(turns.shape[0], format="csc") - math.tanh(beta / 2) * turns).tocsc())
    # Both triangles have their pivots on the diagonal; permutations change the sign only, and the result is
    # positive.
    log_det = math.fsum(np.log(np.abs(lu.U.diagonal()))) + math.fsum(np.log(np.abs(lu.L.diagonal())))
    log_cosh = math.log(math.cosh(beta / 2))
    return edges * beta / 2 + rows * columns * math.log(2) + edges * log_cosh + log_det / 2


def moments(rows: int, columns: int, beta: float, step: float = 1e-3) -> tuple[float, float]:
    """Mean and standard deviation of S, by differences of log C at seven points (error of order step^6)."""
    values = np.array([log_normaliser(rows, columns, beta + j * step) for j in range(-3, 4)])
    values -= values[3]
    mean = values @ np.array([-1, 9, -45, 0, 45, -9, 1]) / (60 * step)
    variance = values @ np.array([2, -27, 270, -490, 270, -27, 2]) / (180 * step**2)
    return float(mean), math.sqrt(variance)
