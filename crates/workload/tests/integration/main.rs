//! Tests laws and workloads through the public interface, against the papers and SciPy.

mod laws;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "SciPy runs in a process"
)]
#[path = "../../../fathometer/tests/support/python.rs"]
mod python;
mod surge;
