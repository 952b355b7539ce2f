//! Connections that always have more to read: each is read as much as the others.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer::load::{Limit, Options, Users};

use crate::{MILLI, carry_out, single};

/// Octets that each of some connections took of a response without an end.
fn taken(connections: usize) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken: Vec<Arc<AtomicU64>> = (0..connections).map(|_| Arc::default()).collect();
    let counters = taken.clone();
    let server = std::thread::spawn(move || {
        let threads = counters.into_iter().map(|taken| {
            let (mut stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n";
                let _ = stream.write_all(head);
                let octets = vec![b'x'; 1 << 16];
                while let Ok(written) = stream.write(&octets) {
                    taken.fetch_add(written as u64, Ordering::Relaxed);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    let mut options = Options::new(address, "localhost", single());
    options.users = Users::closed(connections as u32);
    options.limit = Limit::Time(1500 * MILLI);
    options.drain = Duration::ZERO;
    let result = carry_out(options);
    assert_eq!(result.measured.counts.unfinished, connections as u64);
    server.join().unwrap();
    taken
        .iter()
        .map(|taken| taken.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn connections_that_are_always_full_have_equal_shares() {
    // Jain's index. The kernel's scheduler shares out the server's threads, and is not exact either.
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
