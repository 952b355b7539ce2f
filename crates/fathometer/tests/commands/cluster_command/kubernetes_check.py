"""Reads a JSON list of manifests from stdin and validates the documents of each against the schemas in the given files.
Prints for each manifest its documents and its errors by file; or null without the modules yaml and jsonschema."""

import json
import sys

try:
    import jsonschema
    import yaml
except ImportError:
    print("null")
    sys.exit()


def validators(path):
    with open(path, encoding="utf-8") as file:
        schemas = json.load(file)
    return {
        kind: jsonschema.Draft202012Validator({**schema, "$defs": schemas["$defs"]})
        for kind, schema in schemas["kinds"].items()
    }


def errors(document, kinds):
    found = kinds[document["kind"]].iter_errors(document)
    return [f"{document['kind']}: {error.json_path}: {error.message[:200]}" for error in found]


versions = [validators(path) for path in sys.argv[1:]]
results = []
for manifest in json.load(sys.stdin.buffer):
    documents = list(yaml.safe_load_all(manifest))
    by_version = [[error for each in documents for error in errors(each, kinds)] for kinds in versions]
    results.append({"documents": documents, "errors": by_version})
json.dump(results, sys.stdout)
