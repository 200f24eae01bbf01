"""Vectors as wide as the CPU has them.

LLVM takes 256 bits on Intel's CPUs with AVX-512 (`prefer-256-bit`), since some lower their clock for wider
ones.  The sweeps gain more than that costs: with 512 bits a label sweep takes 0.7 of the time on a Skylake
(prototypes took 0.6 to 0.65 on a Sapphire Rapids).  The bits are the same.
"""

import numba
from numba.core.codegen import get_host_cpu_features


def widen() -> None:
    """Compile for the widest vectors, unless the environment says what to compile for; before the first
    kernel is compiled."""
    if numba.config.CPU_NAME is None and numba.config.CPU_FEATURES is None:
        features = get_host_cpu_features()
        if "+avx512f" in features.split(","):
            numba.config.CPU_FEATURES = f"{features},-prefer-256-bit"
