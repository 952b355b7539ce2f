//! The client's HTTP/2 connection: any split of a server's octets gives the same events, in their order,
//! and nothing after the close. The checks are the crate's own; they need its insides.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::client::fuzz(input));
