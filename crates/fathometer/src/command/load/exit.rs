//! The exit code of a test.

use std::process::ExitCode;

use fathometer_analysis::load::{LoadResult, Verdict};

/// Returns the exit code of a result and of the verdicts on its SLOs.
pub(crate) fn exit_code(result: &LoadResult, slos: &[Verdict]) -> ExitCode {
    let counts = &result.measured.counts;
    let has_gone_silent = result.measured.ended.silent_from.is_some();
    if !result.validity.is_valid() {
        ExitCode::from(3)
    } else if has_gone_silent || slos.iter().any(|slo| !slo.met) {
        ExitCode::from(4)
    } else if counts.completed == counts.status_errors() && counts.planned > 0 {
        // No exchange succeeded: each failed, or its status is 400 or above. The measurement is valid, but the test
        // failed.
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}
