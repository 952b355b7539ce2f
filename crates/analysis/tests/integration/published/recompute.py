#!/usr/bin/env python3
"""Computes the tables and curves of a run again, from its raw records, and compares them with its summary.

    recompute.py RUN TABLES [DRAWN SEED]

RUN is a folder with replicates.ndjson and summary.json, TABLES the file tables.toml of its study. With DRAWN, only that
many entries are drawn at random. Prints one JSON object: how many entries were compared, and each that differs.

It shares no code with the program, and needs Python 3.11 without further modules. An entry is the mean of a cell's valid
replicates, or a ratio of two cells (of their geometric means), with Student's interval.
"""

import json
import math
import random
import statistics
import sys
import tomllib

RELATIVE = 1e-9


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
    """The probability that Student's t is farther from 0 than t."""
    a, b = freedom / 2.0, 0.5
    x = freedom / (freedom + t * t)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * beta_fraction(a, b, x) / a
    return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b


def student(freedom):
    """The value of t that 5 % are beyond."""
    low, high = 1e-3, 1e4
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if beyond(middle, freedom) > 0.05 else (low, middle)
    return low


def resolution(metric, value):
    """The resolution of a mean, by docs/statistics.md: counts 1, times 0.05 ms, percentages 0.1, quotients 0.1 %."""
    last = metric.rsplit("_", 1)[-1]
    if last == "pct":
        return 0.1
    if last == "s" and "_per_" not in metric:
        return 0.05e-3
    if last == "ms":
        return 0.05
    quotient = ("_per_", "_mean", "mean_", "_ratio", "_factor")
    if last in ("us", "kB") or any(part in metric for part in quotient):
        return 1e-3 * abs(value)
    return 1.0


def half_length(values, resolved):
    """Half of the interval of a mean; None for a single value."""
    if len(values) < 2:
        return None
    error = statistics.stdev(values) / math.sqrt(len(values))
    return max(student(len(values) - 1) * error, 1.959963984540054 * resolved / math.sqrt(12.0))


class Run:
    def __init__(self, folder, tables):
        last = {}
        with open(f"{folder}/replicates.ndjson", encoding="utf-8") as records:
            for line in records:
                # Records of older versions say octets.
                record = json.loads(line.replace("octets", "bytes"))
                key = (record["block"], tuple(sorted(record["cell"].items())))
                # The last attempt of a replicate counts.
                last[key, record["replicate"]] = record
        self.cells = {}
        for (key, number), record in last.items():
            if not record["validity"]["reasons"]:
                self.cells.setdefault(key, {})[number] = record["metrics"]
        self.defaults = {
            name: factor["default"]
            for name, factor in tables["factor"].items()
            if "default" in factor
        }

    def matching(self, selection):
        block = selection.get("block", "main")
        levels = {name: level for name, level in selection.items() if name != "block"}
        for (its_block, its_levels), replicates in self.cells.items():
            own = dict(its_levels)
            if its_block != block:
                continue
            if any(own.get(name, self.defaults.get(name)) != level for name, level in levels.items()):
                continue
            rest = {name: level for name, level in own.items() if name not in levels}
            if block == "main" and any(
                self.defaults.get(name, level) != level for name, level in rest.items()
            ):
                continue
            yield own, replicates

    def values(self, selection, column):
        """The values of the one cell of a selection, by replicate; None if there is not just one."""
        found = list(self.matching(selection))
        if len(found) != 1:
            return None
        return {
            number: metrics[column["metric"]] + (metrics[column["plus"]] if "plus" in column else 0.0)
            for number, metrics in found[0][1].items()
            if column["metric"] in metrics and column.get("plus", column["metric"]) in metrics
        }


def mean(values, metric):
    """An estimate of a mean, or None."""
    if not values:
        return None
    values = list(values)
    value = math.fsum(values) / len(values)
    return {"n": len(values), "value": value, "half": half_length(values, resolution(metric, value))}


def ratio(one, base, times):
    """An estimate of a ratio, without its interval: of geometric means, or of means where a value is not positive."""
    if not one or not base:
        return None
    average = lambda values: math.fsum(values) / len(values)
    if min(*one.values(), *base.values()) > 0.0:
        log = lambda values: average([math.log(value) for value in values.values()])
        value = math.exp(log(one) - log(base))
    else:
        value = average(one.values()) / average(base.values())
    return {"n": min(len(one), len(base)), "value": times * value, "half": None}


