//! Many clients of one server, each at its own address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_quic::{
    ConnectionKey, Endpoint, HalfOpen, ServerSettings, TransportSettings, Waiting,
};

use super::pair::{NAME, Tls};

/// A separate client with its own address.
struct UnvalidatedClient {
    endpoint: Endpoint,
    key: ConnectionKey,
    address: SocketAddr,
}

impl UnvalidatedClient {
    fn new(tls: &Tls, number: u32, now: Instant) -> UnvalidatedClient {
        let seed = Seed(1_000 + u64::from(number));
        let mut endpoint = Endpoint::client(0, true, seed);
        let server = SocketAddr::from(([10, 0, 0, 2], 443));
        let settings = TransportSettings::client();
        let key = endpoint
            .connect(&tls.client, &settings, server, NAME, None, now)
            .unwrap();
        let [a, b, c, d] = (0x0b00_0000 + number).to_be_bytes();
        UnvalidatedClient {
            endpoint,
            key,
            address: SocketAddr::from(([a, b, c, d], 50_000)),
        }
    }

    /// Passes the client's datagrams to the server.
    fn speak(&mut self, server: &mut Endpoint, now: Instant) {
        let mut buffer = Vec::new();
        while self
            .endpoint
            .poll_transmit(self.key, 1, &mut buffer, now)
            .is_some()
        {
            server.handle_datagrams(self.address, None, 0, buffer.len(), &buffer, now);
            buffer.clear();
        }
    }

    /// Passes the server's datagrams for this client to the client.
    fn listen(&mut self, server: &mut Endpoint, now: Instant) {
        let from = SocketAddr::from(([10, 0, 0, 2], 443));
        let mut buffer = Vec::new();
        let mut touched = Vec::new();
        while let Some(key) = server.poll_touched() {
            touched.push(key);
        }
        let mut said = Vec::new();
        while let Some(transmit) = server.poll_response(&mut buffer) {
            said.push((transmit, std::mem::take(&mut buffer)));
        }
        for key in touched {
            while server.poll_event(key).is_some() {}
            while let Some(transmit) = server.poll_transmit(key, 1, &mut buffer, now) {
                said.push((transmit, std::mem::take(&mut buffer)));
            }
        }
        for (transmit, bytes) in said {
            if transmit.to == self.address {
                let endpoint = &mut self.endpoint;
                endpoint.handle_datagrams(from, None, 0, bytes.len(), &bytes, now);
            }
        }
        while self.endpoint.poll_touched().is_some() {}
        while self.endpoint.poll_event(self.key).is_some() {}
    }

    fn is_established(&self) -> bool {
        let connection = self.endpoint.get(self.key);
        connection.is_some_and(fathometer_quic::Connection::is_established)
    }
}

#[test]
fn a_flood_of_initial_packets_takes_little_memory_and_other_handshakes_succeed() {
    let tls = Tls::new(false, 0);
    let half_open = HalfOpen {
        retry_from: 8,
        most: 16,
        within: Duration::from_secs(10),
    };
    let settings = ServerSettings {
        tls: Arc::clone(&tls.server),
        transport: TransportSettings::default(),
        validates_addresses: false,
        migration: false,
        most_connections: 10_000,
        half_open,
        waiting: Waiting::default(),
        qlog: None,
    };
    let mut server = Endpoint::server(settings, true, Seed(1)).unwrap();
    let mut now = Instant::from_nanos(1_000);
    let mut honest = 0;
    for number in 0..400 {
        now += Duration::from_millis(1);
        // No datagram sent to this client arrives.
        UnvalidatedClient::new(&tls, number, now).speak(&mut server, now);
        if number % 50 == 49 {
            let mut client = UnvalidatedClient::new(&tls, 1_000 + number, now);
            for _ in 0..10 {
                now += Duration::from_millis(1);
                client.speak(&mut server, now);
                client.listen(&mut server, now);
            }
            assert!(client.is_established(), "{number}");
            honest += 1;
            assert!(server.connections() <= honest + half_open.retry_from);
        }
    }
    let counts = server.counts();
    assert_eq!(counts.accepted, 8 + honest as u64);
    assert!(counts.retried >= 390, "{counts:?}");
    assert_eq!((counts.refused, counts.given_up), (0, 0));

    // Clients that validate their addresses and then send nothing more: the oldest handshakes are abandoned.
    for number in 400..500 {
        now += Duration::from_millis(1);
        let mut client = UnvalidatedClient::new(&tls, number, now);
        client.speak(&mut server, now);
        client.listen(&mut server, now);
        client.speak(&mut server, now);
        let mut client = UnvalidatedClient::new(&tls, 1_000 + number, now);
        for _ in 0..10 {
            now += Duration::from_millis(1);
            client.speak(&mut server, now);
            client.listen(&mut server, now);
        }
        assert!(client.is_established(), "{number}");
        honest += 1;
        assert!(server.connections() <= honest + half_open.most);
    }
    assert!(server.counts().given_up >= 84, "{:?}", server.counts());
}
