//! JSON Schemas of the files that users write, generated from the types that read them.
//!
//! `fathometer schemas FOLDER` writes the schemas, and `docs/schemas` contains a copy of them. Editors use them to
//! complete and check files. A schema describes the structure of a file. Only the program checks names that refer to
//! another file or key.

use std::collections::BTreeMap;

use fathometer_analysis::study::StudyData;
use fathometer_lab::era::Era;
use fathometer_lab::server::definition::Definition;
use fathometer_path::Profile;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::factor::AnyFactor;
use super::kinds;
use super::spec::{KEY_FACTORS, Study};

/// The schema of one kind of file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSchema {
    /// The kind of file: `study`, `tables`, `claims`, `server`, `path` or `era`.
    pub name: &'static str,
    /// The JSON Schema.
    pub value: Value,
}

impl FileSchema {
    /// Returns the file name of the schema, as in `study.schema.json`.
    pub fn file(&self) -> String {
        format!("{}.schema.json", self.name)
    }

    /// Returns the text of the schema, with a newline at the end.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.value).expect("a schema is JSON");
        text.push('\n');
        text
    }
}

/// Returns the schemas of all kinds of files.
pub fn all() -> Vec<FileSchema> {
    let [tables, claims] = StudyData::schemas();
    let titled = [
        ("study", "A study of Fathometer (study.toml)", study()),
        (
            "tables",
            "The tables of a study (tables.toml)",
            tables.into(),
        ),
        (
            "claims",
            "The claims of a study (claims.toml)",
            claims.into(),
        ),
        ("server", "A server under test (server.toml)", server()),
        ("path", "A path profile", root::<Profile>().into()),
        (
            "era",
            "An era: TCP settings of both hosts",
            root::<Era>().into(),
        ),
    ];
    titled
        .into_iter()
        .map(|(name, title, mut value)| {
            value["title"] = title.into();
            FileSchema { name, value }
        })
        .collect()
}

fn root<T: JsonSchema>() -> Schema {
    SchemaSettings::default()
        .into_generator()
        .into_root_schema_for::<T>()
}

/// Returns the schema of a study, with the factors of all kinds and their levels.
fn study() -> Value {
    let mut schema: Value = root::<Study>().into();
    let factors: BTreeMap<&str, &dyn AnyFactor> = kinds::ALL
        .iter()
        .flat_map(|kind| kinds::factors(*kind))
        .map(|factor| (factor.name(), factor))
        .collect();
    let by_factor = |of: &dyn Fn(&dyn AnyFactor) -> Value| -> Value {
        let properties = factors.iter().map(|(name, factor)| {
            let mut value = of(*factor);
            value["description"] = factor.meaning().into();
            ((*name).to_owned(), value)
        });
        json!({
            "type": "object",
            "properties": properties.collect::<Map<String, Value>>(),
            "additionalProperties": false,
        })
    };
    // A pattern may name several alternative levels, separated by `|`.
    let pattern = by_factor(&|_| json!({ "type": "string" }));
    let levels =
        by_factor(&|factor| json!({ "type": "array", "items": level(factor), "minItems": 1 }));
    let describe = |place: &mut Value, with: &Value| {
        let description = place["description"].take();
        *place = with.clone();
        place["description"] = description;
    };
    let mut defaults = by_factor(&level);
    defaults["required"] = json!(KEY_FACTORS);
    describe(&mut schema["properties"]["defaults"], &defaults);
    let kinds: Vec<Value> = kinds::ALL
        .iter()
        .map(|kind| json!({ "const": kind.name(), "description": kind.meaning() }))
        .collect();
    let kind = &mut schema["properties"]["kind"];
    kind["oneOf"] = kinds.into();
    let block = &mut schema["$defs"]["Block"]["properties"];
    describe(&mut block["factors"], &levels);
    describe(&mut block["quick"], &levels);
    describe(&mut block["published"], &levels);
    for exclusions in ["exclude", "exclude_quick"] {
        block[exclusions]["items"] = pattern.clone();
    }
    schema
}

/// Returns the schema of a factor's level.
fn level(factor: &dyn AnyFactor) -> Value {
    let words = factor.words();
    let mut value = json!({ "type": "string" });
    if factor.is_closed() {
        value["enum"] = json!(words);
    } else if !words.is_empty() {
        value["examples"] = json!(words);
    }
    value
}

/// Returns the schema of a server. In a definition with `based_on`, the keys that are otherwise required are optional.
fn server() -> Value {
    let mut schema: Value = root::<Definition>().into();
    let mut required = |name: &str| {
        let definition = schema["$defs"][name].as_object_mut();
        let definition = definition.expect("the schema has this definition");
        definition.remove("required").unwrap_or_else(|| json!([]))
    };
    let parts: Map<String, Value> = [("program", "Program"), ("embedded", "Embedded")]
        .into_iter()
        .map(|(key, name)| (key.to_owned(), json!({ "required": required(name) })))
        .collect();
    schema["if"] = json!({ "not": { "required": ["based_on"] } });
    schema["then"] = json!({
        "properties": parts,
        "oneOf": [{ "required": ["program"] }, { "required": ["embedded"] }],
    });
    schema
}
