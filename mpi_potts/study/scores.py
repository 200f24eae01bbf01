"""What a study of simulated images says about a method: scores, coverage, calibration, and the table of them.

Image i has the true beta_i and, from each method, a posterior with mean m_i, sd, quantiles, and L thinned
draws.  With e_i = m_i - beta_i over n images,

    bias = mean(e),    RMSE = sqrt(mean(e^2)),    coverage = part of the images whose interval holds beta_i.

An interval of level p that is right covers a binomial number of the images: its standard error is
sqrt(p (1 - p) / n).

**Calibration** (Cook and others 2006; Talts and others 2018).  Where beta_i was drawn from the prior, its
rank among L independent draws of a right posterior is uniform on 0..L.  The ranks are counted in equal bins,
and X^2 = sum (count - n / bins)^2 / (n / bins) is compared with chi-square of bins - 1 degrees of freedom.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from .. import arithmetic

# What the file of a study has of each method beside the times.
COLUMNS = ("mean", "sd", "quantiles", "ess", "rank", "sample", "ranks")
# Of the quantiles that a fit leaves: the ends of the 95 % and the 50 % interval, and the median.
PROBABILITIES = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
INTERVALS = {0.5: (1, 3), 0.95: (0, 4)}
# The chi-square distribution of X^2 needs so many images in a bin (the usual rule).
IMAGES_IN_A_BIN = 5
# A histogram passes where chance alone is worse than it in more than this part of studies.
PASSES = 0.01


@dataclass(frozen=True, eq=False)
class Fits:
    """What one method found on n images; `rank` is that of the true beta in the thinned draws, `sample`."""

    name: str
    truth: np.ndarray  # (n,)
    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray  # (n, 5), at PROBABILITIES
    ess: np.ndarray
    rank: np.ndarray
    sample: np.ndarray  # (n, draws)
    ranks: np.ndarray  # (n, q) of S(z) and of the noise label by label, where there are draws of them
    cpu: np.ndarray
    elapsed: np.ndarray

    @property
    def draws(self) -> int:
        return self.sample.shape[1]


def to_arrays(fits: Iterable[Fits]) -> dict[str, np.ndarray]:
    """The datasets of a study: those that end in `seconds` are in no checksum."""
    arrays: dict[str, np.ndarray] = {}
    for each in fits:
        columns = {name: getattr(each, name) for name in ("truth", *COLUMNS)}
        columns |= {"cpu/seconds": each.cpu, "elapsed/seconds": each.elapsed}
        arrays |= {f"{each.name}/{name}": values for name, values in columns.items()}
    return arrays


def from_arrays(arrays: Mapping[str, np.ndarray], rows: Iterable[str]) -> list[Fits]:
    """The inverse of `to_arrays`, in the order of `rows`."""
    fits = []
    for name in rows:
        columns = {column: arrays[f"{name}/{column}"] for column in ("truth", *COLUMNS)}
        columns |= {clock: arrays[f"{name}/{clock}/seconds"] for clock in ("cpu", "elapsed")}
        fits.append(Fits(name, **columns))
    return fits


@dataclass(frozen=True)
class Scores:
    """One row of the table.  Errors are standard errors; p is that of the test of uniform ranks."""

    method: str
    images: int
    bias: float
    bias_error: float
    rmse: float
    mean_sd: float
    cover_50: float
    cover_50_error: float
    cover_95: float
    cover_95_error: float
    ess: float
    cpu_seconds: float
    elapsed_seconds: float
    rank_bins: int
    rank_chi_square: float
    rank_p: float


def scores(fits: Fits, most_bins: int, calibrated: bool = True) -> Scores:
    """The row of one method; without a test of the ranks where the truth was not drawn from the prior."""
    error, n = fits.mean - fits.truth, fits.truth.size
    (half, half_error), (most, most_error) = coverage(fits, 0.5), coverage(fits, 0.95)
    bins, square, p = 0, math.nan, math.nan
    if calibrated:
        bins = number_of_bins(n, fits.draws + 1, most_bins)
        square, p = uniformity(histogram(fits.rank, fits.draws, bins))
    return Scores(
        method=fits.name,
        images=n,
        bias=float(error.mean()),
        bias_error=float(error.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan,
        rmse=float(np.sqrt((error * error).mean())),
        mean_sd=float(fits.sd.mean()),
        cover_50=half,
        cover_50_error=half_error,
        cover_95=most,
        cover_95_error=most_error,
        ess=float(fits.ess.mean()),
        cpu_seconds=float(fits.cpu.mean()),
        elapsed_seconds=float(fits.elapsed.mean()),
        rank_bins=bins,
        rank_chi_square=square,
        rank_p=p,
    )


def other_ranks(fits: Fits, names: Sequence[str], most_bins: int) -> dict[str, float]:
    """p of the ranks of S(z) and of the noise, by name; none where there are none, or too few images.

    names : of the parameters of the noise
    """
    bins = number_of_bins(fits.truth.size, fits.draws + 1, most_bins)
    if fits.ranks.shape[1] == 0 or bins < 2:
        return {}
    k = (fits.ranks.shape[1] - 1) // len(names)
    every = ["S(z)", *(f"{name} {j + 1}" for name in names for j in range(k))]
    return {
        name: uniformity(histogram(rank, fits.draws, bins))[1]
        for name, rank in zip(every, fits.ranks.T, strict=True)
    }


def coverage(fits: Fits, level: float) -> tuple[float, float]:
    """The part of the images whose interval holds the truth, and its standard error if the level is right."""
    low, high = (fits.quantiles[:, i] for i in INTERVALS[level])
    inside = (low <= fits.truth) & (fits.truth <= high)
    return float(inside.mean()), math.sqrt(level * (1.0 - level) / fits.truth.size)


def thinned(draws: np.ndarray, count: int) -> np.ndarray:
    """`count` of the draws of all chains (m, n), as far apart as possible."""
    flat = np.ravel(draws)
    return flat[((np.arange(count) + 0.5) * flat.size / count).astype(np.int64)]


def number_of_bins(images: int, ranks: int, most: int) -> int:
    """The largest number of equal bins of `ranks` values up to `most` with enough images in each.

    The trivial one is 1: fewer than ten images, or a number of ranks without a divisor, allow no test.
    """
    largest = min(most, images // IMAGES_IN_A_BIN, ranks)
    return max((b for b in range(1, largest + 1) if ranks % b == 0), default=1)


def histogram(rank: np.ndarray, draws: int, bins: int) -> np.ndarray:
    """(bins,) counts of the ranks 0..draws."""
    return np.bincount(np.asarray(rank) * bins // (draws + 1), minlength=bins)


def uniformity(counts: np.ndarray) -> tuple[float, float]:
    """X^2 of the counts against equal ones, and the probability of a larger one; (nan, nan) for one bin."""
    if counts.size < 2:
        return math.nan, math.nan
    expected = counts.sum() / counts.size
    square = float(((counts - expected) * (counts - expected)).sum() / expected)
    return square, chi_square_survival(square, counts.size - 1)


def chi_square_survival(x: float, degrees: int) -> float:
    """P(X > x) for chi-square: the upper incomplete gamma function Q(degrees / 2, x / 2)."""
    a, x = 0.5 * degrees, 0.5 * x
    if x <= 0.0:
        return 1.0
    front = arithmetic.exp(a * arithmetic.log(x) - x - _log_gamma(a))
    return 1.0 - front * _lower_series(a, x) if x < a + 1.0 else front * _upper_fraction(a, x)


def _log_gamma(a: float) -> float:
    """log Gamma of a multiple of 1/2, by its recursion from Gamma(1/2) = sqrt(pi) or Gamma(1) = 1."""
    first = a % 1.0 or 1.0
    start = 0.5 * arithmetic.log(math.pi) if first == 0.5 else 0.0
    return start + sum(arithmetic.log(first + n) for n in range(round(a - first)))


def _lower_series(a: float, x: float) -> float:
    """sum_n x^n / (a (a + 1) ... (a + n)), which converges fast below a + 1."""
    term = total = 1.0 / a
    n = 0
    while term > total * 1e-17:
        n += 1
        term *= x / (a + n)
        total += term
    return total


def _upper_fraction(a: float, x: float) -> float:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), from its far end, soon forgotten above a + 1."""
    value = 0.0
    for n in range(500, 0, -1):
        value = n * (n - a) / (x + 2 * n + 1 - a - value)
    return 1.0 / (x + 1.0 - a - value)


