"""What a command says on the screen: once, whatever the number of ranks."""

import sys

from ..image.pixels import Image
from ..runtime.parallel import Comm


def say(comm: Comm, text: str) -> None:
    """Print what the user asked for, on rank 0."""
    if comm.rank == 0:
        print(text, flush=True)


def note(image: Image) -> None:
    """Say what an image may have been taken for by mistake, beside the results; on one rank."""
    for text in image.notes:
        print(f"note: {text}", file=sys.stderr, flush=True)
