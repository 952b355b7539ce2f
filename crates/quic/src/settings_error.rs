//! Why settings of a transport cannot be used.

/// Why settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number outside the range of the protocol.
    #[error("{what} is out of range: {range}")]
    OutOfRange {
        /// The setting.
        what: &'static str,
        /// The allowed range.
        range: &'static str,
    },
    /// An unknown congestion controller.
    #[error("{0:?} is not a congestion controller: write cubic, bbr or newreno")]
    Congestion(String),
    /// The TLS settings lack TLS 1.3, which QUIC requires, or the suite of Initial packets.
    #[error("the TLS settings lack TLS 1.3 or its suite TLS_AES_128_GCM_SHA256")]
    Tls,
    /// The head of the qlog could not be written.
    #[error("the qlog cannot be written")]
    Qlog,
}
