//! The settings of HTTP/3 connections.

use std::sync::Arc;

use fathometer_http::h3::client::Config;
use fathometer_http::protocol::Protocol;
use fathometer_quic::{ClientTls, TransportSettings};
use fathometer_quic_sockets::{SettingsError, Sockets};
use fathometer_sys::udp::ReceiveBuffer;

/// The settings of connections. Connections with the same settings share their session tickets.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The TLS settings, whose time must be updated here, because QUIC connections have no TLS session that updates it.
    pub(super) tls: Arc<fathometer_tls::ClientSettings>,
    pub(super) quic_tls: ClientTls,
    pub(super) transport: TransportSettings,
    pub(super) sockets: Sockets,
    pub(super) http: Config,
}

impl ClientSettings {
    /// Creates settings with these TLS settings. The protocol (ALPN) is always `h3`; the ALPN names in `tls` are
    /// ignored.
    pub fn new(
        tls: &Arc<fathometer_tls::ClientSettings>,
        transport: TransportSettings,
        sockets: Sockets,
        http: Config,
    ) -> Result<ClientSettings, SettingsError> {
        Ok(ClientSettings {
            tls: Arc::clone(tls),
            quic_tls: ClientTls::new(tls.quic_config(&[Protocol::Http3.alpn().as_bytes()])?)?,
            transport,
            sockets,
            http,
        })
    }

    /// Creates a receive buffer that fits the sockets; one buffer per loop is enough.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        ReceiveBuffer::new(self.sockets.coalescing)
    }
}
