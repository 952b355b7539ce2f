//! Tests that an HTTP/1 client connection allocates nothing per exchange once its buffers have grown.

use fathometer_http::h1::client::{Config, Connection, Event, RequestLine, Version};
use fathometer_model::Instant;

use crate::heap::allocations;

/// Sends `depth` requests and reads their responses, in pieces of `piece` bytes.
fn round(connection: &mut Connection, depth: u16, response: &[u8], piece: usize) -> usize {
    let now = Instant::ZERO;
    for number in 0..depth {
        let line = RequestLine {
            method: "GET",
            target: "/images/logo.gif",
            host: "example.org",
            version: Version::Http11,
        };
        let mut request = connection.request(line).unwrap();
        request
            .field("Accept", "*/*")
            .field_display("X-Number", number);
        request.send().unwrap();
    }
    connection.flush();
    let written = connection.transmit().len();
    connection.transmitted(written, now);
    let mut ends = 0;
    for _ in 0..depth {
        for piece in response.chunks(piece) {
            let mut input = piece;
            while let Some(event) = connection.poll(&mut input, now) {
                ends += usize::from(matches!(event, Event::End { persists: true, .. }));
            }
        }
    }
    ends
}

#[test]
fn a_warm_client_connection_exchanges_without_allocating() {
    let sized = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: x\r\n\
        ETag: \"1-2\"\r\nContent-Type: image/gif\r\nContent-Length: 6\r\n\r\nGIF89a";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nGIF89a\r\n0\r\n\r\n";
    for depth in [1, 16] {
        for response in [&sized[..], &chunked[..]] {
            for piece in [1, 7, response.len()] {
                let mut connection = Connection::new(Config {
                    depth,
                    ..Config::default()
                });
                let warm_up = round(&mut connection, depth, response, piece);
                assert_eq!(warm_up, usize::from(depth));
                let before = allocations();
                let mut exchanges = 0;
                for _ in 0..100 {
                    exchanges += round(&mut connection, depth, response, piece);
                }
                let allocations = allocations() - before;
                assert_eq!(exchanges, 100 * usize::from(depth));
                assert_eq!(allocations, 0, "depth {depth}, pieces of {piece} bytes");
            }
        }
    }
}
