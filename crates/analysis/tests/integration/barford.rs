//! Tests of barford98 over a synthetic run: claims, tables relative to HTTP/1.0, distributions and the cost of a
//! connection, as text and as a report.

use std::fs;
use std::path::Path;

use fathometer_analysis::claims::{EraVerdict, Part, Verdict};
use fathometer_analysis::digest::Digest;
use fathometer_analysis::run::Mode;
use fathometer_analysis::tables::{Measured, TableResult};
use fathometer_model::ReplicateRecord;

use crate::common::{Fixture, Text, barford, printed, refusal, write_report};

/// Returns the verdicts on the claims with these ids, by era.
fn verdicts(fixture: &Fixture, ids: &[&str]) -> Vec<(String, Vec<EraVerdict>)> {
    let mut study = barford::study();
    study
        .claims
        .retain(|claim| ids.is_empty() || ids.contains(&claim.id.as_str()));
    study.curves.clear();
    study.tables.clear();
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let claims = Digest::of(folder.path(), &study).unwrap().claims;
    claims
        .into_iter()
        .map(|claim| (claim.id, claim.eras))
        .collect()
}

/// Returns the verdict on one claim in the era `today`.
fn verdict_of(fixture: &Fixture, id: &str) -> EraVerdict {
    let (_, eras) = verdicts(fixture, &[id]).remove(0);
    eras.into_iter().find(|era| era.era == "today").unwrap()
}

fn set(fixture: &mut Fixture, metric: &str, value: impl Fn(&ReplicateRecord) -> Option<f64>) {
    for record in &mut fixture.records {
        if let Some(value) = value(record) {
            record.metrics.insert(metric.to_owned(), value);
        }
    }
}

fn is(record: &ReplicateRecord, factor: &str, level: &str) -> bool {
    record.cell.level(factor) == Some(level)
}

fn part<'a>(verdict: &'a EraVerdict, label: &str, environment: &str) -> &'a Part {
    let found = verdict
        .parts
        .iter()
        .find(|part| part.label.contains(label) && part.environment_text() == environment);
    found.unwrap_or_else(|| panic!("no part {label:?} in {environment:?}: {:#?}", verdict.parts))
}

#[test]
fn every_level_that_the_study_runs_is_declared() {
    let study = barford::study();
    for mode in [Mode::Quick, Mode::Full] {
        for (block, cell) in barford::cells(barford::DESIGN, mode) {
            for (factor, level) in &cell.0 {
                // Pages are requested without content coding, by users with an empty cache.
                if ["coding", "visit"].contains(&factor.as_str()) {
                    continue;
                }
                let known = study.factors.get(factor);
                let known =
                    known.unwrap_or_else(|| panic!("{block}: the factor {factor} is not declared"));
                assert!(
                    known.levels.contains(level),
                    "{block}: {factor} has no level {level}"
                );
            }
        }
    }
}

#[test]
fn every_claim_holds_where_it_was_made_to() {
    for (id, eras) in verdicts(&barford::run(Mode::Quick, 5), &[]) {
        let of_today = eras.iter().find(|era| era.era == "today").unwrap();
        // In quick mode some factors have a single level, which is neither the lowest nor the highest level of full
        // mode.
        let of_one_level = |part: &&Part| part.remark.contains("the test needs several levels");
        if of_today
            .parts
            .iter()
            .filter(|part| part.counts)
            .all(|part| of_one_level(&part))
        {
            assert_eq!(of_today.verdict, Verdict::NotTested, "{id}");
            continue;
        }
        assert_eq!(of_today.verdict, Verdict::Holds, "{id}: {of_today:#?}");
        for era in &eras {
            let is_fine = matches!(era.verdict, Verdict::Holds | Verdict::NotTested);
            assert!(is_fine, "{id}: {era:#?}");
        }
    }
}

#[test]
fn what_memory_decides_holds_in_a_full_run_too() {
    let ids = ["B05", "B11", "B12", "B13", "B16", "B17"];
    for (id, eras) in verdicts(&barford::run(Mode::Full, 3), &ids) {
        let of_today = eras.iter().find(|era| era.era == "today").unwrap();
        assert_eq!(of_today.verdict, Verdict::Holds, "{id}: {of_today:#?}");
    }
}

