//! Tests that the published schema is up to date, and that all output conforms to the schema.
//!
//! The validator here supports the keywords that the schema uses. It rejects a schema with any other keyword,
//! so that every keyword is checked.

use std::path::Path;

use fathometer_analysis::compare::{self, Comparison, Design, Gate};
use fathometer_analysis::load::{Slo, Summary};
use serde_json::{Map, Value, json};

use super::sample;

/// If set, the schema is written instead of compared.
const UPDATE: &str = "FATHOMETER_UPDATE_SCHEMA";

/// Compares a published schema with the schema that is generated from the types.
fn assert_published(name: &str, schema: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    // The order of members depends on features that other crates enable in the library.
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    assert!(
        value(&published) == value(schema),
        "docs/{name} is stale: update it with {UPDATE}=1 cargo test -p fathometer-analysis --test \
         integration load::schema"
    );
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    assert_published("load.schema.json", &Summary::schema());
    assert_published("compare.schema.json", &Comparison::schema());
}

#[test]
fn a_comparison_keeps_the_schema() {
    let side = compare::of_load("a", &Summary::of(&sample::stalled()));
    let mut comparison = Comparison::of(&side, &side, Design::Separate, 0.03);
    let gate: Gate = "p99<+5%,errors<=+0".parse().unwrap();
    comparison.gate = gate.judge(&comparison);
    let value: Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert!(value["changes"].as_array().unwrap().len() > 4);
    let schema = serde_json::from_str(&Comparison::schema()).unwrap();
    judge(&schema, &value).unwrap();
}

#[test]
fn every_summary_keeps_the_schema_and_comes_back_the_same() {
    let schema = schema();
    let slo: Slo = "p98<100ms,page.max<1s,errors<0.1%,rate>=1000/s,goodput>1MB/s"
        .parse()
        .unwrap();
    for (name, result) in sample::all() {
        for slos in [Vec::new(), slo.judge(&result)] {
            let summary = Summary::of(&result).with_slos(slos);
            let text = summary.to_json();
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["format"], 2);
            judge(&schema, &value).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            let back: Summary = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_value(&back).unwrap(), value, "{name}");
        }
    }
}

#[test]
fn results_of_format_1_are_read() {
    let slo: Slo = "p98<100ms,errors<0.1%".parse().unwrap();
    let result = sample::stalled();
    let summary = Summary::of(&result).with_slos(slo.judge(&result));
    let mut old = serde_json::to_value(&summary).unwrap();
    old["format"] = json!(1);
    let members = old.as_object_mut().unwrap();
    let mut promises = members.remove("slos").unwrap();
    for promise in promises.as_array_mut().unwrap() {
        let members = promise.as_object_mut().unwrap();
        for (new, name) in [("slo", "promise"), ("met", "kept")] {
            let value = members.remove(new).unwrap();
            members.insert(name.to_owned(), value);
        }
    }
    members.insert("promises".to_owned(), promises);
    let read: Summary = serde_json::from_value(old).unwrap();
    assert_eq!(read.slos.len(), 2);
    assert_eq!(
        read,
        Summary {
            format: 1,
            ..summary
        }
    );
}

#[test]
fn figures_of_the_summary() {
    let summary = Summary::of(&sample::stalled());
    let measured = &summary.measured;
    assert_eq!(measured.rates.offered_per_s, Some(1_000.0));
    assert_eq!(measured.rates.goodput_bytes_per_s, Some(1_024_000.0));
    // Within 10 s: 1 000 waits of 1, 2 … 1 000 ms, and 10 000 service times of about 1 ms.
    let waits = 500.5;
    let service = 10_000.0 * 0.999_5e-3 + 0.000_1;
    let lags = 10_000.0 * 19.5e-6;
    let factor = measured.littles_load_factor.unwrap();
    assert!(
        (factor - (waits + service + lags) / 10.0).abs() < 1e-3,
        "{factor}"
    );
    assert_eq!(measured.littles_load_factor_of_pages, None);
    assert_eq!(summary.generator.cpu_per_exchange_us, Some(16.0));
    assert_eq!(summary.generator.busiest_thread_share, Some(0.0081));
    let uncorrected = measured.phases.uncorrected.unwrap();
    assert!((uncorrected.max_ms - 1_001.0).abs() < 1e-9);
    assert!(uncorrected.p99_9_ms < 1.2);
    assert_eq!(measured.phases.page, None);
    insta::assert_snapshot!("summary_json", summary.to_json());
}

