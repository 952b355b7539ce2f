//! Tests of claims on curves, and of curves as text, charts and data. The synthetic load studies have known knees,
//! trends and rankings.

use std::collections::BTreeMap;
use std::fs;

use fathometer_analysis::claims::{EraVerdict, Part, Verdict};
use fathometer_analysis::digest::Digest;
use fathometer_analysis::run::{Mode, Run};
use fathometer_analysis::study::StudyData;
use fathometer_analysis::{summary, terminal};
use fathometer_model::{CellKey, ReplicateRecord};

use crate::browser;
use crate::common::{Fixture, Text, almeida, printed, refusal, without_scripts, write_report};

fn verdicts(fixture: &Fixture, study: &StudyData) -> Vec<(String, EraVerdict)> {
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let digest = Digest::of(folder.path(), study).unwrap();
    let claims = digest.claims.into_iter();
    claims
        .map(|claim| (claim.id, claim.eras.into_iter().next().unwrap()))
        .collect()
}

/// Returns the verdict on one claim, without computing the other claims and the curves.
fn verdict_of(fixture: &Fixture, id: &str) -> EraVerdict {
    let mut study = almeida::study();
    study.claims.retain(|claim| claim.id == id);
    study.curves.clear();
    verdicts(fixture, &study).remove(0).1
}

fn set(fixture: &mut Fixture, metric: &str, value: impl Fn(&ReplicateRecord) -> Option<f64>) {
    for record in &mut fixture.records {
        if let Some(value) = value(record) {
            record.metrics.insert(metric.to_owned(), value);
        }
    }
}

fn clients(record: &ReplicateRecord) -> f64 {
    record.metrics["clients"]
}

fn part<'a>(verdict: &'a EraVerdict, label: &str, environment: &str) -> &'a Part {
    let found = verdict
        .parts
        .iter()
        .find(|part| part.label.contains(label) && part.environment_text() == environment);
    found.unwrap_or_else(|| panic!("no part {label:?} in {environment:?}: {:#?}", verdict.parts))
}

#[test]
fn every_claim_holds_where_it_was_made_to() {
    for (id, verdict) in verdicts(&almeida::run(Mode::Quick, 5), &almeida::study()) {
        assert_eq!(verdict.verdict, Verdict::Holds, "{id}: {verdict:#?}");
    }
    let full = almeida::run(Mode::Full, 3);
    for id in ["A02", "A03", "A07"] {
        let verdict = verdict_of(&full, id);
        assert_eq!(verdict.verdict, Verdict::Holds, "{id}: {verdict:#?}");
    }
}

#[test]
fn a_knee_is_reported_with_the_level_before_it() {
    let verdict = verdict_of(&almeida::run(Mode::Quick, 5), "A01");
    let knee = part(&verdict, "clients at the knee", "httpd almeida-a");
    assert_eq!(knee.value, Some(8.0));
    // The system is saturated at 7.6 clients; the measured levels are 4 and 8.
    let interval = knee.interval.unwrap();
    assert!((interval.low - 4.0).abs() < 0.01 && (interval.high - 8.0).abs() < 0.01);
    let crossing = part(&verdict, "asymptotes", "httpd almeida-a");
    assert!((crossing.value.unwrap() - 7.6).abs() < 0.1, "{crossing:?}");
    assert!(crossing.interval.unwrap().high - crossing.interval.unwrap().low < 0.3);
    let onset = verdict_of(&almeida::run(Mode::Quick, 5), "A04");
    let onset = part(&onset, "onset", "embedded");
    assert_eq!(onset.value, Some(1.2));
    assert!((onset.interval.unwrap().low - 1.0).abs() < 0.01);
}

