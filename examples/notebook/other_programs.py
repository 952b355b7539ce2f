"""Opens the results of Fathometer with other programs, and compares totals and percentiles with those it printed.

usage: other_programs.py FOLDER    with load.*, page.har and run, as `run` creates them
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
from haralyzer import HarParser
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.parser import text_string_to_metric_families

# A percentile of a histogram is the upper end of a bucket, which is at most this much above the exact value.
BUCKET = 1 / 128


def equal(what, theirs, ours):
    assert theirs == ours, f"{what}: {theirs}, but Fathometer printed {ours}"


def latencies(where):
    """Percentiles of a latency: their numbers, and their values in nanoseconds."""
    return [(p, round(where[f"p{p}_ms".replace(".", "_")] * 1e6)) for p in (50, 90, 99)]


def rows(folder, load):
    """DuckDB and pandas, one row for each exchange."""
    file = folder / "load.parquet"
    frame = pd.read_parquet(file)
    frame = frame[(frame["phase"] == "measured") & (frame["outcome"] == "complete")]
    latency = (frame["last_byte_ns"] - frame["planned_ns"]).sort_values(ignore_index=True)
    in_duckdb = duckdb.execute(
        "select count(*), sum(response_head_bytes), min(last_byte_ns - planned_ns), max(last_byte_ns - planned_ns),"
        " quantile_disc(last_byte_ns - planned_ns, [0.5, 0.9, 0.99])"
        " from read_parquet(?) where phase = 'measured' and outcome = 'complete'",
        [str(file)],
    ).fetchone()
    ours = load["phases"]["corrected"]
    for program, count, low, high in [
        ("pandas", len(frame), latency.min(), latency.max()),
        ("DuckDB", in_duckdb[0], in_duckdb[2], in_duckdb[3]),
    ]:
        equal(f"{program}: exchanges", count, load["counts"]["completed"])
        equal(f"{program}: shortest latency", low, round(ours["min_ms"] * 1e6))
        equal(f"{program}: longest latency", high, round(ours["max_ms"] * 1e6))
    equal("DuckDB: bytes of heads", in_duckdb[1], frame["response_head_bytes"].sum())
    for (p, printed), exact in zip(latencies(ours), in_duckdb[4], strict=True):
        assert exact <= printed <= exact * (1 + BUCKET), f"p{p}: {exact} ns, but Fathometer printed {printed} ns"
    return f"{len(frame)} exchanges"


def values(folder, load):
    """Python's reader of CSV."""
    with (folder / "load.csv").open(newline="") as file:
        table = {row["metric"]: row["value"] for row in csv.DictReader(file)}
    equal("CSV: exchanges", int(table["measured.counts.completed"]), load["counts"]["completed"])
    equal("CSV: p99", float(table["measured.phases.corrected.p99_ms"]), load["phases"]["corrected"]["p99_ms"])
    return f"{len(table)} values"


def histogram(folder, load):
    """HdrHistogram's own reader of its interval log."""
    reader = HistogramLogReader(str(folder / "load.hlog"), HdrHistogram(1, 3_600_000_000_000, 3))
    by_tag = {}
    while interval := reader.get_next_interval_histogram():
        by_tag[interval.get_tag()] = interval
    ours = load["phases"]["corrected"]
    equal("HdrHistogram: count", by_tag["corrected"].get_total_count(), ours["count"])
    for p, printed in latencies(ours):
        equal(f"HdrHistogram: p{p}", by_tag["corrected"].get_value_at_percentile(p), printed)
    return f"{len(by_tag)} histograms"


def exposition(folder, load):
    """The parser of Prometheus's Python client."""
    families = list(text_string_to_metric_families((folder / "load.prom").read_text()))
    samples = {
        (sample.name, sample.labels.get("phase") or sample.labels.get("code"), sample.labels.get("le")): sample.value
        for family in families
        for sample in family.samples
    }
    for code, count in load["counts"]["statuses"].items():
        equal(f"Prometheus: status {code}", samples["fathometer_load_responses_total", code, None], count)
    name = "fathometer_load_phase_seconds"
    count = load["phases"]["corrected"]["count"]
    equal("Prometheus: count", samples[f"{name}_count", "corrected", None], count)
    equal("Prometheus: last bucket", samples[f"{name}_bucket", "corrected", "+Inf"], count)
    return f"{len(families)} metrics"


def replicates(folder):
    return [json.loads(line) for line in (folder / "run" / "replicates.ndjson").read_text().splitlines()]


def archive(folder):
    """haralyzer, a reader of HTTP archives."""
    pages = HarParser(json.loads((folder / "page.har").read_text())).pages
    seconds = {replicate["metrics"]["elapsed_s"] for replicate in replicates(folder)}
    equal("HAR: pages", len(pages), 4)
    for page in pages:
        equal(f"HAR: files of {page.page_id}", len(page.entries), 43)
        assert any(abs(page.page_load_time / 1e3 - s) < 1e-9 for s in seconds), page.page_load_time
    return f"{len(pages)} pages"


def packets(folder):
    """Wireshark's tshark, on the capture of each attempt."""
    last = {replicate["folder"]: replicate for replicate in replicates(folder)}
    total = 0
    for name, replicate in last.items():
        command = ["tshark", "-r", folder / "run" / name / "capture.pcapng", "-T", "fields", "-e", "ip.len"]
        lengths = [int(line) for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]
        equal(f"tshark: packets of {name}", len(lengths), replicate["metrics"]["packets"])
        equal(f"tshark: bytes of {name}", sum(lengths), replicate["metrics"]["ip_bytes"])
        total += len(lengths)
    assert total > 0
    return f"{total} packets"


def main():
    folder = Path(sys.argv[1])
    load = json.loads((folder / "load.json").read_text())["measured"]
    print("load.parquet in pandas and DuckDB:", rows(folder, load))
    print("load.csv in Python:", values(folder, load))
    print("load.hlog in HdrHistogram:", histogram(folder, load))
    print("load.prom in Prometheus's client:", exposition(folder, load))
    print("page.har in haralyzer:", archive(folder))
    print("capture.pcapng in tshark:", packets(folder))


main()
