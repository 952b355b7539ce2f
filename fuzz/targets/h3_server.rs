//! The server's HTTP/3 connection: any split of a client's bytes on any streams gives the same responses, and
//! every connection ends.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h3::server::fuzz(input));
