"""The documents say what the program does."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_table_of_keys_is_that_of_the_program():
    spec = importlib.util.spec_from_file_location("write_keys", ROOT / "scripts" / "write_keys.py")
    write_keys = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_keys)
    text = write_keys.PAGE.read_text(encoding="utf-8")
    assert write_keys.page(text) == text, "run python scripts/write_keys.py"
