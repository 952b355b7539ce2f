//! Studies and servers in laboratories: hosts in network namespaces, connected by an emulated path.
//!
//! Two laboratories at the same time delay each other, so tests belong here only if a late packet does not affect their
//! results. All other tests of laboratories are in `measurements`.

// Starts first, because its one test runs a whole study: tests start in the order of their names.
mod captures;
mod fujinoki;
mod packet_classes;
mod packet_counts;
mod pages_today;
mod path_browser;
mod servers_under_test;
#[path = "../support"]
mod support {
    pub mod laboratory;
    pub mod programs;
}
