//! Tests of the verdicts on runs with known figures.

use std::fs;
use std::path::Path;

use fathometer_analysis::Error;
use fathometer_analysis::claims::{EraVerdict, Part, Verdict};
use fathometer_analysis::digest::Digest;
use fathometer_analysis::run::{CellState, Mode, Run, RunInfo};
use fathometer_analysis::statistics::Sides;
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_model::ReplicateRecord;

use crate::common::{self, Fixture};

fn verdict_of(fixture: &Fixture, study: &StudyData, claim: &str) -> EraVerdict {
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let digest = Digest::of(folder.path(), study).unwrap();
    let result = digest.claims.iter().find(|c| c.id == claim).unwrap();
    result.eras[0].clone()
}

fn part<'a>(verdict: &'a EraVerdict, environment: &str) -> &'a Part {
    verdict
        .parts
        .iter()
        .find(|part| part.environment_text() == environment)
        .unwrap_or_else(|| panic!("no part {environment} in {verdict:#?}"))
}

/// Returns a run of the main block in the era `1997`, with five replicates.
fn main_block() -> Fixture {
    let mut fixture = Fixture::whole(Mode::Full, 5);
    fixture.keep(|r| r.block == "main" && r.cell.level("era") == Some("1997"));
    fixture
}

fn set(fixture: &mut Fixture, metric: &str, value: impl Fn(&ReplicateRecord) -> Option<f64>) {
    for record in &mut fixture.records {
        match value(record) {
            Some(value) => record.metrics.insert(metric.to_owned(), value),
            None => record.metrics.remove(metric),
        };
    }
}

#[test]
fn replicates_that_share_their_noise_are_compared_pair_by_pair() {
    let study = common::study();
    let mut fixture = main_block();
    // The serial policy takes 1.5 times as long in every replicate, but replicates vary by a factor of three. Pairs
    // therefore give the exact ratio, and unpaired cells hardly show its direction.
    set(&mut fixture, "elapsed_s", |r| {
        let noise = 1.0 + f64::from(r.replicate) / 2.0;
        let serial = r.cell.level("policy") == Some("h1.1");
        Some(noise * if serial { 1.5 } else { 1.0 })
    });
    let paired = verdict_of(&fixture, &study, "N03");
    assert_eq!(paired.verdict, Verdict::Holds);
    let httpd = part(&paired, "wan httpd");
    assert_eq!((httpd.n, httpd.sides), (5, Sides::Paired));
    let interval = httpd.interval.unwrap();
    // The interval is as narrow as the resolution of a time.
    assert!(interval.low < 1.5 && 1.5 < interval.high);
    assert!(interval.high - interval.low < 0.001, "{interval:?}");

    // One replicate of one side is invalid: the sides cannot be paired, and the interval is wide.
    let cell = [
        ("policy", "h1.1"),
        ("path", "wan"),
        ("visit", "first"),
        ("server", "httpd"),
    ];
    fixture.invalidate(&cell, &[4], "made up");
    let unpaired = verdict_of(&fixture, &study, "N03");
    assert_eq!(unpaired.verdict, Verdict::Undecided);
    assert_eq!(unpaired.leaning, Some(Verdict::Holds));
    assert!(unpaired.replicates_to_decide.is_some_and(|n| n > 5));
    // Servers whose service times were calibrated with the paper's figures do not count towards the verdict.
    let jigsaw = part(&unpaired, "wan embedded-jigsaw");
    assert!(jigsaw.calibrated && !jigsaw.counts);
    assert_eq!(jigsaw.verdict, Verdict::Holds);
    let httpd = part(&unpaired, "wan httpd");
    assert_eq!((httpd.n, httpd.sides), (4, Sides::Independent));
    assert!(
        httpd
            .remark
            .starts_with("1 of 5 replicates of h1.1 first wan")
    );
}

