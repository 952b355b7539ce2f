"""Packets of a run's captures, counted by tshark and compared with the records."""

import random
import subprocess
from collections import Counter

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
FIELDS = ("ip.src", "ip.len", "tcp.flags", "tcp.len", "tcp.srcport", "tcp.dstport")


def captures(run, folder):
    """The first valid replicate of each cell that has a capture, with that capture."""
    first = {}
    for record in run.records:
        cell = record["folder"].rsplit("/", 1)[0]
        if cell not in first or record["replicate"] < first[cell]["replicate"]:
            first[cell] = record
    for cell, record in sorted(first.items()):
        published = folder / "captures" / f"{cell.removeprefix('cells/')}.pcapng.zst"
        for capture in (published, folder / record["folder"] / "capture.pcapng"):
            if capture.is_file():
                yield record, capture
                break


def lines(capture):
    """The fields of each packet."""
    command = ["tshark", "-n", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
    for name in FIELDS:
        command += ["-e", name]
    output = subprocess.run([*command, "-r", str(capture)], check=True, capture_output=True, text=True)
    return [line.split(",") for line in output.stdout.splitlines()]


def class_of(flags, length):
    """The class of a TCP segment: the first that applies."""
    if flags & RST:
        return "rst"
    if flags & SYN:
        return "syn_ack" if flags & ACK else "syn"
    if flags & FIN:
        return "data_fin" if length else "bare_fin"
    if length:
        return "data"
    return "pure_ack" if flags & ACK else "other"


def counted(capture):
    """The metrics that packets alone determine."""
    counts, connections, client = Counter(), set(), None
    for source, size, flags, length, *ports in lines(capture):
        client = client or source
        way = "up" if source == client else "down"
        sums = {"packets": 1, "ip_bytes": int(size), "payload_bytes": int(length or 0)}
        for name, value in sums.items():
            counts[name] += value
            counts[f"{name}_{way}"] += value
        kind = class_of(int(flags, 16), int(length)) if flags else "other"
        counts[f"packets_{kind}"] += 1
        if kind == "syn":
            connections.add(tuple(ports))
    classes = ("syn", "syn_ack", "pure_ack", "data", "data_fin", "bare_fin", "rst", "other")
    names = ["packets", "ip_bytes", "payload_bytes"]
    names += [f"{name}_{way}" for name in names for way in ("up", "down")]
    names += [f"packets_{kind}" for kind in classes]
    return {**{name: counts[name] for name in names}, "connections": len(connections)}


def recount(run, folder, number, seed):
    """Counts the packets of some cells, drawn at random. Returns the differences and the cells."""
    known = list(captures(run, folder))
    drawn = random.Random(seed).sample(known, min(number, len(known)))
    differ, names = [], []
    for record, capture in drawn:
        names.append(capture.name)
        for metric, found in counted(capture).items():
            published = record["metrics"].get(metric)
            if published is None or published != found:
                differ.append({"cell": str(capture), "metric": metric, "published": published, "found": found})
    return differ, names
