//! Tests that an HTTP/2 client connection allocates nothing per exchange once its buffers have grown.

use fathometer_http::client::{Pending, PreparedRequest};
use fathometer_http::driver::Protocol;
use fathometer_http::h1::client::Version;
use fathometer_http::h2::StreamId;
use fathometer_http::h2::client::{Config, Connection, Content, Event, RequestLine};
use fathometer_http::h2::flow::UpdateAt;
use fathometer_http::h2::frame::write;
use fathometer_http::hpack::{Encoder, Indexing};
use fathometer_model::Instant;

use crate::heap::allocations;

/// A client connection, and the parts of a server that the client needs.
struct Bench {
    client: Connection,
    prepared: PreparedRequest,
    encoder: Encoder,
    wire: Vec<u8>,
    pending: Pending<u64>,
    exchanges: u32,
    piece: usize,
}

impl Bench {
    fn new(piece: usize) -> Bench {
        let mut wire = Vec::new();
        write::settings(&mut wire, std::iter::empty());
        write::settings_acknowledged(&mut wire);
        write::window_update(&mut wire, StreamId::CONNECTION, 1 << 30);
        let fields = [("accept".to_owned(), "*/*".to_owned())];
        Bench {
            client: Connection::new(Config {
                update_at: UpdateAt::Once,
                ..Config::default()
            }),
            prepared: PreparedRequest::new(Protocol::Http2, "GET", "example.org", &fields, None)
                .expect("a valid request"),
            encoder: Encoder::new(4096),
            wire,
            pending: Pending::default(),
            exchanges: 0,
            piece,
        }
    }

    /// Exchanges sixteen requests and their responses. Three requests are written field by field, and one has content.
    fn round(&mut self) {
        let now = Instant::ZERO;
        for place in 0..16 {
            let client = &mut self.client;
            let queued = match (place, &self.prepared) {
                (0..12, PreparedRequest::Http2(prepared)) => client
                    .request_prepared(prepared, "/images/logo.gif")
                    .unwrap(),
                _ => {
                    let line = RequestLine {
                        method: if place == 15 { "POST" } else { "GET" },
                        target: "/images/logo.gif",
                        host: "example.org",
                        version: Version::Http11,
                    };
                    let mut request = client.request(line).unwrap();
                    request
                        .field("Accept", "*/*")
                        .field_display("X-Number", place);
                    if place == 15 {
                        let queued = request.send_with(Content::Sized(5), false).unwrap();
                        client.send_content(queued.request, b"hello").unwrap();
                        queued
                    } else {
                        request.send().unwrap()
                    }
                }
            };
            self.pending.insert(queued.request, queued.head.0);
        }
        self.client.flush();
        self.exchange(now);
        for place in 0..16 {
            let stream = StreamId::new(2 * (self.exchanges + place) + 1);
            self.answer(stream, place);
        }
        self.exchanges += 16;
        self.exchange(now);
        assert!(self.pending.is_empty());
    }

    fn answer(&mut self, stream: StreamId, place: u32) {
        let carrier = write::Carrier::Headers {
            end_stream: false,
            dependency: None,
        };
        let encoder = &mut self.encoder;
        let date: &[u8] = if place < 8 {
            b"Sun, 06 Nov 1994 08:49:37 GMT"
        } else {
            b"later"
        };
        write::header_block(&mut self.wire, stream, carrier, 16_384, |out| {
            encoder.begin(out);
            encoder.encode(b":status", b"200", Indexing::Yes, out);
            encoder.encode(b"date", date, Indexing::Yes, out);
            encoder.encode(b"content-type", b"image/gif", Indexing::Yes, out);
            encoder.encode(b"content-length", b"6", Indexing::No, out);
        });
        write::data_header(&mut self.wire, stream, 6, true);
        self.wire.extend_from_slice(b"GIF89a");
    }

    /// Lets both sides read all pending bytes.
    fn exchange(&mut self, now: Instant) {
        for piece in self.wire.chunks(self.piece) {
            let mut input = piece;
            while let Some(event) = self.client.poll(&mut input, now) {
                match event {
                    Event::Head { .. } => assert_eq!(self.client.head().status(), 200),
                    Event::End { request, .. } => assert!(self.pending.remove(request).is_some()),
                    Event::Content { .. } | Event::Begin { .. } | Event::Settings => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        self.wire.clear();
        let written = self.client.transmit().len();
        self.client.transmitted(written, now);
    }
}

#[test]
fn a_warm_client_connection_exchanges_without_allocating() {
    for piece in [1, 7, 1460, usize::MAX] {
        let mut bench = Bench::new(piece);
        for _ in 0..20 {
            bench.round();
        }
        let before = allocations();
        for _ in 0..50 {
            bench.round();
        }
        let allocations = allocations() - before;
        assert_eq!(allocations, 0, "pieces of {piece}");
        assert_eq!(bench.exchanges, 70 * 16);
    }
}
