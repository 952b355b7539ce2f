//! What a command leaves behind when it cannot continue: interrupted, killed, disk full, insufficient rights,
//! or a wrong argument.
//!
//! Tests of studies need the right to create network namespaces and TUN devices. Without it, each prints a
//! message and passes, unless `FATHOMETER_REQUIRE_LAB=1`.

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
