"""SMC-ABC for beta (paper, section 2.1): weights, the sampler, and where pseudo-statistics come from.

Equations of the paper: (1), (2) and (3) in `weights`, (4) in `sampler`.  The sampler asks for S(z) and does
not know whether labels are hidden.

May import: ground, kernels, numbers, runtime, model.
"""
