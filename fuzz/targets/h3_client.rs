//! The client's HTTP/3 connection: any split of a server's bytes on any streams gives the same events in the
//! same order, and nothing after the close.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h3::client::fuzz(input));