# The table

_HEADS = (
    ("method", 24),
    ("images", 6),
    ("bias", 18),
    ("RMSE", 8),
    ("mean sd", 8),
    ("50 % covers", 15),
    ("95 % covers", 15),
    ("ESS", 8),
    ("CPU s", 9),
    ("elapsed s", 9),
    ("ranks p", 8),
)


def table(rows: Iterable[Scores]) -> str:
    """The rows for the screen, errors in brackets."""
    lines = ["  ".join(f"{head:<{w}}" if i == 0 else f"{head:>{w}}" for i, (head, w) in enumerate(_HEADS))]
    for row in rows:
        cells = (
            str(row.images),
            f"{row.bias:+.5f} ({row.bias_error:.5f})",
            f"{row.rmse:.5f}",
            f"{row.mean_sd:.5f}",
            f"{row.cover_50:.3f} ({row.cover_50_error:.3f})",
            f"{row.cover_95:.3f} ({row.cover_95_error:.3f})",
            f"{row.ess:.0f}",
            f"{row.cpu_seconds:.3g}",
            f"{row.elapsed_seconds:.3g}",
            f"{row.rank_p:.2g}" if row.rank_bins > 1 else "-",
        )
        widths = [w for _, w in _HEADS[1:]]
        lines.append("  ".join([f"{row.method:<24}", *(f"{c:>{w}}" for c, w in zip(cells, widths))]))
    return "\n".join(lines)


def comma_separated(rows: Iterable[Scores]) -> str:
    """The rows for other programs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f.name for f in fields(Scores)]
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()
