"""`mpi-potts run IMAGE --labels 5`: an image in place of an input file, and the input file it stands for.

That input, `input.toml` in the output, has the image, the number of labels and what `--set` says; all else is
left to the defaults, whose priors are those of the image.  Its paths are relative to it, those of the command
line to the current directory.  `mpi-potts run OUTPUT/input.toml` then is the same command.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..config import inputs, overrides
from ..config.inputs import Config
from ..config.keywords import to_toml
from ..config.schema import is_word
from ..errors import InputError
from ..image.readers import READERS
from ..io import files
from ..runtime.parallel import Comm, on_root

NAME = "input.toml"
HEAD = "# What a command with an image and no input file stood for.  Paths are relative to this file.\n"
# Keys that name files.
FILES = (
    ("image", "mask"),
    ("image", "graph"),
    ("precompute", "file"),
    ("precompute", "library"),
    ("fit", "start"),
)


def load(
    target: str, settings: Iterable[str] = (), output: str | None = None, labels: str | None = None
) -> Config:
    """The input of a command: that of an input file, or the one that an image stands for."""
    chosen = [] if labels is None else [f"model.labels={_labels(labels)}"]
    ending = next((each for each in READERS if target.lower().endswith(each)), None)
    if ending is None:
        return inputs.load(target, [*settings, *chosen], output)
    tables: dict[str, Any] = {"image": {}}
    for setting in [*settings, *chosen]:
        overrides.apply(tables, setting)
    for name in ("image", "model"):
        if not isinstance(tables.setdefault(name, {}), dict):
            raise InputError(f"--set {name}={tables[name]}: {name} is a table; must be table.key=value")
    if "path" in tables["image"]:
        raise InputError(f"--set image.path={tables['image']['path']}: the command has an image, {target}")
    if "labels" not in tables["model"]:
        raise InputError(f"{target}: --labels is missing; the number of kinds of pixels is needed, as in 3")
    if not Path(target).is_file():
        raise InputError(f"{target}: does not exist, or is not a file; an image or an input file is accepted")
    return _stands_for(Path(target), ending, tables, output)


def _stands_for(image: Path, ending: str, tables: dict[str, Any], output: str | None) -> Config:
    """The input of an image, with tables of keys that were set."""
    if output is None:
        k = tables["model"]["labels"]
        name = f"{k[0]}-{k[-1]}" if isinstance(k, list) and k else f"{k}"
        output = str(image.parent / f"{image.name[: -len(ending)]}_{name}_labels")
    place = Path(output)
    for table, key in FILES:
        given = tables.get(table, {}).get(key) if isinstance(tables.get(table), dict) else None
        if isinstance(given, str) and not (key == "start" and is_word(given)):
            tables[table][key] = os.path.relpath(given, place)
    tables["image"]["path"] = os.path.relpath(image, place)
    tables = {"output": os.path.abspath(place)} | tables
    found = inputs.parse(HEAD + to_toml("mpi-potts", tables), place / NAME, (), output)
    # OUTPUT/../IMAGE is no file before there is an output.
    for table, key in (("image", "path"), *FILES):
        if isinstance(name := getattr(found.table(table), key), Path):
            found = found.with_keys({table: {key: Path(os.path.normpath(name))}})
    return found


def _labels(text: str) -> str:
    """The value of model.labels: a number, or the list that FROM:TO stands for."""
    low, colon, high = text.partition(":")
    try:
        first, last = int(low), int(high) if colon else int(low)
    except ValueError:
        raise InputError(f"--labels {text}: a number is accepted, as in 5, or FROM:TO") from None
    if colon and not first < last <= first + 255:
        raise InputError(f"--labels {text}: FROM:TO is accepted, FROM smaller than TO")
    return str(list(range(first, last + 1))) if colon else str(first)


def keep(comm: Comm, config: Config, only_new: bool = False) -> None:
    """Collective.  Write the input that an image stands for into the output; an input file stays as it is.

    only_new : leave one that is there, of a fit that may not be of this input
    """
    if config.path == config.output / NAME:
        on_root(comm, _keep, config, only_new)


def _keep(config: Config, only_new: bool) -> None:
    if config.path.exists() and (only_new or config.path.read_text(encoding="utf-8") == config.text):
        return
    files.make_directory(config.output)
    files.write_text(config.path, config.text)
