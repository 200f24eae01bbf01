"""The rules of the house: which module may import what, where randomness comes from, how long things are."""

import ast
from pathlib import Path

import pytest

import mpi_potts

PACKAGE = Path(mpi_potts.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

# A library, and the files or folders that alone may import it.
ROOMS = {
    "mpi4py": ("runtime/parallel.py", "__main__.py"),
    "h5py": ("io/store.py",),
    "numba": ("kernels/",),
    # Randomness is addressed (rng.py), never carried by a generator; what is stored can be read by anyone.
    "random": (),
    "secrets": (),
    "pickle": (),
    "marshal": (),
    "shelve": (),
}
# What numpy, its libraries and the C library compute in another way on another CPU; `arithmetic.py` and
# `kernels/elementary.py` have the same with operations that are written down.
_FUNCTIONS = """
    exp exp2 expm1 log log2 log10 log1p logaddexp pow power float_power sin cos tan sinh cosh tanh asin acos
    atan atan2 asinh acosh atanh arcsin arccos arctan arctan2 arcsinh arccosh arctanh hypot cbrt gamma lgamma
    erf erfc dot vdot inner matmul einsum tensordot linalg fft polynomial polyfit convolve correlate cov
    corrcoef
""".split()
MACHINE = {f"{module}.{name}" for module in ("np", "numpy", "math") for name in _FUNCTIONS}
# Reports are looked at, not compared.
REPORTS = ("report/figures.py", "report/binding.py", "report/page.py", "report/pictures.py")

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


def left_to_the_machine(file, text):
    """Elementary functions, powers, matrix products and compilers' liberties whose bits depend on the CPU."""
    if file in REPORTS:
        return []
    tree = ast.parse(text)
    lines = {line for module, line in imports(tree) if module in MACHINE or module.startswith("statistics")}
    for node in ast.walk(tree):
        used = isinstance(node, ast.Attribute) and ast.unparse(node) in MACHINE
        matrix = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _number(node)
        free = isinstance(node, ast.keyword) and node.arg == "fastmath"
        if used or matrix or power or free:
            lines.add((node.value if free else node).lineno)
    return [f"{file}:{line} leaves its bits to the machine" for line in sorted(lines)]


def _number(node):
    """Whether an expression consists of numbers alone."""
    return not any(isinstance(part, ast.Name | ast.Attribute | ast.Call) for part in ast.walk(node))


def too_long(file, text):
    lines = text.count("\n")
    found = [f"{file} has {lines} lines"] if lines > LONGEST_FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > LONGEST_FUNCTION:
                found.append(f"{file}:{node.lineno} {node.name} has {length} lines")
    return found


RULES = (stray_imports, carried_randomness, pickled_arrays, left_to_the_machine, too_long)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule(rule):
    assert SOURCES
    assert [breach for file, text in SOURCES.items() for breach in rule(file, text)] == []


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (stray_imports, "smc.py", "from mpi4py import MPI"),
        (stray_imports, "smc/sampler.py", "def f():\n    import h5py as h"),
        (stray_imports, "rng.py", "import numba.core"),
        (stray_imports, "cli/run.py", "importlib.import_module('h5py')"),
        (stray_imports, "io/store.py", "import pickle"),
        (carried_randomness, "model/noise.py", "x = np.random.default_rng(1)"),
        (carried_randomness, "model/noise.py", "from numpy.random import Generator"),
        (carried_randomness, "model/noise.py", "from numpy import random"),
        (pickled_arrays, "image/pixels.py", "np.load(path, allow_pickle=True)"),
        (left_to_the_machine, "binding/smooth.py", "y = np.exp(x)"),
        (left_to_the_machine, "binding/smooth.py", "from numpy import log"),
        (left_to_the_machine, "binding/smooth.py", "from statistics import NormalDist"),
        (left_to_the_machine, "binding/smooth.py", "a @ b"),
        (left_to_the_machine, "binding/smooth.py", "a @= b"),
        (left_to_the_machine, "binding/smooth.py", "np.linalg.solve"),
        (left_to_the_machine, "binding/smooth.py", "x ** 2"),
        (left_to_the_machine, "kernels/x.py", "@njit(cache=True, fastmath={'reassoc'})\ndef f():\n    pass"),
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
        (carried_randomness, "model/noise.py", "from .rng import normals\nrandom = normals"),
        (pickled_arrays, "image/pixels.py", "np.load(path, allow_pickle=False)"),
        (left_to_the_machine, "binding/smooth.py", "x = arithmetic.exp(y) * 2.0**-53 + np.sqrt(z).sum()"),
        (left_to_the_machine, "report/figures.py", "np.exp(x)"),
        (too_long, "x.py", "def f():\n" + "    pass\n" * 59),
    ],
)
def test_what_is_allowed_passes(rule, file, text):
    assert rule(file, text) == []