#[test]
fn every_claim_can_be_reversed() {
    let contrary = |id: &str, change: &dyn Fn(&mut Fixture)| {
        let mut fixture = almeida::run(Mode::Quick, 4);
        change(&mut fixture);
        let verdict = verdict_of(&fixture, id);
        let is_against = matches!(verdict.verdict, Verdict::Reversed | Verdict::Equal);
        assert!(is_against, "{id}: {verdict:#?}");
    };
    let in_block = |record: &ReplicateRecord, block: &str| record.block == block;
    contrary("A01", &|f| {
        set(f, "cpu_total_pct", |r| {
            in_block(r, "main").then(|| 40.0 + 0.1 * clients(r))
        });
    });
    contrary("A02", &|f| {
        set(f, "cpu_server_process_pct", |r| {
            Some(50.0 + 0.5 * clients(r))
        });
    });
    contrary("A03", &|f| {
        set(f, "littles_load_factor", |r| {
            Some((0.8 + 0.001 * f64::from(r.replicate)) * clients(r))
        });
    });
    contrary("A04", &|f| {
        set(f, "errors_per_s", |r| {
            in_block(r, "backlog").then(|| 50.0 + f64::from(r.replicate))
        });
    });
    contrary("A05", &|f| {
        set(f, "response_mean_ms", |r| {
            let steep = if r.cell.level("shed") == Some("on") {
                3.0
            } else {
                2.0
            };
            in_block(r, "shedding").then(|| steep * clients(r) + f64::from(r.replicate))
        });
    });
    contrary("A06", &|f| {
        set(f, "throughput_kB_per_s", |r| {
            let is_b = r.cell.level("workload") == Some("almeida-b");
            in_block(r, "main").then_some(if is_b { 5.0 } else { 6.0 })
        });
    });
    contrary("A07", &|f| {
        set(f, "throughput_kB_per_s", |r| {
            in_block(r, "processor").then(|| 500.0 + f64::from(r.replicate))
        });
    });
    contrary("A08", &|f| set(f, "disk_read_kB_per_s", |_| Some(3.0)));
    contrary("A09", &|f| {
        set(f, "exchanges_per_s", |r| {
            let is_surge = r.cell.level("loop") == Some("surge");
            in_block(r, "users").then_some(if is_surge { 10.0 } else { 9.0 })
        });
    });
    contrary("A10", &|f| {
        set(f, "connections_per_s", |r| {
            let rank = match r.cell.level("server") {
                Some("nginx") => 3.0,
                Some("httpd") => 1.0,
                _ => 2.0,
            };
            Some(rank * clients(r) + 0.01 * f64::from(r.replicate))
        });
    });
}

#[test]
fn amounts_short_of_the_bound_hold_weaker() {
    let mut fixture = almeida::run(Mode::Quick, 4);
    set(&mut fixture, "exchanges_per_s", |r| {
        let is_surge = r.cell.level("loop") == Some("surge");
        (r.block == "users").then_some(if is_surge { 10.0 } else { 30.0 })
    });
    assert_eq!(verdict_of(&fixture, "A09").verdict, Verdict::HoldsWeaker);
}

#[test]
fn noise_alone_reverses_no_order() {
    // Three servers differ only by noise: each is the best at some level, but no interval supports a change of ranking.
    let mut fixture = almeida::run(Mode::Quick, 5);
    set(&mut fixture, "connections_per_s", |r| {
        let noise = fathometer_model::Seed(r.seed)
            .stream(&r.cell.to_string())
            .uniform(7);
        Some(100.0 + noise)
    });
    let verdict = verdict_of(&fixture, "A10");
    assert_eq!(verdict.verdict, Verdict::Undecided);
    assert!(verdict.parts[0].value.unwrap() > 1.0, "{verdict:#?}");
}

#[test]
fn the_pair_that_changes_places_is_named() {
    let verdict = verdict_of(&almeida::run(Mode::Quick, 5), "A10");
    let ranking = &verdict.parts[0];
    // Under workload A, nginx has the higher rate, most of all where httpd is saturated; under B, nginx has the lower
    // rate.
    let expected = "httpd is above nginx at almeida-b clients 2, nginx above httpd at almeida-a";
    assert!(ranking.remark.starts_with(expected), "{ranking:#?}");
    let interval = ranking.interval.unwrap();
    assert!(
        interval.low > 1.05 && interval.contains(ranking.value.unwrap()),
        "{ranking:#?}"
    );
}

