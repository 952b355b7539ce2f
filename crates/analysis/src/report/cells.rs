//! The evidence for the run's validity: invalid cells, settings that the kernel did not apply, and every cell with
//! links to its files.

use fathometer_model::ReplicateRecord;
use fathometer_model::digits::significant;
use maud::{Markup, html};

use super::embed::reference;
use super::evidence;
use super::header;
use crate::digest::Digest;
use crate::gave_out_first;
use crate::retrieval_trace;
use crate::run::{Cell, CellState, SettingState, stays_inside};
use crate::selection::MAIN_BLOCK;
use crate::statistics::Summary;

/// The validity of the whole run, and every cell that is not fully valid.
pub(super) fn validity(digest: &Digest<'_>) -> Markup {
    let summary = &digest.validity;
    let doubtful: Vec<&Cell> = digest
        .run
        .cells
        .iter()
        .filter(|cell| cell.state() != CellState::Valid)
        .collect();
    html! {
        dl.facts {
            dt { "Replicates" }
            dd {
                (summary.replicates_valid()) " valid, " (summary.replicates_invalid) " invalid, "
                (summary.replicates_repeated) " repeated, as an earlier attempt was invalid"
                @if let Some(planned) = summary.replicates_planned { ", " (planned) " planned" }
            }
            dt { "Cells" }
            dd {
                (summary.cells) ", of which " (summary.cells_invalid) " INVALID and "
                (summary.cells_partly_valid) " with some invalid replicates"
            }
            dt { "Lateness of the path" }
            dd {
                "worst 99th percentile of a replicate " (significant(summary.lateness_p99_ms))
                " ms, worst packet " (significant(summary.lateness_max_ms)) " ms"
            }
            dt { "Packets" }
            dd {
                (summary.packets) " carried, " (summary.unasked_drops)
                " unrequested drops"
            }
        }
        @if doubtful.is_empty() {
            p { "Every cell is valid." }
        } @else {
            ul.doubts {
                @for cell in doubtful {
                    li {
                        (state(cell)) " " (cell.block) ", " (digest.run.name(cell)) ": "
                        (cell.reasons().join("; "))
                    }
                }
            }
        }
        (left_out(digest))
        (header::notes(digest))
    }
}

/// Every cell of the study that was not measured, with the reason.
fn left_out(digest: &Digest<'_>) -> Markup {
    html! {
        @for (reason, cells) in digest.run.left_out() {
            h3 { "Left out: " (reason) }
            ul { @for cell in cells { li { (cell) } } }
        }
    }
}

