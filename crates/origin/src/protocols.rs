//! The protocols of an origin.

use std::sync::Arc;

use fathometer_http::{h1, h2};
use fathometer_tls::ServerSettings;

/// The protocols of an origin and their settings. Shared by all its loops.
///
/// Over TLS the handshake selects the version (ALPN). A client without ALPN gets HTTP/1.1 where that is
/// enabled. In the clear, a connection that begins with the preface of HTTP/2 is HTTP/2.
#[derive(Debug, Clone)]
pub struct Protocols {
    /// HTTP/1.0 and HTTP/1.1. Where this is `None`, all connections are HTTP/2.
    pub http1: Option<Arc<h1::server::ServerConfig>>,
    /// HTTP/2.
    pub http2: Option<Arc<h2::server::ServerConfig>>,
    /// `None`: in the clear.
    pub tls: Option<Arc<ServerSettings>>,
}

/// HTTP/1 in the clear only.
impl From<Arc<h1::server::ServerConfig>> for Protocols {
    fn from(http1: Arc<h1::server::ServerConfig>) -> Protocols {
        Protocols {
            http1: Some(http1),
            http2: None,
            tls: None,
        }
    }
}
