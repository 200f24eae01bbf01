"""The machine: ranks, threads, signals and clocks, memory, and progress on the screen.

`parallel` is the only module beside `__main__` that imports mpi4py.  No equation of the paper lives here.

May import: ground, numbers.
"""