#[test]
fn what_tcp_decides_is_judged_in_both_eras() {
    let fixture = barford::run(Mode::Quick, 2);
    for (id, eras) in verdicts(&fixture, &["B01", "B02", "B03", "B06"]) {
        let tested = eras.iter().filter(|era| era.verdict != Verdict::NotTested);
        assert_eq!(tested.count(), 2, "{id}");
    }
}

#[test]
fn a_slope_is_what_one_more_connection_costs() {
    let verdict = verdict_of(&barford::run(Mode::Full, 5), "B13");
    // The only variation is noise of 1 % in the memory per connection.
    let idle = part(&verdict, "kB for each idle", "").value.unwrap();
    assert!((idle - barford::IDLE_KB).abs() < 1.5, "{idle}");
    let active = part(&verdict, "kB for each active", "").value.unwrap();
    assert!((active - barford::ACTIVE_KB).abs() < 6.0, "{active}");
    let ratio = part(&verdict, "active over idle", "");
    let interval = ratio.interval.unwrap();
    assert!(
        interval.contains(barford::ACTIVE_KB / barford::IDLE_KB),
        "{ratio:#?}"
    );
    assert!(interval.high - interval.low < 0.3, "{ratio:#?}");
}

#[test]
fn a_loss_is_counted_from_its_baseline() {
    // Of 100 exchanges/s, a process-based server loses 60, and an event-driven server loses 15: a quarter of 60.
    let mut fixture = barford::run(Mode::Full, 3);
    set(&mut fixture, "exchanges_per_s", |r| {
        let kept = match is(r, "server", "httpd-prefork") {
            true => 40.0,
            false => 85.0,
        };
        Some(if is(r, "policy", "h1.0") { 100.0 } else { kept })
    });
    let verdict = verdict_of(&fixture, "B12");
    let loss = part(&verdict, "what HTTP/1.1 loses", "ues 140");
    assert!((loss.value.unwrap() - 0.25).abs() < 1e-9, "{loss:#?}");
    assert_eq!(loss.verdict, Verdict::Holds);
    // If the right side has no loss, the ratio of losses is undefined.
    set(&mut fixture, "exchanges_per_s", |_| Some(100.0));
    let verdict = verdict_of(&fixture, "B12");
    let loss = part(&verdict, "what HTTP/1.1 loses", "ues 140");
    assert_eq!(loss.verdict, Verdict::NotTested);
    assert_eq!(
        loss.remark,
        "the right side has no loss against its baseline"
    );
}

#[test]
fn a_distance_is_the_greatest_of_all_steps() {
    let mut fixture = barford::run(Mode::Quick, 3);
    for (limit, pipelined, plain) in [(1, 10.0, 12.0), (2, 20.0, 50.0), (4, 55.0, 70.0)] {
        set(&mut fixture, &format!("cwnd_le_{limit}_pct"), |r| {
            let is_pipelined = is(r, "policy", "h1.1-pipeline");
            Some(if is_pipelined { pipelined } else { plain })
        });
    }
    for limit in [8, 16, 32, 64, 128] {
        set(&mut fixture, &format!("cwnd_le_{limit}_pct"), |_| {
            Some(100.0)
        });
    }
    let verdict = verdict_of(&fixture, "B07");
    let distance = part(&verdict, "pipelined from not", "ues 20");
    assert!(
        (distance.value.unwrap() - 0.3).abs() < 1e-9,
        "{distance:#?}"
    );
    assert_eq!(distance.verdict, Verdict::Reversed);
    // A replicate that lacks one `cwnd_le_*` metric has no distribution.
    for record in &mut fixture.records {
        if record.replicate > 0 {
            record.metrics.remove("cwnd_le_4_pct");
        }
    }
    let verdict = verdict_of(&fixture, "B07");
    assert_eq!(part(&verdict, "pipelined from not", "ues 20").n, 1);
}

