//! Servers under test, by their definitions. Each starts in a host of a lab, serves the site correctly, follows
//! its settings or reports that it cannot, and leaves nothing behind.
//!
//! Needs the right to create network namespaces, TUN devices and control groups. Without it, each test prints a
//! message and passes, unless `FATHOMETER_REQUIRE_LAB=1`. A server that is not installed is no failure either,
//! unless `FATHOMETER_REQUIRE_TOOLS=1` and it is one of [`support::REQUIRED`].

mod limits;
mod pages;
mod secure;
mod support;
