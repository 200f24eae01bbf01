"""What a run holds in memory, from its input and lattice: asked about before anything is taken.

Only the large arrays are counted, those that are there at once where a stage has most, so that nothing is
refused that could have worked.  `mpi-potts check` prints the same numbers, and a test holds a run to them.
All ranks of a node share its memory.  Arrays are counted as {keys and their values: bytes on each rank}, so
that a refusal can name the largest.
"""

import math
from collections.abc import Mapping

from ..config.inputs import Config
from ..labels.starts import SMOOTHINGS
from ..lattice import Lattice
from ..runtime import memory
from ..runtime.parallel import Comm, on_root, ranks_on_node
from .base import is_hidden, method_of

NUMBER = 8  # bytes of a float64 or int64
WINDOWS = 24  # chains of an adaptive grid, about
# Bytes of a pixel, of which a rank with label chains has each once: its value, and whether it exists.
PIXEL = NUMBER + 1.0
# Bytes of a pixel that exists in a label chain: its label and observation, where it is among the labels and
# among the observations, whether it exists, and its part of the pieces of rows.
SITE = 1.0 + 4.0 + 4.0 + 4.0 + 1.0 + 1.0
# Beside a chain at its start: three images of numbers, to be divided, and the labels of each candidate.
START, CANDIDATES = 3.0 * NUMBER, 1 + 2 * len(SMOOTHINGS)
# Of a label, how often a pixel had it, and lately; of the label whose counts are put together, two images.
COUNT, RECENT, TOGETHER = 4.0, 1.0, 8.0


def of_precompute(config: Config, lattice: Lattice, chains: int, size: int) -> dict[str, float]:
    """The arrays of a precomputation on `size` ranks, with `chains` chains at each beta."""
    keys = config.precompute
    if keys.grid == "adaptive":
        # The windows of a posterior or two, and their labels.
        packed = (config.model.labels - 1).bit_length() * lattice.sites / 8
        arrays = {f"image of {_size(lattice)} pixels": 2.0 * lattice.sites + packed * -(-WINDOWS // size)}
        if config.image.path is None or not is_hidden(config):
            return arrays
        # The label chains that show where the posterior is; they are gone before most chains are made.
        return {_pixels(config, lattice): max(_starting(config, lattice, size), *arrays.values())}
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
        counting = mine * lattice.sites * (SITE + (COUNT + RECENT) * k * bool(draws))
        mapping = mine * lattice.sites * (SITE + COUNT * k * bool(draws)) + TOGETHER * lattice.sites
        image = PIXEL * math.prod(lattice.shape)
        starting = _starting(config, lattice, size)
        arrays[_pixels(config, lattice)] = max(starting, image + counting, image + mapping)
        arrays[f"smc.warm_up = {config.smc.warm_up}"] = float(draw * config.smc.warm_up)
    return arrays


def _pixels(config: Config, lattice: Lattice) -> str:
    chains, k = config.fit.chains, config.model.labels
    return f"image of {_size(lattice)} pixels, fit.chains = {chains}, model.labels = {k}"


def _starting(config: Config, lattice: Lattice, size: int) -> float:
    """Bytes of the label chains of a rank, and of the image, while one of them finds its start."""
    box, mine = math.prod(lattice.shape), -(-config.fit.chains // size)
    best = START * box + CANDIDATES * lattice.sites if config.fit.start == "best" else 0.0
    return PIXEL * box + mine * SITE * lattice.sites + best


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
