//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) over any byte stream, without I/O. Measures the cost of each handshake.
//!
//! A [`Session`] is one side of one TLS connection. Its inputs are bytes from the transport and the time. Its outputs
//! are plaintext and bytes for the transport. [`ClientOptions`] and [`ServerOptions`] contain the settings.
//! [`Handshake`] and [`Traffic`] contain the negotiated parameters and the cost of a connection. [`TlsFailure`] is the
//! reason for a failure. [`certificate`] creates an authority and certificates on the fly.
//!
//! rustls performs the handshake. Afterwards, this crate seals and opens the records in place, with the keys of that
//! handshake. [`Session`] explains the reason.
//!
//! Random values come from the operating system (`ring` reads them directly), because values from a seed would not be
//! secret. Therefore, two handshakes of the same kind may differ by a few bytes: the length of an ECDSA signature
//! depends on its value. Not supported: renegotiation in TLS 1.2 (refused), compressed certificates, raw public keys,
//! Encrypted Client Hello, revocation. The crate uses no files, sockets or clocks.
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
//!         let bytes = sides[from].transmit().to_vec();
//!         sides[from].transmitted(bytes.len());
//!         sides[to].receive(&bytes, now)?;
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
mod settings_error;

pub use certificate::{Identity, Roots};
pub use failure::{Alert, TlsFailure};
pub use handshake::{EarlyData, Handshake, Resumption, Traffic};
pub use rustls;
pub use session::{Session, fuzz};
pub use settings::{
    CipherSuite, ClientCertificates, ClientOptions, ClientSettings, FirstRecords, Group,
    KeyLogSink, ServerOptions, ServerSettings, Tickets, Verification, Version,
};
pub use settings_error::SettingsError;
