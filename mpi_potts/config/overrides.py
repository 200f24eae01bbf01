"""`--set table.key=value`: one change to the tables of an input file, its value in TOML or a bare word."""

import tomllib
from typing import Any

from ..errors import InputError


def apply(tables: dict[str, Any], setting: str) -> str:
    """Put one `table.key=value` into the tables; returns the key."""
    name, equals, text = setting.partition("=")
    name = name.strip()
    *parents, last = name.split(".")
    if not equals or not all(parents) or not last:
        raise InputError(f"--set {_flat(setting)}: must be table.key=value")
    for parent in parents:
        tables = tables.setdefault(parent, {})
        if not isinstance(tables, dict):
            raise InputError(f"--set {_flat(setting)}: {parent} is not a table; must be table.key=value")
    tables[last] = _value(setting, text.strip())
    return name


def _value(setting: str, text: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        if not text or text[0] in "[{\"'":
            raise InputError(f"--set {_flat(setting)}: the value is not valid TOML") from None
        return text
    if set(document) != {"value"}:
        raise InputError(f"--set {_flat(setting)}: must be one value")
    return document["value"]


def _flat(text: str) -> str:
    return " ".join(text.split())
