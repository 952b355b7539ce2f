//! Analyses of synthetic runs and results whose figures are known: verdicts, tables, reports and every output
//! format.

mod barford;
mod browser;
mod common;
mod equal_cells;
mod homes;
mod judging;
mod load;
mod machines;
mod pages;
mod published;
#[expect(clippy::disallowed_types, reason = "SciPy runs in a process")]
#[path = "../../../fathometer/tests/support/python.rs"]
mod python;
mod real_pages;
mod report;
mod retrieval_trace;
mod scipy;
mod sweeps;
mod terminal;
