//! HTTP/3 in a laboratory: the settings of the client and the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fathometer_http::h3;
use fathometer_http::origin::companions::Plan;
use fathometer_model::{Bytes, Instant};
use fathometer_quic::{Congestion, TransportSettings};
use fathometer_tls::{ClientSettings, ServerOptions, ServerSettings, Tickets};

use super::levels::Levels;
use super::place::Place;
use crate::experiment::ReplicateError;
use crate::factor::LevelError;
use fathometer_lab::hosts::Side;
use fathometer_lab::server::{self, Content, Credentials};
use fathometer_load::http3_client::ClientSettings as QuicSettings;
use fathometer_origin::http3::{Service, ServiceOptions};
use fathometer_quic_sockets::Sockets;

/// The flow-control windows of browsers, in bytes: of a stream, and of a connection.
const WINDOWS: (Bytes, Bytes) = (Bytes(6 << 20), Bytes(15 << 20));

/// Maximum number of concurrent connections of the server.
const MOST_OPEN: usize = 1024;

/// The limit of early data, in bytes. QUIC requires this value (RFC 9001 section 4.6.1).
const EARLY_DATA: u32 = u32::MAX;

/// Returns the transport settings of both sides, with the cell's congestion control and initial window.
fn transport(levels: &Levels<'_>) -> TransportSettings {
    TransportSettings {
        congestion: match levels.congestion.as_deref() {
            Some("bbr") => Congestion::Bbr,
            Some("reno") => Congestion::NewReno,
            _ => Congestion::Cubic,
        },
        initial_window: levels.initial_window.unwrap_or(10),
        stream_window: WINDOWS.0,
        connection_window: Some(WINDOWS.1),
        ..TransportSettings::default()
    }
}

/// Returns the socket settings of both sides.
fn sockets(levels: &Levels<'_>) -> Sockets {
    Sockets::default().offloaded(levels.udp_offload)
}

/// Returns the client's QUIC settings.
pub(super) fn client(
    levels: &Levels<'_>,
    tls: &Arc<ClientSettings>,
) -> Result<Arc<QuicSettings>, ReplicateError> {
    let config = h3::client::Config {
        limits: levels.options.limits,
        timeouts: levels.options.timeouts,
        ..h3::client::Config::default()
    };
    let mut transport = transport(levels);
    if let Some(window) = levels.h3_window {
        transport.stream_window = Bytes(u64::from(window));
        // The connection's window must not limit a single stream.
        transport.connection_window = Some(Bytes(u64::from(window).max(65_535)));
    }
    let settings = QuicSettings::new(tls, transport, sockets(levels), config)?;
    Ok(Arc::new(settings))
}

/// Starts the embedded origin over HTTP/3. It runs in addition to the origin over TCP.
pub(super) fn serve(
    place: &Place<'_>,
    content: Content<'_>,
    credentials: &Credentials,
) -> Result<Service, ReplicateError> {
    let (setup, clock) = (place.setup, place.clock);
    let Some(embedded) = &setup.definition.embedded else {
        let policy = place.levels.policy.to_string();
        let reason = "only the embedded origin serves HTTP/3 here";
        return Err(LevelError::new("policy", &policy, reason).into());
    };
    // The origin over HTTP/3 uses neither push nor early hints.
    let content = Content {
        push: &Plan::default(),
        early_hints: &Plan::default(),
        ..content
    };
    let origin = server::origin_of(&setup.definition.name, embedded, content, clock)?;
    let unix_time = clock.realtime_of(Instant::ZERO);
    let mut tls = ServerOptions::new(credentials.identity().clone(), unix_time);
    if credentials.takes_early_data() {
        tls.tickets = Tickets::Stateful {
            count: 2,
            capacity: MOST_OPEN,
        };
        tls.early_data = Some(EARLY_DATA);
    }
    let address = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), 443);
    let options = ServiceOptions {
        addresses: vec![address],
        tls: ServerSettings::new(tls)?,
        transport: transport(place.levels),
        sockets: sockets(place.levels),
        validates_addresses: false,
        pinned: false,
        most_open: MOST_OPEN,
        log: None,
        seed: place.seed.stream("quic-server"),
    };
    let config = Arc::new(h3::server::ServerConfig::default());
    debug_assert_eq!(place.host.side, Side::Server);
    let started = place
        .host
        .namespace
        .run(|| Service::start(&options, vec![origin], &config, clock, || None))?;
    Ok(started?)
}
