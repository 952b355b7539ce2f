"""The raw records of a run, and the selection of its cells as docs/study-reference.md describes it."""

import json


class Run:
    """The valid replicates of each cell: their metrics by number."""

    def __init__(self, folder, tables):
        last = {}
        with open(folder / "replicates.ndjson", encoding="utf-8") as records:
            for line in records:
                # Records of older versions have names with octets.
                record = json.loads(line.replace("octets", "bytes"))
                key = (record["block"], tuple(sorted(record["cell"].items())))
                # The last attempt of a replicate counts.
                last[key, record["replicate"]] = record
        self.records = [record for record in last.values() if not record["validity"]["reasons"]]
        self.cells = {}
        for (key, number), record in last.items():
            if not record["validity"]["reasons"]:
                self.cells.setdefault(key, {})[number] = record["metrics"]
        # Every cell, including those without valid replicates.
        self.levels = {}
        for key, _ in last:
            self.levels.setdefault(key[0], {})[key] = dict(key[1])
        self.defaults = {
            name: factor["default"]
            for name, factor in tables["factor"].items()
            if "default" in factor
        }

    def selected(self, selection):
        """The levels of each cell that matches a selection."""
        block = selection.get("block", "main")
        for key, levels in self.levels.get(block, {}).items():
            if self.is_selected(selection, block, levels):
                yield key, levels

    def is_selected(self, selection, block, levels):
        wanted = {name: level for name, level in selection.items() if name != "block"}
        if any(levels.get(name, self.defaults.get(name)) != level for name, level in wanted.items()):
            return False
        # A copy of a cell matches only if the selection names the copy.
        if "copy" not in wanted and levels.get("copy", "a") != "a":
            return False
        rest = {name: level for name, level in levels.items() if name not in wanted}
        return block != "main" or all(self.defaults.get(name, level) == level for name, level in rest.items())

    def matching(self, selection):
        """The levels and the replicates of each cell with valid replicates that matches a selection."""
        for key, levels in self.selected(selection):
            if key in self.cells:
                yield levels, self.cells[key]

    def values(self, selection, metric, plus=None):
        """The values of the one cell of a selection, by replicate; None unless exactly one cell matches."""
        fitting = [key for key, _ in self.selected(selection)]
        if len(fitting) != 1:
            return None
        return {
            number: metrics[metric] + (metrics[plus] if plus else 0.0)
            for number, metrics in self.cells.get(fitting[0], {}).items()
            if metric in metrics and (plus or metric) in metrics
        }


def number(level):
    """The value of a level with a number: 32, 16M, pareto:mean=256k."""
    text = level.rsplit("=", 1)[-1]
    for candidate in (text, text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")):
        try:
            return float(candidate)
        except ValueError:
            pass
    return None
