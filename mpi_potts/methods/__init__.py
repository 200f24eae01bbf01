"""The methods that fit an image, what all of them have in common, and the driver with its checkpoints.

`base` has the problem and what a method must answer; one module for each method; `driver` runs any of them;
`needs` and `timing` say beforehand what it takes.  The posterior of equation (6) by each method's own way; no
formula of its own but the step of the exchange algorithm.

May import: ground, kernels, numbers, runtime, io, config, image, model, estimation, binding, smc, labels.
"""
