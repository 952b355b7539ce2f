//! Fuzzing of a frame reader with arbitrary input.

use super::super::error::Error;
use super::{Frame, HEADER_LENGTH, Limits, Reader, SettingsList};

/// An entry point for fuzzing. The first byte selects the position at which the remaining input is split. Panics in
/// these cases:
/// - the whole, split and byte-by-byte input give different frames;
/// - more bytes are reported than were received;
/// - a header block exceeds its limit.
pub fn fuzz(data: &[u8]) {
    let Some((&cut, input)) = data.split_first() else {
        return;
    };
    let limits = Limits {
        frame: 200,
        block: 300,
        continuations: 3,
    };
    let whole = read([input].into_iter(), limits);
    let cut = usize::from(cut) * (input.len() + 1) / 256;
    let (before, after) = input.split_at(cut);
    assert_eq!(whole, read([before, after].into_iter(), limits));
    assert_eq!(whole, read(input.chunks(1), limits));
}

/// Reads all frames; returns one line for each frame, with the pieces of DATA joined.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: Limits) -> Vec<String> {
    let mut reader = Reader::new(limits);
    let mut log = Vec::new();
    let mut content = Vec::new();
    let (mut came, mut accounted) = (0, 0);
    let mut failed = false;
    for mut input in pieces {
        came += input.len();
        while let Some(result) = reader.read(&mut input) {
            assert!(!failed, "a frame after the connection error: {result:?}");
            match result {
                Ok(Frame::Data(piece)) => {
                    if piece.first {
                        content.clear();
                    }
                    content.extend_from_slice(piece.content);
                    accounted += piece.wire as usize;
                    if piece.last {
                        let (stream, end) = (piece.stream, piece.end_stream);
                        log.push(format!("{stream:?} {end} {content:?}"));
                    }
                    continue;
                }
                Ok(Frame::Headers(block) | Frame::Push { block, .. }) => {
                    assert!(block.block.len() <= limits.block as usize);
                    accounted += block.wire as usize;
                }
                Ok(Frame::Settings(list)) => {
                    accounted += HEADER_LENGTH + 6 * SettingsList::len(list);
                }
                Err(Error::Connection(_)) => failed = true,
                _ => {}
            }
            assert!(
                accounted <= came,
                "{accounted} bytes reported, {came} bytes received"
            );
            log.push(format!("{result:?}"));
        }
        assert!(input.is_empty());
    }
    log
}