#[test]
fn one_replicate_leans_and_does_not_decide() {
    for (id, verdict) in verdicts(&almeida::run(Mode::Quick, 1), &almeida::study()) {
        assert_eq!(verdict.verdict, Verdict::Undecided, "{id}");
        assert_eq!(verdict.leaning, Some(Verdict::Holds), "{id}: {verdict:#?}");
    }
}

#[test]
fn an_invalid_level_is_left_out_with_a_remark() {
    let mut fixture = almeida::run(Mode::Quick, 3);
    let cell = [
        ("clients", "16"),
        ("server", "httpd"),
        ("workload", "almeida-a"),
    ];
    fixture.invalidate(&cell, &[0, 1, 2], "generator 97 % busy, limit 85 %");
    let verdict = verdict_of(&fixture, "A01");
    let bend = part(&verdict, "slope of the connection rate", "httpd almeida-a");
    assert_eq!(
        bend.remark,
        "clients 16 is INVALID: generator 97 % busy, limit 85 %"
    );
    assert_eq!(bend.verdict, Verdict::Holds);
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let study = almeida::study();
    let digest = Digest::of(folder.path(), &study).unwrap();
    let curve = digest.curves.iter().find(|curve| curve.id == "F1").unwrap();
    let httpd = &curve.panels[0].lines[1];
    assert_eq!(httpd.series, "httpd");
    assert_eq!(httpd.knee, Some(8.0));
    assert_eq!(httpd.points.len(), 7);
    assert_eq!(httpd.points[4].estimate, None);
    assert!(httpd.points[4].remark.starts_with("INVALID: generator"));
    assert!(terminal::render(&digest).contains("INV"));
}

#[test]
fn a_test_whose_condition_did_not_occur_is_not_tested() {
    let mut fixture = almeida::run(Mode::Quick, 3);
    set(&mut fixture, "error_pct", |_| Some(0.0));
    set(&mut fixture, "errors_per_s", |_| Some(0.0));
    let factor = verdict_of(&fixture, "A03");
    let errors = part(&factor, "where errors exceed", "embedded");
    assert_eq!(errors.verdict, Verdict::NotTested);
    assert_eq!(errors.remark, "error_pct is never above 1 up to clients 64");
    // The other parts of the claim hold, with a remark about the missing level.
    assert_eq!(factor.verdict, Verdict::Holds);
    assert!(
        factor.remark.contains("1 of 23 not measured"),
        "{}",
        factor.remark
    );
    assert_eq!(verdict_of(&fixture, "A04").verdict, Verdict::Undecided);
}

#[test]
fn several_cells_at_one_level_are_named_and_not_guessed_among() {
    let mut fixture = almeida::run(Mode::Quick, 2);
    let twins: Vec<ReplicateRecord> = fixture
        .records
        .iter()
        .filter(|r| r.block == "processor")
        .cloned()
        .map(|mut twin| {
            twin.cell.0.insert("shed".to_owned(), "on".to_owned());
            twin
        })
        .collect();
    fixture.records.extend(twins);
    let verdict = verdict_of(&fixture, "A07");
    assert_eq!(verdict.verdict, Verdict::Undecided);
    assert_eq!(verdict.parts[0].remark, "several cells differ in shed");
}

