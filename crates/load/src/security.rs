//! TLS on the connections of a test: the servers' names, and the protocol that must be negotiated.

use std::sync::Arc;

use fathometer_analysis::load::Handshakes;
use fathometer_http::driver::Protocol;
use fathometer_quic as quic;
use fathometer_tls::{ClientSettings, EarlyData, Handshake, Resumption};

use super::Options;
use super::host_names::{host_names, without_port};

/// The TLS settings and server names of a test; see the [module](self).
pub(super) struct Security {
    pub(super) settings: Arc<ClientSettings>,
    /// The names of the policy's hosts, without ports.
    names: Vec<String>,
    protocol: Protocol,
}

impl Security {
    pub(super) fn new(options: &Options, settings: &Arc<ClientSettings>) -> Security {
        let names = host_names(&options.host, options.policy.hosts);
        Security {
            settings: Arc::clone(settings),
            names: names
                .iter()
                .map(|name| without_port(name).to_owned())
                .collect(),
            protocol: options.policy.protocol,
        }
    }

    /// Returns the server name (SNI) of a host for the handshake.
    pub(super) fn name(&self, host: u16) -> &str {
        &self.names[usize::from(host)]
    }

    /// Returns whether a connection with this negotiated protocol can be used.
    pub(super) fn agrees(&self, protocol: Option<&[u8]>) -> bool {
        self.protocol.is_selected_by(protocol)
    }
}

/// Describes the negotiated parameters of a handshake: `TLS 1.3, TLS_AES_128_GCM_SHA256, x25519, h2`.
pub fn agreement(handshake: &Handshake) -> String {
    let mut text = format!("TLS {}, {}", handshake.version, handshake.cipher_suite);
    if let Some(group) = handshake.group {
        text.push_str(&format!(", {group}"));
    }
    let protocol = handshake.alpn.as_deref().map(String::from_utf8_lossy);
    text.push_str(&format!(", {}", protocol.as_deref().unwrap_or("no ALPN")));
    text
}

/// Counts a handshake and its CPU time.
pub(super) fn count(handshakes: &mut Handshakes, handshake: &Handshake, cpu: std::time::Duration) {
    match handshake.resumption {
        Resumption::Full => handshakes.full += 1,
        Resumption::SessionId | Resumption::Ticket | Resumption::Psk => handshakes.resumed += 1,
    }
    match handshake.early_data {
        EarlyData::NotTried => {}
        EarlyData::Accepted => handshakes.early += 1,
        EarlyData::Rejected => handshakes.early_refused += 1,
    }
    handshakes.sent += handshake.sent;
    handshakes.received += handshake.received;
    handshakes.certificates += handshake.certificates;
    handshakes.cpu += cpu;
    *handshakes.agreed.entry(agreement(handshake)).or_default() += 1;
}

/// Counts a QUIC handshake, which includes a TLS 1.3 handshake.
pub(super) fn count_quic(
    handshakes: &mut Handshakes,
    handshake: &quic::Handshake,
    cpu: std::time::Duration,
) {
    match handshake.resumed {
        true => handshakes.resumed += 1,
        false => handshakes.full += 1,
    }
    match handshake.early_data {
        quic::EarlyData::Accepted => handshakes.early += 1,
        quic::EarlyData::Rejected => handshakes.early_refused += 1,
        _ => {}
    }
    handshakes.sent += handshake.sent.bytes;
    handshakes.received += handshake.received.bytes;
    handshakes.certificates += handshake.certificates;
    handshakes.cpu += cpu;
    *handshakes
        .agreed
        .entry(agreement_of_quic(handshake))
        .or_default() += 1;
}

/// Describes the negotiated parameters of a QUIC handshake: `QUIC, TLS 1.3, TLS_AES_128_GCM_SHA256, h3`.
pub fn agreement_of_quic(handshake: &quic::Handshake) -> String {
    let protocol = handshake.protocol.as_deref().map(String::from_utf8_lossy);
    let suite = handshake.cipher_suite.unwrap_or("unknown cipher suite");
    format!(
        "QUIC, TLS 1.3, {suite}, {}",
        protocol.as_deref().unwrap_or("no ALPN")
    )
}
