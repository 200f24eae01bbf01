"""The documents say what the program does."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from mpi_potts.estimation import verdicts
from mpi_potts.smc.sampler import Stop
from mpi_potts.smc.weights import Reason

ROOT = Path(__file__).resolve().parent.parent


def test_the_table_of_keys_is_that_of_the_program():
    spec = importlib.util.spec_from_file_location("write_keys", ROOT / "scripts" / "write_keys.py")
    write_keys = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_keys)
    text = write_keys.PAGE.read_text(encoding="utf-8")
    assert write_keys.page(text) == text, "run python scripts/write_keys.py"


# docs/warnings.md


def flat(text):
    return " ".join(text.split())


def yielded(tree):
    """How every sentence begins that the generators of a tree yield."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Constant | ast.JoinedStr):
            first = node.value.values[0] if isinstance(node.value, ast.JoinedStr) else node.value
            yield first.value.rstrip(" (,:;")


def warnings_in_the_code():
    """What every function of `posterior/cautions.py` says, and the cautions of every method."""
    found = [*yielded(ast.parse((ROOT / "mpi_potts" / "posterior" / "cautions.py").read_text()))]
    for path in sorted((ROOT / "mpi_potts" / "methods").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "cautions":
                found += yielded(node)
    return found


def test_every_warning_is_explained():
    page = flat((ROOT / "docs" / "warnings.md").read_text())
    found = warnings_in_the_code()
    assert len(found) >= 9
    assert [text for text in found if f"**{text}" not in page] == []


@pytest.mark.parametrize("words", [*Stop, *verdicts.Ended, "all iterations are done"])
def test_every_reason_to_stop_is_explained(words):
    assert f"| `{words}` |" in (ROOT / "docs" / "warnings.md").read_text()


def test_every_diagnostic_word_is_explained():
    page = (ROOT / "docs" / "warnings.md").read_text()
    for rhat, chains in ((1.0, 1), (1.03, 1), (2.0, 1), (2.0, 2), (float("nan"), 1)):
        assert f"| `{verdicts.settled(rhat, chains)}` |" in page
    for reason in Reason:
        assert f"{reason.value}: " in page


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_to_files(path):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)|src=\"([^\"]+)\"", path.read_text())
    local = [one or other for one, other in links if "://" not in (one or other)]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_pictures_are_small():
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    assert pictures and max(path.stat().st_size for path in pictures) < 150_000


def equations():
    """(number, file, function) of every row of the table from the paper's equations to the program."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    for number, row in re.findall(r"^\| \((\d+)\) \|(.*)$", page, re.MULTILINE):
        for file, functions in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", row):
            yield from ((int(number), file, name) for name in re.findall(r"`([\w.]+)`", functions))


def test_every_equation_of_the_paper_has_a_home():
    assert {number for number, *_ in equations()} == set(range(1, 12))


@pytest.mark.parametrize(("number", "file", "function"), [*equations()])
def test_an_equation_leads_to_its_function(number, file, function):
    body = ast.parse((ROOT / "mpi_potts" / file).read_text()).body
    for name in function.split("."):
        found = [
            node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        assert found, f"{file} has no {function}"
        body = found[0].body


def test_every_file_that_the_architecture_names_is_there():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([\w/]+(?:\.py|/))`", page.partition("## One run")[2])
    assert named
    assert [name for name in named if not (ROOT / "mpi_potts" / name).exists()] == []
