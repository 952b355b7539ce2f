//! Object packages of both versions: any bytes are read or refused within limits, with any split, and a package
//! that was read completely is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_fuzz::package::decode(input));
