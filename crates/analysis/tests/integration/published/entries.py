"""The entries of a run's summary: each with the published figure and the figure from the raw records."""

import math
from dataclasses import dataclass, replace

from estimates import Estimate, difference, mean, product, ratio, resolution
from levels import at_level
from records import number

# The relative difference up to which figures agree: both programs compute with doubles.
RELATIVE = 1e-9


@dataclass
class Entry:
    """A published figure: `published` as in summary.json, `found` from the raw records."""

    name: str
    published: dict
    found: Estimate | None
    # The place and the decimals in which it is printed; see printed.py.
    place: tuple | None = None
    decimals: int | None = None


def agrees(published, found, level):
    """Whether a published estimate agrees with the records: n, the value, and the interval."""
    if found is None or published["n"] != found.n:
        return False
    if not math.isclose(published["value"], found.value, rel_tol=RELATIVE, abs_tol=1e-12):
        return False
    ours, theirs = found.interval(level), published["interval"]
    if ours is None or theirs is None:
        return ours is None and theirs is None
    # The ends are sums: if the interval is much shorter than the value, digits are lost.
    slack = 1e-6 * (ours[1] - ours[0]) + 1e-12 * abs(found.value)
    return abs(theirs["low"] - ours[0]) <= slack and abs(theirs["high"] - ours[1]) <= slack


def of_tables(run, tables, summary):
    """The figures of tables, and their ratios to another row."""
    layouts = {layout["name"]: layout for layout in tables.get("layout", [])}
    by_id = {table["id"]: table for table in tables.get("table", [])}
    for result in summary["tables"]:
        table = by_id[result["id"]]
        layout = layouts[table["layout"]]
        rows = {row["label"]: row for row in layout["row"]}
        sections = {section.get("label", ""): section for section in layout.get("section", [{}])}
        place = {**table.get("select", {}), "era": result["era"]}
        for line, shown in enumerate(result["rows"]):
            section = sections[shown.get("section") or ""]
            at = {**place, **section.get("select", {})}
            for group, (keys, data) in enumerate(zip(layout["group"], shown["data"], strict=True)):
                for column, datum in enumerate(data):
                    where = (f"{table['id']}-{result['era']}", line, group * len(data) + column)
                    yield from of_datum(
                        run, table, layout, rows, rows[shown["label"]], {**at, **keys.get("select", {})}, column, datum, where
                    )


def of_datum(run, table, layout, rows, row, at, place, datum, where):
    column = layout["column"][place]
    values = lambda selection: run.values(selection, column["metric"], column.get("plus"))
    own = {**at, **row.get("select", {})}
    name = " ".join(filter(None, (where[0], at.get("path"), row["label"], column["label"])))
    others = [(one["label"], {**own, **one.get("select", {})}) for one in table.get("also", [])]
    for (kind, selection), entry in zip([("ours", own), *others], [datum["ours"], *datum["also"]], strict=True):
        if "value" not in entry:
            continue
        if "percent_of" in column:
            whole = {**selection, **rows[column["percent_of"]].get("select", {})}
            found = ratio(values(selection), values(whole), column["metric"], 100.0)
        else:
            found = mean((values(selection) or {}).values(), column["metric"])
        yield Entry(f"{name} ({kind})", entry["value"]["estimate"], found, (*where, kind), column.get("decimals"))
    relative = (datum.get("relative") or {}).get("ours")
    if relative:
        base = {**at, **rows[layout["relative_to"]].get("select", {})}
        found = ratio(values(own), values(base), column["metric"])
        yield Entry(f"{name} (relative)", relative, found, (*where, "rel."))


def of_curves(run, tables, summary):
    """The points of curves."""
    by_place = {(curve["id"], curve["title"]): curve for curve in tables.get("curve", [])}
    for result in summary["curves"]:
        curve = by_place[result["id"], result["title"]]
        for panel, shown in zip(curve["panel"], result["panels"], strict=True):
            for line in shown["lines"]:
                selection = {**curve.get("select", {}), "era": result["era"], **panel.get("select", {})}
                selection[curve["series"]] = line["series"]
                for point in line["points"]:
                    if point["estimate"]:
                        name = f"{curve['id']} {result['era']} {shown['title']} {line['series']} {point['level']}"
                        yield Entry(name, point["estimate"], of_point(run, curve, panel, selection, point["level"]))


