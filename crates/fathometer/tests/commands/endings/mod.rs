//! The state that a command leaves behind when it cannot continue: interrupted, killed, disk full, insufficient rights,
//! or a wrong argument.
//!
//! Tests of studies need the right to create network namespaces and TUN devices. Without it, each prints a
//! message and passes, unless `FATHOMETER_REQUIRE_LAB=1`.

mod commands;
mod loads;
mod new_study;
mod own;
mod place;
mod resumed;
mod rights;
mod shares;
mod stopping;
mod studies;
