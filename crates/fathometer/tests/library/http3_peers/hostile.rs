//! Clients that try to make the server store data that the clients never read.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use fathometer_http::h3::server::{Limits, ServerConfig};
use fathometer_model::{Bytes, Instant, Seed};
use fathometer_origin::http3::guarded_transport;
use fathometer_quic::{ClientTls, ConnectionKey, Endpoint, TransportSettings};
use fathometer_sys::Clock;

use super::support::{
    Ask, NAME, PATIENCE, Running, Trust, client_settings, origin, service_options, site, visit,
};

/// `GET https://h/large`, in a HEADERS frame.
const GET_LARGE: &[u8] = b"\x01\x0f\x00\x00\xd1\xd7\x51\x06/large\x50\x01h";

/// A QUIC client without an HTTP/3 layer.
struct Client {
    endpoint: Endpoint,
    key: ConnectionKey,
    socket: UdpSocket,
    server: SocketAddr,
}

impl Client {
    fn connect(tls: &ClientTls, server: SocketAddr, number: u64, now: Instant) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        let transport = TransportSettings {
            stream_window: Bytes(1 << 30),
            max_idle: None,
            keep_alive: Some(Duration::from_millis(200)),
            ..TransportSettings::client()
        };
        let mut endpoint = Endpoint::client(0, true, Seed(number));
        let key = endpoint
            .connect(tls, &transport, server, NAME, None, now)
            .unwrap();
        Client {
            endpoint,
            key,
            socket,
            server,
        }
    }

    fn send(&mut self, now: Instant) {
        if self
            .endpoint
            .poll_timeout(self.key)
            .is_some_and(|due| due <= now)
        {
            self.endpoint.handle_timeout(self.key, now);
        }
        while self.endpoint.poll_event(self.key).is_some() {}
        let mut buffer = Vec::new();
        while self
            .endpoint
            .poll_transmit(self.key, 1, &mut buffer, now)
            .is_some()
        {
            // Failures are ignored: if the server has exited, its responses are missing.
            let _ = self.socket.send_to(&buffer, self.server);
            buffer.clear();
        }
    }

    /// Reads a datagram, if one arrives within the socket's timeout.
    fn receive(&mut self, now: Instant) {
        let mut buffer = [0; 2048];
        if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            self.endpoint
                .handle_datagrams(from, None, 0, length, &buffer[..length], now);
            while self.endpoint.poll_touched().is_some() {}
        }
    }

    fn is_established(&self) -> bool {
        let connection = self.endpoint.get(self.key);
        connection.is_some_and(fathometer_quic::Connection::is_established)
    }
}

#[test]
fn clients_that_acknowledge_nothing_are_closed_and_no_other() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let options = service_options(&trust);
    let files = origin(site(&[("/large", 3_000_000)]));
    let config = ServerConfig {
        limits: Limits {
            send: Duration::from_secs(2),
            ..Limits::default()
        },
        ..ServerConfig::default()
    };
    let server = Running::with(&options, vec![files], config, clock);
    let settings = trust.client(false, None);
    let tls = ClientTls::new(settings.quic_config(&[b"h3"]).unwrap()).unwrap();
    let begun = clock.now();
    let mut deaf: Vec<Client> = (0..20)
        .map(|number| Client::connect(&tls, server.address(), number, clock.now()))
        .collect();
    for client in &mut deaf {
        while !client.is_established() {
            assert!(clock.now().since(begun) < PATIENCE);
            client.send(clock.now());
            client.receive(clock.now());
        }
        let connection = client.endpoint.get_mut(client.key).unwrap();
        let control = connection.open(false).unwrap();
        connection
            .write(control, &[std::io::IoSlice::new(b"\x00\x04\x00")])
            .unwrap();
        let request = connection.open(true).unwrap();
        connection
            .write(request, &[std::io::IoSlice::new(GET_LARGE)])
            .unwrap();
        connection.finish(request).unwrap();
        client.send(clock.now());
    }
    // These clients keep sending, but read nothing.
    let until = clock.now() + Duration::from_secs(8);
    let mut honest = 0;
    while clock.now() < until {
        for client in &mut deaf {
            client.send(clock.now());
        }
        let visited = visit(
            &client_settings(&settings),
            server.address(),
            &[Ask::get("/large")],
            clock,
            None,
        );
        assert_eq!(visited.answers[0].content.len(), 3_000_000);
        honest += 1;
    }
    let statistics = server.end();
    assert_eq!(statistics.stalled, 20);
    assert_eq!(statistics.responses, honest);
}

#[test]
fn what_a_client_may_send_ahead_is_bounded_for_all_its_streams_together() {
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let mut options = service_options(&trust);
    options.transport = guarded_transport();
    let server = Running::start(&options, vec![origin(site(&[("/small", 1_000)]))], clock);
    let settings = trust.client(false, None);
    let tls = ClientTls::new(settings.quic_config(&[b"h3"]).unwrap()).unwrap();
    let begun = clock.now();
    let mut client = Client::connect(&tls, server.address(), 1, begun);
    while !client.is_established() {
        assert!(clock.now().since(begun) < PATIENCE);
        client.send(clock.now());
        client.receive(clock.now());
    }
    let connection = client.endpoint.get_mut(client.key).unwrap();
    let (bytes, mut taken) = (vec![0; 64 * 1024], 0);
    while let Some(stream) = connection.open(true) {
        while let Ok(written) = connection.write(stream, &[std::io::IoSlice::new(&bytes)]) {
            taken += written;
        }
    }
    assert_eq!(taken, 1024 * 1024);
}
