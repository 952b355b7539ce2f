"""Extracts the schemas of Job, Service and Secret, with all referenced schemas, from the Python package
kubernetes-validate, whose files come from Kubernetes' OpenAPI description. Removes descriptions, and
lets all references point into the same file.

usage: python3 extract.py FOLDER-OF-THE-UNPACKED-PACKAGE 1.35 1.36 1.37"""

import json
import pathlib
import sys

import jsonschema

KINDS = {"Job": "job-batch-v1", "Service": "service-v1", "Secret": "secret-v1"}
OUTSIDE = "/api/_definitions.json#"


def cleaned(schema):
    """Returns the schema without descriptions, with references into the same file."""
    if isinstance(schema, list):
        return [cleaned(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    clean = {}
    for key, value in schema.items():
        if key == "properties":
            clean[key] = {name: cleaned(each) for name, each in value.items()}
        elif key == "$ref":
            clean[key] = value.replace(OUTSIDE, "#")
        elif key != "description" and not key.startswith("x-kubernetes"):
            clean[key] = cleaned(value)
    return clean


def references(schema):
    if isinstance(schema, list):
        for each in schema:
            yield from references(each)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                yield value.removeprefix("#/$defs/")
            else:
                yield from references(value)


folder = pathlib.Path(sys.argv[1]) / "kubernetes_validate" / "kubernetes-json-schema"
for version in sys.argv[2:]:
    source = folder / f"v{version}.0-local-strict"
    definitions = json.loads((source / "_definitions.json").read_text())["$defs"]
    kinds = {kind: cleaned(json.loads((source / f"{file}.json").read_text())) for kind, file in KINDS.items()}
    for schema in kinds.values():
        schema.pop("$id", None)
    needed = {}
    missing = list(references(list(kinds.values())))
    while missing:
        name = missing.pop()
        if name not in needed:
            needed[name] = cleaned(definitions[name])
            missing.extend(references(needed[name]))
    for schema in kinds.values():
        jsonschema.Draft202012Validator.check_schema({**schema, "$defs": needed})
    lines = [f"{json.dumps(name)}: {json.dumps(needed[name])}" for name in sorted(needed)]
    kinds = [f"{json.dumps(kind)}: {json.dumps(schema)}" for kind, schema in kinds.items()]
    text = '{"kinds": {\n' + ",\n".join(kinds) + '\n},\n"$defs": {\n' + ",\n".join(lines) + "\n}}\n"
    pathlib.Path(__file__).with_name(f"v{version}.json").write_text(text)
