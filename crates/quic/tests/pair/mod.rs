//! A client and a server on a path in virtual time: datagrams arrive after half a round trip, in order, except
//! those that the test drops.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_quic::{
    ClientTls, ConnectionKey, Endpoint, Event, HalfOpen, QlogWriter, ReadEnd, ServerSettings,
    TransportSettings, Waiting,
};

pub const NAME: &str = "origin.test";
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);

/// TLS of both sides; the next pair reuses the tickets.
#[derive(Clone)]
pub struct Tls {
    pub client: ClientTls,
    pub server: Arc<rustls::ServerConfig>,
}

impl Tls {
    /// Creates certificates for one test, `padding` bytes longer than necessary.
    pub fn new(early_data: bool, padding: usize) -> Tls {
        let mut parameters = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        parameters.distinguished_name.push(
            rcgen::DnType::OrganizationName,
            // Longer than browsers allow for a name, but no browser is involved.
            "x".repeat(padding + 1),
        );
        // Ed25519 signatures have a constant length, so the datagrams that contain them have a constant length too.
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let versions = &[&rustls::version::TLS13];
        let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        client.enable_early_data = early_data;
        if !early_data {
            client.resumption = rustls::client::Resumption::disabled();
        }
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        server.alpn_protocols = vec![b"h3".to_vec()];
        server.max_early_data_size = if early_data { u32::MAX } else { 0 };
        Tls {
            client: ClientTls::new(Arc::new(client)).unwrap(),
            server: Arc::new(server),
        }
    }
}

/// The set-up of a pair.
pub struct Plan {
    pub tls: Tls,
    pub client: TransportSettings,
    pub server: TransportSettings,
    pub rtt: Duration,
    pub validates_addresses: bool,
    pub most_connections: usize,
    pub waiting: Waiting,
    pub half_open: HalfOpen,
    pub segments: usize,
    pub seed: Seed,
    pub qlog: Option<QlogWriter>,
}

impl Plan {
    pub fn new() -> Plan {
        Plan {
            tls: Tls::new(false, 0),
            client: TransportSettings::default(),
            server: TransportSettings::default(),
            rtt: Duration::from_millis(100),
            validates_addresses: false,
            most_connections: 10,
            waiting: Waiting::default(),
            half_open: HalfOpen::default(),
            segments: 10,
            seed: Seed(1),
            qlog: None,
        }
    }
}

/// A datagram in flight.
struct Flying {
    arrives: Instant,
    ecn: u8,
    bytes: Vec<u8>,
}

/// One side of the pair.
pub struct End {
    pub endpoint: Endpoint,
    pub key: Option<ConnectionKey>,
    pub events: Vec<Event>,
    /// Bytes read of each stream, and whether its end was read.
    pub read: std::collections::BTreeMap<u64, (Vec<u8>, bool)>,
    /// Streams reset by the peer, with their codes.
    pub resets: Vec<(u64, u64)>,
    /// Lengths of datagrams sent, in order.
    pub lengths: Vec<usize>,
    arriving: VecDeque<Flying>,
}

impl End {
    fn new(endpoint: Endpoint) -> End {
        End {
            endpoint,
            key: None,
            events: Vec::new(),
            read: Default::default(),
            resets: Vec::new(),
            lengths: Vec::new(),
            arriving: VecDeque::new(),
        }
    }

    pub fn connection(&mut self) -> &mut fathometer_quic::Connection {
        let key = self.key.expect("there is a connection");
        self.endpoint.get_mut(key).expect("it is there still")
    }

    pub fn write(&mut self, stream: u64, text: &[u8]) -> usize {
        self.connection()
            .write(stream, &[IoSlice::new(text)])
            .unwrap()
    }

    pub fn has(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }

    fn take_events(&mut self) {
        while let Some(key) = self.endpoint.poll_touched() {
            self.key = Some(key);
        }
        let Some(key) = self.key else { return };
        while let Some(event) = self.endpoint.poll_event(key) {
            match event {
                Event::Opened { stream } | Event::Readable { stream } => self.read(stream),
                Event::Drained => self.key = None,
                _ => {}
            }
            self.events.push(event);
        }
    }

    fn read(&mut self, stream: u64) {
        let entry = self.read.entry(stream).or_default();
        let Some(connection) = self.key.and_then(|key| self.endpoint.get_mut(key)) else {
            return;
        };
        let end = connection.read(stream, usize::MAX, |bytes, last| {
            entry.0.extend_from_slice(bytes);
            assert!(!entry.1, "data after the end of a stream");
            entry.1 = last;
        });
        match end {
            ReadEnd::Reset(code) => self.resets.push((stream, code)),
            ReadEnd::Finished => assert!(entry.1),
            ReadEnd::Blocked | ReadEnd::Closed | ReadEnd::Full => {}
        }
    }
}

