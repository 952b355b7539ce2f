//! Measures the CPU time of rank 0 per message on this machine, with the state machines and system calls of a test.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fathometer_load::timeline::Part;
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_ranks::channel::{Channel, ChannelSettings};
use fathometer_ranks::link::Link;
use fathometer_ranks::message::Message;
use fathometer_ranks::record::TestFacts;
use fathometer_ranks::secret::{NONCE, Side};
use fathometer_ranks::whole::{Whole, encode_part};
use fathometer_sys::clock::thread_cpu_time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{FACTS, secret};

/// The number of measurements of each operation. The median is used.
const ROUNDS: usize = 7;
/// The number of measured handshakes. The median is used.
const HANDSHAKES: usize = 101;
/// The minimum length of a measurement.
const LEAST: Duration = Duration::from_millis(20);
/// The number of connections in measurements of sockets: below the usual limit of 1024 file descriptors per process.
const SOCKETS: u32 = 400;
/// The number of ranks in the measurement of rank 0's memory.
const RANKS: u32 = 1000;

/// CPU time of rank 0 per operation.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// The TLS handshake, and the proofs of the secret in both directions, per connection.
    pub handshake: Duration,
    /// Accepting a connection.
    pub accept: Duration,
    /// Waiting for the next bytes, per connection.
    pub poll: Duration,
    /// One read.
    pub read: Duration,
    /// One write.
    pub write: Duration,
    /// Decrypting, verifying and answering a ping.
    pub ping: Duration,
}

/// The CPU time and the size of one rank's figures in one interval.
#[derive(Debug, Clone, Copy)]
pub struct IntervalCosts {
    /// The number of exchanges of the rank in the interval.
    pub exchanges: u64,
    /// Bytes on the socket, including the TLS records.
    pub bytes: usize,
    /// CPU time of the rank: encoding, MAC and encryption.
    pub encode: Duration,
    /// CPU time of rank 0: decryption, MAC and decoding of the frame.
    pub receive: Duration,
    /// CPU time of rank 0: decoding and merging of the figures.
    pub merge: Duration,
    /// Memory of rank 0 per rank, in bytes.
    pub memory: u64,
}

/// Returns the median CPU time of `call`, excluding the CPU time of `prepare`.
fn time<T>(mut prepare: impl FnMut() -> T, mut call: impl FnMut(T)) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let (mut total, mut calls) = (Duration::ZERO, 0);
            while total < LEAST {
                let inputs: Vec<T> = (0..100).map(|_| prepare()).collect();
                let begin = thread_cpu_time();
                inputs.into_iter().for_each(&mut call);
                total += thread_cpu_time().saturating_sub(begin);
                calls += 100;
            }
            total / calls
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

/// One side of a connection, without its socket.
struct End {
    link: Link,
    channel: Channel,
    plain: Vec<u8>,
}

impl End {
    fn new(side: Side, tls: &ChannelSettings) -> End {
        let nonce = [side as u8; NONCE];
        End {
            link: Link::new(side, secret(), nonce),
            channel: Channel::new(tls, Instant::ZERO).expect("TLS can begin"),
            plain: Vec::new(),
        }
    }

    /// Returns the bytes to write to the socket.
    fn output(&mut self) -> Vec<u8> {
        let taken = self.channel.seal(self.link.outbox());
        self.link.outbox().drain(..taken);
        let bytes = self.channel.output().to_vec();
        self.channel.output_sent(bytes.len());
        bytes
    }

    fn receive(&mut self, mut bytes: Vec<u8>) -> Option<Message> {
        self.plain.clear();
        let opened = self
            .channel
            .open(&mut bytes, &mut self.plain, Instant::ZERO);
        if let Some(binding) = opened.expect("the bytes are valid") {
            self.link.bind(&binding);
        }
        self.link.receive(&self.plain);
        self.link.message().expect("the message is valid")
    }

    /// Sends a message. Returns the bytes to write to the socket.
    fn message(&mut self, message: &Message) -> Vec<u8> {
        self.link.send(message).expect("the link is open");
        self.output()
    }
}

/// The Unix time at instant zero, for the validity of certificates, which no member checks.
const UNIX_TIME: Duration = Duration::from_secs(1_700_000_000);

/// The settings of a member and of rank 0.
fn settings() -> Result<[ChannelSettings; 2], Box<dyn Error>> {
    Ok([
        ChannelSettings::new(Side::Member, UNIX_TIME)?,
        ChannelSettings::new(Side::RankZero, UNIX_TIME)?,
    ])
}

/// Opens a connection. Returns both sides, and the CPU time of rank 0.
fn open([member, rank_0]: &[ChannelSettings; 2]) -> (End, End, Duration) {
    let mut member = End::new(Side::Member, member);
    let mut spent = Duration::ZERO;
    let begin = thread_cpu_time();
    let mut rank_0 = End::new(Side::RankZero, rank_0);
    spent += thread_cpu_time().saturating_sub(begin);
    for _ in 0..3 {
        let bytes = member.output();
        let begin = thread_cpu_time();
        assert_eq!(rank_0.receive(bytes), None);
        let bytes = rank_0.output();
        spent += thread_cpu_time().saturating_sub(begin);
        assert_eq!(member.receive(bytes), None);
    }
    assert!(member.link.is_open() && rank_0.link.is_open());
    (member, rank_0, spent)
}

