//! Saved records in DuckDB: its totals equal those that `--json` prints.
//!
//! DuckDB is not in Debian: `./test` installs its Python package to `target/tools/python`, and sets
//! `FATHOMETER_PYTHON`. Without the package the tests print a message and pass, unless `FATHOMETER_REQUIRE_DUCKDB` is 1.

use std::collections::BTreeMap;
use std::path::Path;

use fathometer_analysis::run::Run;
use serde_json::{Value, json};

use super::support::{Origin, load, valid_if_possible};
use crate::support::python::python;

/// A Python script that runs the queries in its first argument.
const SCRIPT: &str = "
import duckdb, json, sys
print(json.dumps([duckdb.execute(query).fetchall() for query in json.loads(sys.argv[1])]))
";

/// Returns the rows of each query in DuckDB; `None` without DuckDB.
fn duckdb(queries: &[String]) -> Option<Vec<Value>> {
    let rows = python("duckdb", SCRIPT, &[&json!(queries).to_string()])?;
    Some(serde_json::from_str(&rows).unwrap())
}

#[test]
fn duckdb_reads_parquet_and_csv_with_the_totals_of_the_load_test() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (rows, table) = (place("load.parquet"), place("load.csv"));
    let origin = Origin::of("webstone", 5);
    let arguments = [
        "--workload",
        "webstone",
        "--seed",
        "5",
        "-c",
        "4",
        "-n",
        "2000",
        "--json",
        "--save",
        &rows,
        "--save",
        &table,
    ];
    let summary = valid_if_possible(|| load(&origin.url(), &arguments)).ended_with(0);
    let complete = format!("from '{rows}' where phase = 'measured' and outcome = 'complete'");
    let of_csv =
        |metric: &str| format!("select value::bigint from '{table}' where metric = '{metric}'");
    let queries = [
        format!(
            "select count(*)::bigint, sum(response_head_bytes)::bigint, sum(response_body_bytes)::bigint {complete}"
        ),
        format!("select status, count(*)::bigint {complete} group by status order by status"),
        format!("select min(last_byte_ns - planned_ns), max(last_byte_ns - planned_ns) {complete}"),
        of_csv("measured.counts.completed"),
        of_csv("measured.bytes.response_bodies_bytes"),
    ];
    let Some(answers) = duckdb(&queries) else {
        return;
    };
    let (counts, bytes) = (&summary.measured.counts, &summary.measured.bytes);
    let ours = json!([[
        counts.completed,
        bytes.response_heads_bytes,
        bytes.response_bodies_bytes
    ]]);
    assert_eq!(answers[0], ours);
    let statuses: Vec<Value> = counts
        .statuses
        .iter()
        .map(|(status, count)| json!([status.parse::<u16>().unwrap(), count]))
        .collect();
    assert_eq!(answers[1], json!(statuses));
    let latency = summary.measured.phases.corrected.unwrap();
    let nanos = |millis: f64| (millis * 1e6).round() as u64;
    assert_eq!(
        answers[2],
        json!([[nanos(latency.min_ms), nanos(latency.max_ms)]])
    );
    assert_eq!(answers[3], json!([[counts.completed]]));
    assert_eq!(answers[4], json!([[bytes.response_bodies_bytes]]));
    assert!(
        counts.completed >= 1990 && bytes.response_bodies_bytes > 0,
        "{counts:?}"
    );
}

#[test]
fn duckdb_reads_the_replicates_of_a_study_with_their_totals() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../runs/published/2026-11-26-2-core-vm-nielsen97");
    let file = run.join("replicates.ndjson").display().to_string();
    // A repeated attempt replaces the one before it.
    let query = format!(
        "select cell.policy, count(*)::bigint, sum(metrics.ip_bytes)::bigint from (
           select *, row_number() over (partition by block, cell, replicate order by started desc) as attempt from '{file}'
         ) where attempt = 1 group by 1 order by 1"
    );
    let Some(answers) = duckdb(&[query]) else {
        return;
    };
    let mut totals: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    let cells = Run::load(&run).unwrap().cells;
    for record in cells.iter().flat_map(|cell| &cell.replicates) {
        let policy = record.cell.level("policy").unwrap().to_owned();
        let total = totals.entry(policy).or_default();
        *total = (total.0 + 1, total.1 + record.metrics["ip_bytes"]);
    }
    let totals: Vec<Value> = totals
        .into_iter()
        .map(|(policy, (count, bytes))| json!([policy, count, bytes as u64]))
        .collect();
    assert!(totals.len() > 2, "{totals:?}");
    assert_eq!(answers[0], json!(totals));
}
