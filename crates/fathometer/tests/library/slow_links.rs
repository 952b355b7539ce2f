//! Clients whose link is slow, and clients that read nothing: which of them the origin cuts off.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fathometer_http::h1::server::{Limits, ServerConfig};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_origin::folder::{Bounds, FolderStore};
use fathometer_origin::{OriginLoop, OriginSockets, Protocols};
use fathometer_sys::Clock;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

/// More than the kernel's buffers hold.
const BYTES: usize = 24 << 20;
/// The origin aborts when the transport does not move for so long.
const SEND: Duration = Duration::from_secs(2);

/// A client with a small receive window, which has requested the file.
fn client(address: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).unwrap();
    connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(120));
    stream.set_read_timeout(patience).unwrap();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream
}

#[test]
fn a_slow_link_is_served_to_the_end_and_a_client_that_reads_nothing_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("large")).unwrap();
    file.set_len(BYTES as u64).unwrap();
    let bounds = Bounds {
        bytes: 0,
        descriptors: 16,
    };
    let store = FolderStore::open(folder.path(), bounds).unwrap();
    let origin = Arc::new(Origin::of_store(Box::new(store), OriginConfig::default()).unwrap());
    let protocols = Protocols {
        http1: Some(Arc::new(ServerConfig {
            limits: Limits {
                send: SEND,
                ..Limits::default()
            },
            ..ServerConfig::default()
        })),
        http2: None,
        tls: None,
    };
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

    let mut deaf = client(address);
    let mut slow = client(address);
    // 100 kB per second: the send buffer, more than a megabyte, needs several times the limit to lose a third.
    let mut taken = 0;
    for _ in 0..800 {
        taken += slow.read(&mut [0; 1024]).unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(taken + rest.len() > BYTES, "{taken} + {}", rest.len());
    // The origin has reset the connection of the other, or closed it after what the buffers held.
    rest.clear();
    let ending = deaf.read_to_end(&mut rest);
    assert!(ending.is_err() || rest.len() < BYTES, "{}", rest.len());

    handle.stop();
    serving.join().unwrap();
}
