//! Tests of the report and the summary of a synthetic run.

use std::fs;
use std::path::Path;

use fathometer_analysis::digest::Digest;
use fathometer_analysis::run::Mode;
use fathometer_analysis::{summary, terminal};

use crate::browser;
use crate::common::{self, Fixture, without_scripts, write_report};

/// Writes a run with every feature: side blocks, plots, invalid cells.
fn everything(folder: &Path) {
    let mut fixture = Fixture::whole(Mode::Full, 5);
    let late = "down: lateness p99 1.9 ms, limit 0.1 ms";
    let cell = [
        ("policy", "h1.1"),
        ("path", "wan"),
        ("server", "embedded-apache"),
        ("era", "1997"),
        ("visit", "first"),
    ];
    fixture.invalidate(&cell, &[0, 1, 2, 3, 4], late);
    let cell = [
        ("policy", "h1.0x4"),
        ("path", "ppp"),
        ("server", "embedded-apache"),
        ("era", "today"),
        ("visit", "revalidate"),
    ];
    fixture.invalidate(&cell, &[3], "up: 2 unrequested losses, limit 0");
    fixture.write(folder);
    Fixture::write_plots(folder);
    for record in fixture.records.iter().step_by(3) {
        let replicate = folder.join(&record.folder);
        fs::create_dir_all(&replicate).unwrap();
        fs::write(replicate.join("capture.pcapng"), b"").unwrap();
    }
}

#[test]
fn the_report_is_whole_and_stands_alone() {
    // FATHOMETER_REPORT_FOLDER sets a folder that is not deleted, so that the report can be opened in a browser.
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("FATHOMETER_REPORT_FOLDER");
    let folder = kept.as_deref().map_or(scratch.path(), Path::new);
    fs::create_dir_all(folder).unwrap();
    everything(folder);
    let path = write_report(folder, &common::study());
    let page = fs::read_to_string(path).unwrap();

    for id in [
        "run", "figures", "tables", "close", "claims", "traces", "validity", "eras", "cells",
    ] {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    for id in ["T4-1997", "T9-today", "S-nagle-1997", "N01", "N20"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("<strong class=\"invalid\">INVALID</strong>"));
    assert!(page.contains("lateness p99 1.9 ms, limit 0.1 ms"));
    assert!(page.contains("this kernel&#39;s is 40 ms") || page.contains("this kernel's is 40 ms"));
    assert!(page.contains("data:image/svg+xml;base64,"));
    // The page runs one script, whose hash is in the content security policy. The page fetches nothing: every reference
    // is a fragment, a data URI or a file in the folder of the run.
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    let page = without_scripts(&page);
    assert!(!page.contains("http://") && !page.contains("https://"));
    for reference in page.split("href=\"").skip(1) {
        let reference = reference.split('"').next().unwrap();
        assert!(
            reference.starts_with('#') || reference.starts_with("cells/"),
            "{reference}"
        );
    }
    for source in page.split("src=\"").skip(1) {
        assert!(source.starts_with("data:image/svg+xml;base64,"));
    }
    // Every id is unique.
    let mut ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert!(page.len() < 3_000_000, "{}", page.len());
}

#[test]
fn the_same_records_give_the_same_report() {
    let page = || {
        let folder = tempfile::tempdir().unwrap();
        Fixture::whole(Mode::Quick, 2).write(folder.path());
        let path = write_report(folder.path(), &common::study());
        fs::read_to_string(path).unwrap()
    };
    assert_eq!(page(), page());
}

#[test]
fn texts_of_a_run_are_escaped_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::whole(Mode::Quick, 1);
    fixture.info.notes = vec!["<script>alert(1)</script> & more".to_owned()];
    fixture.records[0].folder = "../../etc\"><b>".to_owned();
    fixture.write(folder.path());
    let path = write_report(folder.path(), &common::study());
    let page = fs::read_to_string(path).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
    assert!(!page.contains("<script>alert") && !page.contains("etc\"><b>"));
}

#[test]
fn a_run_without_replicates_has_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::whole(Mode::Quick, 1);
    fixture.records.clear();
    fixture.write(folder.path());
    let page = fs::read_to_string(write_report(folder.path(), &common::study())).unwrap();
    assert!(page.contains("0 of 0"));
    let text = terminal::render(&Digest::of(folder.path(), &common::study()).unwrap());
    assert!(text.contains("0 of 0 replicates valid"), "{text}");
}

#[test]
fn the_summary_has_the_figures_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    everything(folder.path());
    let summary = summary::json(&Digest::of(folder.path(), &common::study()).unwrap());
    assert_eq!(summary["format"], 1);
    assert_eq!(summary["study"], "nielsen97");
    assert_eq!(summary["validity"]["replicates_invalid"], 6);
    assert_eq!(summary["validity"]["cells_invalid"], 1);
    let tables = summary["tables"].as_array().unwrap();
    let table = tables
        .iter()
        .find(|table| table["id"] == "T6" && table["era"] == "1997")
        .unwrap();
    let datum = &table["rows"][0]["data"][0][0];
    assert_eq!(datum["published"]["value"], 562.6);
    assert_eq!(datum["ours"]["value"]["estimate"]["n"], 5);
    let claims = summary["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 20);
    assert_eq!(claims[0]["eras"][0]["verdict"], "holds");
    assert_eq!(claims[2]["id"], "N03");
    // The invalid cell does not count towards the verdict.
    assert_eq!(claims[2]["eras"][0]["verdict"], "holds");
    assert_eq!(claims[17]["eras"][0]["verdict"], "not-tested");
    assert_eq!(summary["closeness"][0]["comparisons"][0]["table"], "T8");
}

/// A page with the report in a frame as wide as a phone. Its script stores three lengths in pixels: the width of the
/// frame, the overflow of the report, and the distance of the navigation from the top.
const FRAME: &str = r#"<!doctype html><body><iframe src="report.html" width="390" height="844"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {
    const page = frame.contentDocument;
    const nav = page.querySelector("nav");
    frame.contentWindow.scrollTo(0, page.documentElement.scrollHeight);
    const overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
    const seen = [frame.contentWindow.innerWidth, overflow,
        Math.round(nav.getBoundingClientRect().top)];
    document.body.dataset.seen = seen.join(" ");
};
</script>"#;

#[test]
fn the_report_fits_a_telephone_and_its_navigation_stays_in_view() {
    let Some(chromium) = browser::chromium() else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    everything(folder);
    write_report(folder, &common::study());
    fs::write(folder.join("frame.html"), FRAME).unwrap();
    let (seen, _) = browser::open(&chromium, folder, "frame.html", &[]);
    // Nothing is wider than the window, and the navigation is at the top of the window.
    assert_eq!(seen, "390 0 0");
}
