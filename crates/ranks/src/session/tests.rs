//! Tests of sessions in one process that connect over loopback.

mod eavesdropping;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::time::Duration;

use fathometer_sys::Clock;

use super::{Session, SessionOptions};
use crate::coordinator::MAX_UNIDENTIFIED;
use crate::message::Hello;
use crate::record::TestFacts;
use crate::secret::Secret;

fn options(rank: u32, ranks: u32) -> SessionOptions {
    SessionOptions {
        hello: Hello {
            rank,
            ranks,
            plan: [7; 32],
            version: "1".to_owned(),
            host: "node".to_owned(),
        },
        secret: Secret::new(b"a secret of the tests").unwrap(),
        facts: TestFacts {
            ranks,
            interval: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            measured: Some(Duration::from_secs(1)),
        },
        rendezvous: Duration::from_secs(60),
        silence: Duration::from_secs(30),
        drain: Duration::ZERO,
        spool: None,
    }
}

fn resolve(place: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(place.to_socket_addrs()?.collect())
}

/// More ranks connect at the same time than the limit of unidentified connections, together with silent connections.
#[test]
fn many_ranks_may_connect_at_once_next_to_connections_that_say_nothing() {
    let ranks = MAX_UNIDENTIFIED as u32 + 40;
    let clock = Clock::start();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let never = || Box::new(|| false);
    let mut zero = Session::listen(options(0, ranks), address, clock, never()).unwrap();
    let silent: Vec<_> = (0..MAX_UNIDENTIFIED - 4)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    let mut members: Vec<Session> = (1..ranks)
        .map(|rank| {
            let place = address.to_string();
            Session::join(options(rank, ranks), place, resolve, clock, never()).unwrap()
        })
        .collect();
    let starts = std::thread::scope(|scope| {
        let all = members.iter_mut().chain([&mut zero]);
        let all: Vec<_> = all
            .map(|session| scope.spawn(|| session.start_test()))
            .collect();
        let all = all.into_iter().map(|start| start.join().unwrap());
        all.collect::<Result<Vec<_>, String>>()
    });
    assert_eq!(starts.map(|starts| starts.len()), Ok(ranks as usize));
    drop(silent);
}
