"""What a fit found under the names that result.h5 and posterior.nc give it; docs/files.md has them all."""

from importlib import metadata
from typing import Any

import numpy as np

from .. import rng
from ..io.rows import Rows
from ..rng import Purpose
from ..runtime.parallel import Comm
from ..slabs import slabs
from ..smc import weights
from .outcome import Outcome

# Whose versions a result tells.
PACKAGES = ("numpy", "numba", "h5py", "mpi4py")


def attributes(found: Outcome) -> dict[str, Any]:
    """The attributes of result.h5."""
    problem, config = found.fit.problem, found.fit.problem.config
    lattice, binding = problem.lattice, problem.binding
    numbers = {"beta_mean": found.beta.mean, "beta_sd": found.beta.sd, "beta_low": found.beta.low}
    return numbers | {
        "beta_high": found.beta.high,
        "beta_median": found.beta.median,
        "beta_ess": found.beta.ess,
        "binding_error": found.binding_error,
        "method": config.fit.method,
        "pseudo_data": config.fit.pseudo_data,
        "stopped_because": found.fit.stopped_because,
        "warnings": "\n".join(found.warnings),
        "seed": config.seed,
        "input": config.text,
        # Paths in the input are relative to it: `report` reads the image again.
        "input_directory": str(config.path.parent.resolve()),
        "overrides": "\n".join(config.overrides),
        "labels": config.model.labels,
        "shape": list(lattice.shape),
        "neighbourhood": lattice.neighbourhood,
        "edges": lattice.edges,
        "sites": lattice.sites,
        "lattice": lattice.digest,
        "binding": "" if binding is None else binding.digest,
        "interpolation": "" if binding is None else binding.interpolation,
        # Of every chain: sweeps that count, and those before them, some of which were found to be burn-in.
        "sweeps": 0 if found.fit.chains is None else found.fit.chains.drawn,
        "burn_in": 0 if found.fit.chains is None else found.fit.chains.burned,
        "chains": 0 if found.draws is None else len(found.draws.beta),
        # How chains came out of modes of their own.
        "tempered": found.fit.chains is not None and found.fit.chains.tempered,
        "restarted": 0 if found.fit.chains is None else found.fit.chains.restarted,
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
    }


def datasets(comm: Comm, found: Outcome) -> dict[str, np.ndarray | Rows]:
    """The datasets of result.h5: particles in blocks over the ranks, maps from rank 0, which has them.

    Collective.
    """
    arrays: dict[str, np.ndarray | Rows] = {**found.fit.traces()}
    sample = _sample(found)
    if sample is not None:
        for name, values in zip(("beta", "weight"), sample):
            arrays[f"posterior/{name}"] = Rows.of_block(comm, _own_block(comm, values), values.size)
    arrays |= {f"diagnostics/{name}": values for name, values in found.diagnostics.items()}
    if found.predictive is not None:
        arrays |= {f"predictive/{name}": values for name, values in found.predictive.arrays().items()}
    if found.marginal is None or found.draws is None:
        return arrays
    flat = {} if found.raw is None else {"marginal/beta_raw": found.raw}
    flat |= {"marginal/beta": found.draws.beta, "marginal/statistic": found.draws.statistic}
    flat |= {f"noise/{name}": values for name, values in found.draws.noise.items()}
    arrays |= {name: v.reshape(-1, *v.shape[2:]) for name, v in flat.items()}
    return arrays | _maps(found)


def _sample(found: Outcome) -> tuple[np.ndarray, np.ndarray] | None:
    """(beta, weight) for fixed labels: particles, or the draws of chains with observed labels."""
    if found.marginal is None and found.draws is not None:
        beta = found.draws.beta.ravel()
        return beta, np.full(beta.size, 1.0 / beta.size)
    return found.fit.particles()


def _own_block(comm: Comm, values: np.ndarray) -> np.ndarray:
    rows = Rows.of_block(comm, values[:0], len(values))
    return values[rows.index]


def _maps(found: Outcome) -> dict[str, np.ndarray | Rows]:
    """labels/probability and labels/map, which rank 0 has."""
    lattice, k = found.fit.problem.lattice, found.fit.problem.config.model.labels
    rest = lattice.shape[1:]
    probability, most = np.empty((0, *rest, k), np.float32), np.empty((0, *rest), np.int16)
    if found.probability is not None:
        probability, most = found.probability, np.empty(lattice.shape, np.int16)
        for here in slabs(len(most), most.size // len(most)):
            most[here] = np.where(lattice.exists[here], probability[here].argmax(axis=-1), -1)
    index, rows = np.arange(len(probability)), lattice.shape[0]
    return {"labels/probability": Rows(index, probability, rows), "labels/map": Rows(index, most, rows)}


def equal_draws(found: Outcome) -> dict[str, np.ndarray]:
    """The draws of posterior.nc, equally weighted: beta (chain, draw), and of hidden labels the
    parameters of the noise by their symbols, mu and sigma (chain, draw, label)."""
    draws = found.draws
    if draws is not None:
        return {"beta": draws.beta} | dict(zip(found.fit.problem.noise.symbols, draws.noise.values()))
    sample, seed = found.fit.particles(), found.fit.problem.config.seed
    if sample is None:
        raise ValueError("a fit has found neither draws nor particles")
    beta, weight = sample
    uniform = rng.uniforms(rng.stream(seed, Purpose.RESAMPLE), found.fit.iteration + 1, 1)
    return {"beta": beta[weights.systematic(weight, uniform)][None]}
