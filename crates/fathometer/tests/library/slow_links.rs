//! The origin serves clients with a slow link to the end, and aborts responses to clients that read nothing.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_http::{h1, h2};
use fathometer_origin::folder::{Bounds, FolderStore};
use fathometer_origin::{OriginLoop, OriginSockets, Protocols};
use fathometer_sys::Clock;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

/// Bytes of the file: more than the kernel's buffers have room for.
const BYTES: usize = 24 << 20;
/// The origin aborts a response that makes no progress for this time.
const SEND: Duration = Duration::from_secs(2);

/// A request for the file by HTTP/1.1.
const HTTP_1: &[u8] = b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Returns a request for the file by HTTP/2 (RFC 9113), with flow-control windows that never limit the response.
fn http_2() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        bytes.extend([0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        bytes.extend(payload);
    };
    // SETTINGS: an initial window of 2^31 - 1; WINDOW_UPDATE: the connection's window grows from 65535 to the same
    // size.
    frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    frame(8, 0, 0, &[0x7f, 0xff, 0, 0]);
    // HEADERS, END_STREAM and END_HEADERS: GET by http, and literals for :path and :authority (RFC 7541).
    frame(1, 5, 1, b"\x82\x86\x04\x06/large\x01\x01h");
    // The acknowledgement of the origin's SETTINGS.
    frame(4, 1, 0, &[]);
    bytes
}

/// Connects a client with a small receive window, and requests the file.
fn client(address: SocketAddr, request: &[u8]) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).unwrap();
    connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(120));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(request).unwrap();
    stream
}

/// Asserts that an origin completes the response to a client with a slow link, and aborts the response to a client
/// that reads nothing.
fn assert_only_the_deaf_is_cut_off(protocols: Protocols, request: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("large")).unwrap();
    file.set_len(BYTES as u64).unwrap();
    let bounds = Bounds {
        bytes: 0,
        descriptors: 16,
    };
    let store = FolderStore::open(folder.path(), bounds).unwrap();
    let origin = Arc::new(Origin::of_store(Box::new(store), OriginConfig::default()).unwrap());
    let sockets = OriginSockets {
        nodelay: true,
        quick_ack: None,
        backlog: None,
    };
    let any = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let origin_loop = OriginLoop::bind(&any, origin, protocols, sockets, Clock::start()).unwrap();
    let address = origin_loop.addresses().unwrap()[0];
    let handle = origin_loop.handle();
    let serving = thread::spawn(move || origin_loop.run().unwrap());

    let mut deaf = client(address, request);
    let mut slow = client(address, request);
    // The client reads 100 kB per second. At this rate, a third of a send buffer above one megabyte drains in several
    // times the limit.
    let mut taken = 0;
    for _ in 0..800 {
        taken += slow.read(&mut [0; 1024]).unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    let mut some = vec![0; 1 << 16];
    while taken <= BYTES {
        let more = slow.read(&mut some).unwrap();
        assert_ne!(more, 0, "the connection ended after {taken} bytes");
        taken += more;
    }
    // The origin has reset the other connection, or closed it after the buffered bytes.
    let mut rest = Vec::new();
    let ending = deaf.read_to_end(&mut rest);
    assert!(ending.is_err() || rest.len() < BYTES, "{}", rest.len());

    handle.stop();
    serving.join().unwrap();
}

#[test]
fn a_slow_link_is_served_to_the_end_by_http_1() {
    let limits = h1::server::Limits {
        send: SEND,
        ..h1::server::Limits::default()
    };
    let config = h1::server::ServerConfig {
        limits,
        ..h1::server::ServerConfig::default()
    };
    assert_only_the_deaf_is_cut_off(Protocols::from(Arc::new(config)), HTTP_1);
}

#[test]
fn a_slow_link_is_served_to_the_end_by_http_2() {
    let limits = h2::server::Limits {
        send: SEND,
        ..h2::server::Limits::default()
    };
    let config = h2::server::ServerConfig {
        limits,
        ..h2::server::ServerConfig::default()
    };
    let protocols = Protocols {
        http1: None,
        http2: Some(Arc::new(config)),
        tls: None,
    };
    assert_only_the_deaf_is_cut_off(protocols, &http_2());
}