#[test]
fn a_contrast_is_a_ratio_over_the_same_ratio_elsewhere() {
    let study = StudyData::parse(StudySources {
        tables: include_str!("../../../../papers/nielsen97/tables.toml"),
        figures: include_str!("../../../../papers/nielsen97/figures.csv"),
        claims: r#"
            [[claim]]
            id = "X01"
            sentence = "The cost of serial requests is larger on a longer path."
            published = "made up"
            [[claim.test]]
            label = "seconds, serial over pipelined, WAN over LAN"
            kind = "contrast"
            metric = "elapsed_s"
            common = { visit = "first", server = "embedded-jigsaw", path = "wan" }
            left = { policy = "h1.1" }
            right = { policy = "h1.1-pipeline" }
            baseline = { path = "lan" }
            holds = "> 1.2"
            weaker = "> 1"
        "#,
    })
    .unwrap();
    let mut fixture = main_block();
    // Every replicate has its own noise, which its four cells share.
    set(&mut fixture, "elapsed_s", |r| {
        let noise = 1.0 + f64::from(r.replicate) / 2.0;
        let cost = match (r.cell.level("policy"), r.cell.level("path")) {
            (Some("h1.1"), Some("wan")) => 1.5,
            (Some("h1.1"), _) => 1.2,
            _ => 1.0,
        };
        Some(noise * cost)
    });
    let verdict = verdict_of(&fixture, &study, "X01");
    let part = &verdict.parts[0];
    assert_eq!(verdict.verdict, Verdict::Holds, "{part:?}");
    assert_eq!((part.n, part.sides), (5, Sides::Paired));
    let interval = part.interval.unwrap();
    assert!((part.value.unwrap() - 1.25).abs() < 1e-9);
    assert!(interval.low < 1.25 && 1.25 < interval.high);
    assert!(interval.high - interval.low < 0.001, "{interval:?}");

    // Without the cells of the contrast, nothing can be judged.
    fixture.keep(|r| r.cell.level("path") == Some("wan"));
    let missing = verdict_of(&fixture, &study, "X01");
    assert_eq!(missing.verdict, Verdict::NotTested);
}

#[test]
fn one_replicate_decides_nothing_and_shows_where_it_leans() {
    let mut fixture = main_block();
    fixture.keep(|r| r.replicate == 0);
    let verdict = verdict_of(&fixture, &common::study(), "N01");
    assert_eq!(verdict.verdict, Verdict::Undecided);
    assert_eq!(verdict.leaning, Some(Verdict::Holds));
    let part = part(&verdict, "lan httpd");
    assert_eq!((part.n, part.interval), (1, None));
    assert_eq!(part.remark, "one replicate has no interval");
}

#[test]
fn an_environment_that_was_not_measured_is_said_and_does_not_decide() {
    let mut fixture = main_block();
    fixture.keep(|r| r.cell.level("path") == Some("wan"));
    let verdict = verdict_of(&fixture, &common::study(), "N01");
    assert_eq!(verdict.verdict, Verdict::Holds);
    assert_eq!(verdict.remark, "3 of 6 not measured");
    assert_eq!(part(&verdict, "lan httpd").verdict, Verdict::NotTested);

    fixture.keep(|r| r.cell.level("policy") != Some("h1.0x4"));
    let verdict = verdict_of(&fixture, &common::study(), "N01");
    assert_eq!(verdict.verdict, Verdict::NotTested);
}

#[test]
fn a_partial_run_is_never_read_as_another_cell() {
    // Only the deflated cell was measured. The identity cell is missing, and the judgement must not use another cell
    // instead.
    let mut fixture = main_block();
    fixture.keep(|r| {
        r.cell.level("policy") != Some("h1.1-pipeline") || r.cell.level("coding") == Some("deflate")
    });
    let verdict = verdict_of(&fixture, &common::study(), "N01");
    assert_eq!(verdict.verdict, Verdict::NotTested);
}

