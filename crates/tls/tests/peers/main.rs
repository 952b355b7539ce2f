//! TLS with third-party programs: OpenSSL's client and server, curl, GnuTLS's client, and tshark, which decrypts the
//! traffic and must give the same counts as the sessions.
//!
//! A test whose program is not installed prints a message to stderr and passes, unless
//! `FATHOMETER_REQUIRE_TOOLS` is 1.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the peers are processes, reached by sockets"
)]

mod clients;
mod counted;
mod host;
mod servers;
mod tools;
