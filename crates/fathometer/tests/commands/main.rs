//! The commands of `fathometer`, run as a user runs them: their output, their network traffic, and the state that they
//! leave behind.
//!
//! Tests run in parallel, so no test changes or measures the state of this process. One exception: a test of `serve`
//! raises the limit of open files to the maximum, which does not affect other tests.

mod capacity_command;
mod capacity_probe;
mod cluster_command;
mod completions;
#[cfg(feature = "avif")]
mod content_avif;
mod content_command;
mod content_input;
#[cfg(feature = "images")]
mod content_joined;
#[cfg(feature = "images")]
mod content_pages;
#[cfg(feature = "images")]
mod content_replacements;
#[cfg(feature = "images")]
mod content_write;
mod endings;
mod h2spec;
mod load_command;
mod merged_paper_run;
mod package_command;
mod packages_fetched_command;
mod packages_served;
mod path_command;
mod peers;
mod serve;
mod small_disk;
mod trace_page;
#[path = "../support"]
mod support {
    pub mod closed_port;
    pub mod laboratory;
    pub mod ports;
    pub mod programs;
    pub mod python;
    pub mod quiet;
    #[expect(dead_code, reason = "the engine's tests use more of this module")]
    pub mod scripted_server;
    pub mod serving;
    pub mod waiting;
}
