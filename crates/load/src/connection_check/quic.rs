//! The connection check for an HTTP/3 server before a test.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::h3;
use fathometer_model::{Failure as Cause, Seed};
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;
use fathometer_sys::Clock;
use fathometer_sys::poller::Poller;
use fathometer_tls::ClientSettings;

use super::{CheckError, Server};
use crate::host_names::without_port;
use crate::http3_client::{self, Event, Http3Client};
use crate::security::agreement_of_quic;

/// The longest wait between two checks of the clock.
const LOOK: Duration = Duration::from_millis(50);

/// Completes one handshake, closes the connection, and describes the negotiated parameters.
pub(super) fn handshake(
    settings: &Arc<ClientSettings>,
    server: Server<'_>,
    clock: Clock,
) -> Result<String, CheckError> {
    let Server {
        url,
        address,
        patience,
    } = server;
    let authority = &url.authority;
    let failed = |why: String| {
        CheckError::Server(format!(
            "failed to establish HTTP/3 with {authority} ({address}, UDP): {why}"
        ))
    };
    let settings = http3_client::ClientSettings::new(
        settings,
        TransportSettings::client(),
        Sockets::default(),
        h3::client::Config::default(),
    );
    let settings = Arc::new(settings.map_err(|error| failed(error.to_string()))?);
    let mut buffer = settings.receive_buffer();
    let seed = Seed(clock.now().as_nanos());
    let client = Http3Client::connect(
        &settings,
        address,
        None,
        without_port(authority),
        seed,
        None,
        clock.now(),
    );
    let mut client = client.map_err(|error| failed(error.to_string()))?;
    let mut poller = Poller::new(4)?;
    poller
        .add(&client, 0)
        .map_err(|error| failed(error.to_string()))?;
    let until = clock.now() + patience;
    client.flush(clock.now());
    loop {
        let now = clock.now();
        if now >= until {
            return Err(failed(
                "no response; is the server running, does it support HTTP/3, and does a firewall block UDP? \
                 (--connect-timeout sets the time limit)"
                    .to_owned(),
            ));
        }
        let due = client.poll_timeout().unwrap_or(until).min(until);
        let ready = poller.wait(Some(due.since(now).min(LOOK)))?;
        for place in 0..ready {
            let ready = poller.ready(place);
            client.handle_ready(ready.readable || ready.ended, ready.writable);
        }
        let now = clock.now();
        if client.poll_timeout().is_some_and(|due| due <= now) {
            client.handle_timeout(now);
        }
        client.receive(&mut buffer, now);
        while let Some(event) = client.poll_event(now) {
            match event {
                Event::Established(handshake) => {
                    let agreed = agreement_of_quic(handshake);
                    client.close(now);
                    client.flush(now);
                    return Ok(agreed);
                }
                Event::Http(_) => {}
                Event::Closed(closed) => {
                    let advice = match closed.failure {
                        Some(Cause::Refused) => {
                            ": no process listens there; does the server support HTTP/3 on this port?"
                        }
                        Some(Cause::TlsFailed) => {
                            ": trust its certificate authority with --cacert, or any certificate with --insecure"
                        }
                        _ => "",
                    };
                    return Err(failed(format!("{}{advice}", closed.reason)));
                }
            }
        }
        client.flush(now);
    }
}
