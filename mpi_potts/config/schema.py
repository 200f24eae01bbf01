"""What one key of an input file may hold: a reader for each kind of value.

A `Kind` turns a value as TOML gives it into the value the program uses, or raises `Refused`; `accepts` is the
same rule in words, so that a message, `--help` and the documentation cannot say anything else than the check.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

LARGEST = 2**31 - 1  # counts above this fail in MPI calls


class Refused(Exception):
    """This value is not accepted; the text says what is, and `path` which key inside a table is meant."""

    def __init__(self, text: str, path: tuple[str, ...] = (), value: Any = None):
        super().__init__(text)
        self.path, self.value = path, value


def refusal(kind: Any) -> Refused:
    return Refused(f"must be {kind.accepts}")


def show(value: Any) -> str:
    """A value on one short line, in TOML's spelling."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except ValueError:  # an integer too long to print
        text = "(a number too long to show)"
    text = text.replace("NaN", "nan").replace("Infinity", "inf")
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class Integer:
    low: int = 0
    high: int = LARGEST

    @property
    def accepts(self) -> str:
        return (
            f"an integer from {self.low} to {self.high}"
            if self.high != LARGEST
            else f"an integer >= {self.low}"
        )

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            large = isinstance(value, int) and value > LARGEST == self.high
            raise Refused(f"must be an integer from {self.low} to {LARGEST}") if large else refusal(self)
        return value


@dataclass(frozen=True)
class Number:
    """A finite number in an interval; `open_low` and `open_high` leave the ends out."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    finite: bool = True

    @property
    def accepts(self) -> str:
        lower = f"{'>' if self.open_low else '>='} {self.low:g}" if self.low > -math.inf else ""
        upper = f"{'<' if self.open_high else '<='} {self.high:g}" if self.high < math.inf else ""
        limits = " and ".join(filter(None, (lower, upper)))
        return f"{'a finite number' if self.finite else 'a number'} {limits}".rstrip()

    def _inside(self, number: float) -> bool:
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return math.isfinite(number) and above and below

    def read(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(self)
        try:
            number = float(value)
        except OverflowError:
            raise refusal(self) from None
        if self.finite and not self._inside(number):
            raise refusal(self)
        return number


@dataclass(frozen=True)
class Flag:
    accepts: str = "true or false"

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise refusal(self)
        return value


@dataclass(frozen=True)
class Text:
    accepts: str = "text in quotes"

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise refusal(self)
        return value


class Choice:
    """One of a few words."""

    def __init__(self, *words: str):
        self._words = words

    @property
    def words(self) -> tuple[str, ...]:
        return self._words

    @property
    def accepts(self) -> str:
        quoted = [f'"{word}"' for word in self.words]
        return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise refusal(self)
        return value


class WordOrFile(Choice):
    """One of a few words, or the name of a file, which has a point or a slash in it."""

    @property
    def accepts(self) -> str:
        return f"{super().accepts}, or the name of a file"

    def read(self, value: Any) -> Any:
        if isinstance(value, str) and not is_word(value):
            return Path(Text().read(value))
        return super().read(value)


def is_word(text: str) -> bool:
    """Whether a text is not the name of a file."""
    return not {".", "/"} & set(text)


class Numbers:
    """One of a few integers."""

    def __init__(self, *numbers: int):
        self.numbers = numbers

    @property
    def accepts(self) -> str:
        return f"{', '.join(map(str, self.numbers[:-1]))} or {self.numbers[-1]}"

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in self.numbers:
            raise refusal(self)
        return value


@dataclass(frozen=True)
class Named:
    """A word of a choice, alone or with a name of the user's after an underscore."""

    kind: Choice

    @property
    def accepts(self) -> str:
        return f"{self.kind.accepts}, or one of these with _NAME after it"

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[^_]+(_[A-Za-z0-9.-]+)?", value):
            raise refusal(self)
        self.kind.read(value.partition("_")[0])
        return value


