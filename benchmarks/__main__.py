"""One command: kernels against size, k and beta; every lattice; the SMC step; the scaling of precompute."""

import argparse
import os
import platform
from importlib.metadata import version
from pathlib import Path

# One thread, as in a job with a rank on every core; the libraries read this when they are loaded.
for _variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from . import kernels, lattices, scaling, smc  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--kernels", metavar="TEXT", default="", help="only those whose name has this; lattices, smc")
    add("--sizes", type=int, nargs="+", default=[125, 1000], help="sides of the square lattices")
    add("--labels", type=int, nargs="+", default=[2, 3, 6])
    add("--betas", type=float, nargs="+", default=[0.5, 0.8, 1.0, 1.2])
    add("--repeats", type=int, default=15, help="rounds over all the kernels; the least time counts")
    add("--ranks", type=int, nargs="*", default=[1, 2], help="for precompute; none leaves it out")
    add("--points", type=int, default=200, help="betas of the precomputation")
    add("--quick", action="store_true", help="k = 3, two betas, few repeats, a short precomputation")
    options = parser.parse_args()
    if options.quick:
        options.labels, options.betas, options.repeats, options.points = [3], [0.5, 1.0], 5, 40
    return options


def machine() -> str:
    """What the timings were taken on."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    cpu = names[0].split(":")[1].strip() if names else platform.machine()
    return f"{cpu}, {os.cpu_count()} CPUs; Python {platform.python_version()}, numba {version('numba')}"


def main():
    options = arguments()
    names = [name for name in kernels.KERNELS if options.kernels.lower() in name.lower()]
    print(machine(), flush=True)
    if names:
        cases = kernels.prepare(
            names, options.sizes, options.labels, options.betas, site_sweeps=2_000_000, warm_up=50
        )
        kernels.measure(cases, options.repeats)
        print("", *kernels.table(cases), sep="\n", flush=True)
    if "lattices" in options.kernels.lower() or not options.kernels:
        cases = lattices.measure(options.labels, options.repeats)
        print("", *lattices.table(cases), sep="\n", flush=True)
    if "smc" in options.kernels.lower() or not options.kernels:
        print("", *smc.table(smc.measure(min(5, options.repeats))), sep="\n", flush=True)
    if options.ranks:
        best = scaling.measure(options.ranks, options.points, min(3, options.repeats))
        print("", *scaling.table(best, options.points), sep="\n")


if __name__ == "__main__":
    main()
