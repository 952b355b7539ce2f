//! The origin's HTTP/2 connection: any split of a client's octets is served alike, the output is frames
//! that a client can take, within the limits, and the connection ends.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::server::fuzz(input));