#[test]
fn what_does_not_fit_a_sweep_is_refused_with_what_is_known() {
    let broken = |from, to| refusal(almeida::SOURCES, Text::Claims, from, to);
    let error = broken("along = \"clients\"", "along = \"client\"");
    assert!(
        error.contains("no factor is called \"client\"; there are backlog, clients,"),
        "{error}"
    );
    let error = broken("along = \"clients\"", "along = \"server\"");
    assert!(
        error.contains(
            "server cannot be the axis of a curve: its level \"embedded\" is not numeric"
        ),
        "{error}"
    );
    let error = broken("metric = \"cpu_total_pct\"", "metric = \"cpu_pct\"");
    assert!(
        error.contains("no metric is called \"cpu_pct\"; there are clients,"),
        "{error}"
    );
    let error = broken(
        "knee = { of = \"connections_per_s\" }",
        "knee = { of = \"rate\" }",
    );
    assert!(error.contains("no metric is called \"rate\""), "{error}");
    let error = broken("at = \"knee\"", "at = \"top\"");
    assert!(
        error.contains("\"top\" is not a place of a curve: write all, first,"),
        "{error}"
    );
    let error = broken("at = \"16..\"", "at = \"17\"");
    assert!(
        error.contains("no level of clients is called \"17\"; there are 1, 2,"),
        "{error}"
    );
    let error = broken(
        "{ along = \"clients\", at = \"16..\" }",
        "{ along = \"clients\", at = \"knee\" }",
    );
    assert!(
        error.contains("slope of response_mean_ms needs a knee"),
        "{error}"
    );
    let error = broken("kind = \"trend\"", "kind = \"ratio\"");
    assert!(
        error.contains("must have a left and a right side"),
        "{error}"
    );
    let error = broken("kind = \"bend\"", "kind = \"level\"");
    assert!(
        error.contains("level of connections_per_s cannot have a sweep"),
        "{error}"
    );
    let error = broken("among = \"server\", ", "");
    assert!(
        error.contains("ranking of connections_per_s needs among"),
        "{error}"
    );
    let error = broken("above = 1 }", "above = 1, share = 0.9 }");
    assert!(
        error.contains("set only one of share, above and bounds"),
        "{error}"
    );
    let error = broken("pick = \"least\"", "chose = \"least\"");
    assert!(error.contains("unknown field `chose`"), "{error}");
}

#[test]
fn a_curve_of_what_is_not_declared_is_refused() {
    let broken = |from, to| refusal(almeida::SOURCES, Text::Tables, from, to);
    let error = broken("series = \"server\"", "series = \"servers\"");
    assert!(
        error.contains("curve \"F1\": no factor is called \"servers\""),
        "{error}"
    );
    let error = broken("along = \"clients\"", "along = \"workload\"");
    assert!(
        error.contains("workload cannot be the axis of a curve"),
        "{error}"
    );
    let error = broken("metric = \"saturation_clients\"", "metric = \"saturation\"");
    assert!(
        error.contains("no published metric is called \"saturation\"; there are"),
        "{error}"
    );
    let error = broken("metric = \"interrupts_per_s\"", "metric = \"irq_per_s\"");
    assert!(
        error.contains("no metric is called \"irq_per_s\""),
        "{error}"
    );
}

#[test]
fn a_quick_run_prints_its_curves() {
    insta::assert_snapshot!(printed(&almeida::run(Mode::Quick, 2), &almeida::study()));
}

#[test]
fn a_full_run_prints_some_of_many_levels() {
    let mut fixture = almeida::run(Mode::Full, 3);
    let cell = [
        ("clients", "20"),
        ("server", "nginx"),
        ("workload", "almeida-a"),
    ];
    fixture.invalidate(&cell, &[0, 1, 2], "generator 97 % busy, limit 85 %");
    insta::assert_snapshot!(printed(&fixture, &almeida::study()));
}

