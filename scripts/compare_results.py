"""Checksums of what all inputs in inputs/ give, so that two versions of the program can be compared by bits.

    python scripts/compare_results.py --tree BEFORE > before.txt        # a checkout; this one by default
    python scripts/compare_results.py --tree AFTER > after.txt
    diff before.txt after.txt

or both at once, with exit code 1 where anything differs:

    python scripts/compare_results.py --tree BEFORE AFTER

Every input is run as its first lines say, those that take long with the changes in `CASES`; the inputs are
those beside this script, whatever the tree.  A checksum covers every dataset and attribute of a file, its
names, types and values; left out are times, versions of libraries and program, the writer, and where files
lay.  With --warm everything is run twice and the second time counts, with kernels from the compiler's cache.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
# The last part of a name that is left out.
VOLATILE = ("checksum", "created", "input_directory", "program", "seconds", "versions", "writer")
FILES = ("binding.h5", "result.h5", "posterior.nc", "study.h5", "image_*.h5")
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Case:
    """One command on an input: the changes to it, and the directory of what it writes."""

    command: str
    input: str
    output: str
    changes: tuple[str, ...] = ()


def _smaller(**tables: str) -> tuple[str, ...]:
    """smc="particles=500 alpha=0.9" as changes: smc.particles=500, smc.alpha=0.9."""
    return tuple(f"{table}.{change}" for table, changes in tables.items() for change in changes.split())


GRID = "points=60 iterations=400 burn_in=100"
SMC = "particles=1000 replicates=50 alpha=0.9 label_sweeps=50"
FINAL = "final_sweeps=600 final_burn_in=100"
PSEUDO = (
    "smc.particles=40",
    "smc.replicates=10",
    "smc.alpha=0.8",
    "smc.min_epsilon=20",
    "pseudo_data.burn_in=10",
)


def _study_changes(*changes: str) -> str:
    listed = ", ".join(f'"{change}"' for change in changes)
    return f"study.changes=[{listed}]"


CASES = (
    Case("precompute", "exact.toml", "exact"),
    Case("precompute", "binding.toml", "binding", _smaller(precompute=GRID)),
    Case("precompute", "binding.toml", "binding_gibbs", _smaller(precompute=f"{GRID} sampler=gibbs")),
    Case("simulate", "demo.toml", "demo_image"),
    Case("run", "demo.toml", "demo", _smaller(fit="chains=2")),
    # As the paper has it, and on the kernels that take any lattice.
    Case(
        "run",
        "demo.toml",
        "demo_paper",
        _smaller(
            precompute=f"grid=critical {GRID} interpolation=linear",
            smc=f"{SMC} max_iterations=8",
            fit="start=paper",
        ),
    ),
    Case(
        "run",
        "demo.toml",
        "demo_second",
        _smaller(
            model="neighbourhood=second",
            prior="beta=[0.0,0.6]",
            precompute=f"grid=critical {GRID}",
            smc=SMC,
            fit=FINAL,
        ),
    ),
    Case("run", "labels.toml", "labels"),
    Case("simulate", "simulation.toml", "simulation", _smaller(simulate="images=4 sweeps=200")),
    Case("precompute", "simulation.toml", "simulation", _smaller(precompute=GRID)),
    Case(
        "fit",
        "simulation.toml",
        "simulation/fit_000",
        _smaller(precompute=GRID, image="path=../out/simulation/image_000.h5", smc=SMC, fit=FINAL),
    ),
    Case(
        "run",
        "satellite.toml",
        "satellite",
        _smaller(image="path=scene.npy", precompute=GRID, smc=SMC, fit=f"{FINAL} chains=2"),
    ),
    Case("study", "study_small.toml", "study_small"),
    Case(
        "study",
        "study.toml",
        "study",
        (
            *_smaller(image="shape=[40,40]", precompute=GRID, smc=SMC, fit=FINAL),
            *_smaller(
                exchange="iterations=60 burn_in=20 auxiliary_sweeps=20", simulate="images=4 sweeps=200"
            ),
            _study_changes(
                "smc-abc_M50 smc.replicates=20",
                "pseudolikelihood fit.final_sweeps=60",
                *(f"smc-abc-pseudo {change}" for change in (*PSEUDO, "fit.final_sweeps=0")),
            ),
        ),
    ),
    Case(
        "study",
        "study_paper.toml",
        "study_paper",
        (
            *_smaller(image="shape=[40,40]", precompute=GRID, smc=SMC, simulate="images=4 sweeps=200"),
            _study_changes("smc-abc_infinite smc.replicates=infinite"),
        ),
    ),
    Case(
        "study",
        "calibration_exchangeable.toml",
        "calibration_exchangeable",
        _smaller(fit=FINAL, simulate="images=6 sweeps=200"),
    ),
    Case(
        "study",
        "calibration.toml",
        "calibration",
        (
            *_smaller(precompute=GRID, smc=SMC, fit=FINAL, simulate="images=6 sweeps=200"),
            _study_changes("pseudolikelihood fit.final_sweeps=60"),
        ),
    ),
    Case(
        "study",
        "calibration_labels.toml",
        "calibration_labels",
        (
            *_smaller(precompute=GRID, smc=SMC, simulate="images=6 sweeps=200", rejection="draws=5000"),
            *_smaller(exchange="iterations=200 burn_in=50"),
            _study_changes(
                "rejection-pseudo rejection.draws=60",
                "rejection-pseudo rejection.quantile=0.5",
                *(f"smc-abc-pseudo {change}" for change in PSEUDO),
            ),
        ),
    ),
)


def scene() -> np.ndarray:
    """A small scene of four bands, as satellite.toml wants one: blocks of six levels and a pattern."""
    row, column = np.indices((48, 50))
    red = 40.0 + 12.0 * ((row // 8 + column // 8) % 6) + (row * 7919 + column * 104729) % 23
    near_infrared = 160.0 - 0.5 * red + (row * 15485863 + column * 32452843) % 19
    return np.stack([red + 1.0, red + 2.0, red, near_infrared], axis=-1)


def prepare(room: Path) -> None:
    """The inputs in a directory of their own: the relative paths in them, and in results, are the same."""
    shutil.copytree(ROOT / "inputs", room / "inputs")
    np.save(room / "inputs" / "scene.npy", scene())


def run(case: Case, tree: Path, room: Path, python: str, launcher: str) -> None:
    """One case with the program of `tree`; stops where it fails."""
    command = [*shlex.split(launcher), python, "-m", "mpi_potts", case.command, f"inputs/{case.input}"]
    command += ["--quiet", "--output", f"out/{case.output}"]
    for change in case.changes:
        command += ["--set", change]
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=room, env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"{case.output}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


def _kept(name: str) -> bool:
    return name.rpartition("/")[2] not in VOLATILE


def parts(path: Path) -> dict[str, str]:
    """{name of a dataset, or @ and an attribute's: checksum} of a file."""
    found = {}

    def add(name, values):
        values = np.asarray(values)
        if values.dtype.kind in "OSU":
            content = repr(values.tolist())
        else:
            content = f"{values.dtype.str} {values.shape} {values.tobytes().hex()}"
        found[name] = hashlib.sha256(content.encode()).hexdigest()

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and _kept(name):
            # References inside the file, by which netCDF finds its dimensions, are addresses.
            if item.dtype.kind != "O" or h5py.check_string_dtype(item.dtype):
                add(name, item[()])
        for attribute, value in item.attrs.items():
            if _kept(attribute) and not attribute.startswith(("DIMENSION_LIST", "REFERENCE_LIST")):
                add(f"{name}@{attribute}", value)

    with h5py.File(path) as file:
        visit("", file)
        file.visititems(visit)
    return dict(sorted(found.items()))


def checksums(room: Path, each: bool) -> dict[str, str]:
    """{file, or with `each` file and part of it: checksum} of all that was written."""
    found = {}
    for path in sorted(
        {path for pattern in FILES for path in (room / "out").rglob(pattern) if path.is_file()}
    ):
        name, inside = path.relative_to(room / "out").as_posix(), parts(path)
        if each:
            found |= {f"{name}:{part}": value[:16] for part, value in inside.items()}
        found[name] = hashlib.sha256(repr(inside).encode()).hexdigest()[:32]
    return found


def results(tree: Path, options: argparse.Namespace) -> dict[str, str]:
    """Run all cases with the program of a tree."""
    if not (tree / "mpi_potts" / "__main__.py").exists():
        sys.exit(f"{tree}: no checkout of mpi_potts")
    for _ in range(2 if options.warm else 1):
        with tempfile.TemporaryDirectory(prefix="compare-") as name:
            room = Path(name)
            prepare(room)
            for case in CASES:
                if not options.only or case.output.split("/")[0] in options.only:
                    run(case, tree.resolve(), room, options.python, options.launcher)
            found = checksums(room, options.each)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tree", nargs="+", type=Path, default=[ROOT], help="one checkout, or two to compare"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these cases")
    parser.add_argument("--each", action="store_true", help="also every dataset and attribute by itself")
    parser.add_argument("--warm", action="store_true", help="run everything twice, and take the second time")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run with")
    parser.add_argument("--launcher", default="", help='such as "mpirun -n 2": results do not depend on it')
    options = parser.parse_args()
    if len(options.tree) > 2:
        parser.error("one tree or two")
    found = [results(tree, options) for tree in options.tree]
    if len(found) == 1:
        print("\n".join(f"{value}  {name}" for name, value in found[0].items()))
        return 0
    before, after = found
    names = sorted(before.keys() | after.keys())
    different = [name for name in names if before.get(name) != after.get(name)]
    for name in names:
        verdict = "DIFFERENT" if name in different else "equal"
        print(f"{verdict:<10} {before.get(name, '-'):<33} {after.get(name, '-'):<33} {name}")
    print(f"{len(different)} of {len(names)} different")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
