//! The beginning and the end of the report: the title, a summary of the run in a few figures, the set-up of the run,
//! and the definitions.

use maud::{Markup, html};

use super::answer;
use crate::civil;
use crate::claims::Verdict;
use crate::digest::Digest;
use crate::run::Mode;

/// The title; the question, the answer and its certainty; the key figures of the run; and one sentence each on the
/// machine, the servers and the eras.
pub(super) fn header(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    let about = &digest.study.about;
    html! {
        header {
            p.kicker { "Fathometer · " (info.study) }
            h1 { (info.title) }
            dl.brief {
                @if !about.question.is_empty() {
                    dt { "Question" }
                    dd.question { (about.question) }
                }
                dt { "Answer" }
                dd.answer { (answer::answer(digest)) }
                dt { "How sure" }
                dd { (answer::certainty(digest)) }
            }
            (tiles(digest))
            dl.brief {
                dt { "Measured" }
                dd { (about.summary) @if about.summary.is_empty() { (digest.validity.cells) " cells." } " " (when(digest)) }
                dt { "On" }
                dd { (place(digest)) }
                dt { "Command" }
                dd { code { (info.command.join(" ")) } " (" a href="#run" { "all settings" } ")" }
                @if !about.citation.is_empty() {
                    dt { "Paper" }
                    dd { cite { (about.title) } ". " (about.citation) }
                }
            }
        }
    }
}

fn when(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    let mode = match info.mode {
        Mode::Quick => "Quick run",
        Mode::Full => "Full run",
        Mode::Published => "Published run",
    };
    html! {
        (mode) " of " time { (civil::utc(info.started)) } ", "
        @match info.finished {
            Some(end) => { (civil::duration(end - info.started)) },
            None => strong.invalid { "not finished" },
        }
        ", seed " (info.seed) ", version " (info.version) "."
    }
}

/// The machine, the servers and the eras, in one sentence each.
fn place(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    let of_the_machine = |name: &str| info.machine.get(name).map(String::as_str);
    let cores = of_the_machine("cores").map(|cores| match cores {
        "1" => "1 core".to_owned(),
        _ => format!("{cores} cores"),
    });
    let parts = [
        of_the_machine("cpu"),
        cores.as_deref(),
        of_the_machine("memory"),
        of_the_machine("os"),
    ];
    let mut parts: Vec<String> = parts.into_iter().flatten().map(str::to_owned).collect();
    parts.extend(of_the_machine("kernel").map(|kernel| format!("kernel {kernel}")));
    let servers: Vec<String> = info
        .servers
        .iter()
        .map(|server| match server.version.as_str() {
            "" => server.name.clone(),
            version => format!("{} ({version})", server.name),
        })
        .collect();
    html! {
        @if !info.machines.is_empty() {
            a href="#machines" { (info.machines.len()) " machines" }
            @if parts.is_empty() { ". " } @else { ": " }
        }
        @if !parts.is_empty() { (parts.join(", ")) "." }
        @else if info.machines.is_empty() { "The run does not record the machine." }
        @if !servers.is_empty() { " Servers: " (servers.join(", ")) "." }
        @if !digest.eras().is_empty() { " TCP as of: " (digest.eras().join(", ")) "." }
        @if !info.paths.is_empty() {
            " Paths: "
            @for (index, path) in info.paths.iter().enumerate() {
                @if index > 0 { ", " }
                a href="#paths" { (path.name) }
            }
            "."
        }
    }
}

