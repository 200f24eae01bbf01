"""Every kind of file that the program writes in HDF5: its name and the newest version that is read.

They stand here, apart from the code that makes what is in the files, so that who opens a file needs nothing
of that code.  A change that makes the content of a file different bumps its version.
"""

from typing import NamedTuple


class Format(NamedTuple):
    """A kind of file: the attribute `format` that it carries, and the newest version of it."""

    name: str
    version: int


IMAGE = Format("mpi_potts image", 1)  # a synthetic image with its truth
BINDING = Format("mpi_potts binding", 1)  # a binding function
CHAINS = Format("mpi_potts chains", 1)  # the chains that a binding function is computed from
CHECKPOINT = Format("mpi_potts checkpoint", 3)  # where a fit stands
RESULT = Format("mpi_potts result", 1)  # what a fit found
EVIDENCE = Format("mpi_potts evidence", 1)  # of a number of labels, after its fit
CHOICE = Format("mpi_potts choice", 1)  # of several numbers of labels
STUDY_PART = Format("mpi_potts study part", 3)  # one image of a study by one method
STUDY = Format("mpi_potts study", 3)  # all of them
LIBRARY = Format("mpi_potts library", 1)  # moments of reference boxes, from which others are composed