#[test]
fn the_schema_check_detects_faults() {
    let schema = schema();
    let good = serde_json::to_value(Summary::of(&sample::stalled())).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        judge(&schema, &value)
    };
    assert_eq!(with(&|_| ()), Ok(()));
    for change in [
        &(|v: &mut Value| v["format"] = json!("1")) as &dyn Fn(&mut Value),
        &|v| v["format"] = json!(-1),
        &|v| v["more"] = json!(1),
        &|v| v["validity"]["valid"] = json!(null),
        &|v| drop(v["measured"].as_object_mut().unwrap().remove("counts")),
        &|v| v["measured"]["phases"]["corrected"]["p99_ms"] = json!("1"),
        &|v| v["measured"]["counts"]["statuses"]["200"] = json!(0.5),
        &|v| v["setup"]["loop"]["kind"] = json!("half-open"),
        &|v| v["timeline"][3]["planned"] = json!([]),
        &|v| v["slos"] = json!([{}]),
    ] {
        assert!(with(change).is_err());
    }
}

fn schema() -> Value {
    serde_json::from_str(&Summary::schema()).unwrap()
}

/// Validates `value` against `schema`; `root` is the whole schema.
fn judge(schema: &Value, value: &Value) -> Result<(), String> {
    Judge { root: schema }.judge(schema, value, "$")
}

struct Judge<'a> {
    root: &'a Value,
}

impl Judge<'_> {
    fn judge(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let rules = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(rules) => rules,
            other => panic!("{at}: not a schema: {other}"),
        };
        for (keyword, rule) in rules {
            self.keyword(keyword, rule, rules, value, at)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        keyword: &str,
        rule: &Value,
        rules: &Map<String, Value>,
        value: &Value,
        at: &str,
    ) -> Result<(), String> {
        let fail = |why: &str| Err(format!("{at}: {value} {why}"));
        match keyword {
            // Annotations, and keywords that `$ref` and `type` use.
            "$schema" | "$defs" | "title" | "description" | "format" => Ok(()),
            "$ref" => {
                let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                self.judge(self.root.pointer(path).unwrap(), value, at)
            }
            "type" => {
                let of = |kind: &Value| is(value, kind.as_str().unwrap());
                let fits = rule
                    .as_array()
                    .map_or_else(|| of(rule), |k| k.iter().any(of));
                if fits {
                    Ok(())
                } else {
                    fail(&format!("is not {rule}"))
                }
            }
            "const" if value != rule => fail(&format!("is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                fail(&format!("is not in {rule}"))
            }
            "minimum" if value.is_number() && value.as_f64() < rule.as_f64() => {
                fail(&format!("is below {rule}"))
            }
            "maximum" if value.is_number() && value.as_f64() > rule.as_f64() => {
                fail(&format!("is above {rule}"))
            }
            "const" | "enum" | "minimum" | "maximum" => Ok(()),
            "anyOf" | "oneOf" => {
                let fitting = rule.as_array().unwrap().iter();
                let fitting = fitting.filter(|s| self.judge(s, value, at).is_ok()).count();
                match (keyword, fitting) {
                    (_, 1) | ("anyOf", 2..) => Ok(()),
                    _ => fail(&format!("matches {fitting} schemas of {keyword}")),
                }
            }
            "required" => {
                let missing =
                    rule.as_array().unwrap().iter().find(|name| {
                        value.is_object() && value.get(name.as_str().unwrap()).is_none()
                    });
                missing.map_or(Ok(()), |name| fail(&format!("lacks {name}")))
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        self.judge(schema, member, &format!("{at}.{name}"))?;
                    }
                }
                Ok(())
            }
            "additionalProperties" => {
                let known = rules.get("properties").and_then(Value::as_object);
                for (name, member) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.contains_key(name)) {
                        continue;
                    }
                    if rule == &Value::Bool(false) {
                        return fail(&format!("has {name}"));
                    }
                    self.judge(rule, member, &format!("{at}.{name}"))?;
                }
                Ok(())
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.judge(rule, item, &format!("{at}[{place}]"))?;
                }
                Ok(())
            }
            other => panic!("{at}: the keyword {other} is not supported"),
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("no such type: {other}"),
    }
}
