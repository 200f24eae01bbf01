"""The rules of the house: which module may import what, where randomness comes from, what a folder says.

Which layer imports which stands in docs/architecture.md, and at the door of every folder.  How long files and
functions are is advice: `python tests/test_house.py` prints it.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import mpi_potts

PACKAGE = Path(mpi_potts.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
DOORS = {file.partition("/")[0]: text for file, text in SOURCES.items() if file.endswith("/__init__.py")}
ARCHITECTURE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"

# A library, and the files or folders that alone may import it.
ROOMS = {
    "mpi4py": ("runtime/parallel.py", "__main__.py"),
    "h5py": ("io/reading.py", "io/store.py"),
    "numba": ("kernels/",),
    "llvmlite": ("kernels/",),
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
    corrcoef interp
""".split()
MACHINE = {f"{module}.{name}" for module in ("np", "numpy", "math") for name in _FUNCTIONS}
# Reports are looked at, not compared.
REPORTS = ("report/figures.py", "report/binding.py", "report/page.py", "report/pictures.py")

# Advice: a file or a function that is longer may have two subjects.
LONG_FILE = 400
LONG_FUNCTION = 60


def table_of_layers(page):
    """{layer: its files and folders}, lowest first, from the table of the page."""
    rows = re.findall(r"^\| (\w+) \| (`.*?`) \|", page.partition("## The layers")[2], re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", where) for name, where in rows}


LAYERS = table_of_layers(ARCHITECTURE.read_text())
ORDER = [*LAYERS]


def layer_of(file):
    """The layer of a file or folder, by its path inside the package."""
    first, slash, _ = file.partition("/")
    return next((name for name, places in LAYERS.items() if first + slash in places), None)


def door_of(text):
    """The layers that a folder may import, as its docstring says."""
    words = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    found = re.search(r"May import: ([\w, ]+)\.$", words)
    return found and found[1].split(", ")


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


def own_imports(file, tree):
    """The place inside the package of every import from it, `io/store` or `rng`, with its line."""
    here = file.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1] + (node.module.split(".") if node.module else [])
            for name in node.names:
                yield "/".join([*base, name.name]), node.lineno
    for module, line in imports(tree):
        if module.startswith("mpi_potts."):
            yield module.removeprefix("mpi_potts.").replace(".", "/"), line


def imported_layer(place):
    """The layer of an imported place, which may end in a name inside a module."""
    first, slash, _ = place.partition("/")
    # A name of the package itself, such as its version, is on the ground.
    return layer_of(f"{first}/") or layer_of(f"{first}.py") or (None if slash else ORDER[0])


def upward_imports(file, text):
    """Imports of a layer above that of the file, or of one that the door of its folder does not name."""
    layer, found = layer_of(file), set()
    if layer is None:
        return [f"{file} has no layer in docs/architecture.md"]
    door = door_of(DOORS[layer]) if layer in DOORS else None
    for place, line in own_imports(file, ast.parse(text)):
        other = imported_layer(place)
        if other is None:
            found.add(f"{file}:{line} imports {place}, which has no layer in docs/architecture.md")
        elif ORDER.index(other) > ORDER.index(layer):
            found.add(f"{file}:{line} imports {other}, a layer above {layer}")
        elif door is not None and other not in (layer, *door):
            found.add(f"{file}:{line} imports {other}, which the door of {layer} does not name")
    return sorted(found)


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


def names_of_tex(file, text):
    """Labels of the paper's source where its number of an equation or a section should stand."""
    pattern = r"\b(?:eq|s|f|alg):[a-z]\w+|\bequations? [a-z]+_[a-z]\w*"
    return [f"{file} cites {found[0]}" for found in re.finditer(pattern, text)]


