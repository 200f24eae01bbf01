"""What a fit found: its numbers with their diagnostics, its cautions, and the result as files and Python have
it.

No equation of the paper of its own: summaries of the draws of (6) and (10).

May import: ground, numbers, runtime, io, model, estimation, binding, smc, labels, methods.
"""
