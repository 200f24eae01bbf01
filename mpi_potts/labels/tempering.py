"""A ladder of powers of the likelihood under one label chain, so that it crosses between modes.

`Tempered` makes the ladder and its steps; the kernel is `kernels/tempering.py`.

**Rungs.** From the chain's state the power falls in steps of one sd of log p(y | z, noise), as it is there,
to the least one, where the data weigh as much as `LEAST` pixels and modes are no more.  Then the ladder runs,
and its rungs are moved so that exchanges between all neighbours are rejected equally often (Syed and others
2021), about as often as they are accepted.  The number of rungs goes with the root of the number of pixels.
"""

import math
from typing import Any

import numpy as np

from .. import arithmetic, rng
from ..kernels import tempering as kernel
from ..kernels.chain import Surrogate, Trace
from ..kernels.gibbs_data import Sites
from ..kernels.names import Names
from ..kernels.tempering import Ladder
from ..rng import Purpose

# The pixels that the least power is worth; the most rungs, and the largest part that a power falls by.
LEAST, MOST, FALL = 8.0, 192, 0.6
# About so many rungs there are, for the length of slices.
RUNGS = 32
# Steps at a power on the way down, of which the second half tells the sd of L.
PILOT = 20
# The rejection of exchanges that rungs are placed for, and the steps of each round of placing them.
REJECTION, ROUNDS = 0.5, (60, 120, 240)
# Steps after that, before any is counted.
SETTLE = 600

_STREAMS = (Purpose.LABEL_SWEEP, Purpose.NOISE, Purpose.FINAL_BETA)


