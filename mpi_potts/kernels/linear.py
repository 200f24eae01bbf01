"""Products of matrices and systems of linear equations, in an order that is written down.

A linear-algebra library chooses its kernels by the CPU, and their sums by the width of its vectors.  Here
every element is a sum in the order of its index; the inner loops run over elements, so that vectors of any
width give the same bits.
"""

import numpy as np
from numba import njit

from .elementary import log


@njit(cache=True)
def _add_row(out, factor, row):
    """out += factor row."""
    for j in range(out.size):
        out[j] += factor * row[j]


@njit(cache=True)
def product(a, b, out):
    """out (m, n) = a (m, l) b (l, n)."""
    out[:] = 0.0
    for i in range(a.shape[0]):
        row = out[i]
        for l in range(a.shape[1]):
            if a[i, l] != 0.0:
                _add_row(row, a[i, l], b[l])


@njit(cache=True)
def apply(a, x, out):
    """out (m,) = a (m, l) x (l,)."""
    for i in range(a.shape[0]):
        row, total = a[i], 0.0
        for l in range(row.size):
            total += row[l] * x[l]
        out[i] = total


@njit(cache=True)
def _add_four(out, f0, f1, f2, f3, r0, r1, r2, r3):
    for j in range(out.size):
        out[j] = (((out[j] + f0 * r0[j]) + f1 * r1[j]) + f2 * r2[j]) + f3 * r3[j]


@njit(cache=True)
def _extent(r0, r1, r2, r3):
    """The columns first..last-1 outside of which all four rows are 0."""
    first, last = 0, r0.size
    while last > 0 and r0[last - 1] == r1[last - 1] == r2[last - 1] == r3[last - 1] == 0.0:
        last -= 1
    while first < last and r0[first] == r1[first] == r2[first] == r3[first] == 0.0:
        first += 1
    return first, last


@njit(cache=True)
def gram(a, out):
    """out (n, n) = a' a of a (m, n), the rows in their order, four at a time."""
    m, n = a.shape
    out[:] = 0.0
    whole = m // 4 * 4
    for r in range(0, whole, 4):
        r0, r1, r2, r3 = a[r], a[r + 1], a[r + 2], a[r + 3]
        first, last = _extent(r0, r1, r2, r3)
        for i in range(first, last):
            _add_four(
                out[i, i:last], r0[i], r1[i], r2[i], r3[i], r0[i:last], r1[i:last], r2[i:last], r3[i:last]
            )
    for r in range(whole, m):
        for i in range(n):
            _add_row(out[i, i:], a[r, i], a[r, i:])
    for i in range(n):
        for j in range(i):
            out[i, j] = out[j, i]


@njit(cache=True)
def _pivot(a, column):
    """The row from `column` on with the largest element of this column."""
    best = column
    for i in range(column + 1, a.shape[0]):
        if abs(a[i, column]) > abs(a[best, column]):
            best = i
    return best


@njit(cache=True)
def eliminate(a, right):
    """Solve a x = right (n, m) by elimination with row pivots, in place; log |det a|, -inf if it is 0."""
    n = a.shape[0]
    determinant = 0.0
    for column in range(n):
        best = _pivot(a, column)
        if a[best, column] == 0.0:
            return -np.inf
        if best != column:
            for j in range(column, n):
                a[column, j], a[best, j] = a[best, j], a[column, j]
            for j in range(right.shape[1]):
                right[column, j], right[best, j] = right[best, j], right[column, j]
        determinant += log(abs(a[column, column]))
        for i in range(column + 1, n):
            factor = -a[i, column] / a[column, column]
            if factor != 0.0:
                _add_row(a[i, column + 1 :], factor, a[column, column + 1 :])
                _add_row(right[i], factor, right[column])
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            _add_row(right[i], -a[i, j], right[j])
        for j in range(right.shape[1]):
            right[i, j] /= a[i, i]
    return determinant


# Systems that are solved side by side.
LANES = 8


@njit(cache=True)
def _add_lanes(out, factor, row, first):
    """out (n, LANES) += factor (LANES,) row (n, LANES), from the row `first` on."""
    for j in range(first, out.shape[0]):
        for lane in range(LANES):
            out[j, lane] += factor[lane] * row[j, lane]


@njit(cache=True)
def eliminate_definite(a, right, determinant):
    """As `eliminate` without pivots, of LANES positive definite matrices a (n, n, LANES), of which the upper
    triangles are taken, and right sides (n, LANES).  determinant (LANES,) : log det; -inf, with an x that
    means nothing, for a matrix that is not positive definite."""
    n, factor = a.shape[0], np.empty(LANES)
    determinant[:] = 0.0
    for column in range(n):
        for lane in range(LANES):
            if a[column, column, lane] > 0.0:
                determinant[lane] += log(a[column, column, lane])
            else:
                determinant[lane], a[column, column, lane] = -np.inf, 1.0
        for i in range(column + 1, n):
            for lane in range(LANES):
                factor[lane] = -a[column, i, lane] / a[column, column, lane]
                right[i, lane] += factor[lane] * right[column, lane]
            _add_lanes(a[i], factor, a[column], i)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            for lane in range(LANES):
                right[i, lane] -= a[i, j, lane] * right[j, lane]
        for lane in range(LANES):
            right[i, lane] /= a[i, i, lane]
