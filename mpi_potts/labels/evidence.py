"""What chains of labels tell of the evidence of their number: see `estimation.evidence`.

Inside, the image has mean 0 and variance 1.  One chain serves for all tasks of a rank: a task starts from
given labels, and has steps of its own numbers, so that it does not depend on what the chain did before.
"""

from dataclasses import dataclass

import numpy as np

from .. import arithmetic
from ..binding.function import Binding
from ..estimation import evidence
from ..estimation.autocorrelation import moments
from ..kernels.chain import Surrogate
from ..kernels.evidence import evidence as pixel_by_pixel
from ..kernels.evidence import labelled
from ..kernels.neighbours import neighbours, pad
from ..lattice import MASKED
from ..model.pseudolikelihood import Pseudolikelihood
from .chain import LabelChain

# The number of such chains, beyond those of any fit, and the steps that a task has for itself.
NUMBER, SPAN = 2**32, 2**32
# Sweeps before a run is counted, and from one draw of the ordinate to the next.
BURN_IN, THIN = 50, 4
# Draws among which the point is found.
DRAWS = 100
# How often the draws of an ordinate are taken again, while its mean rests on few.
ROUNDS = 8
# Sweeps at every node of the path, and draws of every part of the ordinate, where modes are compared.
MODE = (100, 100)
# Points of a density of beta, and how many sds of one given S(z) they reach to either side.
POINTS, REACH = 1025, 16.0


@dataclass(frozen=True, eq=False)
class Point:
    """beta* and theta* (P, k), the latter of the image of mean 0 and variance 1, and in which order its
    labels are held."""

    beta: float
    values: np.ndarray
    order: np.ndarray


@dataclass(frozen=True)
class Found:
    """log p(y | k) of the image of mean 0 and variance 1, its standard error, and the parts of that."""

    value: float
    error: float
    path_error: float
    ordinate_error: float
    normaliser_error: float


def surrogate_of(binding: Binding, interval: tuple[float, float]) -> Surrogate:
    """p(beta | S(z)) by path sampling, as the chains draw from it."""
    low, high = interval
    return Surrogate(np.ascontiguousarray(binding.table), float(low), float(high), True)


def put(chain: LabelChain, task: int, labels: np.ndarray, values: np.ndarray | None = None) -> None:
    """Let a chain begin a task at labels (n,) of the pixels that exist, with values or their own noise."""
    if values is None:
        values = _noise_of(chain, labels)
    steps = np.array([task * SPAN, 0])
    chain.unpack({"steps": steps, "labels": labels.astype(np.uint8), "noise": values.copy()})


def _noise_of(chain, labels):
    return chain.noise.of_labels(labels, chain.standard_image, chain.k, 1e-6, empty=1.0)


def find_point(
    chain: LabelChain, task: int, labels: np.ndarray, surrogate: Surrogate
) -> tuple[Point, np.ndarray]:
    """A point of high density, from a run from labels (n,), and the labels after it."""
    put(chain, task, labels)
    prior, none = chain.noise.standardised(chain.centre, chain.unit), np.zeros(0, np.int64)
    beta, values, sums = 0.0, [], []
    for t in range(-2 * BURN_IN, THIN * DRAWS):
        drawn = chain.reduced(surrogate, none)
        if t >= 0 and t % THIN == 0:
            beta += drawn / DRAWS
            values.append(chain.standard)
            sums.append(_sums(chain))
    every, drawn_values = np.array(sums), np.array(values)
    marginals = prior.log_marginals(every)
    # (draw whose pixels, draw whose values, label)
    ratios = np.stack(
        [
            prior.log_likelihoods(drawn_values[:, :, j].T, every[:, j : j + 1])[..., 0]
            - marginals[:, j, None]
            for j in range(chain.k)
        ],
        axis=-1,
    )
    best = _best(prior, drawn_values, ratios)
    rests = evidence.effective(ratios[:, best, np.arange(chain.k)].T)
    point = np.stack([drawn_values[g, :, j] for j, g in enumerate(best)], axis=-1)
    return Point(beta, point, np.argsort(-rests, kind="stable")), chain.labels[chain.lattice.exists]


