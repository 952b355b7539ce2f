#!/usr/bin/env python3
"""Computes the figures of a run again, from its raw records, and compares them with the published figures.

It shares no code with the program that made the run. It needs Python 3.11 without further modules, and tshark for
--packets. Entries are:

- the means in tables, and their ratios to another row, with Student's interval: as summary.json has them (to 9 digits),
  and as report.html prints them (to the last digit);
- the points of curves;
- the estimates behind the verdicts on claims, where a test compares single cells, or curves level by level;
- the comparisons of A/A tests.
"""

import argparse
import json
import random
import sys
import tomllib
from pathlib import Path

# No __pycache__ in the folder of the sources.
sys.dont_write_bytecode = True

import entries
import packets
import printed
from records import Run

PAPERS = Path(__file__).resolve().parents[5] / "papers"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    parser.add_argument("--study", type=Path, metavar="FOLDER", help="the folder of tables.toml and claims.toml [default: papers/NAME]")
    parser.add_argument("--draw", type=int, metavar="N", help="compare N entries, drawn at random [default: all]")
    parser.add_argument("--packets", type=int, default=0, metavar="N", help="count the packets of N cells, drawn at random, with tshark [default: 0]")
    parser.add_argument("--seed", type=int, default=1, metavar="SEED", help="the seed of random selections [default: 1]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def toml(path):
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def compared(options):
    """The run, the entries that are compared, the differences, and the level of the intervals."""
    summary = json.loads((options.run / "summary.json").read_text(encoding="utf-8"))
    study = options.study or PAPERS / summary["study"]
    tables = tomllib.loads((study / "tables.toml").read_text(encoding="utf-8"))
    run = Run(options.run, tables)
    found = [
        *entries.of_tables(run, tables, summary),
        *entries.of_curves(run, tables, summary),
        *entries.of_claims(run, toml(study / "claims.toml"), summary),
        *entries.of_equal_cells(run, summary),
    ]
    if options.draw is not None:
        found = random.Random(options.seed).sample(found, min(options.draw, len(found)))
    level = summary["interval"]["level"]
    differ = [
        {"entry": one.name, "published": one.published, "found": shown(one.found, level)}
        for one in found
        if not entries.agrees(one.published, one.found, level)
    ]
    return run, found, differ, level


def shown(found, level):
    return found and {"n": found.n, "value": found.value, "interval": found.interval(level)}


def main():
    options = arguments()
    run, found, differ, level = compared(options)
    report = options.run / "report.html"
    in_print, digits = [], 0
    if report.is_file():
        in_print, digits = printed.differences(found, report.read_text(encoding="utf-8"), level)
    in_packets, cells = packets.recount(run, options.run, options.packets, options.seed) if options.packets else ([], [])
    result = {
        "compared": len(found),
        "with_interval": sum(one.found is not None and one.found.error is not None for one in found),
        "printed": digits,
        "cells": cells,
        "differ": [*differ, *in_print, *in_packets],
    }
    if options.json:
        json.dump(result, sys.stdout)
        print()
    else:
        show(options, found, result, level)
    sys.exit(1 if result["differ"] else 0)


def show(options, found, result, level):
    if options.draw is not None:
        for one in found:
            print(f"{one.name}: {one.published['value']!r} published, {one.found and one.found.value!r} from the records")
    for name in result["cells"]:
        print(f"packets counted: {name}")
    for one in result["differ"]:
        print(f"DIFFERENT: {json.dumps(one, ensure_ascii=False)}")
    intervals = f"{result['with_interval']} of them with an interval at {100.0 * level:g} %"
    print(
        f"{result['compared']} entries compared ({intervals}), {result['printed']} as printed in the report, packets of "
        f"{len(result['cells'])} cells counted: {len(result['differ'])} differ"
    )


main()
