//! The secrets of connections, so that a capture can be decrypted.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use rustls::KeyLog;

/// Receives lines of a key log. They reveal all transmitted data: for laboratories only.
pub trait KeyLogSink: Debug + Send + Sync {
    /// One line of the NSS key log format, without its end: label, client random and secret, the
    /// latter two in hexadecimal. Wireshark reads a file of such lines.
    fn line(&self, line: &str);
}

/// Writes rustls's secrets as lines.
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

pub(super) fn key_log(sink: Option<Arc<dyn KeyLogSink>>) -> Arc<dyn KeyLog> {
    match sink {
        Some(sink) => Arc::new(Lines(sink)),
        None => Arc::new(rustls::NoKeyLog),
    }
}
