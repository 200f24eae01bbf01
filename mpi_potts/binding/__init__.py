"""The binding function (paper, sections 3 and 4.1): mean and sd of S(z) given beta, computed, fitted and
stored.

`grid` chooses the betas, `compute` simulates at them on all ranks, `chains` keeps what was simulated,
`smooth` fits one curve, `function` is asked by fits, `file` is binding.h5.  Its log C(beta) is equation (7)
of the paper by path sampling, which makes equation (6) tractable.

May import: ground, numbers, runtime, io, config, model, estimation.
"""
