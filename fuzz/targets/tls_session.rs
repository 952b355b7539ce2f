//! A TLS session, client or server, with arbitrary bytes or, once established, with records that its peer
//! sealed: any split gives the same result, no plaintext appears that was not sent, and memory is bounded. The
//! checks are in the crate, because they need its private state.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_tls::fuzz(input));