#[test]
fn one_buffer_that_stalls_is_enough_and_none_may_without_nagle() {
    let study = common::study();
    let nagle = || {
        let mut fixture = Fixture::whole(Mode::Full, 5);
        fixture.keep(|r| r.block == "nagle" && r.cell.level("era") == Some("1997"));
        fixture
    };
    // Seconds follow the stalls: each costs a delayed acknowledgement.
    let stalls = |fixture: &mut Fixture, off: &'static [&'static str], on: f64| {
        let count = move |r: &fathometer_model::ReplicateRecord| {
            let buffer = r.cell.level("buffer").unwrap().to_owned();
            match r.cell.level("nodelay").unwrap() {
                "off" if off.contains(&buffer.as_str()) => 2.0,
                "off" => 0.0,
                _ => on,
            }
        };
        set(fixture, "stalls", move |r| Some(count(r)));
        set(fixture, "elapsed_s", move |r| Some(0.1 + 0.04 * count(r)));
    };
    let mut fixture = nagle();
    stalls(&mut fixture, &["1024"], 0.0);
    assert_eq!(verdict_of(&fixture, &study, "N11").verdict, Verdict::Holds);
    stalls(&mut fixture, &[], 0.0);
    assert_eq!(
        verdict_of(&fixture, &study, "N11").verdict,
        Verdict::Reversed
    );
    // Stalls also occur without Nagle, contrary to the claim.
    stalls(&mut fixture, &["128", "1024"], 2.0);
    let verdict = verdict_of(&fixture, &study, "N11");
    assert_eq!(verdict.verdict, Verdict::Reversed);
}

#[test]
fn a_count_that_is_one_in_every_replicate_is_not_none() {
    let study = common::study();
    let judged = |without_nagle: &dyn Fn(u32) -> f64| {
        let mut fixture = Fixture::whole(Mode::Full, 3);
        fixture.keep(|r| r.block == "nagle" && r.cell.level("era") == Some("1997"));
        set(&mut fixture, "stalls", |r| {
            let with_nagle = r.cell.level("nodelay") == Some("off");
            Some(if with_nagle {
                3.0
            } else {
                without_nagle(r.replicate)
            })
        });
        let verdict = verdict_of(&fixture, &study, "N11");
        let is_without = |part: &&Part| part.label == "stalls without Nagle";
        verdict.parts.iter().find(is_without).unwrap().clone()
    };
    // The claim is `= 0`. A constant count of 1 has no rounding error: each replicate contradicts the claim.
    let one = judged(&|_| 1.0);
    assert_eq!(one.verdict, Verdict::Reversed);
    assert_eq!(one.simultaneous_verdict, Verdict::Reversed);
    assert_eq!(one.interval.map(|i| (i.low, i.high)), Some((1.0, 1.0)));
    assert_eq!(one.p_value, Some(0.0));
    // If all replicates are 0, the interval is still as wide as the resolution of a count.
    let none = judged(&|_| 0.0);
    assert_eq!(none.verdict, Verdict::Holds);
    assert!(none.interval.unwrap().high > 0.5 && none.p_value.unwrap() > 0.0);
    // A count that differs between replicates is not exact.
    let some = judged(&|replicate| f64::from(replicate % 2));
    assert_eq!(some.verdict, Verdict::Undecided);
}

#[test]
fn a_ratio_of_two_metrics_and_a_difference_are_as_told() {
    let study = common::study();
    let html = verdict_of(&main_block(), &study, "N08");
    let value = html.parts[0].value.unwrap();
    assert!((value - 11_264.0 / 43_008.0).abs() < 1e-12);
    assert_eq!(html.parts[0].verdict, Verdict::Holds);
    // The page was built to have this ratio, so the ratio is no evidence.
    assert_eq!(html.verdict, Verdict::NotTested);

    let mut fixture = Fixture::whole(Mode::Full, 3);
    fixture.keep(|r| r.block == "window");
    set(&mut fixture, "second_batch_s", |r| {
        let plain = r.cell.level("coding") == Some("identity");
        Some(if plain { 0.20 } else { 0.15 } + 0.01 * f64::from(r.replicate))
    });
    let verdict = verdict_of(&fixture, &study, "N16");
    assert_eq!(verdict.verdict, Verdict::Holds);
    let ten: Vec<&Part> = verdict.parts.iter().filter(|part| !part.counts).collect();
    assert_eq!(ten.len(), 2);
    // These parts contradict the claim. They are shown, but do not count towards the verdict.
    assert!(ten.iter().all(|part| part.verdict == Verdict::Reversed));
    assert!((ten[0].value.unwrap() - 0.05).abs() < 1e-12);
}

