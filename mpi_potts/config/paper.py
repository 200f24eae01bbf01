"""`fit.as_in_paper = true`: the keys with which SMC-ABC is the paper's, as printed.

Wherever this program departs from the paper there is a key, and one of its values is the paper's.  Here they
are together: `as_in_paper` sets them all at once, and an input that says otherwise for one is refused.  The
sizes of the paper's runs are set too where the input leaves them out; others may be given.

What the paper leaves open is decided by what its R package does: nothing gives labels new names; the
tolerance is looked for below that of before, so that it never rises; there is no smallest one.
"""

from typing import Any

from .schema import Refused, show

# The paper's side of every departure.
DEPARTURES: dict[str, dict[str, Any]] = {
    "precompute": {"grid": "critical", "interpolation": "linear"},
    "fit": {"method": "smc-abc", "start": "paper", "chains": 1, "sort_labels": False, "crossing": False},
    "smc": {
        "weights": "printed",
        "bandwidth": "previous",
        "guide": False,
        "last_mutations": 0,
        "rise_below": 0.0,
        "noise_floor": 0.0,
        "min_epsilon": 0.0,
    },
}
# How large the paper's runs are.
SIZES: dict[str, dict[str, Any]] = {
    "precompute": {"points": 1000, "iterations": 1000, "burn_in": 500},
    "smc": {
        "particles": 10000,
        "replicates": 200,
        "alpha": 0.97,
        "resampling": "residual",
        "resample_below": 0.5,
        "min_acceptance": 0.015,
        "label_sweeps": 1000,
    },
}


def apply(tables: dict[str, Any]) -> None:
    """Where `fit.as_in_paper` is true, put the paper's keys into the tables of an input, in place."""
    fit = tables.get("fit")
    if not isinstance(fit, dict) or fit.get("as_in_paper") is not True:
        return
    for name, keys in DEPARTURES.items():
        table = tables.setdefault(name, {})
        if not isinstance(table, dict):
            return  # which the reading of the tables refuses by name
        for key, value in keys.items():
            if table.setdefault(key, value) != value:
                raise _contradiction(name, key, table[key], f"{show(value)}, or left out,")
    for name, keys in SIZES.items():
        tables[name] = keys | tables[name]
    if isinstance(tables["smc"]["replicates"], str):
        raise _contradiction("smc", "replicates", tables["smc"]["replicates"], "an integer")


def _contradiction(table: str, key: str, value: Any, accepts: str) -> Refused:
    return Refused(f"must be {accepts} with fit.as_in_paper = true", (table, key), value)
