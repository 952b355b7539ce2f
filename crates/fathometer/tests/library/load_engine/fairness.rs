//! Connections that always have more data to read: the engine must read all of them equally.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fathometer_load::{Limit, Options, Users};

use super::{MILLI, carry_out, single};

/// Returns the bytes that each connection read of an endless response.
fn taken(connections: usize) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // One thread fills all connections in turn, so that no scheduler influences the shares.
    let server = std::thread::spawn(move || {
        let streams = (0..connections).map(|_| {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n";
            stream.write_all(head).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        });
        let mut streams: Vec<TcpStream> = streams.collect();
        let bytes = vec![b'x'; 1 << 16];
        let mut taken = vec![0; connections];
        let mut is_open = true;
        while is_open {
            for (stream, taken) in streams.iter_mut().zip(&mut taken) {
                match stream.write(&bytes) {
                    Ok(written) => *taken += written as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => is_open = false,
                }
            }
        }
        taken
    });
    let mut options = Options::new(address, "localhost", single());
    options.users = Users::closed(connections as u32);
    options.limit = Limit::Time(1500 * MILLI);
    options.drain = Duration::ZERO;
    let result = carry_out(options);
    assert_eq!(result.measured.counts.unfinished, connections as u64);
    server.join().unwrap()
}

#[test]
fn connections_that_are_always_full_have_equal_shares() {
    // Jain's fairness index. At the end, one connection may have been read once more than the others.
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let shares: Vec<f64> = taken(5).into_iter().map(|taken| taken as f64).collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        best = best.max(sum * sum / (shares.len() as f64 * squares));
        if best >= 0.99 {
            return;
        }
    }
    panic!("Jain's index is {best:.3}");
}
