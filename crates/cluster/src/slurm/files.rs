//! The names of the files in a job's folder.

/// The batch script.
pub const SCRIPT: &str = "job.sh";
/// The shared secret of the ranks, unless the user provides a file. Its mode is 0600.
pub const SECRET: &str = "secret";
/// The output of the batch script and of `srun`.
pub const LOG: &str = "job.log";
/// The stdout of rank 0, which contains the result.
pub const RANK_0_OUTPUT: &str = "rank-0.out";
/// The stderr of rank 0.
pub const RANK_0_ERRORS: &str = "rank-0.err";
/// Rank 0's exit code, written when it exits.
pub const RANK_0_CODE: &str = "rank-0.code";
/// The test's exit code, written after all ranks have exited or were stopped.
pub const EXIT_CODE: &str = "exit-code";

/// The folder for the records of each rank of a load test, unless the command names another folder.
pub const SPOOL: &str = "spool";

/// Files that are created empty before the job is submitted.
///
/// An NFS client may cache the absence of a file for up to a minute. If the file exists from the start, each open reads
/// its current content.
pub const FOLLOWED: [&str; 5] = [LOG, RANK_0_OUTPUT, RANK_0_ERRORS, RANK_0_CODE, EXIT_CODE];

/// Parses the content of an exit-code file; `None` while the file is empty or its line is incomplete.
///
/// # Errors
/// If the line is not a number from 0 to 255.
pub fn exit_code(content: &[u8]) -> Result<Option<u8>, NotAnExitCode> {
    let Some(line) = content.strip_suffix(b"\n") else {
        return Ok(None);
    };
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .map(Some)
        .ok_or_else(|| NotAnExitCode(String::from_utf8_lossy(line).into_owned()))
}

/// The error for an exit-code file whose content is not an exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the job's exit code is {0:?}, which is not a number from 0 to 255")]
pub struct NotAnExitCode(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_a_whole_line() {
        assert_eq!(exit_code(b""), Ok(None));
        assert_eq!(exit_code(b"1"), Ok(None));
        assert_eq!(exit_code(b"137\n"), Ok(Some(137)));
        assert!(exit_code(b"256\n").is_err());
        assert!(exit_code(b"0\n0\n").is_err());
        assert!(exit_code(b"\n").is_err());
    }
}