def passing_on(file, text):
    """A module with nothing of its own, which only passes on the names of others."""
    statements = [node for node in ast.parse(text).body if not is_docstring(node)]
    only_imports = all(isinstance(node, ast.Import | ast.ImportFrom) or sets_all(node) for node in statements)
    return [f"{file} only passes on the names of others"] if statements and only_imports else []


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def sets_all(node):
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def unannotated(file, text):
    """Public functions, and methods of public classes, that do not say what they take and return.

    numba finds out by itself what a compiled function takes.
    """
    found = []
    for owner, node in public_functions(ast.parse(text)):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if owner and not decorated(node, "staticmethod"):
            arguments = arguments[1:]
        arguments += [more for more in (node.args.vararg, node.args.kwarg) if more]
        missing = [argument.arg for argument in arguments if argument.annotation is None]
        if node.returns is None and node.name != "__init__":
            missing.append("what it returns")
        if missing:
            found.append(f"{file}:{node.lineno} {owner}{node.name} does not annotate {', '.join(missing)}")
    return found


def public_functions(tree, owner=""):
    """("Class." or "", node) of every function that other modules may call and numba does not compile."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            public = not node.name.startswith("_") or node.name in ("__init__", "__call__")
            if public and not decorated(node, "njit", "leaf", "intrinsic"):
                yield owner, node


def decorated(node, *names):
    """Whether a function has a decorator of one of these names, called or not."""
    decorators = (part.func if isinstance(part, ast.Call) else part for part in node.decorator_list)
    return any(ast.unparse(decorator).rpartition(".")[2] in names for decorator in decorators)


RULES = (
    stray_imports,
    upward_imports,
    carried_randomness,
    pickled_arrays,
    left_to_the_machine,
    names_of_tex,
    passing_on,
    unannotated,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_keeps_the_rule(rule):
    assert SOURCES
    assert [breach for file, text in SOURCES.items() for breach in rule(file, text)] == []


def test_every_folder_has_a_door_and_a_layer():
    folders = {file.partition("/")[0] for file in SOURCES if "/" in file}
    assert (
        folders
        == {*DOORS}
        == {place[:-1] for places in LAYERS.values() for place in places if place[-1] == "/"}
    )
    # Where compiled kernels are kept, and for what CPU, must be known before the first of them is defined.
    more = {"kernels": ["from . import cache, widths", "cache.ensure()", "widths.widen()"]}
    for folder, text in DOORS.items():
        held = [ast.unparse(statement) for statement in ast.parse(text).body[1:]]
        assert held == more.get(folder, []), f"{folder}/__init__.py holds more than its docstring"


def repeated_classes(sources):
    """Names of public classes that stand in more than one module: a reader would have to ask which it is."""
    classes = Counter(
        node.name
        for text in sources.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name for name, times in classes.items() if times > 1}


def test_a_public_class_has_a_name_of_its_own():
    assert repeated_classes(SOURCES) == set()
    twice = {"a.py": "class Fit:\n    pass", "b.py": "class Fit:\n    pass\nclass Other:\n    pass"}
    assert repeated_classes(twice) == {"Fit"}


@pytest.mark.parametrize("folder", sorted(DOORS))
def test_a_door_names_layers_below_its_own(folder):
    named = door_of(DOORS[folder])
    assert named, f"{folder}/__init__.py does not end with `May import: ...`"
    below = ORDER[: ORDER.index(folder)]
    assert named == [name for name in below if name in named]


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (stray_imports, "smc/sampler.py", "from mpi4py import MPI"),
        (stray_imports, "smc/sampler.py", "def f():\n    import h5py as h"),
        (stray_imports, "rng.py", "import numba.core"),
        (stray_imports, "arithmetic.py", "from llvmlite import ir"),
        (stray_imports, "cli/run.py", "importlib.import_module('h5py')"),
        (stray_imports, "io/store.py", "import pickle"),
        (upward_imports, "io/store.py", "def f():\n    from ..report import page"),
        (upward_imports, "io/store.py", "from mpi_potts.report import page"),
        (upward_imports, "io/store.py", "import mpi_potts.report.page"),
        (upward_imports, "lattice.py", "from .kernels.gibbs import sweeps"),
        (upward_imports, "posterior/result.py", "from ..cli import simulate"),
        (upward_imports, "cli/run.py", "from .. import api"),
        (upward_imports, "estimation/quadrature.py", "from ..runtime.parallel import block"),
        (upward_imports, "io/store.py", "from ..nowhere import something"),
        (upward_imports, "nowhere.py", ""),
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
        (names_of_tex, "model/noise.py", '"""Noise (paper, section s:noise)."""'),
        (names_of_tex, "model/noise.py", '"""Sweeps (paper, equation post_z)."""'),
        (
            passing_on,
            "model/noise.py",
            '"""Gaussian noise."""\nfrom .gaussian import Priors\n__all__ = ["Priors"]',
        ),
        (unannotated, "rng.py", "def key(stream: int, iteration) -> int:\n    pass"),
        (unannotated, "rng.py", "def key(stream: int, *rest) -> int:\n    pass"),
        (unannotated, "rng.py", "def key(stream: int):\n    pass"),
        (unannotated, "rng.py", "async def key() -> int:\n    pass\ndef keys(*, many): pass"),
        (unannotated, "rng.py", "class Key:\n    def __init__(self, seed):\n        pass"),
        (unannotated, "rng.py", "class Key:\n    @property\n    def seed(self):\n        pass"),
        (unannotated, "rng.py", "class Key:\n    @staticmethod\n    def of(seed) -> int:\n        pass"),
    ],
)
def test_a_breach_is_seen(rule, file, text):
    assert len(rule(file, text)) == 1


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (stray_imports, "kernels/gibbs.py", "from numba import njit"),
        (stray_imports, "smc/sampler.py", "from ..runtime.parallel import block"),
        (
            upward_imports,
            "smc/sampler.py",
            "from .. import rng\nfrom ..runtime.parallel import block\nfrom . import weights",
        ),
        (upward_imports, "io/store.py", "from .. import __version__\nfrom ..errors import InputError"),
        (upward_imports, "api.py", "from .cli import fit\nfrom .errors import InputError"),
        (carried_randomness, "model/noise.py", "from ..rng import normals\nrandom = normals"),
        (pickled_arrays, "image/pixels.py", "np.load(path, allow_pickle=False)"),
        (left_to_the_machine, "binding/smooth.py", "x = arithmetic.exp(y) * 2.0**-53 + np.sqrt(z).sum()"),
        (left_to_the_machine, "report/figures.py", "np.exp(x)"),
        (
            names_of_tex,
            "model/noise.py",
            '"""Sweeps (paper, equation 10 and sections 2 and 4.2); see: that."""',
        ),
        (
            passing_on,
            "model/noise.py",
            '"""Gaussian noise."""\nfrom .gaussian import Priors\nFLAT = Priors()',
        ),
        (passing_on, "model/__init__.py", '"""A door."""'),
        (unannotated, "rng.py", "def key(stream: int, *rest: int, **how: int) -> int:\n    pass"),
        (unannotated, "rng.py", "class Key:\n    def __init__(self, seed: int):\n        pass"),
        (
            unannotated,
            "rng.py",
            "class Key:\n    def seed(self) -> int:\n        def f(x):\n            pass",
        ),
        (unannotated, "rng.py", "@njit(cache=True)\ndef key(stream):\n    pass"),
        (
            unannotated,
            "rng.py",
            "def _key(stream):\n    pass\nclass _Key:\n    def seed(self):\n        pass",
        ),
    ],
)
def test_what_is_allowed_passes(rule, file, text):
    assert rule(file, text) == []


def advice():
    """Files and functions that are long enough to ask whether they have one subject."""
    for file, text in SOURCES.items():
        if text.count("\n") > LONG_FILE:
            yield f"{file} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                if length > LONG_FUNCTION:
                    yield f"{file}:{node.lineno} {node.name} has {length} lines"


if __name__ == "__main__":
    print("\n".join(advice()) or f"no file beyond {LONG_FILE} lines, no function beyond {LONG_FUNCTION}")
