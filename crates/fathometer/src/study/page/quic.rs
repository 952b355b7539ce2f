//! HTTP/3 in a laboratory: what its client and its server are begun with.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fathometer_http::h3;
use fathometer_http::origin::companions::Plan;
use fathometer_model::{Bytes, Instant};
use fathometer_quic::{Congestion, TransportSettings};
use fathometer_tls::{ClientSettings, ServerOptions, ServerSettings, Tickets};

use super::super::replicate::ReplicateError;
use super::levels::Levels;
use super::serving::Where;
use crate::lab::Side;
use crate::quic::Sockets;
use crate::quic::client::ClientSettings as QuicSettings;
use crate::quic::server::{Service, ServiceOptions};
use crate::server::{self, Content, Credentials};

/// Octets that browsers let be under way on a stream, and on a connection.
const WINDOWS: (Bytes, Bytes) = (Bytes(6 << 20), Bytes(15 << 20));

/// Connections that the server takes at a time.
const MOST_OPEN: usize = 1024;

/// The most octets of early data that the server takes, as QUIC wants it said.
const EARLY_DATA: u32 = u32::MAX;

/// The transport of both sides: the cell's congestion control and initial window are its own too.
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

/// What the sockets of both sides are given.
fn sockets(levels: &Levels<'_>) -> Sockets {
    Sockets::default().offloaded(levels.udp_offload)
}

/// What the client begins QUIC with.
pub(super) fn client(
    levels: &Levels<'_>,
    tls: &Arc<ClientSettings>,
) -> Result<Arc<QuicSettings>, ReplicateError> {
    let config = h3::client::Config {
        limits: levels.options.limits,
        timeouts: levels.options.timeouts,
        ..h3::client::Config::default()
    };
    let settings = QuicSettings::new(tls, transport(levels), sockets(levels), config)?;
    Ok(Arc::new(settings))
}

/// Our origin over HTTP/3, beside the one over TCP.
pub(super) fn serve(
    place: &Where<'_>,
    content: Content<'_>,
    credentials: &Credentials,
) -> Result<Service, ReplicateError> {
    let (setup, clock) = (place.setup, place.clock);
    let Some(embedded) = &setup.definition.embedded else {
        return Err(ReplicateError::Level {
            factor: "policy",
            level: place.levels.policy.to_string(),
            reason: "HTTP/3 is our own origin's".to_owned(),
        });
    };
    // Nothing is pushed over HTTP/3, or told of early.
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
