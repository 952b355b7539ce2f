//! Tests that neither HTTP/3 machine allocates for an exchange once its buffers have grown.

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_http::h3::client::{self, Event, PreparedRequest, Qpack};
use fathometer_http::h3::server::{self, ServerConfig};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_http::qpack::EncoderPolicy;
use fathometer_model::{Body, File, Instant, Site};

use crate::heap::allocations;

const NOW: Instant = Instant::ZERO;

/// Both machines, and the bytes in transit between them.
struct Pair {
    client: client::Connection,
    server: server::Connection,
    bytes: Vec<u8>,
    own: [u64; 2],
}

impl Pair {
    fn new(qpack: Qpack) -> Pair {
        let file = File {
            path: "/".to_owned(),
            content_type: "text/html".into(),
            body: Body::from(vec![b'x'; 1024]),
            encoded: Vec::new(),
            last_modified: 800_000_000,
        };
        let site = Site {
            name: "test".to_owned(),
            files: vec![file],
            pages: Vec::new(),
        };
        let origin = Origin::new(Arc::new(site), OriginConfig::default()).unwrap();
        let config = client::Config {
            qpack,
            ..client::Config::default()
        };
        let server = ServerConfig {
            qpack,
            ..ServerConfig::default()
        };
        Pair {
            client: client::Connection::new(config, NOW),
            server: server::Connection::new(Arc::new(origin), Arc::new(server), NOW),
            bytes: Vec::new(),
            own: [2, 3],
        }
    }

    /// Sends requests and delivers all bytes in both directions; returns the number of complete responses.
    fn round(&mut self, prepared: &PreparedRequest, requests: u32) -> u32 {
        for _ in 0..requests {
            self.client.request_prepared(prepared, "/").unwrap();
        }
        let before = self.client.opened();
        let mut ends = 0;
        while self.up() | self.down(&mut ends) {}
        assert_eq!(self.client.opened() - before, requests);
        ends
    }

    fn up(&mut self) -> bool {
        let mut moved = false;
        while let Some(direction) = self.client.wants_stream() {
            let stream = match direction {
                fathometer_http::h3::Direction::Unidirectional => {
                    self.own[0] += 4;
                    self.own[0] - 4
                }
                fathometer_http::h3::Direction::Bidirectional => {
                    u64::from(self.client.opened()) * 4
                }
            };
            self.client.handle_opened(stream, NOW);
        }
        loop {
            let mut slices = [IoSlice::new(&[])];
            let Some(offer) = self.client.transmit(&mut slices, usize::MAX) else {
                return moved;
            };
            moved = true;
            let (stream, end) = (offer.stream, offer.end);
            self.server.handle_data(stream, &slices[0], NOW);
            if end {
                self.server.handle_fin(stream, NOW);
            }
            let taken = offer.bytes;
            self.client.transmitted(stream, taken, NOW);
        }
    }

    fn down(&mut self, ends: &mut u32) -> bool {
        let mut moved = false;
        while self.server.wants_stream().is_some() {
            self.server.handle_opened(self.own[1], NOW);
            self.own[1] += 4;
        }
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let Some(offer) = self.server.transmit(&mut slices, usize::MAX) else {
                return moved;
            };
            moved = true;
            self.bytes.clear();
            for slice in &slices[..offer.slices] {
                self.bytes.extend_from_slice(slice);
            }
            let (stream, end, taken) = (offer.stream, offer.end, offer.bytes);
            self.server.transmitted(stream, taken, NOW);
            let mut input = &self.bytes[..];
            let mut count = |event: Event<'_>| {
                *ends += u32::from(matches!(event, Event::End { .. }));
            };
            while let Some(event) = self.client.poll(stream, &mut input, NOW) {
                count(event);
            }
            assert!(
                input.is_empty(),
                "instructions arrive before the sections that need them"
            );
            if end {
                self.client.handle_fin(stream, NOW);
            }
            while let Some(event) = self.client.poll_event(NOW) {
                count(event);
            }
        }
    }
}

#[test]
fn warm_connections_exchange_without_allocating() {
    let fields = ["accept", "accept-encoding", "user-agent", "x-custom"];
    let fields = fields.map(|name| (name.to_owned(), format!("a value of {name}")));
    let prepared = PreparedRequest::new("GET", "origin.example", &fields, None).unwrap();
    let risky = Qpack {
        encoder: EncoderPolicy {
            may_block: true,
            ..EncoderPolicy::default()
        },
        ..Qpack::default()
    };
    for qpack in [Qpack::STATIC, Qpack::default(), risky] {
        for requests in [1, 16] {
            let mut pair = Pair::new(qpack);
            // The stream IDs in acknowledgements grow by one byte during the first rounds.
            for _ in 0..100 {
                assert_eq!(pair.round(&prepared, requests), requests);
            }
            let before = allocations();
            let mut ends = 0;
            for _ in 0..100 {
                ends += pair.round(&prepared, requests);
            }
            let allocations = allocations() - before;
            assert_eq!(ends, 100 * requests);
            assert_eq!(allocations, 0, "{requests} at a time, {qpack:?}");
        }
    }
}
