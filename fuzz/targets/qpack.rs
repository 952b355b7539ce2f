//! QPACK: sections and instructions in any order and any pieces are handled within bounds, and decoded fields
//! are encoded and decoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::qpack::fuzz(input));
