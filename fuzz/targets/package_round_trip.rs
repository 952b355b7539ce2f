//! Object packages of any files are read back as they were written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_fuzz::package::round_trip(input));
