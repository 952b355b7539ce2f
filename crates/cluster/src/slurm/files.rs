//! The names of the files in a job's folder.

/// The batch script.
pub const SCRIPT: &str = "job.sh";
/// The shared secret of the ranks, unless the user gives a file; mode 0600.
pub const SECRET: &str = "secret";
/// The output of the batch script and of `srun`.
pub const LOG: &str = "job.log";
/// The stdout of rank 0: the result.
pub const RANK_0_OUTPUT: &str = "rank-0.out";
/// The stderr of rank 0.
pub const RANK_0_ERRORS: &str = "rank-0.err";
/// Rank 0's exit code, written when it exits.
pub const RANK_0_CODE: &str = "rank-0.code";
/// The test's exit code, written when all ranks have exited or have been stopped.
pub const EXIT_CODE: &str = "exit-code";

/// The folder for the records of each rank of a load test, unless the command names another folder.
pub const SPOOL: &str = "spool";

/// Files that are created empty before the job is submitted.
///
/// An NFS client may cache the absence of a file for up to a minute. A file that exists from the start is read
/// again each time it is opened.
pub const FOLLOWED: [&str; 5] = [LOG, RANK_0_OUTPUT, RANK_0_ERRORS, RANK_0_CODE, EXIT_CODE];

/// Reads the exit code from such a file; `None` while the file is empty or its line is incomplete.
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

/// The error for a file that should hold an exit code, but does not.
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
