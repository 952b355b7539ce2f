//! Snapshots of the final screen of a study, over a synthetic run.

use fathometer_analysis::run::Mode;

use crate::common::{self, Fixture, printed};

#[test]
fn a_full_run_shows_everything() {
    let mut fixture = Fixture::whole(Mode::Full, 5);
    let late = "down: lateness p99 1.9 ms, limit 0.1 ms";
    let cell = [
        ("policy", "h1.1"),
        ("path", "wan"),
        ("server", "embedded-jigsaw"),
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
    insta::assert_snapshot!(printed(&fixture, &common::study()));
}

#[test]
fn a_quick_run_has_a_short_screen() {
    let mut fixture = Fixture::whole(Mode::Quick, 2);
    // On the modem path, every cell has one replicate.
    fixture.keep(|r| r.cell.level("path") != Some("ppp") || r.replicate == 0);
    insta::assert_snapshot!(printed(&fixture, &common::study()));
}

#[test]
fn a_killed_run_can_be_reported() {
    let mut fixture = Fixture::whole(Mode::Full, 5);
    fixture.keep(|r| r.order % 11 == 0 && r.cell.level("era") == Some("1997"));
    fixture.info.finished = None;
    insta::assert_snapshot!(printed(&fixture, &common::study()));
}
