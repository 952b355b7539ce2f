//! HTTP/3 over real sockets: our client with our server, and each with third-party programs: aioquic (Python)
//! in both directions, headless Chromium, Caddy (quic-go).
//!
//! A test whose peer is not installed prints a message to stderr and passes, unless `FATHOMETER_REQUIRE_TOOLS`
//! is 1. aioquic is installed once from PyPI into a virtual environment next to the build. Every process is a
//! child that ends with its test. All traffic is on loopback or between hosts that the test created.

mod alt_svc;
mod clients;
mod hostile;
mod ourselves;
mod records;
mod servers;
mod support;
mod windows;
