"""Bayesian segmentation of large images with the hidden Potts model.

The posterior of the smoothing parameter beta is found by sequential Monte Carlo with approximate Bayesian
computation, on any number of MPI ranks, from a precomputed binding function: the mean and standard deviation
of the statistic S(z) for each beta.

From Python: `precompute`, `fit`, `simulate` and `load`, loaded at their first use, so that the import itself
costs nothing and starts no MPI.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "precompute": "api",
    "fit": "api",
    "simulate": "api",
    "load": "posterior.result",
    "Result": "posterior.result",
    "Comparison": "posterior.choice",
    "Simulated": "posterior.result",
    "Binding": "binding.function",
    "InputError": "errors",
    "Interrupted": "errors",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
