"""What a command says on the screen: once, whatever the number of ranks."""

from ..runtime.parallel import Comm


def say(comm: Comm, text: str) -> None:
    """Print what the user asked for, on rank 0."""
    if comm.rank == 0:
        print(text, flush=True)
