"""The hidden Potts model: its prior, its noise, images drawn from it, and what is known exactly about it.

Equations of the paper: (5), the prior, sampled by `potts`; (6) and (7) exactly on small lattices (`exact`)
and (6) by the pseudolikelihood; (9) in `gaussian`, a noise model as `noise` has them, and in `simulate`.
S(z), equation (8), is `Lattice.statistic`.  Whole arrays in, whole arrays out: nothing here sees a rank.

May import: ground, kernels, numbers.
"""