#[test]
fn the_report_has_the_curves_and_stands_alone() {
    // FATHOMETER_SWEEP_FOLDER sets a folder that is not deleted, so that the report can be opened in a browser.
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("FATHOMETER_SWEEP_FOLDER");
    let folder = kept.as_deref().map_or(scratch.path(), std::path::Path::new);
    fs::create_dir_all(folder).unwrap();
    let mut fixture = almeida::run(Mode::Full, 3);
    let cell = [
        ("clients", "20"),
        ("server", "nginx"),
        ("workload", "almeida-a"),
    ];
    fixture.invalidate(&cell, &[0, 1, 2], "generator 97 % busy, limit 85 %");
    fixture.write(folder);
    let page = fs::read_to_string(write_report(folder, &almeida::study())).unwrap();
    for id in ["F1", "F2", "F3", "F4", "F5", "F6", "S-backlog"] {
        assert!(page.contains(&format!("id=\"{id}-today\"")), "{id}");
    }
    assert!(page.contains("href=\"curves.csv\""));
    assert!(!without_scripts(&page).contains("http://"));
    // A study without tables or bars has no sections for them.
    for absent in ["close", "figures", "more"] {
        assert!(
            !page.contains(&format!("<section id=\"{absent}\">")),
            "{absent}"
        );
    }
    // Each of four panels has three lines of 16 levels; one of the three lines is broken at an invalid level.
    let (_, figure) = page.split_once("id=\"F1-today\"").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    let count = |text: &str| figure.matches(text).count();
    assert_eq!(count("<polyline"), 4 * 3 + 4);
    // The three marks of the legend are also counted.
    assert_eq!(count("class=\"point "), 4 * (3 * 16 - 1) + 3);
    assert_eq!(count("class=\"knee "), 2 * 3);
    // The paper gives 10 and 20 clients, in every panel.
    assert_eq!(count("<line class=\"paper\""), 4 * 2);
    let (_, figure) = page.split_once("id=\"F4-today\"").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    insta::assert_snapshot!(without_scripts(figure).replace("><", ">\n<"));
}

#[test]
fn curves_are_exported_a_point_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = almeida::run(Mode::Quick, 2);
    let cell = [
        ("clients", "16"),
        ("server", "httpd"),
        ("workload", "almeida-a"),
    ];
    fixture.invalidate(&cell, &[0, 1], "a \"reason\", with a comma");
    fixture.write(folder.path());
    write_report(folder.path(), &almeida::study());
    let text = fs::read_to_string(folder.path().join("curves.csv")).unwrap();
    let mut lines = text.split("\r\n");
    assert_eq!(
        lines.next().unwrap(),
        "figure,panel,metric,unit,era,series,factor,level,n,mean,low,high,remark"
    );
    let of_f1: Vec<&str> = text
        .split("\r\n")
        .filter(|line| line.starts_with("F1,"))
        .collect();
    assert_eq!(of_f1.len(), 4 * 3 * 7);
    assert!(
        of_f1[0].starts_with("F1,Throughput,throughput_kB_per_s,kB/s,today,embedded,clients,1,2,")
    );
    let invalid = "F1,Throughput,throughput_kB_per_s,kB/s,today,httpd,clients,16,0,,,,\
                   \"INVALID: a \"\"reason\"\", with a comma\"";
    assert!(of_f1.contains(&invalid), "{of_f1:#?}");
    let summary = summary::json(&Digest::of(folder.path(), &almeida::study()).unwrap());
    assert_eq!(summary["curves"][0]["id"], "F1");
    assert_eq!(
        summary["curves"][0]["panels"][0]["lines"][0]["points"][0]["x"],
        1.0
    );
}

/// A page with the printed form of a report, in a frame as wide as the text on a sheet of A4 (184 mm). Its script
/// stores the number of rows and the height in pixels of each chart.
const SHEET: &str = r#"<!doctype html><body><iframe src="paper.html" width="695" height="1017"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {
    const charts = [...frame.contentDocument.querySelectorAll("figure.curve")];
    const rows = chart => chart.querySelector(".scroll > svg").style.getPropertyValue("--rows");
    const seen = charts.map(chart => rows(chart) + ":" + Math.ceil(chart.getBoundingClientRect().height));
    document.body.dataset.seen = seen.join(" ");
};
</script>"#;

