"""The file that a user means by a path on the command line."""

from pathlib import Path

from ..errors import InputError

NAMES = ("result.h5", "choice.h5", "study.h5", "binding.h5")


def file_of(path: Path) -> Path:
    """The file that a user means by a directory: its result, choice of labels, study or binding function."""
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).exists():
            return path / name
    raise InputError(f"{path}: has no {', '.join(NAMES)}; a file, or the directory of one, is accepted")
