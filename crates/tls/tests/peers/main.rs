//! Tests of TLS with third-party programs: OpenSSL's client and server, curl, and GnuTLS's client. tshark decrypts the
//! traffic and must give the same counts as the sessions.
//!
//! A test whose program is not installed prints a message to stderr and passes. With `FATHOMETER_REQUIRE_TOOLS=1`, it
//! fails.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the peers are processes that the tests reach through sockets"
)]

mod clients;
mod counted;
mod host;
mod servers;
mod tools;
