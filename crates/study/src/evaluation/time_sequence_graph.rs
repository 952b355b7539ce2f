//! Builds time-sequence graphs for pages from the time sequences of a capture.

use fathometer_analysis::report::SequenceGraph;
use fathometer_model::digits::significant;
use fathometer_packets::TimeSequence;
use fathometer_packets::plot::{self, data};

/// The number of lists of points per connection. There is a list for segments, acknowledgements, window edges, marks,
/// drops and retransmissions, each in both directions.
const LISTS: usize = 12;

/// Returns the graph of a capture's connections with about `most_points` points or fewer. Returns `None` if the graph
/// would be empty. `connections` is the number of connections in the capture; `sequences` may contain only the first of
/// them.
pub fn graph(
    sequences: Vec<TimeSequence>,
    connections: usize,
    title: &str,
    most_points: usize,
) -> Option<SequenceGraph> {
    let mut notes = vec![left_out(sequences.len(), connections)];
    let all: usize = sequences.iter().map(points).sum();
    let limit = match all <= most_points {
        true => usize::MAX,
        false => most_points / (LISTS * sequences.len().max(1)),
    };
    let sequences: Vec<TimeSequence> = sequences
        .into_iter()
        .map(|sequence| sequence.merged_to(limit))
        .collect();
    let drawn: usize = sequences.iter().map(points).sum();
    if let Some(bin) = sequences.iter().filter_map(TimeSequence::merged).max() {
        notes.push(format!(
            "Aggregated: points within {} µs of each other are one point ({drawn} are drawn).",
            significant(bin.as_secs_f64() * 1e6)
        ));
    }
    notes.retain(|note| !note.is_empty());
    Some(SequenceGraph {
        svg: plot::time_sequences(&sequences, title)?,
        panels: serde_json::to_value(data::panels(&sequences)?).ok()?,
        points: drawn,
        notes,
    })
}

/// States that only the first `drawn` of all connections are drawn. Returns an empty text if all connections are drawn.
pub fn left_out(drawn: usize, connections: usize) -> String {
    match connections > drawn {
        true => format!("The first {drawn} of {connections} connections."),
        false => String::new(),
    }
}

fn points(sequence: &TimeSequence) -> usize {
    [&sequence.up, &sequence.down]
        .into_iter()
        .map(|one| {
            let lines = one.acknowledgements.len() + one.window_edges.len();
            let events = one.marks.len() + one.drops.len() + one.repeats.len();
            one.segments.len() + lines + events
        })
        .sum()
}
