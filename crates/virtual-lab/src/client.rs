//! The page client: the page driver over the client's TCP endpoints. Its turns are the same as in the laboratory's
//! client.

use fathometer_http::driver::{Action, ConnectionId, PageDriver};
use fathometer_model::Instant;
use fathometer_tcp::{Endpoint, Read, Settings};

/// The maximum number of bytes that the client reads in one call.
const READ: usize = 64 * 1024;
/// The number of reads on one connection before the client continues with the next connection.
const READS_IN_A_ROW: usize = 8;

/// The client's side of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    reported: bool,
    ended: bool,
    shuts_down: bool,
    pub(crate) is_dropped: bool,
}

impl Client {
    fn new(settings: Settings, now: Instant) -> Client {
        Client {
            endpoint: Endpoint::connect(settings, now),
            reported: false,
            ended: false,
            shuts_down: false,
            is_dropped: false,
        }
    }

    /// Whether the next turn has received data or a new connection to handle.
    pub(crate) fn is_ready(&self) -> bool {
        let is_new = self.endpoint.is_established() && !self.reported;
        let has_news = self.endpoint.is_readable() && !self.ended;
        !self.is_dropped && (is_new || has_news)
    }
}

/// Handles established connections, then received data, and then time-outs.
pub(crate) fn take_in(driver: &mut PageDriver, clients: &mut [Client], now: Instant) {
    for (place, client) in clients.iter_mut().enumerate() {
        if client.endpoint.is_established() && !client.reported {
            client.reported = true;
            driver.handle_connected(ConnectionId(place as u32), now);
        }
    }
    for (place, client) in clients.iter_mut().enumerate() {
        let id = ConnectionId(place as u32);
        for _ in 0..READS_IN_A_ROW {
            if client.is_dropped || client.ended || !client.reported {
                break;
            }
            match client.endpoint.read(READ, now) {
                Read::Data(bytes) => driver.handle_data(id, &bytes, now),
                Read::End => {
                    client.ended = true;
                    driver.handle_eof(id, now);
                }
                Read::WouldBlock => break,
            }
        }
    }
    if driver.poll_timeout().is_some_and(|due| due <= now) {
        driver.handle_timeout(now);
    }
}

/// Executes the driver's actions and writes its data, until neither makes progress.
pub(crate) fn put_out(
    driver: &mut PageDriver,
    clients: &mut Vec<Client>,
    settings: &Settings,
    now: Instant,
) {
    loop {
        while let Some(action) = driver.poll_action() {
            carry_out(action, clients, settings, now);
        }
        let mut progress = false;
        for (place, client) in clients.iter_mut().enumerate() {
            progress |= write(driver, ConnectionId(place as u32), client, now);
        }
        if !progress && !driver.has_actions() {
            return;
        }
    }
}

fn carry_out(action: Action, clients: &mut Vec<Client>, settings: &Settings, now: Instant) {
    match action {
        // The number of a connection is its position in the order in which the driver requests connections.
        Action::Connect(_) => clients.push(Client::new(settings.clone(), now)),
        Action::ShutdownWrite(id) => {
            if let Some(client) = clients.get_mut(id.0 as usize) {
                client.shuts_down = true;
            }
        }
        Action::Close(id) | Action::Abort(id) => {
            if let Some(client) = clients.get_mut(id.0 as usize) {
                client.endpoint.close(now);
                client.is_dropped = true;
            }
        }
    }
}

fn write(driver: &mut PageDriver, id: ConnectionId, client: &mut Client, now: Instant) -> bool {
    let mut progress = false;
    while client.reported && !client.is_dropped && !client.ended {
        let bytes = driver.transmit(id);
        if bytes.is_empty() {
            break;
        }
        let written = client.endpoint.write(bytes, false, now);
        if written == 0 {
            return progress;
        }
        driver.transmitted(id, written, now);
        progress = true;
    }
    if client.shuts_down && !client.is_dropped {
        client.shuts_down = false;
        client.endpoint.close(now);
    }
    progress
}
