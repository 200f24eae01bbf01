"""The methods that an input can name: each registers itself, with the keys that only it has.

A method is one module of the folder `methods/`, or any other module that calls `register` when it is
imported.  The folder is looked through when an input is first read, as one looks for plug-ins: nothing in
this layer knows a method by its name.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from .schema import Choice

# In study.methods, a method that simulates images in place of the binding function has this after its name.
PSEUDO = "-pseudo"
_FOLDER = "methods"


@dataclass(frozen=True)
class OwnTable:
    """A table of the input that belongs to one method: a frozen dataclass of keys, all with defaults.

    A method `check(self)` of `form`, if there is one, raises `schema.Refused` where the keys contradict each
    other.
    """

    name: str
    form: type
    meaning: str


class Declaration:
    """What reading an input must know of a method; `methods.base.Method` adds what fitting must know."""

    name: str  # the word for fit.method
    table: OwnTable | None = None  # its own table of the input
    pseudo_data: bool = False  # simulated images can take the place of the binding function


Declared = TypeVar("Declared", bound=Declaration)
_registered: dict[str, Declaration] = {}


def register(method: Declared) -> Declared:
    """Make a method known by its name; a name, or that of a table, which is taken is an error."""
    others = [other for other in _registered.values() if other.name != method.name]
    taken = {other.table.name: other.table.form for other in others if other.table is not None}
    if method.name in _registered and type(_registered[method.name]) is not type(method):
        raise ValueError(f"there is a method {method.name!r} already")
    if method.table is not None and taken.get(method.table.name, method.table.form) is not method.table.form:
        raise ValueError(f"there is a table [{method.table.name}] of another method already")
    _registered[method.name] = method
    return method


def forget(name: str) -> None:
    """Take a method out again; for tests."""
    del _registered[name]


def methods() -> Mapping[str, Declaration]:
    """Every method by its name, in alphabetical order; the first call imports the modules of `methods/`."""
    _look_for_methods()
    return dict(sorted(_registered.items()))


@cache
def _look_for_methods() -> None:
    package, folder = __name__.split(".")[0], Path(__file__).parent.parent / _FOLDER
    for module in pkgutil.iter_modules([str(folder)]):
        importlib.import_module(f"{package}.{_FOLDER}.{module.name}")


def own_tables() -> dict[str, OwnTable]:
    """The tables that belong to single methods, by their names."""
    tables = (method.table for method in methods().values())
    return {table.name: table for table in tables if table is not None}


def studied() -> dict[str, tuple[str, bool]]:
    """The words of study.methods: the name of the method, and whether it simulates images."""
    words = {name: (name, False) for name in methods()}
    words |= {f"{name}{PSEUDO}": (name, True) for name, method in methods().items() if method.pseudo_data}
    return dict(sorted(words.items()))


class MethodName(Choice):
    """The name of a method, as fit.method has it."""

    def __init__(self) -> None:
        """The words are those of the methods that are registered when they are asked for."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(methods())


class StudiedName(MethodName):
    """The name of a method, or of its form with simulated images, as study.methods has it."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(studied())
