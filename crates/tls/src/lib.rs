//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) over any byte stream, without I/O, and what a handshake cost.
