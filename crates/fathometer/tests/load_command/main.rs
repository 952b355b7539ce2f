//! `fathometer load`, run as a user runs it, against real servers on loopback.
//!
//! Every load is bounded by a count or by a few seconds. Every server is a child or a thread that ends with its
//! test, and every file is in a temporary folder. A test whose peer is not installed prints a message to stderr
//! and passes, unless `FATHOMETER_REQUIRE_TOOLS` is 1.

mod agreement;
mod counts;
mod endings;
mod heads;
mod http3;
mod idle;
#[path = "../support/nobody.rs"]
mod nobody;
mod outputs;
#[expect(dead_code, reason = "peers need more of it")]
#[path = "../peers/support.rs"]
mod peer;
#[path = "../support/ports.rs"]
mod ports;
mod printing;
mod probes;
mod protocols;
#[path = "../support/quiet.rs"]
mod quiet;
#[expect(dead_code, reason = "the engine's tests need more of it")]
#[path = "../load_engine/server.rs"]
mod server;
mod support;
mod usage;
#[path = "../support/waiting.rs"]
mod waiting;
mod workloads;
