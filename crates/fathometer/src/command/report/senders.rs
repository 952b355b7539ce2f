//! What the servers of a replicate sent, read from its capture.

use std::fs::File;
use std::path::Path;

use fathometer_analysis::waterfall::sender::{Sender, Sent};
use fathometer_packets::time_sequence::{SegmentKind, TimeSequence};
use fathometer_packets::{Options, TapChoice, account_with_sequences};

/// Largest number of connections that are read.
const MOST: usize = 256;

/// The senders at the server's end of the path, in the order in which their connections were opened; `None` when the
/// folder has no capture of that end, or it cannot be read.
pub(super) fn of_replicate(folder: &Path) -> Option<Vec<Sender>> {
    let file = File::open(folder.join("taps.pcapng")).ok()?;
    let options = Options {
        taps: TapChoice::Server,
        time_sequences: MOST,
        ..Options::default()
    };
    let (_, mut sequences) = account_with_sequences(file, &options).ok()?;
    sequences.sort_by_key(|sequence| sequence.connection);
    Some(sequences.iter().map(sender).collect())
}

fn sender(sequence: &TimeSequence) -> Sender {
    let down = &sequence.down;
    let segments = down.segments.iter();
    // The SYN occupies number 0 and carries no data.
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
