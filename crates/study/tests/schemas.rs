//! Tests of the published JSON Schemas: they are up to date, every shipped file conforms to them, and the study
//! reference describes every key.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathometer_study::schemas::{self, FileSchema};
use serde_json::Value;

/// If this variable is set, the test writes the schemas instead of comparing them.
const UPDATE: &str = "FATHOMETER_UPDATE_SCHEMA";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files of the repository that have a schema.
fn shipped() -> Vec<(&'static str, PathBuf)> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = [
        "papers",
        "servers",
        "paths",
        "eras",
        "examples",
        "workloads",
    ]
    .iter()
    .map(|folder| root().join(folder))
    .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let parent = folder.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if !name.ends_with(".toml") || name == "Cargo.toml" {
                continue;
            }
            let schema = match (name.as_str(), parent.as_str()) {
                ("study.toml", _) => "study",
                ("tables.toml", _) => "tables",
                ("claims.toml", _) => "claims",
                ("server.toml", _) => "server",
                (_, "paths") | ("path.toml", _) => "path",
                (_, "eras") => "era",
                _ => panic!("no schema describes {}", path.display()),
            };
            files.push((schema, path));
        }
    }
    files
}

fn schema(name: &str) -> FileSchema {
    let mut all = schemas::all().into_iter();
    all.find(|schema| schema.name == name).unwrap()
}

/// Validates documents against a schema with Python's `jsonschema`, an independent validator. Prints the errors of each
/// document as JSON.
const JUDGE: &str = r#"
import json, sys
import jsonschema
schema, documents = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
faults = lambda one: [f"{e.json_path}: {e.message[:300]}" for e in validator.iter_errors(one)]
print(json.dumps([faults(one) for one in documents]))
"#;

/// Returns the errors of each of these files by the schema.
fn faults(schema: &Value, texts: &[String]) -> Vec<Vec<String>> {
    let parse = |text: &String| -> Value {
        let table: toml::Table = toml::from_str(text).unwrap();
        serde_json::to_value(table).unwrap()
    };
    let documents: Vec<Value> = texts.iter().map(parse).collect();
    let mut python = Command::new("python3")
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs Python with jsonschema (Debian: python3-jsonschema)");
    let mut input = python.stdin.take().unwrap();
    serde_json::to_writer(&mut input, &(schema, documents)).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "this test needs Python with jsonschema (Debian: python3-jsonschema)"
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let folder = root().join("docs/schemas");
    for schema in schemas::all() {
        let path = folder.join(schema.file());
        if std::env::var_os(UPDATE).is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, schema.text()).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            serde_json::from_str::<Value>(&published).ok() == Some(schema.value),
            "{} is out of date: run `fathometer schemas docs/schemas`",
            path.display()
        );
    }
}

#[test]
fn every_shipped_file_conforms_to_its_schema() {
    let files = shipped();
    let of = |name: &str| files.iter().filter(|(schema, _)| *schema == name).count();
    for (name, least) in [
        ("study", 8),
        ("tables", 6),
        ("claims", 6),
        ("server", 14),
        ("path", 25),
        ("era", 2),
    ] {
        assert!(of(name) >= least, "{name}: {}", of(name));
    }
    for described in schemas::all() {
        let of_schema: Vec<&PathBuf> = files
            .iter()
            .filter(|(schema, _)| *schema == described.name)
            .map(|(_, path)| path)
            .collect();
        let read = |path: &&PathBuf| fs::read_to_string(path).unwrap();
        let texts: Vec<String> = of_schema.iter().map(read).collect();
        for (path, found) in of_schema.iter().zip(faults(&described.value, &texts)) {
            assert!(found.is_empty(), "{}: {found:#?}", path.display());
        }
    }
}

#[test]
fn a_file_with_an_unknown_key_or_level_does_not_conform() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    for (name, path, from, to) in [
        ("study", "papers/nielsen97/study.toml", "title =", "titel ="),
        (
            "study",
            "papers/nielsen97/study.toml",
            "nodelay =",
            "no_delay =",
        ),
        (
            "study",
            "examples/own-study/study.toml",
            "visit = \"first\", path",
            "visit = \"frist\", path",
        ),
        (
            "tables",
            "papers/nielsen97/tables.toml",
            "citation =",
            "cited =",
        ),
        (
            "claims",
            "papers/nielsen97/claims.toml",
            "holds = \">= 2\"",
            "holds = \"about 2\"",
        ),
        (
            "server",
            "servers/nginx/server.toml",
            "commands =",
            "comands =",
        ),
        ("path", "paths/lan.toml", "[both]", "[all]"),
        ("era", "eras/1997.toml", "source =", "sources ="),
    ] {
        let text = read(path);
        assert!(text.contains(from), "{path} has no {from}");
        let broken = text.replacen(from, to, 1);
        let found = faults(&schema(name).value, &[broken]);
        assert!(!found[0].is_empty(), "{path}: {to}");
    }
    let own = "name = \"mine\"\ntitle = \"t\"\nsource = \"s\"\n".to_owned();
    let based = format!("{own}based_on = \"nginx\"\n");
    let found = faults(&schema("server").value, &[own, based]);
    assert!(!found[0].is_empty() && found[1].is_empty(), "{found:?}");
}

/// Returns the keys of all objects of a schema, with the name of the file that the schema describes.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                found.extend(properties.keys().cloned());
            }
            for member in members.values() {
                keys(member, found);
            }
        }
        Value::Array(members) => {
            for member in members {
                keys(member, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_study_reference_describes_every_key() {
    let reference = fs::read_to_string(root().join("docs/study-reference.md")).unwrap();
    for schema in schemas::all() {
        let mut found = BTreeSet::new();
        keys(&schema.value, &mut found);
        assert!(found.len() > 5, "{}", schema.name);
        for key in found {
            // The reference may contain the key as a separate key, as a part of a longer key, in an inline table, or as
            // an array of tables.
            let written = [
                format!("`{key}`"),
                format!(".{key}`"),
                format!("`{key}."),
                format!("{{ {key} = "),
                format!("[[{key}]]"),
            ];
            assert!(
                written
                    .iter()
                    .any(|written| reference.contains(written.as_str())),
                "docs/study-reference.md does not describe the key {key} of {}",
                schema.name
            );
        }
    }
}
