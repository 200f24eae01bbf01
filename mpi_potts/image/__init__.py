"""Images: files to pixels y on a lattice, and label maps back to files of the same kind.

The vegetation index, equation (11) of the paper, is taken in `pixels`.

May import: ground, numbers, runtime, io, config.
"""
