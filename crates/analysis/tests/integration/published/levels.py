"""The estimates of tests that compare curves level by level: by the jackknife (Miller, Biometrika 61, 1974)."""

import math
import statistics

from estimates import Estimate, Resolution, average, satterthwaite
from records import number

# The figure of several values has the resolution of a quotient.
QUOTIENT = Resolution(0.0, 1e-3)


def curve(run, selection, metric, along, over):
    """The values at each level of a curve, by replicate, with their divisors; None if a level has two cells."""
    levels = {}
    for own, replicates in run.matching(selection):
        x = number(own[along])
        values = {n: metrics[metric] for n, metrics in sorted(replicates.items()) if metric in metrics}
        if x is None or not values:
            continue
        divisors = {n: replicates[n].get(over) for n in values} if over else None
        if x in levels or (divisors and None in divisors.values()):
            return None
        levels[x] = (values, divisors)
    return levels


def at_level(run, test, place):
    """The estimate of a gain, a value or a ratio to the level itself, at one level; None for other tests."""
    sweep, kind = test["sweep"], test["kind"]
    along = sweep["along"]
    if kind not in ("gain", "at", "identity") or along not in place:
        return None
    level = float(place[along])
    at = {**test.get("common", {}), **{factor: one for factor, one in place.items() if factor != along}}
    curves = []
    for words in [test.get("left", {})] + ([test["right"]] if "right" in test else []):
        levels = {name: one for name, one in words.items() if name != "metric"}
        metric = words.get("metric", test["metric"])
        curves.append(curve(run, {**at, **levels}, metric, along, sweep.get("over")))
    if any(one is None or level not in one for one in curves):
        return None
    figure = lambda dropped: of_means([mean_at(one[level], out) for one, out in zip(curves, dropped)], kind, level, sweep)
    # Replicates are paired if every level of every curve has the same ones.
    numbers = [list(values) for one in curves for values, _ in one.values()]
    return jackknife(figure, [list(one[level][0]) for one in curves], numbers, kind != "at")


def mean_at(values_and_divisors, dropped):
    """The mean without one of the replicates."""
    values, divisors = values_and_divisors
    mean = lambda values: average([value for n, value in values.items() if n != dropped])
    if divisors is None:
        return mean(values)
    return mean(values) / mean(divisors) if mean(divisors) else math.nan


def of_means(means, kind, level, sweep):
    """The figure of the means of all curves at a level."""
    if kind == "at":
        return means[0]
    if kind == "identity":
        return means[0] / level
    one, other = (max(mean, sweep.get("floor", -math.inf)) for mean in means)
    return one / other if other else math.nan


def jackknife(figure, replicates, numbers, wants_logarithm):
    """An estimate from a figure without each replicate in turn; None if it is not finite."""
    paired = all(own == numbers[0] for own in numbers)
    everything = [None] * len(replicates)
    value, n = figure(everything), min(len(own) for own in numbers)
    if not math.isfinite(value):
        return None
    if n < 2:
        return Estimate(n, value)
    if paired:
        families = [[figure([out] * len(replicates)) for out in replicates[0]]]
    else:
        families = [
            [figure([out if place == family else None for place in range(len(replicates))]) for out in own]
            for family, own in enumerate(replicates)
        ]
    parts = [part for family in families for part in family]
    if not all(math.isfinite(part) for part in parts):
        return Estimate(n, value)
    logarithmic = wants_logarithm and value > 0.0 and min(parts) > 0.0
    scaled = (lambda one: math.log(one)) if logarithmic else (lambda one: one)
    variances = [(statistics.pvariance(map(scaled, family)) * (len(family) - 1), len(family)) for family in families]
    if not paired:
        # Other levels do not change the estimate: they add no variance, only their number of replicates.
        variances += [(0.0, len(own)) for own in numbers]
    error, freedom = satterthwaite(variances)
    floor = QUOTIENT.deviation(1.0 if logarithmic else value)
    return Estimate(n, scaled(value), error, freedom, floor, logarithmic)
