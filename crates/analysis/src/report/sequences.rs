//! Time-sequence graphs of the connections in a capture: a static SVG, and data for the interactive graph.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::live::{self, Script};
use crate::page;

/// A graph of the connections of one capture.
#[derive(Debug, Clone)]
pub struct SequenceGraph {
    /// The graph as a complete SVG document, without scripts and without identifiers.
    pub svg: String,
    /// The graph as data, in the form of `fathometer_packets::plot::data`.
    pub panels: Value,
    /// Number of points in the data.
    pub points: usize,
    /// The data that the graph omits or merges, in sentences.
    pub notes: Vec<String>,
}

/// The figure of a graph. The SVG is inline, so the style of the page also applies to it.
pub(super) fn figure(graph: &SequenceGraph) -> Markup {
    // Inside HTML, the SVG needs no namespace declaration.
    let svg = graph
        .svg
        .replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    html! {
        figure.sequence {
            (live::data(&graph.panels))
            div.scroll { (PreEscaped(svg)) }
            @if !graph.notes.is_empty() { figcaption { (graph.notes.join(" ")) } }
        }
    }
}

/// The explanation of the graph's symbols.
pub(super) fn rules() -> Markup {
    html! {
        details {
            summary { "How to read a time-sequence graph" }
            dl.facts {
                dt { "Bars" } dd { "Segments, from the first to the last sequence number. Connections are stacked in the order in which they were opened." }
                dt { "Line below" } dd { "The numbers that the receiver has acknowledged." }
                dt { "Line above" } dd { "The edge of the receiver's window, if one connection fills most of the graph." }
                dt { "Triangle downwards" } dd { "A segment that the path dropped, with the cause from the path's drop log." }
                dt { "Ring" } dd { "A retransmission, drawn when it enters the path. It is spurious if the path had not dropped the bytes." }
                dt { "Triangle, square, cross" } dd { "SYN, FIN, RST." }
                dt { "Zoom" } dd { "Drag a rectangle; or, in a graph that has the focus, turn the wheel or press + and −. Arrow keys move the view, 0 or a double click shows everything, N and P go to the next and the previous drop or retransmission." }
            }
        }
    }
}

/// Returns the page of a capture: its graph and its packet accounting. `name` is the file, and `table` the accounting
/// as text.
pub fn capture_page(name: &str, table: &str, graph: &SequenceGraph) -> String {
    let script = Script::of_sequences();
    let body = html! {
        a.skip href="#main" { "Skip to the graph" }
        header {
            p.kicker { "Packets of a capture" }
            h1 { (name) }
        }
        main id="main" tabindex="-1" {
            section id="sequences" {
                h2 { "Sequence numbers over time" }
                (figure(graph))
                (rules())
            }
            section id="accounting" {
                h2 { "Packet accounting" }
                div.scroll { pre.wide tabindex="0" { (table) } }
            }
        }
        footer {
            "Made by fathometer only from the capture; " code { "fathometer trace --json" }
            " has the same figures for programs."
        }
        (script.element())
    };
    let title = format!("Packets of {name}");
    page::page(&title, &script.policy(), &body).into_string()
}
