//! Tests that an HTTP/2 server connection allocates nothing per exchange once its buffers have grown.

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_http::h2::frame::write::{self, Carrier};
use fathometer_http::h2::server::{Connection, ServerConfig};
use fathometer_http::h2::{PREFACE, StreamId};
use fathometer_http::hpack::{Encoder, Indexing};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{File, Instant, Site};

use crate::heap::allocations;

fn origin() -> Arc<Origin> {
    let file = |path: &str, length| File {
        path: path.to_owned(),
        content_type: "image/gif".into(),
        body: vec![7; length].into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    let site = Site {
        name: "test".to_owned(),
        files: vec![file("/small", 1000), file("/large", 30_000)],
        pages: Vec::new(),
    };
    let config = OriginConfig {
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).expect("a valid site"))
}

/// A client that follows the protocol.
struct Client {
    encoder: Encoder,
    next: u32,
}

impl Client {
    /// Returns the frames of `count` requests, and window updates for the content.
    fn round(&mut self, count: u32, changing: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for number in 0..count {
            let stream = StreamId::new(self.next);
            self.next += 2;
            let (method, path) = match number % 4 {
                0 => ("POST", "/discard"),
                1 => ("GET", "/large"),
                2 => ("GET", "/none"),
                _ => ("GET", "/small"),
            };
            let text = self.next.to_string();
            let carrier = Carrier::Headers {
                end_stream: method == "GET",
                dependency: None,
            };
            write::header_block(&mut out, stream, carrier, 16_384, |out| {
                self.encoder.begin(out);
                let mut add = |name: &str, value: &str| {
                    self.encoder
                        .encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, out);
                };
                add(":method", method);
                add(":scheme", "https");
                add(":authority", "example.org");
                add(":path", path);
                add("accept-encoding", "gzip");
                if changing {
                    add("x-number", &text);
                }
            });
            if method == "POST" {
                write::data_header(&mut out, stream, 7, true);
                out.extend_from_slice(b"content");
            }
        }
        write::window_update(&mut out, StreamId::CONNECTION, 40_000 * count);
        out
    }
}

/// Passes bytes to the connection and takes all responses; returns the number of bytes taken.
fn serve(connection: &mut Connection, bytes: &[u8], piece: usize, now: Instant) -> usize {
    let mut taken = 0;
    for data in bytes.chunks(piece) {
        connection.handle_data(data, now);
        loop {
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = connection.transmit(&mut slices);
            let bytes: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
            if bytes == 0 {
                break;
            }
            connection.transmitted(bytes, now);
            taken += bytes;
        }
        while connection.poll_event().is_some() {}
        assert_eq!(connection.poll_action(), None);
    }
    taken
}

#[test]
fn a_warm_connection_allocates_nothing_per_exchange() {
    for (changing, remembered) in [(false, 64), (false, 0), (true, 64)] {
        let config = ServerConfig {
            events: true,
            remembered,
            ..ServerConfig::default()
        };
        let now = Instant::ZERO;
        let mut connection = Connection::new(origin(), Arc::new(config), now);
        let mut client = Client {
            encoder: Encoder::new(4096),
            next: 1,
        };
        let mut start = PREFACE.to_vec();
        write::settings(&mut start, std::iter::empty());
        write::settings_acknowledged(&mut start);
        serve(&mut connection, &start, 10_000, now);
        for piece in [100_000, 700] {
            for _ in 0..20 {
                let requests = client.round(16, changing);
                serve(&mut connection, &requests, piece, now);
            }
            let requests: Vec<Vec<u8>> = (0..20).map(|_| client.round(16, changing)).collect();
            let before = allocations();
            let mut taken = 0;
            for requests in &requests {
                taken += serve(&mut connection, requests, piece, now);
            }
            let made = allocations() - before;
            assert!(taken > 20 * 4 * 31_000, "{taken} bytes");
            assert_eq!(
                made, 0,
                "changing {changing}, remembered {remembered}, pieces of {piece} bytes"
            );
        }
        assert_eq!(connection.close_reason(), None);
    }
}
