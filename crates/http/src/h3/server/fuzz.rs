//! Fuzzing of a server connection with arbitrary input.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathometer_model::{Body, Bytes, File, Instant, SharedSlice, Site};

use super::{Connection, Limits, ServerConfig};
use crate::h3::client::Qpack;
use crate::h3::{Action, Direction};
use crate::origin::{Origin, OriginConfig};
use crate::qpack::EncoderPolicy;

/// An entry point for fuzzing. The first byte selects the server's configuration and the end of the connection. The
/// remaining bytes control the client, in pieces: one byte for the stream and the operation, one for the length, and
/// the data. Panics in these cases:
/// - the result depends on the split of the pieces;
/// - the number of taken bytes contradicts `transmit`;
/// - the connection does not end.
pub fn fuzz(data: &[u8]) {
    let Some((&setup, script)) = data.split_first() else {
        return;
    };
    let whole = run(setup, script, usize::MAX);
    assert_eq!(whole, run(setup, script, 1));
}

/// The bytes sent on each stream, whether each stream ended, and the end of the connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    streams: BTreeMap<u64, (Vec<u8>, bool)>,
    actions: Vec<String>,
    end: String,
}

/// The streams on which input may arrive: request streams, the client's three critical streams, and others.
const STREAMS: [u64; 16] = [0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 2, 6, 10, 1, 18, 40];

fn run(setup: u8, script: &[u8], piece: usize) -> Log {
    let now = Instant::ZERO;
    let config = ServerConfig {
        limits: Limits {
            section: Bytes(500),
            fields: 12,
            target: Bytes(60),
            body: Bytes(200),
            ..Limits::default()
        },
        qpack: Qpack {
            table: 300,
            blocked_streams: 2,
            encoder: EncoderPolicy {
                table: 200,
                may_block: setup & 1 != 0,
                outstanding: 3,
            },
        },
        priorities: setup & 2 != 0,
        turn: Bytes(40),
        max_requests_per_connection: (setup & 4 != 0).then_some(2),
        service_time: Duration::from_millis(u64::from(setup >> 5 & 1) * 10),
        connection_time: Duration::from_millis(u64::from(setup >> 6 & 1) * 5),
        reserved: setup & 8 != 0,
        events: true,
        request_text: setup & 16 != 0,
    };
    let mut connection = Connection::new(origin(), Arc::new(config), now);
    let mut log = Log::default();
    let mut own = 3;
    while connection.wants_stream() == Some(Direction::Unidirectional) {
        connection.handle_opened(own, now);
        own += 4;
    }
    assert_eq!(own, 15);
    let mut rest = script;
    while let Some((&[what, length], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let stream = STREAMS[usize::from(what & 15)];
        match what >> 4 {
            0..=8 => {
                for bytes in bytes.chunks(piece.min(bytes.len().max(1))) {
                    connection.handle_data(stream, bytes, now);
                }
            }
            9..=11 => connection.handle_fin(stream, now),
            12 => connection.handle_reset(stream, 0x10c, now),
            13 => connection.handle_stop_sending(stream, 0x10c, now),
            14 => connection.announce_end(),
            _ => send(&mut connection, &mut log, bytes.len(), now),
        }
        act(&mut connection, &mut log);
    }
    send(&mut connection, &mut log, usize::MAX, now);
    connection.end(now);
    act(&mut connection, &mut log);
    connection.handle_timeout(now + Duration::from_secs(3600));
    send(&mut connection, &mut log, usize::MAX, now);
    act(&mut connection, &mut log);
    let mut served = 0;
    while let Some((exchange, text)) = connection.cut_short(now) {
        assert!(exchange.exchange.body <= exchange.body_frames);
        assert_eq!(exchange.stream % 4, 0);
        assert!(setup & 16 != 0 || text.line.is_empty());
        served += 1;
    }
    assert!(served <= script.len());
    connection.handle_failure();
    act(&mut connection, &mut log);
    assert!(connection.is_finished());
    log.end = format!("{:?}", connection.close_reason());
    log
}

fn act(connection: &mut Connection, log: &mut Log) {
    while let Some(action) = connection.poll_action() {
        if let Action::Close { .. } = action {
            assert!(connection.close_reason().is_some());
        }
        log.actions.push(format!("{action:?}"));
    }
}

/// The stream of QPACK acknowledgements, whose number depends on the split of the input.
const ACKNOWLEDGEMENTS: u64 = 11;

/// Takes the offered bytes, but at most `most` bytes of a response in each step.
fn send(connection: &mut Connection, log: &mut Log, most: usize, now: Instant) {
    let mut left = most;
    while left > 0 {
        let mut slices = [IoSlice::new(&[]); 2];
        let Some(offer) = connection.transmit(&mut slices, left) else {
            break;
        };
        assert!(offer.bytes > 0 || offer.end);
        assert!(
            offer.file.is_none(),
            "the origin has no files behind descriptors"
        );
        let filled = &slices[..offer.slices];
        let bytes: usize = filled.iter().map(|slice| slice.len()).sum();
        assert_eq!(bytes, offer.bytes);
        let stream = offer.stream;
        if stream != ACKNOWLEDGEMENTS {
            let (sent, ended) = log.streams.entry(stream).or_default();
            assert!(!*ended, "bytes after the end of the stream");
            sent.extend(filled.iter().flat_map(|slice| slice.iter().copied()));
            *ended = offer.end;
        }
        if stream % 4 == 0 {
            left -= bytes;
        }
        connection.transmitted(stream, bytes, now);
    }
}

pub(super) fn origin() -> Arc<Origin> {
    static ORIGIN: OnceLock<Arc<Origin>> = OnceLock::new();
    ORIGIN.get_or_init(make_origin).clone()
}

/// Creates a site with a short file, and a file that consists of several pieces.
fn make_origin() -> Arc<Origin> {
    let file = |path: &str, body: Body| File {
        path: path.to_owned(),
        content_type: "text/plain".into(),
        body,
        encoded: Vec::new(),
        last_modified: 800_000_000,
    };
    let shared: Arc<[u8]> = (0..100).collect();
    let stretch = |range| SharedSlice::new(shared.clone(), range);
    let stretches = vec![stretch(0..30), stretch(50..100), stretch(10..20)];
    let site = Site {
        name: "fuzz".to_owned(),
        files: vec![
            file("/", Body::from(&b"hello"[..])),
            file("/a", Body::composed(stretches)),
        ],
        pages: Vec::new(),
    };
    let config = OriginConfig {
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).expect("the site is valid"))
}
