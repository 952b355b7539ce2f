//! Tests that an HTTP/1 server connection allocates nothing per exchange once its buffers have grown.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::h1::server::{Coalesce, Connection, ServerConfig};
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_http::origin::persona::Persona;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{Bytes, ContentCoding, File, Instant, Site};

use crate::heap::allocations;

fn origin(persona: Persona) -> Arc<Origin> {
    let site = Site {
        name: "test".to_owned(),
        files: vec![File {
            path: "/images/logo.gif".to_owned(),
            content_type: "image/gif".into(),
            body: vec![7; 3000].into(),
            encoded: vec![(ContentCoding::Deflate, vec![8; 1000].into())],
            last_modified: 784_111_777,
        }],
        pages: Vec::new(),
    };
    let config = OriginConfig {
        persona,
        wall_clock: Duration::from_secs(784_111_777),
        discard: Some("/discard".to_owned()),
        // Package support must add no allocation to requests without a package.
        packages: Packages {
            making: Making::OnTheFly,
            ..Packages::default()
        },
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site), config).expect("a valid site and persona"))
}

/// Sends all requests in pieces and takes all responses; returns the number of bytes taken.
fn round(connection: &mut Connection, requests: &[u8], piece: usize, now: Instant) -> usize {
    let mut taken = 0;
    for data in requests.chunks(piece) {
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
        assert_eq!(connection.poll_action(), None);
        while connection.poll_event().is_some() {}
    }
    taken
}

#[test]
fn a_warm_server_connection_exchanges_without_allocating() {
    const HOST: &str = "Host: example.org\r\nAccept: text/html, image/png;q=0.9, */*;q=0.8\r\n";
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n{HOST}{fields}\r\n");
    let requests = [
        get("/images/logo.gif", ""),
        get(
            "/images/x/../%6cogo.gif?a=b",
            "Accept-Encoding: deflate\r\n",
        ),
        get("/images/logo.gif", "If-None-Match: \"x\", *\r\n"),
        get(
            "/images/logo.gif",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n",
        ),
        get("/images/logo.gif", "Range: bytes=0-99\r\n"),
        get("/none", ""),
        format!("HEAD /images/logo.gif HTTP/1.0\r\n{HOST}Connection: keep-alive\r\n\r\n"),
        format!("POST /discard HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nhello"),
        format!(
            "PUT /discard HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\
             \r\n5\r\nhello\r\n0\r\n\r\n"
        ),
    ]
    .concat();
    for persona in [Persona::minimal(), Persona::verbose()] {
        let origin = origin(persona);
        for coalesce in [Coalesce::EachResponse, Coalesce::UntilInputDrained] {
            for piece in [1, 61, requests.len()] {
                let config = Arc::new(ServerConfig {
                    coalesce,
                    output_buffer: Bytes(4096),
                    events: true,
                    ..ServerConfig::default()
                });
                let mut connection = Connection::new(Arc::clone(&origin), config, Instant::ZERO);
                let first = round(&mut connection, requests.as_bytes(), piece, Instant::ZERO);
                round(&mut connection, requests.as_bytes(), piece, Instant::ZERO);
                let before = allocations();
                let mut taken = 0;
                for second in 1..=10 {
                    let now = Instant::from_nanos(second * 1_000_000_000);
                    taken += round(&mut connection, requests.as_bytes(), piece, now);
                }
                let allocated = allocations() - before;
                assert_eq!(taken, 10 * first);
                assert_eq!(allocated, 0, "{coalesce:?}, pieces of {piece} bytes");
                assert_eq!(connection.requests(), 12 * 9);
            }
        }
    }
}