#[test]
fn claims_can_be_reversed() {
    let contrary = |id: &str, change: &dyn Fn(&mut Fixture)| {
        // In quick mode B08 has only its highest load.
        let mode = if id == "B08" { Mode::Full } else { Mode::Quick };
        let mut fixture = barford::run(mode, 3);
        change(&mut fixture);
        let verdict = verdict_of(&fixture, id);
        let is_against = matches!(verdict.verdict, Verdict::Reversed | Verdict::Equal);
        assert!(is_against, "{id}: {verdict:#?}");
    };
    contrary("B01", &|f| {
        set(f, "packets_per_exchange", |r| {
            Some(9.0 + f64::from(r.replicate))
        });
    });
    contrary("B05", &|f| {
        set(f, "data_bytes_per_data_packet", |_| Some(1190.0));
    });
    contrary("B08", &|f| {
        set(f, "cwnd_le_2_pct", |r| Some(30.0 + f64::from(r.replicate)));
    });
    contrary("B13", &|f| {
        set(f, "memory_pss_kB", |r| {
            let each = if is(r, "loop", "idle") { 90.0 } else { 60.0 };
            Some(20_000.0 + each * r.metrics["connections_established_mean"])
        });
    });
    contrary("B16", &|f| {
        set(f, "exchanges_per_s", |r| {
            Some(50.0 + f64::from(r.replicate))
        });
    });
    contrary("B19", &|f| {
        set(f, "connections_per_s", |r| {
            Some(r.metrics["exchanges_per_s"])
        });
    });
    contrary("B20", &|f| {
        set(f, "littles_law_ratio", |r| {
            Some(1.3 + 0.01 * f64::from(r.replicate))
        });
    });
}

#[test]
fn what_a_kernel_does_not_offer_is_not_tested() {
    let mut fixture = barford::run(Mode::Quick, 2);
    for record in &mut fixture.records {
        record.metrics.retain(|name, _| !name.starts_with("cwnd_"));
    }
    for id in ["B06", "B07", "B08"] {
        let verdict = verdict_of(&fixture, id);
        assert_eq!(verdict.verdict, Verdict::NotTested, "{id}");
        assert_eq!(verdict.parts[0].remark, "not measured", "{id}");
    }
}

#[test]
fn inconsistent_claims_and_tables_are_refused() {
    let claims = |from, to| refusal(barford::SOURCES, Text::Claims, from, to);
    let tables = |from, to| refusal(barford::SOURCES, Text::Tables, from, to);
    let error = claims("baseline = { policy = \"h1.0\" }\n", "");
    assert!(
        error.contains("exchanges_per_s: a loss and a contrast need a baseline"),
        "{error}"
    );
    let error = claims("kind = \"distance\"", "kind = \"ratio\"");
    assert!(
        error.contains("a distance needs a family of metrics, with a * in its name"),
        "{error}"
    );
    let error = claims("metric = \"cwnd_le_*_pct\"", "metric = \"cwnd_up_to_*\"");
    assert!(
        error.contains("fewer than two declared metrics are of the family"),
        "{error}"
    );
    let error = claims(
        "per = \"connections_established_mean\"",
        "per = \"connections\"",
    );
    assert!(
        error.contains("no metric is called \"connections\""),
        "{error}"
    );
    let error = claims("at = \"43\"", "at = \"44\"");
    assert!(
        error.contains("no level of workload is called \"44\""),
        "{error}"
    );
    let error = tables("relative_to = \"HTTP/1.0\"", "relative_to = \"HTTP/0.9\"");
    assert!(error.contains("no row is called \"HTTP/0.9\""), "{error}");
    let error = tables("plus = \"cpu_interrupt_pct\"", "plus = \"cpu_pct\"");
    assert!(error.contains("no metric is called \"cpu_pct\""), "{error}");
    let error = tables("stack = [\"Data\"", "stack = [\"DATA\"");
    assert!(error.contains("no column is called \"DATA\""), "{error}");
}

fn table<'a>(digest: &'a Digest<'_>, id: &str) -> &'a TableResult {
    let is_it = |table: &&TableResult| table.id == id && table.era == "today";
    digest.tables.iter().find(is_it).unwrap()
}

