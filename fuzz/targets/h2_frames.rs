//! Frames of HTTP/2: any split gives the same frames, and what is read is written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::frame::fuzz(input));
