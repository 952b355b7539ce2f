//! QUIC connections (RFC 9000) over any datagram socket, without I/O.
