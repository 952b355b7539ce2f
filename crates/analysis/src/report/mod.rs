//! The report: one HTML file for any browser, without network access, in light and dark mode, and for print.
//!
//! The file contains all its resources, and its content security policy forbids all others. It links only to the run's
//! files, which are in the same folder. The report is complete without JavaScript: every chart is a static SVG. The
//! script in the file (`live`) replaces these charts by charts that zoom and show values.

mod answer;
mod cells;
mod charts;
mod claims;
mod closeness;
mod curves;
mod embed;
mod equal_cells;
mod evidence;
mod header;
mod instrument;
mod live;
mod machines;
mod sequences;
mod stacked;
mod tables;
mod waterfalls;

use std::io;
use std::path::{Path, PathBuf};

use maud::{Markup, html};

pub use sequences::{SequenceGraph, capture_page};
pub use waterfalls::{Captured, Captures};

use crate::Error;
use crate::digest::Digest;
use crate::{page, summary, sweep};

/// Writes `report.html`, `summary.json` and, if the study has curves, `curves.csv` into the run's folder. `captures`
/// reads the captures of replicates, for time-sequence graphs and for the causes of gaps in waterfalls. `write`
/// replaces a file atomically. Returns the path of the report.
///
/// # Errors
/// When a plot or the records of a replicate cannot be read, or a file cannot be written.
pub fn write_digest_with(
    digest: &Digest<'_>,
    captures: Captures<'_>,
    write: &dyn Fn(&Path, &str) -> io::Result<()>,
) -> Result<PathBuf, Error> {
    let write = |path: &Path, text: &str| {
        write(path, text).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    };
    let summary = format!("{:#}\n", summary::json(digest));
    write(&digest.run.folder.join("summary.json"), &summary)?;
    if !digest.curves.is_empty() {
        let curves = sweep::csv_text(&digest.curves);
        write(&digest.run.folder.join("curves.csv"), &curves)?;
    }
    let path = digest.run.folder.join("report.html");
    write(&path, &whole(digest, captures)?.into_string())?;
    Ok(path)
}

/// Returns the whole page.
///
/// # Errors
/// When a plot or a record cannot be read.
fn whole(digest: &Digest<'_>, captures: Captures<'_>) -> Result<Markup, Error> {
    let sections = sections(digest, captures)?;
    let script = live::Script::new();
    let body = html! {
        a.skip href="#main" { "Skip to the results" }
        (header::header(digest))
        nav aria-label="Contents" {
            ol {
                @for section in &sections {
                    li { a href={ "#" (section.id) } { (section.title) } }
                }
            }
        }
        main id="main" tabindex="-1" {
            @for section in &sections {
                section id=(section.id) {
                    h2 { (section.title) }
                    (section.body)
                }
            }
        }
        footer {
            "Made by fathometer " (digest.run.info.version)
            " only from the records of this folder; " code { "summary.json" }
            " has the same figures for programs. " code { "fathometer report RUN --verify" }
            " checks that this page and the records have not changed."
        }
        (script.element())
    };
    let info = &digest.run.info;
    let title = format!("{}: {}", info.study, info.title);
    Ok(page::page_with(
        &title,
        &script.policy(),
        live::STYLE,
        &body,
    ))
}

struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

fn sections(digest: &Digest<'_>, captures: Captures<'_>) -> Result<Vec<Section>, Error> {
    let section = |id, title, body| Section { id, title, body };
    let study = digest.study;
    let mut sections = Vec::new();
    // The order of sections: our figures beside the published figures, then the evidence, then the facts about the run.
    if !study.figures.is_empty() {
        sections.push(section("figures", "At a glance", charts::headline(digest)));
    }
    if !study.acceptance.is_empty() {
        let body = closeness::section(digest);
        sections.push(section("close", "Published and ours", body));
    }
    if !digest.claims.is_empty() {
        sections.push(section("claims", "Claims", claims::section(digest)));
    }
    if digest.equal_cells.is_some() {
        let title = "A/A: equal cells measured twice";
        let body = equal_cells::section(digest);
        sections.push(section("equal-cells", title, body));
    }
    if study.tables.iter().any(|table| table.of_the_paper) {
        sections.push(section("tables", "Tables", tables::of_the_paper(digest)));
    }
    if !study.curves.is_empty() {
        sections.push(section("curves", "Curves", curves::section(digest)));
    }
    if study.tables.iter().any(|table| !table.of_the_paper) {
        let body = tables::of_ours(digest);
        sections.push(section("more", "Beyond the paper's tables", body));
    }
    if !digest.run.plots.is_empty() {
        let body = embed::plots(&digest.run)?;
        sections.push(section("traces", "Packet by packet", body));
    }
    let body = waterfalls::section(digest, captures)?;
    sections.push(section("waterfalls", "Waterfalls", body));
    sections.extend([
        section("run", "The run", header::what_was_run(digest)),
        section("machines", "Machines", machines::section(digest)),
        section("validity", "Validity", cells::validity(digest)),
        section("cells", "Every cell", cells::section(digest)),
        section("definitions", "Definitions", header::definitions(digest)),
        section("paths", "Paths", header::paths(digest)),
        section("eras", "Kernel settings of each era", cells::eras(digest)),
    ]);
    // A run with few cells may lack the data of a chart.
    sections.retain(|section| !section.body.0.is_empty());
    Ok(sections)
}
