"""What draws and densities say, whatever they are draws of: formulas on whole arrays.

Autocorrelation times and standard errors of moments, R-hat and effective sizes of several chains, the
quadrature of a density in one dimension (equation (6) of the paper, given C(beta)), and regression
adjustment.  `verdicts` says in flags and words what such numbers mean, and computes nothing.

May import: ground, numbers.
"""
