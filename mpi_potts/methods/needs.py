"""What a run holds in memory at the least, from its input and lattice: asked about before anything is taken.

Only the large arrays are counted, so that nothing is refused that could have worked.  `mpi-potts check`
prints the same numbers.  All ranks of a node share its memory.  Arrays are counted as {keys and their values:
bytes on each rank}, so that a refusal can name the largest.
"""

import math
from collections.abc import Mapping

from ..config.inputs import Config
from ..lattice import Lattice
from ..runtime import memory
from ..runtime.parallel import Comm, on_root, ranks_on_node
from .base import is_hidden, method_of

NUMBER = 8  # bytes of a float64 or int64
WINDOWS = 24  # chains of an adaptive grid, about


def of_precompute(config: Config, lattice: Lattice, chains: int, size: int) -> dict[str, float]:
    """The arrays of a precomputation on `size` ranks, with `chains` chains at each beta."""
    keys = config.precompute
    if keys.grid == "adaptive":
        # The windows of a posterior or two, and their labels.
        packed = (config.model.labels - 1).bit_length() * lattice.sites / 8
        return {f"image of {_size(lattice)} pixels": 2.0 * lattice.sites + packed * -(-WINDOWS // size)}
    points = keys.points if isinstance(keys.grid, str) else len(keys.grid)
    rows = -(-points // size) * chains
    packed = (config.model.labels - 1).bit_length() * lattice.sites / 8
    # Every S(z), and once more while it is written.
    series = 2.0 * NUMBER * rows * keys.iterations
    return {
        f"precompute.points = {points}, precompute.iterations = {keys.iterations}": series,
        f"precompute.points = {points} with precompute.keep_states": rows * packed * keys.keep_states,
        f"image of {_size(lattice)} pixels": 2.0 * lattice.sites,
    }


def of_fit(config: Config, lattice: Lattice, size: int) -> dict[str, float]:
    """The arrays of a fit on `size` ranks, on one that has as many label chains as any."""
    method = method_of(config)
    arrays = method.memory(config, size)
    return arrays | of_chains(config, lattice, size) if method.in_chains(config) else arrays


def of_chains(config: Config, lattice: Lattice, size: int) -> dict[str, float]:
    """Label chains: their images, and the draws that they leave."""
    chains, k = config.fit.chains, config.model.labels if is_hidden(config) else 0
    mine, draw = -(-chains // size), of_draw(config)
    name, draws = method_of(config).draws(config)
    arrays = {f"{name} = {draws}, fit.chains = {chains}": float(mine * draws * draw)}
    if is_hidden(config):
        counts = 4 * k if draws else 0
        pixels = f"image of {_size(lattice)} pixels, fit.chains = {chains}, model.labels = {k}"
        arrays[pixels] = mine * lattice.sites * (NUMBER + 1.0 + counts)
        arrays[f"smc.warm_up = {config.smc.warm_up}"] = float(draw * config.smc.warm_up)
    return arrays


def of_draw(config: Config) -> int:
    """One draw of a label chain: beta and S(z), and of a hidden image mean and sd of every label."""
    return NUMBER * (2 + 2 * config.model.labels * is_hidden(config))


def check_precompute(comm: Comm, config: Config, lattice: Lattice, chains: int) -> None:
    """Collective.  Refuse a precomputation that cannot fit into memory."""
    _check(comm, config, of_precompute(config, lattice, chains, comm.size))


def check_fit(comm: Comm, config: Config, lattice: Lattice) -> None:
    """Collective.  Refuse a fit that cannot fit into memory."""
    _check(comm, config, of_fit(config, lattice, comm.size))


def _check(comm: Comm, config: Config, arrays: Mapping[str, float]) -> None:
    ranks = ranks_on_node(comm)
    largest = max(arrays, key=lambda name: arrays[name], default="the fit")
    where = f"{config.path}: {largest}{f', {ranks} ranks on this node' if ranks > 1 else ''}"
    on_root(comm, memory.require_bytes, where, ranks * math.fsum(arrays.values()))


def _size(lattice: Lattice) -> str:
    return " x ".join(map(str, lattice.shape))
