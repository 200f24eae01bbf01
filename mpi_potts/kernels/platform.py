"""What the compiler sees: the CPU it compiles for, its vector units, and where compiled code is kept."""

import llvmlite.binding
import numba

from . import threefry

# Widest first; a CPU that has one also has those after it of the same family.
_VECTORS = (
    ("avx512f", 512),
    ("sve", 0),
    ("avx2", 256),
    ("avx", 256),
    ("neon", 128),
    ("sse4.2", 128),
    ("sse2", 128),
)


def describe() -> dict[str, str]:
    """CPU, vector features, threads and cache directory, each in a few words."""
    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    return {
        "numba": numba.__version__,
        "cpu": name,
        "vectors": _vectors(),
        "threads": str(numba.config.NUMBA_NUM_THREADS),
        "cache": threefry.encrypt.stats.cache_path,
    }


def _vectors():
    features = _features()
    found = [feature for feature, _ in _VECTORS if feature in features]
    if not found:
        return "none known"
    width = dict(_VECTORS)[found[0]]
    if width == 512 and "prefer-256-bit" in features:
        return f"{found[0]}, used at 256 bits (prefer-256-bit)"
    return f"{found[0]}, {width} bits" if width else found[0]


def _features():
    """The names of the features the compiler may use."""
    if numba.config.CPU_FEATURES is not None:
        return {f[1:] for f in numba.config.CPU_FEATURES.split(",") if f.startswith("+")}
    return {name for name, there in llvmlite.binding.get_host_cpu_features().items() if there}