/// The settings of each era, and the settings that the kernel cannot apply.
pub(super) fn eras(digest: &Digest<'_>) -> Markup {
    html! {
        @if digest.run.info.eras.is_empty() {
            p { "The run does not record its eras." }
        }
        @for era in &digest.run.info.eras {
            h3 { "Era " (era.name) }
            @if !era.description.is_empty() { p { (era.description) } }
            @if !era.limits.is_empty() {
                p { "This kernel cannot apply:" }
                ul { @for limit in &era.limits { li { (limit) } } }
            }
            @if era.settings.is_empty() {
                p.remark { "No setting: the defaults of the kernel." }
            } @else {
                div.scroll {
                    table.settings {
                        thead {
                            tr {
                                th scope="col" { "Setting" }
                                th scope="col" { "requested" }
                                th scope="col" { "result" }
                            }
                        }
                        tbody {
                            @for setting in &era.settings {
                                tr {
                                    th scope="row" { (setting.name) }
                                    td { (setting.wanted) }
                                    td {
                                        @match setting.state {
                                            SettingState::Applied => "applied",
                                            SettingState::Impossible => {
                                                strong.invalid { "not possible" }
                                            }
                                        }
                                        @if let Some(detail) = &setting.detail { ": " (detail) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every cell, by block.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    let mut blocks: Vec<&str> = Vec::new();
    for cell in &digest.run.cells {
        if !blocks.contains(&cell.block.as_str()) {
            blocks.push(&cell.block);
        }
    }
    // The main block first, then the others by name.
    blocks.sort_by_key(|block| (*block != MAIN_BLOCK, *block));
    let is_judged = is_judged(digest);
    let columns = &digest.study.cell_columns;
    let kept: Vec<_> = retrieval_trace::kept(&digest.run).collect();
    html! {
        p.lead {
            "Means over valid replicates. Late is the worst 99th percentile of the path's lateness, in "
            "milliseconds. Each cell lists its replicates, with their validity and their files."
        }
        @for block in blocks {
            div.block {
            h3 { "Block " (block) }
            div.scroll {
                table.cells {
                    thead {
                        tr {
                            th scope="col" { "Cell" }
                            th scope="col" { "State" }
                            th.number scope="col" { "n" }
                            @if columns.is_empty() {
                                th.number scope="col" { "Pa" }
                                th.number scope="col" { "Sec" }
                                th.number scope="col" { "sd" }
                            }
                            @for column in columns {
                                th.number scope="col" { (column.label) }
                            }
                            @if is_judged { th scope="col" { "Exhausted first" } }
                            th.number scope="col" { "Late" }
                            th scope="col" { "Replicates" }
                        }
                    }
                    tbody {
                        @for cell in digest.run.cells.iter().filter(|cell| cell.block == block) {
                            (row(digest, cell, &kept, is_judged))
                        }
                    }
                }
            }
            }
        }
    }
}

/// Whether the run has results on the resource that was exhausted first. Only capacity studies have this column.
fn is_judged(digest: &Digest<'_>) -> bool {
    let mut replicates = digest.run.replicates();
    replicates.any(|replicate| gave_out_first::of_replicate(replicate).is_some())
}

/// The cells with a waterfall, each with the replicate that the waterfall shows, in the order of the waterfalls.
type Kept<'a> = [(&'a Cell, &'a ReplicateRecord)];

fn row(digest: &Digest<'_>, cell: &Cell, kept: &Kept<'_>, is_judged: bool) -> Markup {
    let describe = |metric: &str| {
        let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
        Summary::of(&values)
    };
    let packets = describe("packets");
    let seconds = describe("elapsed_s");
    let ways = cell
        .replicates
        .iter()
        .flat_map(|r| [&r.path.up, &r.path.down]);
    let late = ways.map(|way| way.lateness_p99_ns).max().unwrap_or(0);
    let levels = serde_json::json!(cell.key);
    html! {
        tr id=(evidence::anchor(digest, cell)) data-levels=(levels) {
            th scope="row" { (digest.run.name(cell)) }
            td { (state(cell)) }
            td.number {
                (cell.valid().count())
                @if cell.state() != CellState::Valid { " of " (cell.replicates.len()) }
            }
            @if digest.study.cell_columns.is_empty() {
                td.number { @if let Some(packets) = packets { (format!("{:.1}", packets.mean)) } }
                td.number { @if let Some(seconds) = seconds { (significant(seconds.mean)) } }
                td.number {
                    @if let Some(sd) = seconds.and_then(|s| s.sd) { (significant(sd)) }
                }
            }
            @for column in &digest.study.cell_columns {
                td.number {
                    @if let Some(figure) = describe(&column.metric) { (column.format(figure.mean)) }
                }
            }
            @if is_judged {
                td { @if let Some(found) = gave_out_first::of_cell(cell) { (found) } }
            }
            td.number { (significant(late as f64 / 1e6)) }
            td { (replicates(digest, cell, kept, is_judged)) }
        }
    }
}

fn state(cell: &Cell) -> Markup {
    match cell.state() {
        CellState::Valid => html! { "valid" },
        CellState::PartlyValid => html! { span.partly { "partly" } },
        CellState::Invalid => html! { strong.invalid { "INVALID" } },
    }
}

/// The files of a replicate to which the report links, each with its description.
const FILES: [(&str, &str); 6] = [
    ("capture.pcapng", "packets at the client"),
    ("taps.pcapng", "packets at both ends"),
    ("exchanges.ndjson", "exchanges"),
    ("connections.ndjson", "connections"),
    ("files.ndjson", "files"),
    ("", "folder"),
];

/// The replicates of a cell: their validity, files, and the columns of the list of cells.
fn replicates(digest: &Digest<'_>, cell: &Cell, kept: &Kept<'_>, is_judged: bool) -> Markup {
    let columns = &digest.study.cell_columns;
    let number = kept
        .iter()
        .position(|(known, _)| std::ptr::eq(*known, cell));
    html! {
        details {
            summary { (cell.replicates.len()) }
            table.replicates {
                thead {
                    tr {
                        th.number scope="col" { "r" }
                        th scope="col" { "Validity" }
                        @if columns.is_empty() {
                            th.number scope="col" { "Pa" }
                            th.number scope="col" { "Sec" }
                        }
                        @for column in columns { th.number scope="col" { (column.label) } }
                        @if is_judged { th scope="col" { "Exhausted first" } }
                        th.number scope="col" { "Late" }
                        th scope="col" { "Files" }
                    }
                }
                tbody {
                    @for replicate in &cell.replicates {
                        @let waterfall = number.filter(|number| std::ptr::eq(kept[*number].1, replicate));
                        (replicate_row(digest, replicate, waterfall, is_judged))
                    }
                }
            }
        }
    }
}

fn replicate_row(
    digest: &Digest<'_>,
    replicate: &ReplicateRecord,
    waterfall: Option<usize>,
    is_judged: bool,
) -> Markup {
    let value = |metric: &str| replicate.metrics.get(metric).copied();
    let late = replicate
        .path
        .up
        .lateness_p99_ns
        .max(replicate.path.down.lateness_p99_ns);
    let files: Vec<(String, &str)> = FILES
        .iter()
        .map(|(file, words)| (format!("{}/{file}", replicate.folder), *words))
        .filter(|(path, _)| stays_inside(path.as_ref()) && digest.run.folder.join(path).exists())
        .collect();
    html! {
        tr {
            td.number { (replicate.replicate) }
            td {
                @if replicate.validity.is_valid() { "valid" }
                @else { strong.invalid { "INVALID" } ": " (replicate.validity.reasons.join("; ")) }
            }
            @if digest.study.cell_columns.is_empty() {
                td.number { @if let Some(packets) = value("packets") { (packets) } }
                td.number { @if let Some(seconds) = value("elapsed_s") { (significant(seconds)) } }
            }
            @for column in &digest.study.cell_columns {
                td.number { @if let Some(figure) = value(&column.metric) { (column.format(figure)) } }
            }
            @if is_judged {
                td {
                    @if let Some(found) = gave_out_first::of_replicate(replicate) {
                        (gave_out_first::noun(found))
                    }
                }
            }
            td.number { (significant(late as f64 / 1e6)) }
            td {
                @if let Some(number) = waterfall { a href={ "#waterfall-" (number) } { "waterfall and packets" } }
                @for (index, (path, words)) in files.iter().enumerate() {
                    @if index > 0 || waterfall.is_some() { ", " }
                    a href=(reference(path)) { (words) }
                }
                @if files.is_empty() { span.missing { "not kept" } }
            }
        }
    }
}