#[test]
fn a_table_has_the_ratio_to_its_base_ours_and_the_papers() {
    let mut fixture = barford::run(Mode::Quick, 3);
    // Variation that both sides of a replicate share does not widen the interval of the ratio.
    set(&mut fixture, "packets_per_MB", |r| {
        let shared = 1500.0 + 100.0 * f64::from(r.replicate);
        Some(if is(r, "policy", "h1.0") {
            shared
        } else {
            0.7 * shared
        })
    });
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let mut study = barford::study();
    study.claims.clear();
    study.curves.clear();
    let digest = Digest::of(folder.path(), &study).unwrap();
    let packets = table(&digest, "T2");
    let sections: Vec<&str> = packets
        .rows
        .iter()
        .map(|row| row.section.as_str())
        .collect();
    // A quick run does not measure 140 users, but the table shows the paper's figures for 140 users.
    assert_eq!(sections.len(), 9);
    assert_eq!(sections[0], "20 users, for 40 UE");
    let column = packets.column("Pa/MB").unwrap();
    assert_eq!(packets.rows[0].data[0][column].relative, None);
    let row = &packets.rows[1];
    assert_eq!(row.label, "HTTP/1.1");
    let relative = row.data[0][column].relative.unwrap();
    let ours = relative.ours.unwrap();
    assert!((ours.value - 0.7).abs() < 1e-12);
    let interval = ours.interval.unwrap();
    // Without noise, the interval is as narrow as the resolution of the figures.
    assert!(
        interval.contains(0.7) && interval.high - interval.low < 0.002,
        "{interval:?}"
    );
    assert!(
        (relative.published.unwrap() - 0.718).abs() < 0.001,
        "{relative:?}"
    );
    // The paper prints 0.201 million packets.
    let column = packets.column("Pa").unwrap();
    let published = packets.rows[0].data[0][column].published.unwrap();
    assert!((published.value - 201_000.0).abs() < 1e-6 && !published.derived);
    // Kernel time is the kernel time of the server itself plus the kernel time of its packets.
    let system = table(&digest, "T4");
    let (of, row) = (system.column("KER").unwrap(), &system.rows[0]);
    let Measured::Value { estimate, .. } = &row.data[0][of].ours else {
        panic!("{row:#?}");
    };
    let replicates = fixture.records.iter().filter(|r| {
        let levels = [
            ("server", "httpd-prefork"),
            ("policy", "h1.0"),
            ("ues", "20"),
        ];
        r.block == "cpu" && levels.iter().all(|(factor, level)| is(r, factor, level))
    });
    let sums: Vec<f64> = replicates
        .map(|r| r.metrics["cpu_server_system_pct"] + r.metrics["cpu_interrupt_pct"])
        .collect();
    assert!((estimate.value - sums.iter().sum::<f64>() / 3.0).abs() < 1e-9);
}

#[test]
fn distributions_and_slopes_are_curves() {
    let folder = tempfile::tempdir().unwrap();
    barford::run(Mode::Full, 2).write(folder.path());
    let mut study = barford::study();
    study.claims.clear();
    study.tables.clear();
    study
        .curves
        .retain(|curve| ["F2", "F9", "C-memory-httpd", "C-files"].contains(&curve.id.as_str()));
    let digest = Digest::of(folder.path(), &study).unwrap();
    let curve = |id: &str| {
        let is_it = |curve: &&_| -> bool {
            let curve: &fathometer_analysis::sweep::CurveResult = curve;
            curve.id == id && curve.era == "today"
        };
        digest.curves.iter().find(is_it).unwrap()
    };
    let windows = curve("F2");
    assert_eq!(windows.panels.len(), 3);
    let line = &windows.panels[2].lines[0];
    assert_eq!(line.series, "h1.0");
    let steps: Vec<f64> = line.points.iter().map(|point| point.x).collect();
    assert_eq!(steps, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
    assert_eq!(windows.panels[0].along, "cwnd_le_*_pct");
    let cost = &curve("F9").panels[0];
    let idle = cost
        .lines
        .iter()
        .find(|line| line.series == "idle")
        .unwrap();
    let fit = idle.fit.unwrap();
    assert!((fit.slope.value - barford::IDLE_KB).abs() < 2.0, "{fit:?}");
    assert!((fit.intercept - 20_000.0).abs() < 100.0, "{fit:?}");
    // x is a number of established connections; the level is a number of users.
    assert!((idle.points[0].x - 5.0).abs() < 0.2 && idle.points[0].x != 5.0);
    assert_eq!(idle.points[0].level, 5.0);
    let memory = &curve("C-memory-httpd").panels[0].lines[0];
    let places: Vec<f64> = memory.points.iter().map(|point| point.x).collect();
    assert_eq!(places, [32.0, 48.0, 64.0, 96.0, 128.0]);
    assert_eq!(curve("C-files").panels[0].lines[1].points.len(), 6);
}

#[test]
fn an_invalid_cell_without_a_place_on_the_axis_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = barford::run(Mode::Full, 2);
    for record in &mut fixture.records {
        let is_first = is(record, "ues", "5") && is(record, "loop", "idle");
        if record.block == "idle" && is_first && is(record, "server", "httpd-prefork") {
            record.validity.invalidate("generator 97 % busy");
        }
    }
    fixture.write(folder.path());
    let mut study = barford::study();
    study.claims.clear();
    study.tables.clear();
    study.curves.retain(|curve| curve.id == "F9");
    let digest = Digest::of(folder.path(), &study).unwrap();
    let mut curves = digest.curves.iter();
    let curve = curves.find(|curve| curve.era == "today").unwrap();
    let panel = &curve.panels[0];
    let lines = panel.lines.iter();
    let mut points = lines.flat_map(|line| line.points.iter().map(|p| (&*line.series, p.level)));
    assert!(!points.any(|point| point == ("idle", 5.0)));
    assert_eq!(panel.left_out.len(), 1);
    let remarks = curve.remarks();
    let expected = ("INVALID: generator 97 % busy", "idle ues 5".to_owned());
    assert!(remarks.contains(&expected), "{remarks:?}");
}

