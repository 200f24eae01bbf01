"""Timings of mpi_potts: `make bench`, or `python -m benchmarks --help`."""
