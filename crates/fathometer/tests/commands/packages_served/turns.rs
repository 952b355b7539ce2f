//! A package composed on the fly and other requests on the same loop: the order of the responses, not their
//! times.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fathometer_http::h1::server::ServerConfig;
use fathometer_http::h2;
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_http::origin::store::Work;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_origin::folder::{Bounds, FolderStore};
use fathometer_origin::{OriginLoop, OriginSockets};
use fathometer_package::{Decoder, Event, Limits, Version};
use fathometer_sys::Clock;

/// Files of the package that are read from descriptors, and the bytes of each. Together they are far larger
/// than the kernel's buffers for a client that reads nothing.
const LONG: usize = 16;
const BYTES: u64 = 8 << 20;
/// Number of files that are cached in memory after their lookup: more than one turn of the loop can look up.
const SHORT: usize = 200;

/// Bytes of each read from a file.
const A_READ: u64 = 64 * 1024;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(240));
    stream.set_read_timeout(patience).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, path: &str, fields: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// Reads the rest of the response; returns its content without the head.
fn content(stream: &mut TcpStream, begun: &[u8]) -> Vec<u8> {
    let mut response = begun.to_vec();
    stream.read_to_end(&mut response).unwrap();
    let end = response
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let content = response.split_off(end + 4);
    let length = format!("\r\nContent-Length: {}", content.len());
    assert!(head.contains(&length), "{head}");
    content
}

#[test]
fn others_are_answered_while_a_package_is_being_made() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..LONG {
        let file = File::create(folder.path().join(format!("long{n:02}"))).unwrap();
        file.set_len(BYTES).unwrap();
    }
    for n in 0..SHORT {
        std::fs::write(folder.path().join(format!("short{n:03}")), [b's'; 3000]).unwrap();
    }
    super::leave_alone();
    let nothing_kept = Bounds {
        bytes: 0,
        descriptors: 0,
    };
    let store = FolderStore::open(folder.path(), nothing_kept).unwrap();
    let config = OriginConfig {
        packages: Packages {
            making: Making::OnTheFly,
            folders: true,
            ..Packages::default()
        },
        ..OriginConfig::default()
    };
    let origin = Arc::new(Origin::of_store(Box::new(store), config).unwrap());
    let protocols = fathometer_origin::Protocols {
        http1: Some(Arc::new(ServerConfig::default())),
        http2: Some(Arc::new(h2::server::ServerConfig::default())),
        tls: None,
    };
    let any = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let origin_loop = OriginLoop::bind(
        &any,
        Arc::clone(&origin),
        protocols,
        OriginSockets {
            nodelay: true,
            quick_ack: None,
            backlog: None,
        },
        Clock::start(),
    )
    .unwrap();
    let address = origin_loop.addresses().unwrap()[0];
    let handle = origin_loop.handle();
    let serving = thread::spawn(move || origin_loop.run().unwrap());

    let mut first = connect(address);
    let accept = format!("Accept: {}\r\n", Version::Two.content_type());
    ask(&mut first, "/", &accept);
    let mut begun = [0; 1];
    first.read_exact(&mut begun).unwrap();
    // The client reads no more of the package, so the package cannot be complete.
    let mut second = connect(address);
    ask(&mut second, "/short007", "");
    assert_eq!(content(&mut second, b""), [b's'; 3000]);
    let Work { reads, .. } = origin.take_work();
    let of_long = reads - SHORT as u64 - 1;
    let all = LONG as u64 * BYTES / A_READ;
    assert!(
        of_long < all,
        "{of_long} of {all} reads of the package came before the other responses"
    );

    let package = content(&mut first, &begun);
    assert!(of_long + origin.take_work().reads >= all);
    let mut decoder = Decoder::new(Limits::default());
    let (mut rest, mut files, mut bytes) = (&package[..], 0, 0);
    while let Some(event) = decoder.poll(&mut rest).unwrap() {
        match event {
            Event::Data { content, .. } => bytes += content.len() as u64,
            Event::End { .. } => files += 1,
            _ => {}
        }
    }
    decoder.end_of_input().unwrap();
    assert_eq!(files, LONG + SHORT);
    assert_eq!(bytes, LONG as u64 * BYTES + SHORT as u64 * 3000);

    // Repeats the test over HTTP/2.
    let curl = Command::new("curl")
        .args(["--silent", "--show-error", "--http2-prior-knowledge"])
        .args(["--max-time", "240", "--header", accept.trim()])
        .arg(format!("http://{address}/"))
        .output()
        .expect("curl is installed");
    assert!(curl.status.success(), "{}", curl.status);
    assert!(curl.stdout == package);

    handle.stop();
    serving.join().unwrap();
}
