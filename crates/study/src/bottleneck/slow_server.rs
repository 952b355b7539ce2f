//! A server with a known fault, for the self-test. Each request waits, uses CPU time, or waits for a lock, or
//! connections are accepted only at intervals.
//!
//! Each connection has its own thread. So only the fault and the optional maximum number of connections limit
//! concurrency. The server uses the protocol code of the embedded origin. Files are read before the first request.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fathometer_http::h1::server::{Action, Connection, ServerConfig};
use fathometer_http::origin::Origin;
use fathometer_model::{Seed, quantity};
use fathometer_sys::Clock;

use super::error::SearchError;
use fathometer_files::site_folder;
use fathometer_lab::server;
use fathometer_lab::server::definition::Definition;

/// A fault of every request, or of every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Each request waits, in parallel with other requests.
    Sleep(Duration),
    /// Each request waits while it has locked a common mutex.
    Lock(Duration),
    /// Each request uses CPU time on the thread of its connection: this number of rounds of a mixing function, each of
    /// some nanoseconds.
    Work(u64),
    /// Each request uses CPU time like `Work`, but on a single thread for all requests.
    Serial(u64),
    /// All pending connections are accepted together at intervals of this length, as in an event loop with other work
    /// between two calls of `accept`.
    Accept(Duration),
}

/// A fault, and the maximum number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// The fault.
    pub fault: Fault,
    /// The maximum number of connections that are served at a time. Further connections are not accepted.
    pub connections: Option<usize>,
}

/// Parses `sleep=5ms`, `lock=5ms`, `work=100000`, `serial=100000` or `accept=5ms`, optionally followed by
/// `,connections=4`.
impl FromStr for Faults {
    type Err = String;
    fn from_str(text: &str) -> Result<Faults, String> {
        let wrong = || {
            format!(
                "unknown fault {text:?}: write sleep=TIME, lock=TIME, work=ROUNDS, serial=ROUNDS or accept=TIME, \
                 optionally followed by ,connections=N"
            )
        };
        let (fault, connections) = match text.split_once(",connections=") {
            None => (text, None),
            Some((fault, number)) => (fault, Some(number.parse().map_err(|_| wrong())?)),
        };
        let (kind, amount) = fault.split_once('=').ok_or_else(wrong)?;
        let time = || quantity::some_time(amount).map_err(|error| error.to_string());
        let rounds = || amount.parse().map_err(|_| wrong());
        let fault = match kind {
            "sleep" => Fault::Sleep(time()?),
            "lock" => Fault::Lock(time()?),
            "work" => Fault::Work(rounds()?),
            "serial" => Fault::Serial(rounds()?),
            "accept" => Fault::Accept(time()?),
            _ => return Err(wrong()),
        };
        Ok(Faults { fault, connections })
    }
}

/// Serves a folder until the process is killed.
pub fn serve(faults: Faults, address: SocketAddr, folder: &Path) -> Result<(), SearchError> {
    let definition = Definition::load("embedded")?;
    let Some(embedded) = &definition.embedded else {
        return Err(SearchError::NotEmbedded);
    };
    let clock = Clock::start();
    let site = Arc::new(site_folder::read(folder)?);
    let (jobs, queue) = channel();
    let service = Service {
        origin: server::embedded_origin(&definition.name, embedded, &site, clock)?,
        config: Arc::new(ServerConfig::default()),
        fault: faults.fault,
        turn: Mutex::new(()),
        jobs,
        places: Places::new(faults.connections.unwrap_or(usize::MAX)),
        clock,
    };
    let mut listener = FaultyListener::open(address, faults.fault)?;
    std::thread::scope(|scope| {
        scope.spawn(move || do_jobs(&queue));
        loop {
            let place = service.places.take();
            let stream = listener.next()?;
            let service = &service;
            scope.spawn(move || {
                // An error on a connection affects only its client.
                let _ = service.converse(stream);
                drop(place);
            });
        }
    })
}

/// A listener with the accept fault.
struct FaultyListener {
    listener: TcpListener,
    /// The pause when no connection is pending. With `None`, `accept` blocks instead.
    away: Option<Duration>,
}

impl FaultyListener {
    fn open(address: SocketAddr, fault: Fault) -> io::Result<FaultyListener> {
        let listener = TcpListener::bind(address)?;
        let away = match fault {
            Fault::Accept(time) => Some(time),
            _ => None,
        };
        listener.set_nonblocking(away.is_some())?;
        Ok(FaultyListener { listener, away })
    }

    /// Returns the next connection.
    fn next(&mut self) -> io::Result<TcpStream> {
        loop {
            match (self.listener.accept(), self.away) {
                (Ok((stream, _)), _) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                (Err(error), Some(time)) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(time);
                }
                (Err(error), _) => return Err(error),
            }
        }
    }
}

/// State shared by all connections.
struct Service {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    fault: Fault,
    turn: Mutex<()>,
    jobs: Sender<Job>,
    places: Places,
    clock: Clock,
}

