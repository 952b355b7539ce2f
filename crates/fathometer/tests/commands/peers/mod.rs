//! Our origin with third-party clients, and our clients with third-party servers, on loopback, at ports that
//! the kernel chooses.
//!
//! A test whose peer is not installed prints a message to stderr and passes, unless `FATHOMETER_REQUIRE_TOOLS`
//! is 1. Every process is a child that ends with its test.

pub mod clients;
mod curl_http2;
mod dictionaries;
mod http2;
mod load;
mod negotiation;
mod negotiation_abuse;
mod servers;
pub mod support;
mod tls;