class Tempered:
    """The ladder of one chain.

    sites, noise : the labels of the chain and the state of its noise model, as kernels have them
    places       : (n,) where in the former the pixels that exist are
    """

    def __init__(self, sites: Sites, places: np.ndarray, noise: Any, seed: int, chain: int):
        self._sites, self._places, self._noise = sites, places, noise
        self._swaps = rng.stream(seed, Purpose.SWAPS, chain)
        # Rung 0 has the streams of the chain itself.
        self._streams = np.stack(
            [[rng.stream(seed, purpose, chain + (r << 32)) for purpose in _STREAMS] for r in range(MOST)]
        )
        self.ladder: Ladder | None = None

    def make(self, statistic: int, pixels: int, surrogate: Surrogate, first: int) -> int:
        """Find the rungs from the chain's state, and settle; the number of the next step.  The state of the
        first rung becomes the chain's own, as after every `sample`."""
        found, power, least = [], 1.0, LEAST / pixels
        state, values = self._sites.state[None], self._noise.values[None]
        while True:
            ladder = _ladder(np.array([power]), state, values, np.array([statistic]))
            first = self._run(ladder, surrogate, first, PILOT // 2)
            ladder.moments[:] = 0.0
            first = self._run(ladder, surrogate, first, PILOT // 2)
            found.append(ladder)
            state, values, statistic = ladder.states, ladder.values, int(ladder.statistic[0])
            if power <= least or len(found) == MOST:
                break
            power = max(power - 1.0 / max(_sd(ladder.moments[0]), 1e-9), FALL * power, least)
        self.ladder = _ladder(
            np.concatenate([each.power for each in found]),
            np.concatenate([each.states for each in found]),
            np.concatenate([each.values for each in found]),
            np.concatenate([each.statistic for each in found]),
        )
        for steps in ROUNDS:
            first = self._run(self.ladder, surrogate, first, steps)
            self.ladder = _placed(self.ladder)
        first = self._run(self.ladder, surrogate, first, SETTLE)
        self._give()
        return first

    def _run(self, ladder, surrogate, first, steps):
        """Steps that leave no trace; the number of the next."""
        p, k = self._noise.values.shape
        trace = Trace(np.empty(steps), np.empty(steps, np.int64), np.empty((p, steps, k)))
        nameless = Names(False, np.empty(0, np.int32), np.empty((0, k), np.uint32), np.zeros(1, np.int64))
        counts = np.empty((0, self._sites.data.values.size), np.uint8)
        self._sample(ladder, nameless, first, surrogate, trace, counts)
        return first + steps

    def _sample(self, ladder, names, first, surrogate, trace, counts):
        arguments = self._streams, self._swaps, first, surrogate, ladder, trace, counts
        kernel.sample(self._sites, self._noise, names, *arguments)

    def sample(
        self, names: Names, first: int, surrogate: Surrogate, trace: Trace, counts: np.ndarray
    ) -> None:
        """Steps of the ladder, the trace and the counts of its first rung: see the kernel.  The state of the
        first rung becomes the chain's own."""
        ladder = self.ladder
        assert ladder is not None
        self._sample(ladder, names, first, surrogate, trace, counts)
        self._give()

    def _give(self):
        """Let the state of the first rung be the chain's own."""
        ladder = self.ladder
        assert ladder is not None
        own = ladder.at[0]
        self._sites.state[:], self._noise.values[:] = ladder.states[own], ladder.values[own]

    @property
    def statistic(self) -> int:
        """S(z) on the first rung."""
        ladder = self.ladder
        assert ladder is not None
        return int(ladder.statistic[ladder.at[0]])

    def take(self, statistic: int) -> None:
        """Put the chain's own labels and noise, which have changed, with their S(z), on the first rung."""
        ladder = self.ladder
        assert ladder is not None
        own = ladder.at[0]
        ladder.states[own], ladder.statistic[own] = self._sites.state, statistic
        ladder.values[own] = self._noise.values

    def pack(self) -> dict[str, np.ndarray]:
        """The ladder, in arrays of MOST rungs; a power of 0 is none."""
        ladder = self.ladder
        assert ladder is not None
        packed = {}
        for name in PACKED:
            values = getattr(ladder, name)
            values = values[:, self._places] if name == "states" else values
            packed[f"ladder_{name}"] = np.zeros((MOST, *values.shape[1:]), values.dtype)
            packed[f"ladder_{name}"][: len(values)] = values
        return packed

    def unpack(self, packed: dict[str, np.ndarray]) -> None:
        """Go on from what `pack` gave."""
        rungs = int(np.count_nonzero(packed["ladder_power"]))
        parts = {name: packed[f"ladder_{name}"][:rungs].copy() for name in PACKED}
        states = np.tile(self._sites.state, (rungs, 1))
        states[:, self._places] = parts["states"]
        self.ladder = _ladder(parts["power"], states, parts["values"], parts["statistic"], parts["at"])


# What a ladder goes on from: everything else in it is made anew by every step.
PACKED = ("power", "at", "states", "values", "statistic")


def parts(sites: int, parameters: int, labels: int) -> dict[str, tuple[type, tuple[int, ...]]]:
    """(dtype, shape) of every array that `Tempered.pack` gives."""
    return {
        "ladder_power": (np.float64, (MOST,)),
        "ladder_at": (np.int64, (MOST,)),
        "ladder_states": (np.uint8, (MOST, sites)),
        "ladder_values": (np.float64, (MOST, parameters, labels)),
        "ladder_statistic": (np.int64, (MOST,)),
    }


def _ladder(power, states, values, statistic, at=None):
    rungs = power.size
    return Ladder(
        np.array(power),
        np.arange(rungs) if at is None else at,
        np.array(states),
        np.array(values),
        np.array(statistic, dtype=np.int64),
        *(np.zeros(shape) for shape in (rungs, rungs, (rungs, 3), (rungs, 2))),
    )


def _sd(moments):
    """The sd of L on a rung."""
    n, total, square = moments
    return math.sqrt(max(square / n - (total / n) * (total / n), 0.0))


def _placed(ladder):
    """The ladder with its rungs moved; each takes over the state of the nearest."""
    tried, accepted = ladder.accepted[:-1].T
    barrier = np.append(0.0, np.cumsum(1.0 - accepted / np.maximum(tried, 1.0)))
    rungs = int(min(max(math.ceil(barrier[-1] / REJECTION) + 1, 4), MOST))
    # Rungs that always exchange would be one place of the barrier.
    rising = barrier + 1e-6 * np.arange(barrier.size)
    power = arithmetic.interp(np.linspace(0.0, rising[-1], rungs), rising, ladder.power)
    power[0], power[-1] = ladder.power[0], ladder.power[-1]
    nearest = ladder.at[np.abs(ladder.power[:, None] - power).argmin(axis=0)]
    return _ladder(power, ladder.states[nearest], ladder.values[nearest], ladder.statistic[nearest])
