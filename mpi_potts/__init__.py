"""Bayesian segmentation of large images with the hidden Potts model.

The posterior of the smoothing parameter beta is found by sequential Monte Carlo with approximate Bayesian
computation, on any number of MPI ranks, from a precomputed binding function: the mean and standard deviation
of the statistic S(z) for each beta.
"""

__version__ = "0.1.0"
