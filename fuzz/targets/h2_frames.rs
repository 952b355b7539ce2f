//! HTTP/2 frames: any split gives the same frames, and a frame that was read is written back unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::frame::fuzz(input));
