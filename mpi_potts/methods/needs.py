"""What a run holds in memory at the least, from its input and lattice: asked about before anything is taken.

Only the large arrays are counted, so that nothing is refused that could have worked; `mpi-potts check` prints
an estimate of everything.  All ranks of a node share its memory.
"""

import math
from collections.abc import Mapping

from ..config.inputs import Config
from ..lattice import Lattice
from ..runtime import memory
from ..runtime.parallel import Comm, on_root, ranks_on_node

NUMBER = 8  # bytes of a float64 or int64


def check_precompute(comm: Comm, config: Config, lattice: Lattice, chains: int) -> None:
    """Refuse a precomputation that cannot fit, with `chains` chains at each beta; collective."""
    keys = config.precompute
    points = keys.points if isinstance(keys.grid, str) else len(keys.grid)
    rows = -(-points // comm.size) * chains
    packed = (config.model.labels - 1).bit_length() * lattice.sites / 8
    _check(
        comm,
        config,
        {
            # Every S(z), and once more while it is written.
            f"precompute.points = {points}, precompute.iterations = {keys.iterations}": 2
            * NUMBER
            * rows
            * keys.iterations,
            f"precompute.points = {points} with precompute.keep_states": rows * packed * keys.keep_states,
            f"image of {_size(lattice)} pixels": 2 * lattice.sites,
        },
    )


def check_fit(comm: Comm, config: Config, lattice: Lattice, hidden: bool) -> None:
    """Refuse a fit that cannot fit into memory; collective."""
    fit, smc, method = config.fit, config.smc, config.fit.method
    terms = {}
    if method == "smc-abc":
        held = NUMBER * smc.particles * (4 + smc.replicates / comm.size)
        terms[f"smc.particles = {smc.particles}, smc.replicates = {smc.replicates}"] = held
    if method == "rejection":
        terms[f"rejection.draws = {config.rejection.draws}"] = 2 * NUMBER * config.rejection.draws
    if hidden or method == "exchange":
        terms |= _chains(comm, config, lattice, hidden)
    elif method != "smc-abc":
        terms[f"fit.final_sweeps = {fit.final_sweeps}"] = 2 * NUMBER * fit.final_sweeps
    _check(comm, config, terms)


def _chains(comm, config, lattice, hidden):
    """Label chains: their images, and the draws that they leave."""
    fit, k = config.fit, config.model.labels if hidden else 0
    mine = -(-fit.chains // comm.size)
    draw = NUMBER * (2 + 2 * k)
    if fit.method == "exchange":
        name, draws = "exchange.iterations", config.exchange.iterations - config.exchange.burn_in
    else:
        name, draws = "fit.final_sweeps", fit.final_sweeps
    terms = {f"{name} = {draws}, fit.chains = {fit.chains}": mine * draws * draw}
    if hidden:
        counts = 4 * k if draws else 0
        pixels = f"image of {_size(lattice)} pixels, fit.chains = {fit.chains}, model.labels = {k}"
        terms[pixels] = mine * lattice.sites * (NUMBER + 1 + counts)
        if fit.method == "smc-abc":
            terms[f"smc.label_sweeps = {config.smc.label_sweeps}"] = draw * config.smc.label_sweeps
        terms[f"smc.warm_up = {config.smc.warm_up}"] = draw * config.smc.warm_up
    return terms


def _check(comm: Comm, config: Config, terms: Mapping[str, float]) -> None:
    """terms : {keys and their values: bytes of a rank}; the message names the largest."""
    ranks = ranks_on_node(comm)
    largest = max(terms, key=terms.get)
    where = f"{config.path}: {largest}{f', {ranks} ranks on this node' if ranks > 1 else ''}"
    on_root(comm, memory.require_bytes, where, ranks * math.fsum(terms.values()))


def _size(lattice):
    return " x ".join(map(str, lattice.shape))