#[test]
fn two_charts_of_two_rows_fit_on_a_sheet_of_paper() {
    let Some(chromium) = browser::chromium() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    almeida::run(Mode::Quick, 2).write(folder.path());
    let page = fs::read_to_string(write_report(folder.path(), &almeida::study())).unwrap();
    assert!(page.contains("@media print {"));
    let paper = page.replace("@media print", "@media all");
    fs::write(folder.path().join("paper.html"), paper).unwrap();
    fs::write(folder.path().join("sheet.html"), SHEET).unwrap();
    let (seen, _) = browser::open(&chromium, folder.path(), "sheet.html", &[]);
    let charts: Vec<(u32, u32)> = seen
        .split_whitespace()
        .map(|chart| {
            let (rows, height) = chart.split_once(':').unwrap();
            (rows.parse().unwrap(), height.parse().unwrap())
        })
        .collect();
    // A sheet of 297 mm with two margins of 14 mm has 1017 px for text.
    let fits = |&(rows, height): &(u32, u32)| rows > 2 || (height > 100 && height <= 1017 / 2);
    assert!(charts.iter().all(fits), "{charts:?}");
    assert!(charts.iter().any(|(rows, _)| *rows == 2), "{charts:?}");
}

/// Converts the main block to the form of a sweep study: each replicate has all numbers of users.
fn as_sweeps(fixture: &mut Fixture) {
    let mut sweeps: BTreeMap<(CellKey, u32), ReplicateRecord> = BTreeMap::new();
    for record in fixture.records.drain(..) {
        if record.block != "main" {
            continue;
        }
        let mut cell = record.cell.clone();
        let users = cell.0.remove("clients").unwrap();
        let empty = ReplicateRecord {
            cell: cell.clone(),
            metrics: BTreeMap::new(),
            folder: format!("{cell}/r{}", record.replicate),
            ..record.clone()
        };
        let sweep = sweeps.entry((cell, record.replicate)).or_insert(empty);
        let named = record.metrics.into_iter();
        let named = named.map(|(metric, value)| (format!("{metric}_of_{users}_users"), value));
        sweep.metrics.extend(named);
    }
    fixture.records = sweeps.into_values().collect();
    fixture.info.replicates_planned = Some(fixture.records.len() as u64);
}

#[test]
fn the_loads_of_a_sweep_are_cells_with_claims_and_curves() {
    let mut fixture = almeida::run(Mode::Quick, 5);
    as_sweeps(&mut fixture);
    let study = almeida::study();
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let digest = Digest::of(folder.path(), &study).unwrap();
    let of = |id: &str| digest.claims.iter().find(|claim| claim.id == id).unwrap();
    assert_eq!(of("A01").eras[0].verdict, Verdict::Holds);
    // Six combinations of a server and a workload, with seven numbers of users; five replicates of each combination.
    assert_eq!(
        (digest.validity.cells, digest.validity.replicates),
        (42, 30)
    );
    assert!(digest.validity.is_complete());
    let users = digest.run.levels("clients");
    assert_eq!(users, ["1", "2", "4", "8", "16", "32", "64"]);
}

#[test]
fn a_load_study_without_tables_has_curves_by_the_number_of_users() {
    let folder = tempfile::tempdir().unwrap();
    almeida::run(Mode::Quick, 2).write(folder.path());
    let run = Run::load(folder.path()).unwrap();
    let study = StudyData::without_paper(&run, Vec::new());
    let titles: Vec<&str> = study
        .curves
        .iter()
        .map(|curve| curve.title.as_str())
        .collect();
    for title in [
        "By number of users: main, almeida-a",
        "By number of users: main, almeida-b",
        "By number of users: processor",
    ] {
        assert!(titles.contains(&title), "{titles:?}");
    }
    let digest = Digest::of(folder.path(), &study).unwrap();
    let first = digest.measured_curves().next().unwrap();
    let throughput = &first.panels[0];
    assert_eq!(throughput.metric, "exchanges_per_s");
    assert!(throughput.lines.iter().all(|line| !line.points.is_empty()));
}
