//! A server on loopback that sends its responses at the instants that a model computes. So its capacity equals the
//! capacity of the model. It sleeps between the responses, so that the processors are mostly idle.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathometer_capacity::simulated::Model;
use fathometer_model::{Instant, Seed};
use fathometer_sys::Clock;

/// The number of arrivals over which the offered rate is measured.
const ARRIVALS: usize = 256;
/// The shortest gap between arrivals that counts as the pause between two trials.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest request, in bytes.
const LONGEST_REQUEST: usize = 16 * 1024;

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BAD: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";

/// The behaviour of a server.
pub struct Behaviour {
    /// The model that computes when responses are sent.
    pub model: Model,
    /// The share of requests that fail at every load.
    pub failing: f64,
    /// The seed of the random failures.
    pub draws: Seed,
}

/// A running server, with one thread for each connection. Dropping it stops accepting connections. The thread of a
/// connection exits when the client closes the connection.
pub struct SocketServer {
    /// The address of the listener.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl SocketServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// If the server cannot listen.
    pub fn start(behaviour: Behaviour, clock: Clock) -> io::Result<SocketServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let state = Arc::new(Mutex::new(State {
            behaviour,
            arrivals: VecDeque::with_capacity(ARRIVALS),
            count: 0,
        }));
        let acceptor = thread::spawn(move || {
            for connection in listener.incoming() {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(connection) = connection {
                    let state = Arc::clone(&state);
                    // The thread ends when its client closes or resets the connection.
                    thread::spawn(move || drop(serve(connection, &state, clock)));
                }
            }
        });
        Ok(SocketServer {
            address,
            stop,
            acceptor: Some(acceptor),
        })
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

struct State {
    behaviour: Behaviour,
    arrivals: VecDeque<Instant>,
    count: u64,
}

impl State {
    /// Returns the instant at which the response to a request that arrives now is sent. Also returns whether the
    /// response is an error.
    fn respond(&mut self, now: Instant) -> (Instant, bool) {
        if self
            .arrivals
            .back()
            .is_some_and(|last| now.since(*last) > PAUSE)
        {
            self.arrivals.clear();
        }
        if self.arrivals.len() == ARRIVALS {
            self.arrivals.pop_front();
        }
        let since = self
            .arrivals
            .front()
            .map_or(0.0, |first| now.since(*first).as_secs_f64());
        let offered = match since > 0.0 {
            true => self.arrivals.len() as f64 / since,
            false => 0.0,
        };
        self.arrivals.push_back(now);
        self.behaviour.model.begin(offered);
        let at = now.since(Instant::ZERO).as_secs_f64();
        let (latency, failed) = self.behaviour.model.respond(at);
        self.count += 1;
        let fails_anyway = self.behaviour.draws.uniform(self.count) < self.behaviour.failing;
        (
            now + Duration::from_secs_f64(latency),
            failed || fails_anyway,
        )
    }
}

/// Serves the requests of a connection one after another.
fn serve(mut connection: TcpStream, state: &Mutex<State>, clock: Clock) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut request = Vec::new();
    let mut part = [0; 2048];
    loop {
        while !request.ends_with(b"\r\n\r\n") {
            let length = connection.read(&mut part)?;
            if length == 0 || request.len() > LONGEST_REQUEST {
                return Ok(());
            }
            request.extend_from_slice(&part[..length]);
        }
        request.clear();
        let (due, failed) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            // The clock is read under the lock, because the model requires arrivals in order.
            state.respond(clock.now())
        };
        thread::sleep(due.since(clock.now()));
        connection.write_all(if failed { BAD } else { GOOD })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_capacity::simulated::{Kind, KnownServer};

    #[test]
    fn responses_leave_no_earlier_than_those_of_the_model() {
        let clock = Clock::start();
        let planted = KnownServer::on_sockets(Kind::Workers, Seed(1));
        let behaviour = Behaviour {
            model: planted.model,
            failing: 0.0,
            draws: Seed(2),
        };
        let server = SocketServer::start(behaviour, clock).unwrap();
        let mut connection = TcpStream::connect(server.address).unwrap();
        let service = Duration::from_secs_f64(8.0 / planted.capacity);
        let mut response = [0; 256];
        for _ in 0..3 {
            let before = clock.now();
            connection
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            let length = connection.read(&mut response).unwrap();
            assert_eq!(&response[..length], GOOD);
            assert!(clock.now().since(before) >= service);
        }
    }

    #[test]
    fn a_share_of_the_requests_fails_whatever_the_load() {
        let planted = KnownServer::on_sockets(Kind::TokenBucket, Seed(1));
        let mut state = State {
            behaviour: Behaviour {
                model: planted.model,
                failing: 0.05,
                draws: Seed(2),
            },
            arrivals: VecDeque::new(),
            count: 0,
        };
        let at = |n: u64| Instant::ZERO + Duration::from_millis(10 * n);
        let failed = (0..4000).filter(|&n| state.respond(at(n)).1).count();
        assert!((150..250).contains(&failed), "{failed}");
    }
}
