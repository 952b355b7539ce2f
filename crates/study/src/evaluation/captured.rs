//! Reads the connections of a replicate from its packet capture.

use std::fs::File;
use std::path::Path;

use fathometer_analysis::report::Captured;
use fathometer_analysis::waterfall::sender::{Sender, Sent};
use fathometer_packets::time_sequence::{SegmentKind, TimeSequence};
use fathometer_packets::{Options, TapChoice, account_with_sequences};

use super::time_sequence_graph;

/// The maximum number of connections that are read.
const MOST: usize = 256;
/// The maximum number of points in the graph of a replicate.
const POINTS: usize = 20_000;

/// Returns the senders at the server's end of the path, in the order in which their connections were opened, and the
/// graph of these connections. Returns `None` if the folder has no readable capture of that end.
pub(super) fn of_replicate(folder: &Path) -> Option<Captured> {
    let file = File::open(folder.join("taps.pcapng")).ok()?;
    let options = Options {
        taps: TapChoice::Server,
        time_sequences: MOST,
        ..Options::default()
    };
    let (accounting, mut sequences) = account_with_sequences(file, &options).ok()?;
    sequences.sort_by_key(|sequence| sequence.connection);
    let senders = sequences.iter().map(sender).collect();
    let title = "Packets at the server's end of the path";
    let connections = accounting.connections.len();
    let graph = time_sequence_graph::graph(sequences, connections, title, POINTS);
    Some(Captured { senders, graph })
}

fn sender(sequence: &TimeSequence) -> Sender {
    let down = &sequence.down;
    let segments = down.segments.iter();
    // The segment that ends at sequence number 1 is the SYN, which has no data.
    let data = segments.filter(|segment| segment.end > 1 && segment.kind != SegmentKind::Probe);
    Sender {
        segments: data
            .map(|segment| Sent {
                at: segment.at,
                end: segment.end,
                repeats: segment.kind == SegmentKind::Repeated,
            })
            .collect(),
        acknowledgements: down.acknowledgements.clone(),
        window_edges: down.window_edges.clone(),
    }
}
