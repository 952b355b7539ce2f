//! Passes the secrets of connections to key logs, so that captures can be decrypted, and to channel bindings.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use rustls::KeyLog;

use super::watch::note_exporter;

/// The key log label of the exporter secret in TLS 1.3.
const EXPORTER: &str = "EXPORTER_SECRET";

/// Receives the lines of a key log. With these lines, all transmitted data can be decrypted, so use a key log only in
/// laboratories.
pub trait KeyLogSink: Debug + Send + Sync {
    /// Receives one line in the NSS key log format, without the line end. The line consists of the label, the client
    /// random and the secret; the last two are hexadecimal. Wireshark can read a file of such lines.
    fn line(&self, line: &str);
}

/// Formats the secrets that rustls reports as lines.
#[derive(Debug)]
struct Lines(Arc<dyn KeyLogSink>);

impl KeyLog for Lines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = String::with_capacity(label.len() + 2 * (32 + 48) + 2);
        line.push_str(label);
        for part in [client_random, secret] {
            line.push(' ');
            for byte in part {
                // Writing to a string cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
        }
        self.0.line(&line);
    }
}

/// Records the exporter secret for the session, and passes all secrets to the key log.
#[derive(Debug)]
struct Exporter(Arc<dyn KeyLog>);

impl KeyLog for Exporter {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if label == EXPORTER {
            note_exporter(secret);
        }
        if self.0.will_log(label) {
            self.0.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == EXPORTER || self.0.will_log(label)
    }
}

/// Creates the key log for rustls. `channel_binding`: whether the exporter secret is also recorded.
pub(super) fn key_log(sink: Option<Arc<dyn KeyLogSink>>, channel_binding: bool) -> Arc<dyn KeyLog> {
    let log: Arc<dyn KeyLog> = match sink {
        Some(sink) => Arc::new(Lines(sink)),
        None => Arc::new(rustls::NoKeyLog),
    };
    match channel_binding {
        true => Arc::new(Exporter(log)),
        false => log,
    }
}
