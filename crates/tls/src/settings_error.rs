//! The error for invalid TLS settings.

/// The reason why TLS settings are invalid. The `Display` text completes "TLS settings: {error}".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A file with certificates or keys cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The path of the file, as the user stated it.
        file: String,
        /// The problem with the file.
        problem: String,
    },
    /// A certificate cannot be created.
    #[error("failed to create a certificate: {0}")]
    Making(String),
    /// The word is not the name of a version, cipher suite or group.
    #[error("unknown {kind} {word:?}: supported are {known}")]
    Unknown {
        /// The kind of the name: a TLS version, a cipher suite or a group.
        kind: &'static str,
        /// The unknown word.
        word: String,
        /// All supported words.
        known: String,
    },
    /// The record size is outside the valid range.
    #[error("record size of {0} bytes is out of range: use 32 to 16384 bytes")]
    RecordSize(usize),
    /// Early data is enabled, but the tickets do not prevent replay.
    #[error(
        "early data requires stateful tickets: the server stores the sessions, so that each ticket is used once"
    )]
    EarlyDataNeedsState,
    /// The settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}
