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
mod real_pages;
mod report;
mod retrieval_trace;
mod scipy;
mod sweeps;
mod terminal;