/// Measures the CPU times that do not depend on the load.
pub fn measure() -> Result<Costs, Box<dyn Error>> {
    let tls = settings()?;
    let mut handshakes: Vec<Duration> = (0..HANDSHAKES).map(|_| open(&tls).2).collect();
    handshakes.sort_unstable();
    let handshake = handshakes[HANDSHAKES / 2];
    let (mut member, mut rank_0, _) = open(&tls);
    let ping = time(
        || member.message(&Message::Ping { sent: 1 << 50 }),
        |bytes| {
            assert!(matches!(rank_0.receive(bytes), Some(Message::Ping { .. })));
            let pong = Message::Pong {
                sent: 1 << 50,
                read: 1 << 50,
            };
            assert!(!rank_0.message(&pong).is_empty());
        },
    );
    let (accept, poll, read, write) = of_sockets()?;
    Ok(Costs {
        handshake,
        accept,
        poll,
        read,
        write,
        ping,
    })
}

/// Measures the CPU time of accept, of poll (per connection), of read and of write over loopback.
fn of_sockets() -> Result<(Duration, Duration, Duration, Duration), Box<dyn Error>> {
    use std::io::{Read as _, Write as _};

    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = fathometer_sys::socket::listen(address, 1024, &Default::default())?;
    let place = listener.local_addr()?;
    let clients = (0..SOCKETS).map(|_| TcpStream::connect(place));
    let mut clients: Vec<TcpStream> = clients.collect::<Result<_, _>>()?;
    let (accept, mut servers) = accept_all(&listener)?;
    let mut descriptors: Vec<PollFd<'_>> = servers
        .iter()
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let at_once = Timespec::default();
    let polled = time(
        || (),
        |()| {
            let ready = poll(&mut descriptors, Some(&at_once));
            assert_eq!(ready, Ok(0));
        },
    );
    let message = [0; 100];
    let mut buffer = [0; 1000];
    // One call writes and reads, so half of its time is attributed to each.
    let (client, server) = (&mut clients[0], &mut servers[0]);
    client.set_nodelay(true)?;
    let write = time(
        || (),
        |()| {
            client.write_all(&message).expect("the other end is open");
            server
                .read_exact(&mut buffer[..100])
                .expect("the message was sent");
        },
    ) / 2;
    Ok((accept, polled / SOCKETS, write, write))
}

fn accept_all(listener: &TcpListener) -> Result<(Duration, Vec<TcpStream>), Box<dyn Error>> {
    let begin = thread_cpu_time();
    let mut servers = Vec::new();
    while servers.len() < SOCKETS as usize {
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        servers.push(socket);
    }
    let spent = thread_cpu_time().saturating_sub(begin);
    Ok((spent / SOCKETS, servers))
}

/// Returns the figures of a rank with this number of exchanges in an interval. Latency is log-normal with a median of 1
/// ms and a 99th percentile of 5 ms; one exchange in a thousand is 100 times slower.
pub fn part(rank: u64, interval: u64, exchanges: u64) -> Part {
    let seed = Seed(rank).child(interval);
    let mut part = Part::new(interval);
    for n in 0..exchanges {
        // The Box-Muller transform (1958) yields normally distributed numbers.
        let radius = (-2.0 * (1.0 - seed.uniform(3 * n)).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * seed.uniform(3 * n + 1)).cos();
        let slow = if seed.draw(3 * n + 2).is_multiple_of(1000) {
            100.0
        } else {
            1.0
        };
        let nanos = 1e6 * slow * (0.69 * normal).exp();
        part.latency.record_nanos(nanos as u64);
        part.send_lag.record_nanos((nanos / 50.0) as u64);
    }
    part.planned = exchanges;
    part.completed = exchanges;
    part.received = Bytes(1000 * exchanges);
    part.connections = 100;
    part.so_far.planned = exchanges * (interval + 1);
    part.so_far.sent = part.so_far.planned;
    part.so_far.completed = part.so_far.planned;
    part.so_far.statuses.insert(200, part.so_far.planned);
    part
}

/// Measures the CPU time of processing an interval's figures at this load.
pub fn of_intervals(exchanges: u64) -> Result<IntervalCosts, Box<dyn Error>> {
    let tls = settings()?;
    let (mut member, ..) = open(&tls);
    let figures = part(1, 0, exchanges);
    let encode = time(
        || (),
        |()| {
            let message = Message::Interval(encode_part(&figures));
            assert!(!member.message(&message).is_empty());
        },
    );
    let encoded = encode_part(&figures);
    let interval = Message::Interval(encoded);
    let bytes = member.message(&interval).len();
    // Rank 0 did not receive the earlier frames, so the counters of the frames differ and a new connection is needed.
    let (mut member, mut rank_0, _) = open(&tls);
    let receive = time(
        || member.message(&interval),
        |bytes| {
            assert!(matches!(rank_0.receive(bytes), Some(Message::Interval(_))));
        },
    );
    let (merge, memory) = of_merging(exchanges);
    Ok(IntervalCosts {
        exchanges,
        bytes,
        encode,
        receive,
        merge,
        memory,
    })
}

/// Measures two costs of rank 0, each per rank: the CPU time of decoding and merging, and the memory of one interval's
/// figures. Rank 0 stores the figures of an interval until those of the last rank arrive.
fn of_merging(exchanges: u64) -> (Duration, u64) {
    fathometer_sys::heap::release_free_memory();
    let before = resident();
    let mut whole = Whole::new(TestFacts {
        ranks: RANKS,
        ..FACTS
    });
    let encoded: Vec<Vec<u8>> = (0..8)
        .map(|rank| encode_part(&part(rank, 0, exchanges)))
        .collect();
    let begin = thread_cpu_time();
    for rank in 0..RANKS {
        let figures = encoded[rank as usize % encoded.len()].clone();
        whole
            .interval(rank, figures)
            .expect("the intervals are in order");
    }
    let memory = resident().saturating_sub(before);
    assert!(whole.close_next().is_some());
    let spent = thread_cpu_time().saturating_sub(begin);
    (spent / RANKS, memory / u64::from(RANKS))
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    1024 * kilobytes
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}