def table_entries(run, tables, summary):
    """Pairs of a name, what the summary has, and what the records say."""
    layouts = {layout["name"]: layout for layout in tables.get("layout", [])}
    by_id = {table["id"]: table for table in tables.get("table", [])}
    for result in summary["tables"]:
        table = by_id[result["id"]]
        layout = layouts[table["layout"]] if isinstance(table["layout"], str) else table["layout"]
        rows = {row["label"]: row for row in layout["row"]}
        sections = {section.get("label", ""): section for section in layout.get("section", [{}])}
        place = {**table.get("select", {}), "era": result["era"]}
        for shown in result["rows"]:
            section = sections[shown.get("section") or ""]
            row = rows[shown["label"]]
            for group, data in zip(layout["group"], shown["data"], strict=True):
                at = {**place, **section.get("select", {}), **group.get("select", {})}
                own = {**at, **row.get("select", {})}
                for column, datum in zip(layout["column"], data, strict=True):
                    name = f"{table['id']} {result['era']} {shown['label']} {group['key']} {column['label']}"
                    also = [{**own, **one.get("select", {})} for one in table.get("also", [])]
                    for selection, entry in zip([own, *also], [datum["ours"], *datum["also"]], strict=True):
                        if "value" not in entry:
                            continue
                        values = run.values(selection, column)
                        if "percent_of" in column:
                            whole = {**selection, **rows[column["percent_of"]].get("select", {})}
                            found = ratio(values, run.values(whole, column), 100.0)
                        else:
                            found = mean((values or {}).values(), column["metric"])
                        yield name, entry["value"]["estimate"], found
                    relative = (datum.get("relative") or {}).get("ours")
                    if relative:
                        base = {**at, **rows[layout["relative_to"]].get("select", {})}
                        found = ratio(run.values(own, column), run.values(base, column), 1.0)
                        yield f"{name}, relative", relative, found


def number(level):
    """The value of a level with a number: 32, 16M, pareto:mean=256k."""
    text = level.rsplit("=", 1)[-1]
    for candidate in (text, text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")):
        try:
            return float(candidate)
        except ValueError:
            pass
    return None


def curve_entries(run, tables, summary):
    by_place = {(curve["id"], curve["title"]): curve for curve in tables.get("curve", [])}
    for result in summary["curves"]:
        curve = by_place[result["id"], result["title"]]
        for panel, shown in zip(curve["panel"], result["panels"], strict=True):
            for line in shown["lines"]:
                selection = {**curve.get("select", {}), "era": result["era"], **panel.get("select", {})}
                selection[curve["series"]] = line["series"]
                for point in line["points"]:
                    if not point["estimate"]:
                        continue
                    name = f"{curve['id']} {result['era']} {shown['title']} {line['series']} {point['level']}"
                    metric, found = panel["metric"], list(run.matching(selection))
                    if "*" in metric:
                        # A distribution: the steps are in the names of the metrics.
                        before, after = metric.split("*")
                        names = {
                            key
                            for _, replicates in found
                            for metrics in replicates.values()
                            for key in metrics
                            if key.startswith(before) and key.endswith(after)
                        }
                        step = lambda key: number(key[len(before) : len(key) - len(after)])
                        [metric] = [key for key in names if step(key) == point["level"]]
                    else:
                        found = [
                            (own, replicates)
                            for own, replicates in found
                            if number(own[curve["along"]]) == point["level"]
                        ]
                    values = [
                        metrics[metric]
                        for _, replicates in found
                        for metrics in replicates.values()
                        if metric in metrics
                    ]
                    yield name, point["estimate"], mean(values, metric)


def agrees(published, found):
    if found is None or published["n"] != found["n"]:
        return False
    if not math.isclose(published["value"], found["value"], rel_tol=RELATIVE, abs_tol=1e-12):
        return False
    if found["half"] is None or not published["interval"]:
        return True
    half = (published["interval"]["high"] - published["interval"]["low"]) / 2.0
    # The ends are sums: where the half is small against the value, digits are lost.
    return math.isclose(half, found["half"], rel_tol=1e-6, abs_tol=1e-12 * abs(found["value"]))


def main():
    folder, tables = sys.argv[1:3]
    with open(tables, "rb") as file:
        tables = tomllib.load(file)
    with open(f"{folder}/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    run = Run(folder, tables)
    entries = [*table_entries(run, tables, summary), *curve_entries(run, tables, summary)]
    if len(sys.argv) > 3:
        drawn, seed = int(sys.argv[3]), int(sys.argv[4])
        entries = random.Random(seed).sample(entries, min(drawn, len(entries)))
    differ = [
        {"entry": name, "published": published, "found": found}
        for name, published, found in entries
        if not agrees(published, found)
    ]
    with_interval = sum(bool(found and found["half"] is not None) for _, _, found in entries)
    json.dump({"compared": len(entries), "with_interval": with_interval, "differ": differ}, sys.stdout)
    print()


main()
