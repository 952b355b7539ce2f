//! The machines of a merged run: their facts, and the differences between them.

use std::collections::BTreeSet;

use fathometer_model::digits::significant;
use maud::{Markup, html};

use crate::civil;
use crate::digest::Digest;

/// The section; empty for a run of one machine.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    let missing = info.missing_ranks();
    html! {
        @if !info.machines.is_empty() {
            p {
                "The study was measured on several machines. Each machine measured whole replicates, so all cells of a replicate "
                "have the same machine, and differences between machines cancel in comparisons. If machines differ in "
                "a figure, its interval is computed from their means."
            }
            @if !missing.is_empty() {
                p.invalid {
                    "Missing: the parts of rank "
                    (missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) "."
                }
            }
            (parts(digest))
            (differences(digest))
        }
    }
}

/// One row for each machine: its replicates, its time, and the facts in which the machines differ.
fn parts(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    let own: BTreeSet<&String> = info
        .machines
        .iter()
        .flat_map(|machine| machine.facts.keys())
        .filter(|fact| !info.machine.contains_key(*fact))
        .collect();
    let replicates = |rank: u32| {
        let own: Vec<_> = digest
            .run
            .replicates()
            .filter(|r| info.machine_of(r.replicate) == rank)
            .collect();
        let valid = own.iter().filter(|r| r.validity.is_valid()).count();
        format!("{valid} of {}", own.len())
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "Rank" }
                        th.number scope="col" { "Replicates valid" }
                        th scope="col" { "Started" }
                        th scope="col" { "Duration" }
                        @for fact in &own { th scope="col" { (fact) } }
                    }
                }
                tbody {
                    @for machine in &info.machines {
                        tr {
                            th scope="row" { (machine.share.rank) }
                            td.number { (replicates(machine.share.rank)) }
                            td { (civil::utc(machine.started)) }
                            td {
                                @match machine.finished {
                                    Some(end) => (civil::duration(end - machine.started)),
                                    None => strong.invalid { "not finished" },
                                }
                            }
                            @for fact in &own {
                                td { (machine.facts.get(*fact).map_or("unknown", String::as_str)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One row for each metric: the ratio of each machine to the mean of all machines.
fn differences(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    html! {
        @if !digest.machine_differences.is_empty() {
            h3 { "Differences between the machines" }
            p {
                "Values of a machine divided by the mean of all machines: geometric means over the cells that every machine "
                "measured. The last column is the standard deviation of replicates on one machine."
            }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "Metric" }
                            @for machine in &info.machines {
                                th.number scope="col" { "Rank " (machine.share.rank) }
                            }
                            th.number scope="col" { "Range, %" }
                            th.number scope="col" { "Most in a cell, %" }
                            th.number scope="col" { "Cells" }
                            th.number scope="col" { "Replicates vary by, %" }
                        }
                    }
                    tbody {
                        @for row in &digest.machine_differences {
                            tr {
                                th scope="row" { code { (row.metric) } }
                                @for machine in &info.machines {
                                    td.number {
                                        @if let Some(ratio) = row.ratios.get(&machine.share.rank) {
                                            (format!("{ratio:.3}"))
                                        }
                                    }
                                }
                                td.number { (significant(row.range_pct())) }
                                td.number { (significant(row.largest_pct)) }
                                td.number { (row.cells) }
                                td.number {
                                    @match row.within_pct {
                                        Some(within) => (significant(within)),
                                        None => "unknown",
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
