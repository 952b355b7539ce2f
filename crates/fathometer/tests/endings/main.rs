//! What a user is left with when a command cannot go on: interrupted, killed, out of disk, out of
//! rights, or asked for what does not exist.
//!
//! Tests of studies need the right to make network namespaces and TUN devices; without, each says
//! so and passes, unless `FATHOMETER_REQUIRE_LAB=1`.

mod commands;
#[path = "../support/laboratory.rs"]
mod laboratory;
mod loads;
#[path = "../support/nobody.rs"]
mod nobody;
mod own;
mod place;
mod rights;
mod sittings;
mod studies;
#[path = "../support/waiting.rs"]
mod waiting;
