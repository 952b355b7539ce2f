//! HTTP/1.0 and HTTP/1.1 on the wire (RFC 1945, RFC 9112).

pub mod chunked;
pub mod client;
pub mod server;
pub mod syntax;
