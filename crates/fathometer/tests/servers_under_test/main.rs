//! Servers under test, by their definitions: each starts in a host of a lab, serves the site rightly,
//! keeps to what it is asked for or says that it cannot, and is gone at the end.
//!
//! Needs the right to make network namespaces, TUN devices and control groups; without, each test says
//! so and passes, unless `FATHOMETER_REQUIRE_LAB=1`. A server that is not installed is likewise no
//! failure, unless `FATHOMETER_REQUIRE_TOOLS=1` and it is one of [`support::REQUIRED`].

mod limits;
mod pages;
mod secure;
mod support;
