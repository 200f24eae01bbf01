"""Files: named arrays in HDF5, whole or not at all, with checksums, from any number of ranks.

`store` is the only module that imports h5py.  Nothing here knows what the arrays mean; `fit_file` has the
names and versions of the files of a fit.  No equation of the paper lives here.

May import: ground, numbers, runtime.
"""
