"""Files: named arrays in HDF5, whole or not at all, with checksums, from any number of ranks.

`reading` and `store`, which writes, are the only modules that import h5py; `reading` needs no MPI.  `formats`
has the name and version of every kind of file; `fit_file` finds and writes those of a fit.  Nothing else here
knows what the arrays mean.  No equation of the paper lives here.

May import: ground, numbers, runtime.
"""
