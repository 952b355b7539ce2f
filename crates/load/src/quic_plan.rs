//! The settings of a test's HTTP/3 connections.

use std::sync::Arc;

use fathometer_http::exchange::Timeouts;
use fathometer_http::h3::client as http3;
use fathometer_model::{Bytes, Seed};
use fathometer_quic::TransportSettings;
use fathometer_quic_sockets::Sockets;

use super::http3_client::ClientSettings;
use super::{LoadError, Options};

/// The settings of a test's HTTP/3 connections.
pub(super) struct QuicPlan {
    pub(super) settings: Arc<ClientSettings>,
    pub(super) seed: Seed,
}

impl QuicPlan {
    pub(super) fn new(options: &Options) -> Result<Option<QuicPlan>, LoadError> {
        let policy = options.policy;
        let Some(tls) = options
            .tls
            .as_ref()
            .filter(|_| policy.protocol.is_over_quic())
        else {
            return Ok(None);
        };
        let http = http3::Config {
            streams: policy.streams.map_or(u32::MAX, u32::from),
            // The loop enforces time limits, so the state machine has none.
            timeouts: Timeouts {
                head: None,
                idle: None,
                total: None,
                ..Timeouts::default()
            },
            ..http3::Config::default()
        };
        let transport = TransportSettings {
            stream_window: Bytes(options.windows.stream.into()),
            connection_window: Some(Bytes(options.windows.connection.into())),
            // If a server does not respond, the exchanges time out.
            max_idle: None,
            ..TransportSettings::client()
        };
        let sockets = Sockets::default().offloaded(options.udp_offload);
        let settings = ClientSettings::new(tls, transport, sockets, http)
            .map_err(|error| LoadError::Quic(error.to_string()))?;
        Ok(Some(QuicPlan {
            settings: Arc::new(settings),
            seed: options.seed.stream("load.quic"),
        }))
    }
}
