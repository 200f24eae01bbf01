"""What a fit found: its numbers with their diagnostics, its cautions, and the result as files and Python have
it.

`outcome` gathers from all ranks what a fit found, `summary` and `precision` have its formulas, `cautions`
what to be careful with, `spare` which labels an image does not need, `datasets` the names in the files,
`words` what is said on the screen; `result` is what is read again from a file, without MPI and without a
compiler.  No equation of the paper of its own: summaries of the draws of (6) and (10).

May import: ground, numbers, runtime, io, model, estimation, binding, smc, labels, methods.
"""