#[test]
fn several_cells_in_one_place_are_named_and_not_guessed_among() {
    let mut fixture = Fixture::whole(Mode::Full, 2);
    fixture.keep(|r| r.block == "limit" && r.cell.level("era") == Some("1997"));
    let mut twins = Vec::new();
    for record in &fixture.records {
        let mut twin = record.clone();
        twin.cell.0.insert("quickack".to_owned(), "on".to_owned());
        twins.push(twin);
    }
    fixture.records.extend(twins);
    let verdict = verdict_of(&fixture, &common::study(), "N14");
    assert_eq!(verdict.verdict, Verdict::Undecided);
    assert_eq!(verdict.parts[0].remark, "several cells differ in quickack");
}

#[test]
fn closeness_is_against_the_published_and_relative_where_asked() {
    let study = common::study();
    let mut fixture = main_block();
    // All times are doubled: no figure is close to the paper's figure, but every ratio between policies is close.
    set(&mut fixture, "elapsed_s", |r| {
        let (first, revalidate) = match (r.cell.level("policy")?, r.cell.level("coding")?) {
            ("h1.0x4", _) => (4.17, 2.96),
            ("h1.1", _) => (6.64, 4.95),
            (_, "deflate") => (2.09, 1.15),
            _ => (2.33, 1.10),
        };
        let is_first = r.cell.level("visit") == Some("first");
        Some(2.0 * if is_first { first } else { revalidate })
    });
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let digest = Digest::of(folder.path(), &study).unwrap();
    let bar = |id: &str| digest.closeness.iter().find(|bar| bar.id == id).unwrap();
    let ratios = bar("wan-ratios");
    assert_eq!(ratios.comparisons.len(), 12);
    let jigsaw = ratios.comparisons.iter().filter(|c| c.table == "T6");
    for comparison in jigsaw {
        assert!(comparison.off_pct.unwrap().abs() < 1e-9, "{comparison:?}");
        assert!(comparison.is_within());
    }
    // Two of the eight published figures calibrated the modem line and the server's buffer.
    assert_eq!(bar("ppp-pipelined").measured(), 6);
    assert_eq!(bar("ppp-pipelined").calibrated(), (0, 2));
    assert_eq!(bar("ppp-pipelined").within(), 0);
    assert_eq!(bar("packets").comparisons.len(), 28);
}

#[test]
fn an_explanation_stands_beside_the_figures_that_miss() {
    let explanation = "\n[[explanation]]\nacceptance = \"packets\"\ntables = [\"T8\"]\n\
                       groups = [\"first\"]\ntext = \"Because of the modem.\"\n";
    // Removes the paper's own explanations, so that only this explanation can be found.
    let shipped = include_str!("../../../../papers/nielsen97/tables.toml");
    let (before, after) = shipped.split_once("\n[[explanation]]").unwrap();
    let (_, after) = after.split_once("\n# ----").unwrap();
    let tables = format!("{before}\n# ----{after}{explanation}");
    let study = StudyData::parse(StudySources {
        tables: &tables,
        claims: include_str!("../../../../papers/nielsen97/claims.toml"),
        figures: include_str!("../../../../papers/nielsen97/figures.csv"),
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    main_block().write(folder.path());
    let digest = Digest::of(folder.path(), &study).unwrap();
    let bar = digest
        .closeness
        .iter()
        .find(|bar| bar.id == "packets")
        .unwrap();
    let mut explained = 0;
    for comparison in &bar.comparisons {
        let wanted =
            comparison.table == "T8" && comparison.group == "first" && !comparison.is_within();
        assert_eq!(comparison.explanation.is_some(), wanted, "{comparison:?}");
        explained += usize::from(wanted);
    }
    assert!(explained > 0);
    let text = fathometer_analysis::terminal::render(&digest);
    assert_eq!(text.matches("Because of the modem.").count(), 1);
}

fn folder_with(fixture: &Fixture, edit: impl Fn(&Path)) -> Result<Run, Error> {
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    edit(folder.path());
    Run::load(folder.path())
}

#[test]
fn a_truncated_last_line_is_left_out_and_reported() {
    let fixture = main_block();
    let run = folder_with(&fixture, |folder| {
        let path = folder.join("replicates.ndjson");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    })
    .unwrap();
    assert_eq!(run.replicates().count(), fixture.records.len() - 1);
    assert!(
        run.warnings[0].contains("is cut short"),
        "{:?}",
        run.warnings
    );
}

#[test]
fn a_bad_line_elsewhere_is_an_error_with_its_number() {
    let error = folder_with(&main_block(), |folder| {
        let path = folder.join("replicates.ndjson");
        let text = fs::read_to_string(&path).unwrap();
        let broken = text.replacen("\"block\":\"main\"", "\"block\":7", 2);
        fs::write(&path, broken).unwrap();
    })
    .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("replicates.ndjson:1: invalid type"),
        "{error}"
    );
}

#[test]
fn a_folder_without_a_run_is_reported() {
    let nowhere = Run::load(Path::new("/nonexistent/run")).unwrap_err();
    assert!(
        nowhere
            .to_string()
            .starts_with("cannot read /nonexistent/run/run.json")
    );
    let newer = folder_with(&main_block(), |folder| {
        let path = folder.join("run.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"format\": 1", "\"format\": 99")).unwrap();
    })
    .unwrap_err();
    let known = RunInfo::FORMAT;
    let text = newer.to_string();
    assert!(
        text.contains(&format!(
            "has format 99, and this version reads up to {known}"
        )),
        "{text}"
    );
    let outside = folder_with(&main_block(), |folder| {
        let list = r#"[{"title": "t", "caption": "c", "file": "../../etc/passwd"}]"#;
        fs::write(folder.join("plots.json"), list).unwrap();
    })
    .unwrap_err();
    assert!(
        outside
            .to_string()
            .contains("is not inside the run's folder")
    );
}

