//! The protocols of an origin.

use std::sync::Arc;

use fathometer_http::{h1, h2};
use fathometer_tls::ServerSettings;

/// The protocols of an origin and their settings, which all its loops share.
///
/// Over TLS, the handshake selects the version (ALPN). A client without ALPN gets HTTP/1.1 if that is enabled.
/// Without TLS, a connection that begins with the HTTP/2 preface is an HTTP/2 connection.
#[derive(Debug, Clone)]
pub struct Protocols {
    /// Settings of HTTP/1.0 and HTTP/1.1; `None`: all connections are HTTP/2.
    pub http1: Option<Arc<h1::server::ServerConfig>>,
    /// Settings of HTTP/2.
    pub http2: Option<Arc<h2::server::ServerConfig>>,
    /// TLS settings; `None`: cleartext.
    pub tls: Option<Arc<ServerSettings>>,
}

/// HTTP/1 only, in cleartext.
impl From<Arc<h1::server::ServerConfig>> for Protocols {
    fn from(http1: Arc<h1::server::ServerConfig>) -> Protocols {
        Protocols {
            http1: Some(http1),
            http2: None,
            tls: None,
        }
    }
}
