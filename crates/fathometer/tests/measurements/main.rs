//! Tests whose results depend on the available CPU time: an emulated path, verdicts on planted bottlenecks, and loads
//! on limited hosts.
//!
//! A separate test program, in which measuring tests run one at a time: two laboratories on two processors would
//! delay each other. The test of the planted bottlenecks counts the CPU time of this process and its children.

mod bottleneck;
mod capacity_study;
mod load_study;
mod packages_fetched;
mod path_proof;
mod sweep_study;
#[path = "../support"]
mod support {
    pub mod alone;
    pub mod laboratory;
    pub mod quiet;
}

use std::sync::MutexGuard;

use support::alone::alone;
use support::laboratory::possible;

/// Waits until no other test runs a laboratory, and returns the guard; `None` if this machine cannot run laboratories.
fn ground(test: &str) -> Option<MutexGuard<'static, ()>> {
    let guard = alone();
    possible(test).then_some(guard)
}
