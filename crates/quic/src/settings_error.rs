//! The error for invalid transport settings.

/// The reason why transport settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value outside the range that the protocol permits.
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
    /// The TLS settings lack TLS 1.3, which QUIC requires, or the cipher suite of Initial packets.
    #[error("the TLS settings lack TLS 1.3 or the cipher suite TLS_AES_128_GCM_SHA256")]
    Tls,
    /// The qlog's header could not be written.
    #[error("cannot write the qlog's header")]
    Qlog,
}
