//! Our origin with other people's clients, and our clients with other people's servers, on
//! loopback, at ports that the kernel chooses.
//!
//! What a peer cannot be found for is said on stderr and passes, unless `FATHOMETER_REQUIRE_TOOLS`
//! is 1. Every process is a child that ends with its test.

mod clients;
mod curl_http2;
mod http2;
mod load;
mod servers;
mod support;
mod tls;