fn tiles(digest: &Digest<'_>) -> Markup {
    let summary = &digest.validity;
    let measured: usize = digest.closeness.iter().map(|bar| bar.measured()).sum();
    let within: usize = digest.closeness.iter().map(|bar| bar.within()).sum();
    html! {
        div.tiles {
            a.tile href="#validity" {
                b { (summary.replicates_valid()) " of " (summary.replicates) }
                span { "replicates valid" }
                small {
                    @if let (Some(planned), false) = (summary.replicates_planned, summary.is_complete()) {
                        (planned) " were planned, "
                    }
                    (summary.replicates_repeated) " were repeated; "
                    (summary.cells) " cells, " (summary.cells_invalid) " INVALID"
                }
            }
            @if measured > 0 {
                a.tile href="#close" {
                    b { (within) " of " (measured) }
                    span { "figures within tolerance" }
                    small { "against the published figures" }
                }
            }
            @for (index, era) in digest.eras().iter().enumerate().filter(|_| !digest.claims.is_empty()) {
                @let verdicts = verdicts(digest, era);
                @let tested = verdicts.iter().filter(|v| **v != Verdict::NotTested).count();
                @let count = |wanted: Verdict| verdicts.iter().filter(|v| **v == wanted).count();
                @if tested > 0 {
                    a.tile href="#claims" {
                        b { (count(Verdict::Holds)) " of " (tested) }
                        span { "claims hold, " span class={ "tag era" (index) } { "era " (era) } }
                        small {
                            (count(Verdict::HoldsWeaker)) " weaker, "
                            (count(Verdict::Equal)) " equal, "
                            (count(Verdict::Undecided)) " undecided, "
                            (count(Verdict::Reversed)) " reversed"
                        }
                    }
                }
            }
        }
    }
}

fn verdicts(digest: &Digest<'_>, era: &str) -> Vec<Verdict> {
    let all = digest.claims.iter().flat_map(|claim| &claim.eras);
    all.filter(|verdict| verdict.era == era)
        .map(|v| v.verdict)
        .collect()
}

/// The command, the machine and the servers.
pub(super) fn what_was_run(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    html! {
        p { code { (info.command.join(" ")) } }
        dl.facts.two {
            dt { "Version" }
            dd { @match &info.build { Some(build) => { (build) }, None => { (info.version) } } }
            dt { "Started" }
            dd { (civil::utc(info.started)) }
            dt { "Ended" }
            dd {
                @match info.finished {
                    Some(end) => { (civil::utc(end)) }
                    None => "the run had not ended when this report was written",
                }
            }
            dt { "Seed" }
            dd { (info.seed) }
            @for (name, value) in &info.machine {
                dt { (name) }
                dd { (value) }
            }
        }
        @if !info.servers.is_empty() {
            h3 { "Servers" }
            dl.facts {
                @for server in &info.servers {
                    dt { (server.name) }
                    dd { (server.version) @if !server.description.is_empty() { ". " (server.description) } }
                }
            }
        }
    }
}

/// The notes of the run and the warnings about its files.
pub(super) fn notes(digest: &Digest<'_>) -> Markup {
    let info = &digest.run.info;
    html! {
        @if !(info.notes.is_empty() && digest.run.warnings.is_empty()) {
            h3 { "Notes" }
            ul {
                @for note in info.notes.iter().chain(&digest.run.warnings) { li { (note) } }
            }
        }
    }
}

/// The path profiles that the run recorded.
pub(super) fn paths(digest: &Digest<'_>) -> Markup {
    html! {
        div.profiles {
            @for path in &digest.run.info.paths {
                div { h3 { (path.name) } pre { (path.profile.trim()) } }
            }
        }
    }
}

/// The definitions of terms.
pub(super) fn definitions(digest: &Digest<'_>) -> Markup {
    html! {
        @if !digest.study.definitions.is_empty() {
            dl.definitions {
                @for definition in &digest.study.definitions {
                    dt { (definition.term) }
                    dd { (definition.text) }
                }
            }
        }
        p {
            "Intervals: level " (digest.intervals.level) ", Student's t over replicates; for ratios, of their "
            "logarithms. docs/statistics.md describes the methods and their coverage. With few replicates the intervals are "
            "wide: 12.7 standard errors to each side with 2, 4.3 with 3, 2.8 with 5."
        }
    }
}
