"""The two ways a run ends that are not a defect of the program."""


class InputError(Exception):
    """Something the user gave cannot be right: shown as one line, exit code 2, nothing written."""


class Interrupted(Exception):
    """Stopped early with a checkpoint written: exit code 75, the same command continues."""
