//! Why settings of TLS cannot be used.

/// Why settings cannot be used. Fits "TLS settings: {error}".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A file of certificates or keys cannot be used.
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
    /// An unknown word.
    #[error("unknown {kind} {word:?}: supported are {known}")]
    Unknown {
        /// The kind of thing that it should name.
        kind: &'static str,
        /// The word.
        word: String,
        /// All allowed words.
        known: String,
    },
    /// An impossible record size.
    #[error("records of {0} bytes: a record holds 32 to 16384")]
    RecordSize(usize),
    /// Early data with tickets that do not protect it from replay.
    #[error(
        "early data requires that the server stores the sessions of its tickets, so that each is used once"
    )]
    EarlyDataNeedsState,
    /// The settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}