def of_point(run, curve, panel, selection, level):
    metric, found = panel["metric"], list(run.matching(selection))
    if "*" in metric:
        # A distribution: the steps are in the names of the metrics.
        before, after = metric.split("*")
        keys = {key for _, replicates in found for metrics in replicates.values() for key in metrics}
        steps = (key for key in keys if key.startswith(before) and key.endswith(after))
        [metric] = [key for key in steps if number(key[len(before) : len(key) - len(after)]) == level]
    else:
        found = [(own, replicates) for own, replicates in found if number(own[curve["along"]]) == level]
    values = [metrics[metric] for _, replicates in found for metrics in replicates.values() if metric in metrics]
    return mean(values, metric)


def of_claims(run, claims, summary):
    """The estimates behind the verdicts, of tests that compare cells, or curves level by level."""
    by_id = {claim["id"]: claim for claim in claims.get("claim", [])}
    for result in summary["claims"]:
        claim = by_id[result["id"]]
        readings = {variant["name"]: variant["test"] for variant in claim.get("variant", [])}
        read = [(claim.get("test", []), result["eras"])]
        read += [(readings[variant["name"]], variant["eras"]) for variant in result["variants"]]
        for tests, eras in read:
            for era in eras:
                for part in era["parts"]:
                    of_part = [t for t in tests if (t["label"], t["kind"]) == (part["label"], part["kind"])]
                    if part["value"] is None or len(of_part) != 1:
                        continue
                    environment = {factor: level for factor, level in part["environment"]}
                    found = estimate(run, of_part[0], {"era": era["era"], **environment})
                    if found is not None:
                        name = f"{claim['id']} {era['era']} {part['label']} {' '.join(environment.values())}".strip()
                        yield Entry(name, part, found)


def estimate(run, test, place):
    """The estimate of a test in one place; None for a test of whole curves or distributions."""
    if "sweep" in test:
        return at_level(run, test, place)
    if test["kind"] not in ("level", "difference", "ratio", "contrast"):
        return None
    at = {**test.get("common", {}), **place}

    def side(words, more=()):
        levels = {name: level for name, level in words.items() if name != "metric"}
        return run.values({**at, **levels, **dict(more)}, words.get("metric", test["metric"]))

    left, right = test.get("left", {}), test.get("right", {})
    if test["kind"] == "level":
        metric = left.get("metric", test["metric"])
        return exact(mean((side(left) or {}).values(), metric), test, metric)
    if test["kind"] == "difference":
        return exact(difference(side(left), side(right), test["metric"]), test, test["metric"])
    if test["kind"] == "ratio":
        return ratio(side(left), side(right), test["metric"])
    baseline = test["baseline"].items()
    cells = [side(left), side(right), side(left, baseline), side(right, baseline)]
    return product(cells, [1.0, -1.0, -1.0, 1.0], test["metric"])


def exact(found, test, metric):
    """The estimate without rounding error, if it is a count that has the same unclaimed whole number in every replicate."""
    if found is None or found.error != 0.0 or found.centre != int(found.centre):
        return found
    is_number = test["holds"].startswith("=") and resolution(metric).absolute == 1.0
    if not is_number or found.centre == float(test["holds"][1:]):
        return found
    return replace(found, floor=0.0)


def of_equal_cells(run, summary):
    """The A/A tests: the second copy of a cell over the first."""
    for one in summary.get("equal_cells", {}).get("comparisons", []):
        copies = [run.cells[one["block"], tuple(sorted({**one["cell"], "copy": copy}.items()))] for copy in one["copies"]]
        metric = one["metric"]
        first, second = ({n: m[metric] for n, m in cell.items() if metric in m} for cell in copies)
        published = {"n": one["n"], "value": one["ratio"], "interval": one["interval"]}
        yield Entry(f"A/A {one['block']} {one['name']} {metric}", published, ratio(second, first, metric))
