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
from typing import Any

import numpy as np

from .. import arithmetic, rng
from ..config.inputs import SAMPLERS, Config
from ..config.registry import OwnTable, register
from ..config.schema import Choice, Integer, Number, check_burn_in, key
from ..kernels.chain import Trace
from ..labels.chain import LabelChain, join
from ..model.potts import Sampler
from ..rng import Purpose
from ..runtime.parallel import Comm, merge_rows
from .base import Method, Problem, Simulation
from .joint_chains import ChainFit

# The best acceptance of a walk in one dimension (Roberts and Rosenthal 2001), and how fast the gain falls.
TARGET = 0.44
FALL = 0.6
# A chain remembers these.
BETA, LOG_STEP, ACCEPTED = 0, 1, 2


@dataclass(frozen=True)
class ExchangeKeys:
    """The table [exchange] of the input."""

    iterations: int = key(Integer(2), 100_000, "iterations of each chain, burn-in included")
    burn_in: int = key(Integer(0), 10_000, "iterations left out at the start, in which the step adapts")
    auxiliary_sweeps: int = key(Integer(1), 500, "sweeps for each auxiliary image")
    auxiliary_sampler: str = key(Choice(*SAMPLERS), "gibbs", "sampler of the auxiliary images")
    auxiliary_start: str = key(
        Choice("current", "random"), "current", "first labels of an auxiliary image: the current z, or random"
    )
    step: float = key(Number(low=0.0, open_low=True), 0.05, "sd of the first proposals of beta")

    def check(self) -> None:
        """Refuse a burn-in that leaves no iterations."""
        check_burn_in("exchange", self.burn_in, self.iterations)


@dataclass(frozen=True)
class Exchange:
    """The phase of the joint chains in which beta moves by exchange."""

    sampler: Sampler
    interval: tuple[float, float]
    keys: ExchangeKeys
    seed: int
    width: int = 3
    crossing: None = None
    target: None = None  # as many iterations as asked for

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

    def run(
        self, number: int, chain: LabelChain, memory: np.ndarray, first: int, steps: int, counting: bool
    ) -> Trace:
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

    def _move(self, number: int, chain: LabelChain, memory: np.ndarray, t: int) -> tuple[float, bool]:
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

    def _auxiliary(self, number: int, chain: LabelChain, beta: float, t: int) -> int:
        """S(w) of the auxiliary image of step t."""
        sampler, count = self.sampler, self.keys.auxiliary_sweeps
        if self.keys.auxiliary_start == "current":
            state = sampler.state(chain.labels)
        else:
            start = rng.stream(self.seed, Purpose.AUXILIARY_START, number)
            state = sampler.start("random", rng.key(start, t))
        sweeps = rng.stream(self.seed, Purpose.AUXILIARY_SWEEP, number)
        return int(sampler.sweeps(state, beta, sweeps, t * count, count)[-1])


class ExchangeFit(ChainFit):
    """A fit by exchange; observed labels are a chain too, whose labels stand still."""

    phase: Exchange
    unit = "iterations"
    length = "exchange.iterations"
    always_in_chains = True

    def __init__(self, comm: Comm, problem: Problem):
        """Collective.  The chains before their first sweeps."""
        super().__init__(comm, problem)
        self._memory = np.zeros((0, Exchange.width))

    def _phase(self) -> Exchange:
        problem, keys = self.problem, self.problem.config.of(ExchangeKeys)
        sampler = problem.sampler(self.comm, keys.auxiliary_sampler)
        return Exchange(sampler, problem.config.prior.beta, keys, problem.config.seed)

    def conclude(self) -> None:
        """Collective.  What the chains of all ranks remember: (chains, width)."""
        chains = self.chains
        if chains is not None:
            self._memory = merge_rows(self.comm, chains.numbers, chains.memory, chains.count)

    def traces(self) -> dict[str, np.ndarray]:
        """Of every chain, the part of the proposals that was accepted after the burn-in, and the step."""
        return {
            "exchange/acceptance": self._memory[:, ACCEPTED] / self.phase.sweeps,
            "exchange/step": arithmetic.exp(self._memory[:, LOG_STEP]),
        }

    def headline(self) -> str:
        return f"{super().headline()}, {self.phase.keys.auxiliary_sweeps} sweeps for each auxiliary image"


class ExchangeMethod(Method):
    """method = "exchange"."""

    name = "exchange"
    table = OwnTable("exchange", ExchangeKeys, "the exchange algorithm")
    binding = False

    def fit(self, comm: Comm, problem: Problem) -> ExchangeFit:
        return ExchangeFit(comm, problem)

    def short(self) -> dict[str, dict[str, Any]]:
        return {"exchange": {"iterations": 2, "burn_in": 1, "auxiliary_sweeps": 1}}

    def sizes(self, config: Config) -> str:
        keys = config.of(ExchangeKeys)
        return f"{keys.iterations} iterations, {keys.auxiliary_sweeps} sweeps for each auxiliary image"

    def draws(self, config: Config) -> tuple[str, int]:
        keys = config.of(ExchangeKeys)
        return "exchange.iterations", keys.iterations - keys.burn_in

    def in_chains(self, config: Config) -> bool:
        return True

    def label_sweeps(self, config: Config, usual: bool = False) -> tuple[int, int]:
        keys = config.of(ExchangeKeys)
        return keys.burn_in, keys.iterations - keys.burn_in

    def simulated(self, config: Config) -> Simulation:
        keys, chains = config.of(ExchangeKeys), config.fit.chains
        steps = chains * keys.iterations
        return Simulation(
            chains, keys.iterations * keys.auxiliary_sweeps, 1, keys.auxiliary_sampler, label_sweeps=steps
        )


register(ExchangeMethod())
