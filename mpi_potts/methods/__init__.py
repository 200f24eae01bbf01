"""The methods that fit an image, what all of them have in common, and the driver with its checkpoints.

`base` has the problem and what a method must answer.  Each method is one module that registers itself; some
are built on `joint_chains`.  `adapt` grows the binding function that an input needs, `answers` says which
file has it.  `driver` runs any of them; `needs` and `timing` say beforehand what that
takes.  The posterior of equation (6) by each method's own way; no formula but the density of beta given
observed labels, and the step of the exchange algorithm.

May import: ground, kernels, numbers, runtime, io, config, image, model, estimation, binding, smc, labels.
"""
