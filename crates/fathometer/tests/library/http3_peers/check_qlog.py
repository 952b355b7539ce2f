"""Reads a qlog (JSON-SEQ, RFC 7464) and prints one JSON object: the number of texts, the names
of events with their counts, whether their times are in order, and the violations of the schema beside this file
(null without the module jsonschema)."""

import json
import os
import sys
from collections import Counter

with open(sys.argv[1], "rb") as file:
    parts = file.read().split(b"\x1e")
assert parts[0] == b"", "the file begins with a record separator"
assert all(part.endswith(b"\n") for part in parts[1:]), "every text ends with a line feed"
texts = [json.loads(part) for part in parts[1:]]
head, events = texts[0], texts[1:]
try:
    import jsonschema
except ImportError:
    faults = None
else:
    with open(os.path.join(os.path.dirname(__file__), "qlog.schema.json")) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = jsonschema.Draft202012Validator(schema).iter_errors({"header": head, "events": events})
    faults = [f"{error.json_path}: {error.message[:300]}" for error in errors][:10]
times = [event["time"] for event in events]
json.dump(
    {
        "version": head["qlog_version"],
        "title": head.get("title"),
        "texts": len(texts),
        "faults": faults,
        "events": Counter(event["name"] for event in events),
        "in_order": times == sorted(times),
    },
    sys.stdout,
)