pub struct Pair {
    pub client: End,
    pub server: End,
    pub now: Instant,
    half: Duration,
    segments: usize,
    /// The indices of the datagrams to drop: first of the client's datagrams, then of the server's.
    pub lost: (Vec<usize>, Vec<usize>),
    /// Whether the path marks the server's datagrams with congestion experienced (ECN).
    pub marks: bool,
}

impl Pair {
    pub fn new(plan: Plan) -> Pair {
        let settings = ServerSettings {
            tls: Arc::clone(&plan.tls.server),
            transport: plan.server,
            validates_addresses: plan.validates_addresses,
            migration: false,
            most_connections: plan.most_connections,
            waiting: plan.waiting,
            half_open: plan.half_open,
            qlog: None,
        };
        let server = Endpoint::server(settings, true, plan.seed.child(2)).unwrap();
        let length = plan.client.identifier_length;
        let mut client = Endpoint::client(length, true, plan.seed.child(1));
        let now = Instant::from_nanos(1_000);
        let key = client
            .connect(
                &plan.tls.client,
                &plan.client,
                SocketAddr::from(SERVER),
                NAME,
                plan.qlog,
                now,
            )
            .unwrap();
        let mut client = End::new(client);
        client.key = Some(key);
        Pair {
            client,
            server: End::new(server),
            now,
            half: plan.rtt / 2,
            segments: plan.segments,
            lost: Default::default(),
            marks: false,
        }
    }

    /// Runs until a condition holds. Panics when no further event is possible, or after an hour.
    pub fn run_until(&mut self, mut condition: impl FnMut(&mut Pair) -> bool) {
        loop {
            self.settle();
            if condition(self) {
                return;
            }
            let next = self.next().expect("no event or timer is left");
            assert!(
                next < Instant::from_nanos(3_600_000_000_000),
                "an hour has passed"
            );
            self.advance(next);
        }
    }

    /// Runs for `time`: handles every arrival and timer that is due within this time.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            match self.next() {
                Some(next) if next <= until => self.advance(next),
                _ => break,
            }
        }
        self.now = until;
    }

    pub fn establish(&mut self) {
        self.run_until(|pair| {
            pair.client
                .has(|event| matches!(event, Event::Established(_)))
                && pair
                    .server
                    .has(|event| matches!(event, Event::Established(_)))
        });
    }

    fn advance(&mut self, next: Instant) {
        self.now = self.now.max(next);
        let now = self.now;
        let ends = [
            (&mut self.client, SocketAddr::from(SERVER)),
            (&mut self.server, SocketAddr::from(CLIENT)),
        ];
        for (end, peer) in ends {
            while end
                .arriving
                .front()
                .is_some_and(|flying| flying.arrives <= now)
            {
                let flying = end.arriving.pop_front().unwrap();
                end.endpoint.handle_datagrams(
                    peer,
                    None,
                    flying.ecn,
                    flying.bytes.len(),
                    &flying.bytes,
                    now,
                );
            }
            if let Some(key) = end.key
                && end.endpoint.poll_timeout(key).is_some_and(|due| due <= now)
            {
                end.endpoint.handle_timeout(key, now);
            }
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let mut next = None;
        for end in [&mut self.client, &mut self.server] {
            let timer = end.key.and_then(|key| end.endpoint.poll_timeout(key));
            let arrival = end.arriving.front().map(|flying| flying.arrives);
            next = [next, timer, arrival].into_iter().flatten().min();
        }
        next
    }

    /// Takes events and sends all pending datagrams.
    pub fn settle(&mut self) {
        self.client.take_events();
        self.server.take_events();
        let arrives = self.now + self.half;
        let (now, segments) = (self.now, self.segments);
        let Pair {
            client,
            server,
            lost,
            marks,
            ..
        } = self;
        send(client, server, &lost.0, false, now, arrives, segments);
        send(server, client, &lost.1, *marks, now, arrives, segments);
    }
}

fn send(
    from: &mut End,
    to: &mut End,
    lost: &[usize],
    marks: bool,
    now: Instant,
    arrives: Instant,
    segments: usize,
) {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let response = from.endpoint.poll_response(&mut buffer);
        let transmit = response.or_else(|| {
            let key = from.key?;
            from.endpoint.poll_transmit(key, segments, &mut buffer, now)
        });
        let Some(transmit) = transmit else { break };
        let segment = transmit.segment.unwrap_or(buffer.len());
        assert!(buffer.len().div_ceil(segment) <= segments);
        for bytes in buffer.chunks(segment) {
            let number = from.lengths.len();
            from.lengths.push(bytes.len());
            if lost.contains(&number) {
                continue;
            }
            to.arriving.push_back(Flying {
                arrives,
                ecn: if marks { 0b11 } else { transmit.ecn },
                bytes: bytes.to_vec(),
            });
        }
    }
}