#[test]
fn a_replicate_recorded_twice_counts_once() {
    let mut fixture = main_block();
    let mut again = fixture.records[0].clone();
    again.metrics.insert("packets".to_owned(), 1.0);
    fixture.records.push(again);
    let run = folder_with(&fixture, |_| {}).unwrap();
    assert_eq!(run.replicates().count(), fixture.records.len() - 1);
    assert!(run.warnings[0].contains("is recorded twice"));
    let first = &fixture.records[0].cell;
    let cell = run.cells.iter().find(|cell| cell.key == *first).unwrap();
    assert_eq!(cell.values("packets")[0], (0, 1.0));
    assert_eq!(cell.state(), CellState::Valid);
}

/// Returns a run of the content block. The arguments are the bytes with style sheets, the bytes with PNG, and the time
/// with all techniques relative to the time of the other cells.
fn contents(style_sheet: f64, png: f64, all: f64) -> Fixture {
    let mut fixture = Fixture::whole(Mode::Full, 5);
    fixture.keep(|r| r.block == "content");
    set(&mut fixture, "payload_bytes", |r| {
        Some(match r.cell.level("workload")? {
            "microscape-css" => style_sheet,
            "microscape-png" => png,
            _ => 150_000.0,
        })
    });
    set(&mut fixture, "elapsed_s", |r| {
        let is_all = r.cell.level("workload") == Some("microscape-css-png");
        Some((50.0 + f64::from(r.replicate)) * if is_all { all } else { 1.0 })
    });
    fixture
}

#[test]
fn a_server_with_its_own_heads_decides_whether_style_sheets_save_more_than_png() {
    let study = common::study();
    for (style_sheet, png, verdict) in [
        (170_000.0, 171_000.0, Verdict::Holds),
        (171_000.0, 170_000.0, Verdict::Reversed),
    ] {
        let judged = verdict_of(&contents(style_sheet, png, 0.5), &study, "N17");
        assert_eq!(judged.verdict, verdict);
        assert!(part(&judged, "ppp httpd").counts);
        let calibrated = part(&judged, "ppp embedded-apache");
        assert!(calibrated.calibrated && !calibrated.counts);
    }
}

#[test]
fn all_techniques_together_are_judged_by_the_published_share_of_the_time() {
    let study = common::study();
    for (all, verdict) in [
        (0.6, Verdict::Holds),
        (0.7, Verdict::HoldsWeaker),
        (1.1, Verdict::Reversed),
    ] {
        let judged = verdict_of(&contents(1.0, 1.0, all), &study, "N19");
        assert_eq!(judged.verdict, verdict, "{all}");
        let server = part(&judged, "httpd");
        assert_eq!((server.n, server.sides), (5, Sides::Paired));
    }
}
