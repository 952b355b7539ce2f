//! The error for invalid TLS settings.

/// Why TLS settings cannot be used. The `Display` text completes "TLS settings: {error}".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A file with certificates or keys cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file, as the user named it.
        file: String,
        /// The problem with it.
        problem: String,
    },
    /// A certificate cannot be created.
    #[error("failed to create a certificate: {0}")]
    Making(String),
    /// The word is not the name of a version, cipher suite or group.
    #[error("unknown {kind} {word:?}: supported are {known}")]
    Unknown {
        /// The kind of name: a TLS version, a cipher suite or a group.
        kind: &'static str,
        /// The word.
        word: String,
        /// All valid words.
        known: String,
    },
    /// The record size is outside the valid range.
    #[error("record size of {0} bytes: use 32 to 16384")]
    RecordSize(usize),
    /// Early data is enabled with tickets that do not prevent replay.
    #[error(
        "early data requires stateful tickets: the server stores the sessions, so that each ticket is used once"
    )]
    EarlyDataNeedsState,
    /// The settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}