#[test]
fn a_quick_run_prints_ratios_to_the_base_alone() {
    let fixture = barford::run(Mode::Quick, 2);
    insta::assert_snapshot!(printed(&fixture, &barford::study()));
}

#[test]
fn a_full_run_prints_everything() {
    // Prints only some tables, curves and claims: all have the same form, and judging all claims takes long.
    let mut study = barford::study();
    study
        .tables
        .retain(|table| ["T2", "T4", "T5", "T6"].contains(&table.id.as_str()));
    study
        .curves
        .retain(|curve| ["F2", "F9"].contains(&curve.id.as_str()));
    study
        .claims
        .retain(|claim| ["B07", "B13"].contains(&claim.id.as_str()));
    study.figures.clear();
    insta::assert_snapshot!(printed(&barford::run(Mode::Full, 2), &study));
}

#[test]
fn the_report_has_tables_distributions_and_slopes() {
    // FATHOMETER_BARFORD_FOLDER sets a folder that is not deleted, so that the report can be opened in a browser.
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("FATHOMETER_BARFORD_FOLDER");
    let folder = kept.as_deref().map_or(scratch.path(), Path::new);
    fs::create_dir_all(folder).unwrap();
    let mode = if kept.is_some() {
        Mode::Full
    } else {
        Mode::Quick
    };
    barford::run(mode, 3).write(folder);
    let page = fs::read_to_string(write_report(folder, &barford::study())).unwrap();
    for id in [
        "T2-1997", "T4-today", "T7-today", "F2-1997", "F3-today", "F9-today", "B07",
    ] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    // Every id is unique.
    let ids = page.split(" id=\"").skip(1);
    let mut ids: Vec<&str> = ids.filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    let figure = |id: &str| {
        let (_, figure) = page.split_once(&format!("id=\"{id}\"")).unwrap();
        figure.split_once("</figure>").unwrap().0
    };
    // Two fitted lines in each of three panels, and no lines between the points.
    let cost = figure("F9-today");
    assert_eq!(cost.matches("class=\"line fit ").count(), 3 * 2);
    assert_eq!(cost.matches("<polyline").count(), 0);
    assert!(
        cost.contains("Memory of the server, slope in kB for each: idle 8"),
        "{cost}"
    );
    if kept.is_none() {
        insta::assert_snapshot!(figure("F2-1997").replace("><", ">\n<"));
    }
    let (_, bars) = page.split_once("F1 and F13: packets by class").unwrap();
    let (bars, _) = bars.split_once("</figure>").unwrap();
    // There is one bar, with six parts, for each policy, measured load and era.
    let bars_of_today = if kept.is_some() { 4 * 3 } else { 4 * 2 };
    let bars_of_1997 = if kept.is_some() { 4 * 3 } else { 2 };
    let parts = bars.matches("<rect class=\"part").count();
    assert_eq!(parts, 6 * (bars_of_today + bars_of_1997));
}
