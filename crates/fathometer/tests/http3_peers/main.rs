//! HTTP/3 over real sockets: our client and our server with each other, and each with programs that are
//! not ours: aioquic (Python) both ways, headless Chromium, Caddy (quic-go).
//!
//! What a peer cannot be found for is said on stderr and passes, unless `FATHOMETER_REQUIRE_TOOLS` is 1.
//! aioquic is installed from PyPI into a virtual environment beside the build, once. Every process is a
//! child that ends with its test; all traffic is on loopback or between hosts of the test's own.

mod alt_svc;
mod clients;
mod hostile;
#[path = "../support/nobody.rs"]
mod nobody;
mod ourselves;
mod records;
mod servers;
mod support;
