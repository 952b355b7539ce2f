//! Tests that a machine between a rank and rank 0 can neither read nor change the content.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use fathometer_sys::Clock;
use rustix::event::{PollFd, PollFlags};

use super::{options, resolve};
use crate::channel::ChannelSettings;
use crate::link::LinkError;
use crate::reports::part;
use crate::secret::Side;
use crate::session::transfer::{Buffers, Wire, wait};
use crate::session::{Interrupted, Session, SessionOptions};
use crate::whole::encode_part;

const HOST: &str = "node-with-a-private-name";

fn private(rank: u32) -> SessionOptions {
    let mut options = options(rank, 2);
    options.hello.host = HOST.to_owned();
    options
}

fn free_address() -> SocketAddr {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    free.local_addr().unwrap()
}

fn listen(clock: Clock, interrupted: Interrupted) -> (Session, SocketAddr) {
    let address = free_address();
    let session = Session::listen(private(0), address, clock, interrupted).unwrap();
    (session, address)
}

fn join(place: SocketAddr, clock: Clock) -> Session {
    let never = Box::new(|| false);
    Session::join(private(1), place.to_string(), resolve, clock, never).unwrap()
}

/// Forwards one connection to `to` until both sides have closed it. Returns the bytes of each direction.
fn recorder(to: SocketAddr) -> (SocketAddr, JoinHandle<[Vec<u8>; 2]>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = spawn(move || {
        let (member, _) = listener.accept().unwrap();
        let rank_0 = TcpStream::connect(to).unwrap();
        std::thread::scope(|scope| {
            let ways = [(&member, &rank_0), (&rank_0, &member)];
            ways.map(|(from, to)| scope.spawn(move || record(from, to)))
                .map(|way| way.join().unwrap())
        })
    });
    (address, thread)
}

fn record(mut from: &TcpStream, mut to: &TcpStream) -> Vec<u8> {
    let (mut recorded, mut buffer) = (Vec::new(), [0; 4096]);
    // A side that exits resets the connection, so a read error is expected.
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        recorded.extend_from_slice(&buffer[..length]);
        let _ = to.write_all(&buffer[..length]);
    }
    let _ = to.shutdown(Shutdown::Write);
    recorded
}

#[test]
fn what_crosses_the_network_contains_no_plan_host_name_figure_or_reason() {
    let clock = Clock::start();
    let (mut zero, address) = listen(clock, Box::new(|| false));
    let (proxy, recorded) = recorder(address);
    let mut member = join(proxy, clock);
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| zero.start_test());
        member.start_test().unwrap();
        zero.join().unwrap().unwrap();
    });
    let figures = part(1, 0);
    member.report(&figures);
    member.failed("a private reason");
    drop(zero);
    let [up, down] = recorded.join().unwrap();
    let figures = encode_part(&figures);
    let plan = private(1).hello.plan;
    let parts: [&[u8]; 4] = [HOST.as_bytes(), &plan, &figures, b"a private reason"];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(up.len() > length, "{} bytes were sent", up.len());
    for (way, part) in [&up, &down].into_iter().flat_map(|w| parts.map(|p| (w, p))) {
        assert!(!way.windows(part.len()).any(|bytes| bytes == part));
    }
    // Both directions begin with a handshake record of TLS (RFC 8446 section 5.1).
    for way in [up, down] {
        assert_eq!(way[..2], [22, 3]);
    }
}

/// Terminates TLS on both sides, and forwards all content between the member and rank 0 until one side closes.
fn middle(to: SocketAddr, clock: Clock) -> (SocketAddr, JoinHandle<u64>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = [Side::RankZero, Side::Member]
        .map(|side| ChannelSettings::new(side, Duration::from_secs(1_700_000_000)).unwrap());
    let thread = spawn(move || {
        let (member, _) = listener.accept().unwrap();
        let rank_0 = TcpStream::connect(to).unwrap();
        let now = clock.now();
        let mut wires = [
            Wire::new(member, &settings[0], now).unwrap(),
            Wire::new(rank_0, &settings[1], now).unwrap(),
        ];
        let (mut buffers, mut passed) = (Buffers::default(), 0);
        let mut outboxes = [Vec::new(), Vec::new()];
        loop {
            for from in [0, 1] {
                match wires[from].read(&mut buffers, clock) {
                    Ok(Some(_)) => outboxes[1 - from].extend_from_slice(&buffers.plain),
                    Ok(None) => {}
                    Err(_) => return passed,
                }
                passed += buffers.plain.len() as u64;
            }
            for (wire, outbox) in wires.iter_mut().zip(&mut outboxes) {
                if wire.write(outbox).is_err() {
                    return passed;
                }
            }
            let mut descriptors = wires
                .each_ref()
                .map(|wire| PollFd::new(wire, PollFlags::IN));
            wait(&mut descriptors, Duration::from_millis(10));
        }
    });
    (address, thread)
}

#[test]
fn ranks_whose_tls_ends_in_the_middle_refuse_each_other() {
    let clock = Clock::start();
    let is_refused = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::clone(&is_refused);
    let interrupted = Box::new(move || interrupted.load(Ordering::Relaxed));
    let (mut zero, address) = listen(clock, interrupted);
    let (middle, thread) = middle(address, clock);
    let mut member = join(middle, clock);
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| zero.start_test());
        let why = member.start_test().unwrap_err();
        assert_eq!(why, LinkError::Secret.to_string());
        // Interrupts rank 0, which would otherwise wait for a genuine rank.
        is_refused.store(true, Ordering::Relaxed);
        let why = zero.join().unwrap().unwrap_err();
        assert_eq!(why, "the test did not start: it was interrupted");
    });
    // The machine in the middle forwarded the member's first bytes and the answer of rank 0, but no proof.
    assert_eq!(thread.join().unwrap(), 40 + 72);
}

#[test]
fn a_rank_0_without_tls_is_suspected_to_be_another_version() {
    let clock = Clock::start();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = private(1);
    options.rendezvous = Duration::from_millis(100);
    let never = Box::new(|| false);
    let mut member = Session::join(options, address.to_string(), resolve, clock, never).unwrap();
    // The peer closes the first connection, like rank 0 of an earlier version, and stops listening.
    let (mut earlier, _) = listener.accept().unwrap();
    let mut hello = [0; 1000];
    assert!(earlier.read(&mut hello).unwrap() > 0);
    drop((earlier, listener));
    let why = member.start_test().unwrap_err();
    assert!(why.contains("during the TLS handshake"), "{why}");
    assert!(why.contains("of the same version?"), "{why}");
}

#[test]
fn a_rank_without_tls_is_told_that_this_is_another_version() {
    let clock = Clock::start();
    let (_zero, address) = listen(clock, Box::new(|| false));
    let mut earlier = TcpStream::connect(address).unwrap();
    earlier
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let opening = [&b"fathom\x00\x02"[..], &[5; 32]].concat();
    earlier.write_all(&opening).unwrap();
    let mut answer = [0; 8];
    earlier.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"fathom\x00\x03");
}
