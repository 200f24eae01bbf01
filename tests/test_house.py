"""The rules of the house: which module may import what, where randomness comes from, how long things are."""

import ast
from pathlib import Path

import pytest

import mpi_potts

PACKAGE = Path(mpi_potts.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

# A library, and the files or folders that alone may import it.
ROOMS = {
    "mpi4py": ("parallel.py", "__main__.py"),
    "h5py": ("store.py",),
    "numba": ("kernels/", "rng.py"),
    # Randomness is addressed (rng.py), never carried by a generator; what is stored can be read by anyone.
    "random": (),
    "secrets": (),
    "pickle": (),
    "marshal": (),
    "shelve": (),
}
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


def imports(tree):
    """Every absolute module name that a source imports, at any depth, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value, node.lineno


def stray_imports(file, text):
    found = set()
    for module, line in imports(ast.parse(text)):
        root = module.split(".")[0]
        if root in ROOMS and not file.startswith(ROOMS[root]):
            found.add(f"{file}:{line} imports {root}")
    return sorted(found)


def carried_randomness(file, text):
    """numpy's generators, however they are named: np.random, numpy.random, from numpy import random."""
    tree = ast.parse(text)
    lines = {line for module, line in imports(tree) if module.startswith("numpy.random")}
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    lines |= {node.lineno for node in attributes if ast.unparse(node) in ("np.random", "numpy.random")}
    return [f"{file}:{line} uses numpy.random" for line in sorted(lines)]


def pickled_arrays(file, text):
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword))
    return [
        f"{file}:{node.value.lineno} allows pickle"
        for node in calls
        if node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
    ]


def too_long(file, text):
    lines = text.count("\n")
    found = [f"{file} has {lines} lines"] if lines > LONGEST_FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > LONGEST_FUNCTION:
                found.append(f"{file}:{node.lineno} {node.name} has {length} lines")
    return found


RULES = (stray_imports, carried_randomness, pickled_arrays, too_long)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule(rule):
    assert SOURCES
    assert [breach for file, text in SOURCES.items() for breach in rule(file, text)] == []


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (stray_imports, "smc.py", "from mpi4py import MPI"),
        (stray_imports, "methods/smc.py", "def f():\n    import h5py as h"),
        (stray_imports, "methods/rng.py", "import numba.core"),
        (stray_imports, "commands/run.py", "importlib.import_module('h5py')"),
        (stray_imports, "store.py", "import pickle"),
        (carried_randomness, "noise.py", "x = np.random.default_rng(1)"),
        (carried_randomness, "noise.py", "from numpy.random import Generator"),
        (carried_randomness, "noise.py", "from numpy import random"),
        (pickled_arrays, "image.py", "np.load(path, allow_pickle=True)"),
        (too_long, "x.py", "\n" * 401),
        (too_long, "x.py", "def f():\n" + "    pass\n" * 60),
    ],
)
def test_a_breach_is_seen(rule, file, text):
    assert len(rule(file, text)) == 1


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (stray_imports, "kernels/general.py", "from numba import njit"),
        (stray_imports, "smc.py", "from .parallel import block"),
        (carried_randomness, "noise.py", "from .rng import normals\nrandom = normals"),
        (pickled_arrays, "image.py", "np.load(path, allow_pickle=False)"),
        (too_long, "x.py", "def f():\n" + "    pass\n" * 59),
    ],
)
def test_what_is_allowed_passes(rule, file, text):
    assert rule(file, text) == []