def _best(prior, values, ratios):
    """(k,) of every label the draw whose values it has at the point.

    For each label by itself the draw of the largest density, where that rests on many draws, since a density
    of few may be a spike; or, where labels exchange their parts and this would be one part for several, that
    draw which has the largest density for all of them together.
    """
    k = prior.labels
    priors = np.array([prior.log_prior(each) for each in values])
    apart = np.empty(k, np.int64)
    for j in range(k):
        alone = np.array([evidence.log_mean(column)[0] for column in ratios[..., j].T])
        alone += [prior.log_prior(np.repeat(each[:, j : j + 1], k, axis=1)) / k for each in values]
        sizes = evidence.effective(ratios[..., j].T)
        apart[j] = np.argmax(np.where(sizes >= 0.5 * sizes.max(), alone, -np.inf))
    together = ratios.sum(axis=-1)
    joint = np.array([evidence.log_mean(column)[0] for column in together.T]) + priors
    mixed = np.stack([values[g, :, j] for j, g in enumerate(apart)], axis=-1)
    of_mixed = evidence.log_mean(ratios[:, apart, np.arange(k)].sum(axis=-1))[0] + prior.log_prior(mixed)
    return apart if of_mixed >= joint.max() else np.full(k, int(np.argmax(joint)))


def _sums(chain):
    return chain.noise.label_sums(chain.labels[chain.lattice.exists], chain.standard_image, chain.k)


def independent(chain: LabelChain, point: Point) -> float:
    """sum_i log (1/k) sum_j p(y_i | theta*_j)."""
    lattice, y = chain.lattice, chain.standard_image
    state = pad(chain.labels, lattice.exists, MASKED)
    return pixel_by_pixel(state, y, neighbours(lattice), 0.0, chain.k, chain.noise.density(point.values))[1]


def criterion(chain: LabelChain, labels: np.ndarray, interval: tuple[float, float]) -> float:
    """The integrated complete-data likelihood of labels (n,) as a criterion (Biernacki, Celeux and Govaert
    2000), with the pseudolikelihood for that of the labels:

        sum_i log p(y_i | z_i) + log PL(z) - (parameters / 2) log n

    with the noise that the labels have and the beta of the interval that maximises PL.
    """
    image = np.full(chain.lattice.shape, MASKED, np.uint8)
    image[chain.lattice.exists] = labels
    values = _noise_of(chain, labels)
    state, y, near = _padded(chain, image)
    data = labelled(state, y, near, chain.noise.density(values))
    log_density = Pseudolikelihood(chain.lattice, chain.k).log_density(image, chain.lattice.statistic(image))
    prior = float(log_density(np.linspace(*interval, POINTS)).max())
    return data + prior - 0.5 * (values.size + 1) * float(arithmetic.log(float(chain.lattice.sites)))


def _padded(chain, labels):
    """Labels and image of mean 0 and variance 1 as kernels have them, and the neighbours."""
    lattice = chain.lattice
    image = np.zeros(lattice.shape)
    image[lattice.exists] = chain.standard_image
    return pad(labels, lattice.exists, MASKED), pad(image, lattice.exists, 0.0), neighbours(lattice)


def held(
    chain: LabelChain, task: int, labels: np.ndarray, point: Point, beta: float, sweeps: int, mixed: bool
) -> np.ndarray:
    """S(z) after each of so many sweeps at beta with the noise at the point, from the labels or, `mixed`,
    from a draw at beta = 0."""
    put(chain, task, labels, point.values)
    if mixed:
        chain.hold(np.zeros(1))
    return chain.hold(np.full(BURN_IN + sweeps, beta))[BURN_IN:]


def ordinate(
    chain: LabelChain,
    task: int,
    labels: np.ndarray,
    point: Point,
    surrogate: Surrogate,
    binding: Binding,
    part: int,
    draws: int,
) -> tuple[float, float]:
    """The logarithm of part 0..k of the ordinate, and its standard error: of the noise of the label in that
    place of the point's order, with those before it held; the last of beta.

    draws : or more, where the mean rests on few of them

    labels : (n,) where the chain starts
    """
    put(chain, task, labels, point.values)
    held, logs = point.order[:part], np.empty(0)
    for _ in range(BURN_IN):
        chain.reduced(surrogate, held)
    for _ in range(ROUNDS):
        logs = np.concatenate([logs, _some(chain, point, surrogate, binding, part, draws)])
        if evidence.effective(logs) >= evidence.FEW:
            break
    return evidence.log_mean(logs)


