"""The ways a run ends that are not a defect of the program."""


class InputError(Exception):
    """Something the user gave cannot be right: shown as one line, exit code 2, nothing written."""


class Damaged(InputError):
    """A file of ours is not as it was written.  Where it only saves work, the work is done again instead."""


class Foreign(Damaged):
    """A file does not begin as ours do: damaged there, or not ours, and then it must not be overwritten."""


class WriteFailed(InputError):
    """A disk failed in the middle of a parallel write.

    HDF5 can neither go on nor close such a file, and may crash when the process ends in the ordinary way: the
    job is to be ended by an abort, after the message.
    """


class Interrupted(Exception):
    """Stopped early with a checkpoint written: exit code 75, the same command continues."""
