//! TLS with other people's programs: OpenSSL's client and server, curl, GnuTLS's client, and tshark,
//! which decrypts what was sent and has to count what the sessions counted.
//!
//! What a program cannot be found for is said on stderr and passes, unless `FATHOMETER_REQUIRE_TOOLS`
//! is 1.

mod clients;
mod counted;
mod host;
mod servers;
mod tools;
