"""One module for each command, with `execute(comm, config, options) -> exit code`.

`config` is None for the commands that take no input file.  `options` has quiet, fresh and max_hours.
"""
