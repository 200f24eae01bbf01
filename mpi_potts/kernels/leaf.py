"""How functions inside a kernel's loops are compiled: without reference counts.

A slice of an array is an object with a counted reference, and counting is an atomic operation: a block of 512
sites takes slices by the dozen, and spent a quarter of its time on their counts.  A leaf works on arrays that
its caller holds: it may slice them, but neither make an array nor return one.
"""

from numba import njit

leaf = njit(cache=True, _nrt=False)