def _some(chain, point, surrogate, binding, part, draws):
    """(draws,) the logarithms of an ordinate's part from the next draws of its run."""
    sums, statistic = [], np.empty(draws)
    for t in range(draws):
        for _ in range(THIN):
            chain.reduced(surrogate, point.order[:part])
        statistic[t] = chain.statistic
        sums += [_sums(chain)] if part < chain.k else []
    if part == chain.k:
        return log_density(binding, (surrogate.low, surrogate.high), point.beta, statistic)
    label, prior = int(point.order[part]), chain.noise.standardised(chain.centre, chain.unit)
    every = np.array(sums)
    ratios = prior.log_likelihoods(point.values[:, label : label + 1], every)[:, 0]
    ratios = ratios - prior.log_marginals(every)
    return evidence.averaged(ratios, point.order[part:], label, prior.exchangeable)


def log_density(
    binding: Binding, interval: tuple[float, float], beta: float, statistic: np.ndarray
) -> np.ndarray:
    """log p(beta | S) for each S (n,), beta uniform on the interval, by path sampling."""
    reach = REACH / max(float(binding.moments(beta)[1]), 1e-3)
    grid = np.linspace(max(interval[0], beta - reach), min(interval[1], beta + reach), POINTS)
    normaliser = binding.log_normaliser(grid) - binding.log_normaliser(beta)
    away = (grid - beta) * statistic[:, None] - normaliser
    top = away.max(axis=1)
    total = np.trapezoid(arithmetic.exp(away - top[:, None]), grid, axis=1)
    return -top - arithmetic.log(total)


def together(
    chain: LabelChain,
    binding: Binding,
    interval: tuple[float, float],
    point: Point,
    held: np.ndarray,
    parts: np.ndarray,
) -> Found:
    """From S(z) (2 nodes, sweeps) on the path and the parts (k + 1, 2) of the ordinate, with their errors."""
    (low, high), n = interval, chain.lattice.sites
    nodes = [moments(pair) for pair in held.reshape(-1, 2, held.shape[1])]
    mean, sd, error = (np.array([getattr(m, name) for m in nodes]) for name in ("mean", "sd", "mean_se"))
    path, path_error = evidence.path(point.beta, mean, sd * sd, error)
    ordinate_error = float(np.sqrt((parts[:, 1] * parts[:, 1]).sum()))
    normaliser = float(binding.log_normaliser(point.beta)) - n * float(arithmetic.log(float(chain.k)))
    normaliser_error = float(binding.log_normaliser_error(point.beta))
    value = independent(chain, point) + path - normaliser - float(arithmetic.log(high - low))
    value -= float(parts[:, 0].sum())
    squares = sum(e * e for e in (path_error, ordinate_error, normaliser_error))
    return Found(value, float(np.sqrt(squares)), path_error, ordinate_error, normaliser_error)


def of_mode(
    chain: LabelChain, labels: np.ndarray, binding: Binding, interval: tuple[float, float]
) -> tuple[float, float]:
    """log of the part of the evidence that the mode around labels (n,) has, and its standard error.

    Runs that stay in their mode tell the ordinate within it, which is the whole one divided by the weight of
    the mode: what comes out is log p(y) plus the logarithm of that weight.
    """
    surrogate = surrogate_of(binding, interval)
    point, begin = find_point(chain, 0, labels, surrogate)
    at, (sweeps, draws) = evidence.nodes(point.beta)[0], MODE
    runs = 2 * evidence.NODES
    series = [
        held(chain, 1 + task, begin, point, at[task // 2], sweeps, mixed=task % 2 == 1)
        for task in range(runs)
    ]
    parts = [
        ordinate(chain, 1 + runs + part, begin, point, surrogate, binding, part, draws)
        for part in range(chain.k + 1)
    ]
    found = together(chain, binding, interval, point, np.array(series), np.array(parts))
    return found.value, found.error