@dataclass(frozen=True)
class Items:
    """A list of values of one kind, `lengths` of them (any number from `least` by default)."""

    kind: Any
    lengths: tuple[int, ...] = ()
    least: int = 1

    @property
    def accepts(self) -> str:
        how_many = f" of {' or '.join(map(str, self.lengths))}" if self.lengths else ""
        return f"a list{how_many}, each {self.kind.accepts}"

    def read(self, value: Any) -> tuple:
        if not isinstance(value, list) or len(value) < self.least:
            raise refusal(self)
        if self.lengths and len(value) not in self.lengths:
            raise refusal(self)
        try:
            return tuple(self.kind.read(item) for item in value)
        except Refused:
            raise refusal(self) from None


class Either:
    """A value of any one of several kinds."""

    def __init__(self, *kinds: Any):
        self.kinds = kinds

    @property
    def accepts(self) -> str:
        return ", or ".join(kind.accepts for kind in self.kinds)

    def read(self, value: Any) -> Any:
        for kind in self.kinds:
            try:
                return kind.read(value)
            except Refused:
                continue
        raise refusal(self)


@dataclass(frozen=True)
class Table:
    """A table, read into a dataclass of keys.

    more : tables inside this one that its class does not declare, by name; they are read into its field `own`
    """

    form: type
    more: "Mapping[str, Table]" = field(default_factory=dict)

    @property
    def accepts(self) -> str:
        return "a table with the keys " + ", ".join(f.name for f in keys_of(self.form))

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise refusal(self)
        known = {f.name: f.metadata["kind"] for f in keys_of(self.form)} | dict(self.more)
        for name in value:
            if name not in known:
                raise Refused(f"unknown key; {suggestion(name, known)}", (name,), value[name])
        if missing := [f.name for f in keys_of(self.form) if required(f) and f.name not in value]:
            raise Refused(f"{missing[0]} is missing; must be {self.accepts}")
        values = {name: _read_inside(name, known[name], item) for name, item in value.items()}
        if not self.more:
            return self.form(**values)
        defaults = {name: table.form() for name, table in self.more.items()}
        own = {name: values.pop(name, default) for name, default in defaults.items()}
        return self.form(**values, own=own)


def _read_inside(name: str, kind: Any, value: Any) -> Any:
    """The value of one key; what is refused there says which key it was."""
    try:
        return kind.read(value)
    except Refused as refused:
        inside = refused.value if refused.path else value
        raise Refused(str(refused), (name, *refused.path), inside) from None


def suggestion(name: str, known: Any) -> str:
    """The nearest of the known names, or all of them."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"accepted here: {', '.join(known)}"


def key(kind: Any, default: Any, help: str) -> Any:
    """A dataclass field that is a key of the input file."""
    return field(default=default, metadata={"kind": kind, "help": help, "required": False})


def required_key(kind: Any, help: str) -> Any:
    """A key of a nested table that has no default."""
    return field(metadata={"kind": kind, "help": help, "required": True})


def is_key(field: Field) -> bool:
    """Whether a dataclass field is a key of the input file."""
    return "kind" in field.metadata


def keys_of(form: type) -> list[Field]:
    """The fields of a dataclass that are keys of the input file."""
    return list(filter(is_key, fields(form)))


def required(key: Field) -> bool:
    """Whether a key has no default."""
    return key.metadata["required"]


def check_burn_in(table: str, burn_in: int, iterations: int) -> None:
    """Refuse a burn-in that leaves no iterations."""
    if burn_in >= iterations:
        accepts = f"must be an integer smaller than {table}.iterations = {iterations}"
        raise Refused(accepts, (table, "burn_in"), burn_in)


def rows(form: type, prefix: str = "") -> list[tuple[str, str, str, str]]:
    """(key, default, accepts, help) for every key of a dataclass, nested ones spelt out."""
    out = []
    for f in keys_of(form):
        kind, default = f.metadata["kind"], None if required(f) else f.default
        if isinstance(kind, Table) and is_dataclass(default):
            out += rows(kind.form, f"{prefix}{f.name}.")
            continue
        shown = "" if default is None else show(default)
        out.append((prefix + f.name, shown, kind.accepts, f.metadata["help"]))
    return out
