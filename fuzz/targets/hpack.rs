//! HPACK: any block is decoded or refused within bounds, and decoded fields are encoded and decoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::hpack::fuzz(input));
