//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) over any byte stream, without I/O, and what a handshake cost.
//!
//! A [`Session`] is one connection's TLS, for a client or a server: octets of the transport and the
//! time go in, plaintext and octets for the transport come out. What can be varied is in
//! [`ClientOptions`] and [`ServerOptions`]; what a connection agreed on and what that cost is in
//! [`Handshake`] and [`Traffic`]; why it failed is a [`TlsFailure`]. [`certificate`] makes an
//! authority and certificates on the fly.
//!
//! The handshake is done by rustls. Once it is over the records are sealed and opened here, in place,
//! with the keys that it agreed on: see [`Session`] for why.
//!
//! Randomness is the system's (`ring` takes it by itself): a secret that a seed could repeat would be
//! none. Two handshakes of one kind therefore differ by a few octets, because an ECDSA signature is
//! as long as its numbers happen to be. Not done here: reading files, sockets, clocks, renegotiation
//! (TLS 1.2; refused), compressed certificates, raw keys, Encrypted Client Hello, revocation.
//!
//! ```
//! use std::time::Duration;
//! use fathometer_model::Instant;
//! use fathometer_tls::certificate::{Authority, Issue, Lifetime};
//! use fathometer_tls::{
//!     ClientOptions, ClientSettings, ServerOptions, ServerSettings, Session, Verification,
//! };
//!
//! let day = Duration::from_secs(86_400);
//! let today = 20_000 * day;
//! let authority = Authority::new(Lifetime::around(today, 30 * day))?;
//! let identity = authority.issue(&Issue::new(["origin.test"]))?;
//! let trusted = Verification::Roots(authority.roots());
//! let client = ClientSettings::new(ClientOptions::new(trusted, today))?;
//! let server = ServerSettings::new(ServerOptions::new(identity, today))?;
//!
//! let now = Instant::ZERO;
//! let mut sides = [
//!     Session::client(&client, "origin.test", now)?,
//!     Session::server(&server, now)?,
//! ];
//! sides[0].write(b"hello");
//! while sides.iter().any(Session::wants_transmit) {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         let octets = sides[from].transmit().to_vec();
//!         sides[from].transmitted(octets.len());
//!         sides[to].receive(&octets, now)?;
//!     }
//! }
//! let mut plain = [0; 16];
//! let length = sides[1].read(&mut plain);
//! assert_eq!(&plain[..length], b"hello");
//! assert_eq!(sides[0].handshake().unwrap().round_trips, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod certificate;
mod failure;
mod handshake;
mod session;
mod settings;

pub use certificate::{Identity, Roots};
pub use failure::{Alert, TlsFailure};
pub use handshake::{EarlyData, Handshake, Resumption, Traffic};
pub use rustls;
pub use session::{Session, fuzz};
pub use settings::{
    CipherSuite, ClientCertificates, ClientOptions, ClientSettings, FirstRecords, Group,
    KeyLogSink, ServerOptions, ServerSettings, SettingsError, Tickets, Verification, Version,
};
