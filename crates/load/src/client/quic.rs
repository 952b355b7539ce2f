//! An HTTP/3 connection: its state machine runs between the driver and the QUIC streams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fathometer_http::client::{Event as HttpEvent, RequestLine, SendError};
use fathometer_http::driver::{ConnectionId, HostedRequest, PageDriver, Version};
use fathometer_http::h3;
use fathometer_model::{Instant, Seed, TlsRecord};
use fathometer_quic::{EarlyData, Handshake};
use fathometer_sys::udp::{Batches, ReceiveBuffer};

use crate::http3_client::{ClientSettings, Event, Http3Client};

/// An HTTP/3 connection.
pub(super) struct QuicTransport {
    client: Http3Client,
    begun: Instant,
    is_over: bool,
    /// Whether more datagrams may be ready to receive.
    pub(super) more: bool,
    /// The error that ended the connection, until the loop takes it.
    pub(super) failure: Option<String>,
}

impl AsFd for QuicTransport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }
}

impl QuicTransport {
    /// Begins a connection to the host that the driver has chosen.
    pub(super) fn connect(
        id: ConnectionId,
        driver: &PageDriver,
        server: SocketAddr,
        settings: &Arc<ClientSettings>,
        seed: Seed,
        now: Instant,
    ) -> io::Result<QuicTransport> {
        let seed = seed.child(u64::from(id.0));
        let name = driver.host_of(id);
        let mut client = Http3Client::connect(settings, server, None, name, seed, None, now)?;
        client.record_window_waits(now);
        Ok(QuicTransport {
            client,
            begun: now,
            is_over: false,
            more: false,
            failure: None,
        })
    }

    /// Records the readiness that the poll reported.
    pub(super) fn handle_ready(&mut self, readable: bool, writable: bool) {
        self.client.handle_ready(readable, writable);
    }

    /// Returns the latest time at which [`work`](Self::work) must be called.
    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        self.client.poll_timeout()
    }

    /// Returns the number of system calls and buffers that carried the connection's datagrams.
    pub(super) fn batches(&self) -> Batches {
        self.client.batches()
    }

    /// Does one turn of the work that needs no wait: takes the driver's requests, passes on received data, and sends
    /// the data that may be sent. Afterwards [`more`](Self::more) states whether more data may be ready to receive.
    pub(super) fn work(
        &mut self,
        id: ConnectionId,
        driver: &mut PageDriver,
        buffer: &mut ReceiveBuffer,
        now: Instant,
    ) {
        if self.client.poll_timeout().is_some_and(|due| due <= now) {
            self.client.handle_timeout(now);
        }
        self.more = self.client.receive(buffer, now);
        self.report_progress(id, driver, now);
        self.take_requests(id, driver, now);
        while self.take_event(id, driver, now) {
            self.take_requests(id, driver, now);
        }
        let waits = self.client.take_window_waits();
        if !waits.is_empty() {
            driver.handle_window_waits(id, waits);
        }
        self.client.flush(now);
        self.report_progress(id, driver, now);
    }

    fn report_progress(&self, id: ConnectionId, driver: &mut PageDriver, now: Instant) {
        let statistics = self.client.statistics();
        let unsent = self.client.http_ref().first_unsent();
        let (sent, received) = (statistics.sent.bytes, statistics.received.bytes);
        driver.handle_progress(id, unsent, sent, received, now);
    }

    fn take_requests(&mut self, id: ConnectionId, driver: &mut PageDriver, now: Instant) {
        while let Some((request, failure)) = driver.take_cancelled(id) {
            self.client.http().cancel(request, failure, now);
        }
        while self.client.http_ref().can_request()
            && let Some(request) = driver.take_request(id)
        {
            let queued = make(self.client.http(), &request);
            driver.handle_queued(id, request.request, queued, now);
        }
    }

    /// Passes the next event to the driver; returns whether there was one.
    fn take_event(&mut self, id: ConnectionId, driver: &mut PageDriver, now: Instant) -> bool {
        match self.client.poll_event(now) {
            None => return false,
            Some(Event::Established(handshake)) => {
                let record = record(handshake, self.begun, now);
                let protocol = handshake.protocol.as_deref();
                let protocol = protocol.map(|name| String::from_utf8_lossy(name).into_owned());
                driver.note_protection(id, protocol, record);
                driver.handle_connected(id, now);
            }
            Some(Event::Http(HttpEvent::Content { request, bytes })) => {
                let event = HttpEvent::Content { request, bytes };
                driver.handle_hosted(id, event, None, now);
            }
            Some(Event::Http(event)) => {
                if let Some(event) = event.without_content() {
                    let head = self.client.http_ref().head();
                    driver.handle_hosted(id, event, Some(head), now);
                }
            }
            Some(Event::Closed(closed)) => {
                self.is_over = true;
                match closed.failure {
                    Some(failure) => {
                        self.failure = Some(closed.reason.clone());
                        driver.handle_failure(id, failure, now);
                    }
                    None => driver.handle_eof(id, now),
                }
            }
        }
        true
    }

    /// Closes the connection and notifies the server.
    pub(super) fn close(&mut self, now: Instant) {
        if !self.is_over {
            self.client.close(now);
        }
        self.client.flush(now);
    }
}

/// Queues a request of the driver on the HTTP/3 machine.
fn make(
    http: &mut h3::client::Connection,
    request: &HostedRequest,
) -> Result<fathometer_http::client::Queued, SendError> {
    let line = RequestLine {
        method: &request.method,
        target: &request.target,
        host: &request.host,
        version: Version::Http11,
    };
    let mut writer = http.request(line)?;
    for (name, value) in &request.fields {
        writer.field(name, value);
    }
    writer.send()
}

fn record(handshake: &Handshake, begun: Instant, finished: Instant) -> TlsRecord {
    TlsRecord {
        begun,
        finished,
        version: "1.3".to_owned(),
        cipher_suite: handshake.cipher_suite.unwrap_or_default().to_owned(),
        resumed: handshake.resumed,
        early_data: match handshake.early_data {
            EarlyData::None => None,
            EarlyData::Accepted => Some(true),
            EarlyData::Rejected => Some(false),
        },
        round_trips: match handshake.early_data {
            EarlyData::Accepted => 0,
            _ => handshake.round_trips,
        },
        sent: handshake.sent.bytes,
        received: handshake.received.bytes,
        certificates: handshake.certificates,
    }
}
