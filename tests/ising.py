"""Exact log C(beta) for k = 2 on a free-boundary first-order plane: an oracle for the samplers.

With spins +-1 the number of like pairs is S = (|E| + sum s_i s_j) / 2, so that with J = beta / 2

    log C(beta) = |E| J + log Z(J),        Z(J) = 2^n cosh(J)^|E| sqrt(det(1 - tanh(J) T))

(Kac and Ward 1952).  T acts on the 2 |E| directed edges: T[e, f] = exp(i a / 2) where f continues e without
turning back and a is the angle of the turn from e to f.

The determinant takes too much memory for a megapixel.  There (`log_normaliser_by_rows`) the transfer matrix
from row to row does: with free ends it is an exponential of a quadratic form of fermions (Schultz, Mattis and
Lieb 1964), so that Z is the square root of a determinant of as many rows as the plane has columns.
"""

import math
from functools import cache

import numpy as np
from scipy.sparse import coo_array, diags_array, eye_array, kron
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


def log_normaliser_by_rows(rows: int, columns: int, beta: float) -> float:
    """The same, by the transfer matrix; two symmetric matrices of `columns` rows are diagonalised.

    With a_j, b_j the Majorana fermions of site j of a row, and c = i b, all factors are exponentials of
    sum_jl a_j N_jl c_l, and act on (a, c) as the exponential of 2 [[0, N], [N', 0]]: along the row N couples
    a_{j+1} with c_j by -J, from row to row a_j with c_j by J*, where tanh J* = exp(-2 J).  The sum over all
    states of a row is the state in which every a_j + c_j is empty.
    """
    if beta == 0.0:
        return rows * columns * math.log(2)
    double, n = beta, columns  # 2 J
    edges = rows * (columns - 1) + columns * (rows - 1)
    along, bonds = np.ones(2 * n), np.zeros(n + 1)
    along[1:-1], bonds[1:-1] = math.cosh(double / 2), -math.sinh(double / 2)
    half = diags_array([along, bonds, bonds], offsets=[0, n - 1, 1 - n], shape=(2 * n, 2 * n))
    dual = kron(
        np.array([[math.cosh(double), 1.0], [1.0, math.cosh(double)]]) / math.sinh(double), eye_array(n)
    )
    step = (half @ dual @ half).toarray()
    # Turned around, a row is the same with a and c exchanged: two halves of the matrix are apart.
    values, vectors = [], []
    for sign in (1.0, -1.0):
        of_half, found = np.linalg.eigh(step[:n, :n] + sign * step[:n, : n - 1 : -1])
        values.append(of_half)
        vectors.append(np.vstack([found, sign * found[::-1]]) / math.sqrt(2.0))
    order = np.argsort(np.concatenate(values))
    values, vectors = np.concatenate(values)[order], np.hstack(vectors)[:, order]
    ends = half @ np.vstack([np.eye(n), np.eye(n)])
    ends = vectors.T @ ends / math.sqrt(2.0)
    # Eigenvalues come in pairs exp(+-2 e): the growing half, and beside it what the other half adds.  Beyond
    # the transition one e is 0 within rounding, and of that pair the ends may have nothing of either.
    times = (rows - 1) * np.log(values)
    grown, rest = ends[n:].copy(), ends[:n].copy()
    other = grown.copy()
    other[0] = rest[-1]
    if np.linalg.slogdet(other)[1] > np.linalg.slogdet(grown)[1]:
        grown, rest[-1] = other, ends[n]
        times[[n - 1, n]] = times[[n, n - 1]]
    beside = np.linalg.solve(grown.T, rest.T).T * np.exp((times[:n, None] - times[n:]) / 2)
    log_det = times[n:].sum() + 2 * np.linalg.slogdet(grown)[1]
    log_det += np.linalg.slogdet(np.eye(n) + beside.T @ beside)[1]
    factors = columns * (rows - 1) / 2 * math.log(2 * math.sinh(double))
    return edges * beta / 2 + columns * math.log(2) + factors + log_det / 2


def moments(rows: int, columns: int, beta: float, step: float = 1e-3) -> tuple[float, float]:
    """Mean and standard deviation of S, by differences of log C at seven points (error of order step^6)."""
    values = np.array([log_normaliser(rows, columns, beta + j * step) for j in range(-3, 4)])
    values -= values[3]
    mean = values @ np.array([-1, 9, -45, 0, 45, -9, 1]) / (60 * step)
    variance = values @ np.array([2, -27, 270, -490, 270, -27, 2]) / (180 * step**2)
    return float(mean), math.sqrt(variance)
