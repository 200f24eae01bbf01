"""Disks that are small or full, directories that are read-only, files that are damaged."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SIZE = 4  # MB of the small disks


def mountable() -> bool:
    """Whether small disks can be made here."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as place:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
            return False
        return subprocess.run(["umount", place], capture_output=True).returncode == 0


@contextlib.contextmanager
def small_disk(output: Path, kept: Path):
    """The directory `output` on a disk of a few MB, with what was in it; `kept`: a name for the meantime."""
    output.rename(kept)
    output.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "tmpfs", output], check=True)
    try:
        shutil.copytree(kept, output, dirs_exist_ok=True)
        yield
        shutil.rmtree(kept)
        shutil.copytree(output, kept)
    finally:
        subprocess.run(["umount", "-l", output], check=True)
    output.rmdir()
    kept.rename(output)


def fill(directory):
    """Take all that is left of the disk."""
    with open(directory / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        for piece in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(piece)) == piece:
                    pass


@contextlib.contextmanager
def read_only(directory: Path):
    """Nothing can be made or renamed in a directory; root needs more than its mode."""
    # The other ranks go on: a directory may be gone before its turn comes.
    places = [place for place, _, _ in os.walk(directory)][::-1]
    change, back = ("+i", "-i") if os.geteuid() == 0 else ("a-w", "u+w")
    program = "chattr" if os.geteuid() == 0 else "chmod"
    codes = [subprocess.run([program, change, place], capture_output=True).returncode for place in places]
    if codes[-1]:
        raise OSError(f"{directory} cannot be made read-only here")
    try:
        yield
    finally:
        for place in places:
            subprocess.run([program, back, place], capture_output=True)


def lockable(directory: Path) -> bool:
    """Whether a directory can be made read-only here."""
    try:
        with read_only(directory):
            return not os.access(directory, os.W_OK) or os.geteuid() == 0
    except OSError:
        return False


def damage(path: Path, how: str, share: float) -> None:
    data = bytearray(path.read_bytes())
    if how == "emptied":
        data = data[:0]
    elif how == "truncated":
        data = data[: int(share * (len(data) - 1))]
    else:
        # Not among the blanks after the seal, which nobody reads.
        place = 512 + int(share * (len(data) - 513))
        data[place] ^= 1 << int(8 * share) % 8
    path.write_bytes(data)
