"""Chains of the labels z and the noise of one image (paper, section 4.2), and many of them over the ranks.

Equation (10) of the paper is a sweep of `chain`, by the kernel that `routes` chooses.  `starts` says where a
chain begins, `ensemble` runs the chains beside the SMC and after it, `matching` names the labels of
all of them, `guide` and `observed` are two forms of them.

May import: ground, kernels, numbers, runtime, io, model, estimation, binding, smc.
"""