/// A job: the number of rounds, and the channel that reports their completion.
type Job = (u64, SyncSender<()>);

impl Service {
    /// Serves a connection until it is closed.
    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let now = || self.clock.now();
        let mut machine = Connection::new(self.origin.clone(), self.config.clone(), now());
        let mut buffer = vec![0; 16 * 1024];
        let mut answered = 0;
        loop {
            match stream.read(&mut buffer)? {
                0 => machine.handle_eof(now()),
                bytes => machine.handle_data(&buffer[..bytes], now()),
            }
            for _ in answered..machine.requests() {
                self.suffer();
            }
            answered = machine.requests();
            loop {
                let mut slices = [IoSlice::new(&[]); 64];
                let filled = machine.transmit(&mut slices);
                if filled == 0 {
                    break;
                }
                let bytes = stream.write_vectored(&slices[..filled])?;
                machine.transmitted(bytes, now());
            }
            while let Some(action) = machine.poll_action() {
                match action {
                    Action::ShutdownWrite => stream.shutdown(Shutdown::Write)?,
                    Action::Close | Action::Abort | Action::Upgrade => return Ok(()),
                }
            }
            if machine.is_finished() {
                return Ok(());
            }
        }
    }

    fn suffer(&self) {
        match self.fault {
            // This fault was already applied when the connection was accepted.
            Fault::Accept(_) => {}
            Fault::Sleep(time) => std::thread::sleep(time),
            Fault::Lock(time) => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                std::thread::sleep(time);
            }
            Fault::Work(rounds) => mix(rounds),
            Fault::Serial(rounds) => {
                let (sender, result) = sync_channel(1);
                // The thread of the jobs runs until the program exits.
                if self.jobs.send((rounds, sender)).is_ok() {
                    let _ = result.recv();
                }
            }
        }
    }
}

fn do_jobs(queue: &Receiver<Job>) {
    while let Ok((rounds, sender)) = queue.recv() {
        mix(rounds);
        let _ = sender.send(());
    }
}

/// Uses CPU time for this number of rounds.
fn mix(rounds: u64) {
    let mut word = Seed(rounds);
    for round in 0..rounds {
        word = Seed(word.draw(round));
    }
    std::hint::black_box(word);
}

/// The number of free slots for connections.
#[derive(Clone)]
struct Places(Arc<(Mutex<usize>, Condvar)>);

/// A slot for a connection. Dropping it frees the slot.
struct Place(Places);

impl Places {
    fn new(count: usize) -> Places {
        Places(Arc::new((Mutex::new(count), Condvar::new())))
    }

    /// Waits for a free slot.
    fn take(&self) -> Place {
        let (left, freed) = &*self.0;
        let left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = freed
            .wait_while(left, |left| *left == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (left, freed) = &*self.0.0;
        *left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_what_is_none_is_refused() {
        let faults = |fault, connections| Faults { fault, connections };
        for (text, read) in [
            (
                "sleep=5ms",
                faults(Fault::Sleep(Duration::from_millis(5)), None),
            ),
            ("work=100000", faults(Fault::Work(100_000), None)),
            (
                "accept=10ms",
                faults(Fault::Accept(Duration::from_millis(10)), None),
            ),
            (
                "lock=250us,connections=4",
                faults(Fault::Lock(Duration::from_micros(250)), Some(4)),
            ),
        ] {
            assert_eq!(text.parse(), Ok(read));
        }
        for wrong in [
            "",
            "sleep",
            "sleep=0s",
            "work=much",
            "nap=1s",
            "work=1,connections=",
        ] {
            assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_waiting_connections_are_accepted_at_once() {
        let away = Duration::from_millis(2);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = FaultyListener::open(anywhere, Fault::Accept(away)).unwrap();
        let address = listener.listener.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address)).collect();
        for client in clients {
            // Check that this is the client's connection, and that it is in blocking mode.
            let mut client = client.unwrap();
            let mut accepted = listener.next().unwrap();
            assert_eq!(accepted.peer_addr().unwrap(), client.local_addr().unwrap());
            client.write_all(b"a").unwrap();
            accepted.read_exact(&mut [0]).unwrap();
        }
        assert!(
            listener.listener.accept().is_err(),
            "no other connection is pending"
        );
        // A connection that arrives later is accepted at the next check.
        std::thread::scope(|scope| {
            let late = scope.spawn(move || TcpStream::connect(address).unwrap());
            let accepted = listener.next().unwrap();
            let late = late.join().unwrap();
            assert_eq!(accepted.peer_addr().unwrap(), late.local_addr().unwrap());
        });
    }

    #[test]
    fn a_freed_place_can_be_taken() {
        let places = Places::new(1);
        let first = places.take();
        let waiting = {
            let places = places.clone();
            std::thread::spawn(move || drop(places.take()))
        };
        drop(first);
        waiting.join().unwrap();
        assert_eq!(*places.0.0.lock().unwrap(), 1);
    }
}
