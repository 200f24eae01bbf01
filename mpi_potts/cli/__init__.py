"""The command line: `parser` has the commands and their options, and each command is a module.

A command has `execute(comm, config, options) -> exit code`.  `config` is None for the commands that take no
input file.  `options` has set, output, quiet, fresh and max_hours, and the file of a command that takes one
as target.

May import: ground, kernels, numbers, runtime, io, config, image, model, estimation, binding, smc, methods,
posterior, study, report.
"""
