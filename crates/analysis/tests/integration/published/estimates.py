"""Means and ratios of few replicates with Student's intervals, by the methods of docs/statistics.md."""

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache


def beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function (Lentz; Abramowitz and Stegun 26.5.8)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value


def beyond(t, freedom):
    """The probability that the absolute value of Student's t is above t."""
    a, b = freedom / 2.0, 0.5
    # x and y = 1 - x are computed separately, so that neither loses digits.
    x, y = freedom / (freedom + t * t), t * t / (freedom + t * t)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * beta_fraction(a, b, x) / a
    return 1.0 - front * beta_fraction(b, a, y) / b


@lru_cache(maxsize=None)
def student(freedom, level):
    """The value that |t| exceeds with a probability of 1 - level."""
    low, high = 1e-3, 1e4
    while beyond(high, freedom) > 1.0 - level:
        high *= 10.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if beyond(middle, freedom) > 1.0 - level else (low, middle)
    return low


def normal(level):
    """The same for the normal distribution."""
    return statistics.NormalDist().inv_cdf(0.5 + 0.5 * level)


@dataclass(frozen=True)
class Resolution:
    """The smallest change that the instrument shows: in the unit, and as a share of the value."""

    absolute: float
    relative: float

    def deviation(self, value):
        return max(self.absolute, self.relative * abs(value)) / math.sqrt(12.0)


def resolution(metric):
    """By docs/statistics.md: counts 1, times 0.05 ms, percentages 0.1, quotients 0.1 %, capacities 2 %."""
    last = metric.rsplit("_", 1)[-1]
    if metric in ("capacity", "capacity_works", "capacity_fails"):
        return Resolution(0.0, 2e-2)
    if last == "pct":
        return Resolution(0.1, 0.0)
    if last == "s" and "_per_" not in metric:
        return Resolution(0.05e-3, 0.0)
    if last == "ms":
        return Resolution(0.05, 0.0)
    quotient = ("_per_", "_mean", "mean_", "_ratio", "_factor")
    if last in ("us", "kB") or any(part in metric for part in quotient):
        return Resolution(0.0, 1e-3)
    return Resolution(1.0, 0.0)


@dataclass(frozen=True)
class Estimate:
    """An estimate; `error` is None where there is no interval. On a logarithmic scale the centre is a logarithm."""

    n: int
    centre: float
    error: float | None = None
    freedom: float = 0.0
    floor: float = 0.0
    logarithmic: bool = False
    times: float = 1.0

    @property
    def value(self):
        return self.times * (math.exp(self.centre) if self.logarithmic else self.centre)

    def interval(self, level):
        """The ends; None without an error."""
        if self.error is None:
            return None
        half = student(self.freedom, level) * self.error if self.error > 0.0 else 0.0
        half = max(half, normal(level) * self.floor)
        ends = (self.centre - half, self.centre + half)
        return tuple(self.times * (math.exp(end) if self.logarithmic else end) for end in ends)

    def half(self, level):
        """The longer half of the interval."""
        ends = self.interval(level)
        return ends and max(self.value - ends[0], ends[1] - self.value)


def average(values):
    return math.fsum(values) / len(values)


def satterthwaite(variances):
    """The error of a sum and its degrees of freedom, from (variance of the mean, number of values) of each part."""
    fewest = min(n - 1 for _, n in variances)
    if fewest == 0:
        return None, 0.0
    whole = math.fsum(variance for variance, _ in variances)
    below = math.fsum(variance**2 / (n - 1) for variance, n in variances)
    freedom = whole**2 / below if below > 0.0 else float(fewest)
    return math.sqrt(whole), max(freedom, float(fewest))


def spread(samples, signs, paired):
    """The error of the sum of the samples' means times their signs, and its degrees of freedom."""
    if paired:
        samples = [[math.fsum(s * v for s, v in zip(signs, values)) for values in zip(*samples, strict=True)]]
    if any(len(sample) < 2 for sample in samples):
        return None, 0.0
    return satterthwaite([(statistics.variance(sample) / len(sample), len(sample)) for sample in samples])


def mean(values, metric):
    """The mean of a sample; None if it is empty."""
    values = list(values)
    if not values:
        return None
    error, freedom = spread([values], [1.0], False)
    value = average(values)
    return Estimate(len(values), value, error, freedom, resolution(metric).deviation(value))


def in_order(cells):
    """The values of each cell in the order of its replicates, and whether all have the same replicates."""
    cells = [dict(sorted(cell.items())) for cell in cells]
    paired = all(list(cell) == list(cells[0]) for cell in cells)
    return [list(cell.values()) for cell in cells], paired


def difference(left, right, metric):
    """The mean of a cell minus that of another; cells have their values by replicate."""
    if not left or not right:
        return None
    samples, paired = in_order([left, right])
    error, freedom = spread(samples, [1.0, -1.0], paired)
    means = [average(sample) for sample in samples]
    floor = math.hypot(*(resolution(metric).deviation(value) for value in means))
    n = min(len(sample) for sample in samples)
    return Estimate(n, means[0] - means[1], error, freedom, floor)


def product(cells, signs, metric, times=1.0):
    """The product of the cells' means, each to the power of its sign: a ratio, or a ratio of ratios."""
    if not all(cells):
        return None
    samples, paired = in_order(cells)
    n = min(len(sample) for sample in samples)
    resolved = resolution(metric)
    if min(min(sample) for sample in samples) > 0.0:
        logarithms = [[math.log(value) for value in sample] for sample in samples]
        centre = math.fsum(sign * average(sample) for sign, sample in zip(signs, logarithms))
        error, freedom = spread(logarithms, signs, paired)
        means = [average(sample) for sample in samples]
        floor = math.sqrt(math.fsum((resolved.deviation(value) / value) ** 2 for value in means))
        return Estimate(n, centre, error, freedom, floor, True, times)
    return jackknife(samples, signs, paired, resolved, n, times)


def jackknife(samples, signs, paired, resolved, n, times):
    """The same product if a value is not positive: of arithmetic means (Miller, Biometrika 61, 1974)."""

    def figure(samples):
        value = 1.0
        for sign, sample in zip(signs, samples):
            factor = average(sample)
            if factor == 0.0 and sign < 0.0:
                return math.nan
            value *= factor**sign
        return value

    value = figure(samples)
    if n < 2 or not math.isfinite(value):
        return Estimate(n, value, times=times)
    without = lambda sample, index: sample[:index] + sample[index + 1 :]
    families = [range(n)] if paired else [range(len(sample)) for sample in samples]
    variances = []
    for family, indices in enumerate(families):
        parts = [
            figure([without(s, i) if paired or place == family else s for place, s in enumerate(samples)])
            for i in indices
        ]
        if not all(math.isfinite(part) for part in parts):
            return Estimate(n, value, times=times)
        variances.append((statistics.pvariance(parts) * (len(parts) - 1), len(parts)))
    error, freedom = satterthwaite(variances)
    floor = Resolution(0.0, resolved.relative).deviation(value)
    return Estimate(n, value, error, freedom, floor, times=times)


def ratio(one, base, metric, times=1.0):
    """The ratio of two cells."""
    return product([one, base], [1.0, -1.0], metric, times) if one and base else None
