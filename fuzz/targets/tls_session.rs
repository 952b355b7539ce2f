//! A TLS session, client or server, fed octets off the wire or, once established, records that its peer
//! sealed: any split is understood alike, nothing comes from nowhere, nothing grows without bound. The
//! checks are the crate's own; they need its insides.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fathometer_tls::fuzz(input));
