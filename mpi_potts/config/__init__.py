"""The input: what each key may hold, the tables of keys, and reading them from TOML, --set and Python.

Every key is declared once, with its kind, its default and its meaning: those that several methods share in
`inputs`, those of one method where it is, known through `registry`.  No equation of the paper lives here.

May import: ground, numbers.
"""
