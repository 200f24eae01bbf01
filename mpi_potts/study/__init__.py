"""Many simulated images fitted by many methods (paper, section 5.1): the fits, and the scores of the methods.

May import: ground, numbers, runtime, io, config, image, model, binding, smc, methods, posterior.
"""
