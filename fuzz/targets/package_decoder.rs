//! Object packages of both versions: any octets are read or refused within limits, however they are cut,
//! and what was read whole is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::package::fuzz_decoder(input));
