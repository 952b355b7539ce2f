//! The client's HTTP/2 connection: any split of a server's bytes gives the same events in the same order, and
//! nothing after the close. The checks are in the crate, because they need its private state.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_http::h2::client::fuzz(input));
