//! The origin's HTTP/2 connection: any split of a client's bytes gives the same result, the output consists of
//! frames that a client accepts, within the limits, and the connection ends.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::server::fuzz(input));
