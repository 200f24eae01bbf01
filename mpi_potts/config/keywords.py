"""Keyword arguments as the text of an input file, so that Python and the command line share one reader.

A keyword is a table with a dictionary, `smc={"particles": 500}`, or a key by its own name, `particles=500`.
Each function has the tables of its command, its own first: a key is looked for in that one, and else must be
in only one of the others.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from . import registry
from .inputs import Config
from .schema import keys_of, suggestion

_BARE = re.compile(r"[A-Za-z0-9_-]+")


# What each function takes beside the seed: the tables that its command reads, its own first.
TABLES = {
    "precompute": ("precompute", "image", "model", "prior", "run"),
    "fit": ("fit", "image", "model", "prior", "precompute", "smc", "pseudo_data", "run"),
    "simulate": ("simulate", "image", "model", "prior", "run"),
}


def _keys(function: str) -> dict[str, tuple[str, ...]]:
    """The keys of the tables of a function, and under "" the one that stands above them."""
    forms = {f.name: f.metadata["kind"].form for f in keys_of(Config) if f.name in TABLES[function]}
    forms = {name: forms[name] for name in TABLES[function]}
    if function == "fit":
        forms |= {name: table.form for name, table in registry.own_tables().items()}
    return {"": ("seed",)} | {name: tuple(key.name for key in keys_of(form)) for name, form in forms.items()}


def to_tables(name: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the function `name` as the tables of an input file."""
    call, own, known = f"mpi_potts.{name}", TABLES[name][0], _keys(name)
    tables: dict[str, Any] = {}
    for keyword, value in keywords.items():
        if value is None:
            continue
        if keyword in known and not isinstance(value, Mapping):
            keys = ", ".join(known[keyword])
            raise InputError(f"{call}: {keyword} is a table; a dictionary with {keys} is accepted")
        changes = dict(value) if keyword in known else {keyword: value}
        table = keyword if keyword in known else _home(call, own, known, keyword)
        target = tables.setdefault(table, {}) if table else tables
        for key in changes:
            if key in target:
                raise InputError(f"{call}: {table}.{key} is given twice; once is accepted")
        target |= changes
    return tables


def _home(call: str, own: str, known: Mapping[str, tuple[str, ...]], name: str) -> str:
    """The table of a key that was given by its own name."""
    homes = [table for table, keys in known.items() if name in keys]
    if own in homes or len(homes) == 1:
        return own if own in homes else homes[0]
    if homes:
        keys, example = " or ".join(f"{table}.{name}" for table in homes), f"{homes[0]}={{{name!r}: ...}}"
        raise InputError(f"{call}: {name} may be {keys}; the table is accepted, as in {example}")
    names = [*filter(None, known), *(key for keys in known.values() for key in keys)]
    near = suggestion(name, names)
    raise InputError(f"{call}: {name}: unknown key; {near if near.endswith('?') else 'see docs/files.md'}")


def to_toml(call: str, tables: Mapping[str, Any]) -> str:
    """The text of an input file."""
    return "\n".join(_lines(call, tables)) + "\n"


def _lines(call: str, tables: Mapping[str, Any]) -> Iterator[str]:
    for name, value in tables.items():
        if not isinstance(value, Mapping):
            yield f"{name} = {_value(call, name, value)}"
    for name, table in tables.items():
        if isinstance(table, Mapping):
            yield f"[{name}]"
            yield from (
                f"{_key(k)} = {_value(call, f'{name}.{k}', v)}" for k, v in table.items() if v is not None
            )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(call: str, name: str, value: Any) -> str:
    """One value in TOML; numpy's numbers and arrays count as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(call, name, item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(k)} = {_value(call, name, v)}' for k, v in value.items())} }}"
    raise InputError(
        f"{call}: {name}: {type(value).__name__} is not accepted; a number, text or a list of them"
    )
