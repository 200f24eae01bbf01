"""The approximate exchange algorithm (Murray and others 2006; Cucala and others 2009; paper, section 5).

One step: a sweep of the labels given the data at the current beta (none for observed labels); a proposal
beta' by a Gaussian random walk; an auxiliary image w from p(w | beta'), approximately, by `auxiliary_sweeps`
of a sampler; and beta' is accepted with probability

    min(1, exp((beta' - beta) (S(z) - S(w))))

where the prior is positive, and rejected elsewhere.  The normalising constants have cancelled.

In the burn-in the step of the walk follows the acceptance (Robbins and Monro); after it, it is fixed.  Chain
0 starts at the lower end of the prior, below the phase transition, the others anywhere in it.
"""

from dataclasses import dataclass

import numpy as np

from .. import arithmetic, rng
from ..config.method_keys import ExchangeKeys
from ..kernels.chain import Trace
from ..labels.ensemble import join
from ..model.potts import Sampler
from ..rng import Purpose

# The best acceptance of a walk in one dimension (Roberts and Rosenthal 2001), and how fast the gain falls.
TARGET = 0.44
FALL = 0.6
# A chain remembers these.
BETA, LOG_STEP, ACCEPTED = 0, 1, 2


@dataclass(frozen=True)
class Exchange:
    """The phase of the joint chains in which beta moves by exchange."""

    sampler: Sampler
    interval: tuple[float, float]
    keys: ExchangeKeys
    seed: int
    width: int = 3

    @property
    def burn_in(self) -> int:
        return self.keys.burn_in

    @property
    def sweeps(self) -> int:
        return self.keys.iterations - self.keys.burn_in

    @property
    def cost(self) -> int:
        # A small lattice is swept faster than a step is made.
        return self.keys.auxiliary_sweeps + 1 + 100_000 // self.sampler.lattice.sites

    def start(self, number: int) -> np.ndarray:
        low, high = self.interval
        uniform = rng.uniforms(rng.stream(self.seed, Purpose.EXCHANGE, number), 0, 1)[0]
        return np.array([low + (number > 0) * uniform * (high - low), arithmetic.log(self.keys.step), 0.0])

    def run(self, number, chain, memory, first, steps, counting) -> Trace:
        traces = []
        for t in range(first, first + steps):
            swept = chain.sweep(memory[BETA : BETA + 1])
            probability = self._move(number, chain, memory, t)
            if counting:
                memory[ACCEPTED] += probability[1]
                chain.count()
            else:
                memory[LOG_STEP] += (probability[0] - TARGET) * arithmetic.power(t + 1.0, -FALL)
            traces.append(swept._replace(beta=memory[BETA : BETA + 1].copy()))
        return join(traces)

    def _move(self, number, chain, memory, t):
        """One proposal of beta; the probability of its acceptance, and whether it was accepted."""
        # Iteration 0 of the stream is the start's.
        draws = rng.stream(self.seed, Purpose.EXCHANGE, number), t + 1
        proposal = memory[BETA] + arithmetic.exp(memory[LOG_STEP]) * rng.normals(*draws, 1)[0]
        if not self.interval[0] <= proposal <= self.interval[1]:
            return 0.0, False
        change = (proposal - memory[BETA]) * (chain.statistic - self._auxiliary(number, chain, proposal, t))
        accepted = arithmetic.log(rng.uniforms(*draws, 1, word=1)[0]) < change
        if accepted:
            memory[BETA] = proposal
        return arithmetic.exp(min(change, 0.0)), accepted

    def _auxiliary(self, number, chain, beta, t):
        """S(w) of the auxiliary image of step t."""
        sampler, count = self.sampler, self.keys.auxiliary_sweeps
        if self.keys.auxiliary_start == "current":
            state = sampler.state(chain.labels)
        else:
            start = rng.stream(self.seed, Purpose.AUXILIARY_START, number)
            state = sampler.start("random", rng.key(start, t))
        sweeps = rng.stream(self.seed, Purpose.AUXILIARY_SWEEP, number)
        return int(sampler.sweeps(state, beta, sweeps, t * count, count)[-1])
