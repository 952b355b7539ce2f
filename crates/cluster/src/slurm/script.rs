//! The batch script of a load test.
//!
//! The script adds three things to Slurm:
//!
//! - **The exit code is the exit code of rank 0**, which merges the results. `srun` returns the highest code of all
//!   ranks, so the script returns the code of rank 0 instead.
//! - **A lost rank does not end the test.** The other ranks continue (`--no-kill`, `--kill-on-bad-exit=0`,
//!   `--wait=0`), so that rank 0 reports the loss with all measured figures.
//! - **A lost node does not block.** `srun` would wait without limit for ranks on a lost node, so the script stops
//!   `srun` `grace_s` seconds after rank 0 has exited.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::files::{EXIT_CODE, LOG, SCRIPT, SECRET};
use super::lines::Lines;
use super::options::{BatchOption, Partition, TimeLimit};
use crate::shell::quote;

/// The values of the batch script.
#[derive(Debug, Clone)]
pub struct BatchScript<'a> {
    /// The job's folder: an absolute path, on a file system that all nodes share.
    pub folder: &'a Path,
    /// Number of ranks.
    pub ranks: NonZeroU32,
    /// Number of nodes, at most as many as ranks.
    pub nodes: NonZeroU32,
    /// Processors of each rank; Slurm's default is one.
    pub cpus: Option<NonZeroU32>,
    /// The partition, instead of the cluster's default.
    pub partition: Option<&'a Partition>,
    /// The time limit, instead of the partition's default.
    pub time_limit: Option<&'a TimeLimit>,
    /// Other options of `sbatch`.
    pub options: &'a [BatchOption],
    /// A file with the ranks' shared secret. With `None`, the script creates a secret in the job's folder.
    pub secret_file: Option<&'a Path>,
    /// The time, in seconds, for which other ranks may run after rank 0 has exited.
    pub grace_s: u32,
    /// The program and its arguments.
    pub command: &'a [OsString],
}

/// The script of each rank, as one word of `srun`'s arguments. The arguments after it are the folder, the secret's file
/// and the command. It contains no single quote.
///
/// The shell traps signals instead of ignoring them, because a command inherits ignored signals but not traps. So the
/// ranks exit in order when the job is cancelled, and the shell still writes the exit code.
const RANK: &str = r#"folder=$1 secret=$2
shift 2
exec >"$folder/rank-$SLURM_PROCID.out" 2>"$folder/rank-$SLURM_PROCID.err" || exit 1
IFS= read -r FATHOMETER_SECRET <"$secret" || exit 1
export FATHOMETER_SECRET
trap : HUP INT TERM
"$@"
code=$?
[ "$SLURM_PROCID" != 0 ] || echo "$code" >"$folder/rank-0.code"
exit "$code"
"#;

/// Redirects the output of the batch script.
const LOGGING: &str = r#"exec >>"$folder/job.log" 2>&1 || exit 1
"#;

/// Creates a secret of 32 random bytes that only its owner can read.
const NEW_SECRET: &str = r#"(umask 077 && od -An -N32 -tx1 -v /dev/urandom | tr -d ' \n' >"$secret" && echo >>"$secret") || exit 1
"#;

/// Runs the ranks and determines the exit code.
const SUPERVISOR: &str = r#"
# A signal to the job reaches the ranks too. This script outlives them.
trap : HUP INT TERM
srun --no-kill --kill-on-bad-exit=0 --wait=0 --input=none --mpi=none "$@" &
srun=$!

# srun waits without a limit for a rank on a lost node.
(
    trap 'kill "$nap"; exit' TERM
    nap() { sleep "$1" & nap=$!; wait "$nap"; }
    while [ ! -s "$folder/rank-0.code" ]; do nap 1; done
    nap "$grace"
    echo "fathometer: ranks still run $grace s after rank 0 exited, or their nodes are lost: stopping them"
    kill -TERM "$srun"
    nap 5
    kill -KILL "$srun"
) &
watchdog=$!

wait "$srun"
code=$?
# A signal ends the wait, but not srun.
while kill -0 "$srun" 2>/dev/null; do
    wait "$srun"
    code=$?
done
kill "$watchdog" 2>/dev/null

# srun's code is the highest of all ranks; the test's is that of rank 0.
if [ -s "$folder/rank-0.code" ]; then
    read -r code <"$folder/rank-0.code"
else
    echo "fathometer: rank 0 left no exit code; srun exited with code $code"
    code=1
fi
echo "$code" >"$folder/exit-code"
exit "$code"
"#;

impl BatchScript<'_> {
    /// Returns the script's bytes. Only the bytes of the folder, the secret's file and the command can be non-ASCII.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = format!(
            "\n# A load test, by `fathometer cluster slurm`. To submit it by hand:\n\
             #     mkdir FOLDER && sbatch {SCRIPT}\n\
             # FOLDER is the folder below. It must be on a file system that all nodes share. It receives the output\n\
             # of each rank (rank-N.out, rank-N.err), {LOG}, and the test's exit code ({EXIT_CODE})."
        );
        let mut script = Lines::begin(&self.directives(), &text, self.folder);
        match self.secret_file {
            Some(file) => script.line(&[b"secret=", &quote(file.as_os_str().as_bytes())]),
            None => script.line(&[b"secret=$folder/", SECRET.as_bytes()]),
        }
        script.line(&[b"grace=", self.grace_s.to_string().as_bytes()]);
        script.line(&[b"rank='", RANK.as_bytes(), b"'"]);
        script.line(&[b"set -- \\"]);
        for option in self.step_options() {
            script.line(&[b"    ", option.as_bytes(), b" \\"]);
        }
        script.line(&[br#"    sh -c "$rank" rank "$folder" "$secret" \"#]);
        script.command(self.command);
        script.line(&[b""]);
        let secret = match self.secret_file {
            Some(_) => "",
            None => NEW_SECRET,
        };
        script.end(&[LOGGING, secret, SUPERVISOR].concat())
    }

    /// The `#SBATCH` options. The script itself redirects its output, because `#SBATCH` lines and the shell quote paths
    /// differently.
    fn directives(&self) -> Vec<String> {
        let mut options = vec![
            "--job-name=fathometer".to_owned(),
            format!("--nodes={}", self.nodes),
            format!("--ntasks={}", self.ranks),
        ];
        options.extend(self.cpus.map(|cpus| format!("--cpus-per-task={cpus}")));
        options.extend(self.partition.map(|name| format!("--partition={name}")));
        options.extend(self.time_limit.map(|limit| format!("--time={limit}")));
        options.extend(["--no-kill", "--no-requeue", "--output=/dev/null"].map(str::to_owned));
        options.extend(self.options.iter().map(BatchOption::to_string));
        options
    }

    /// The options of `srun`. They include `--cpus-per-task`, which `srun` does not inherit from the job since Slurm
    /// 22.05.
    fn step_options(&self) -> Vec<String> {
        let mut options = vec![
            format!("--nodes={}", self.nodes),
            format!("--ntasks={}", self.ranks),
        ];
        options.extend(self.cpus.map(|cpus| format!("--cpus-per-task={cpus}")));
        options
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{RANK_0_CODE, RANK_0_ERRORS, RANK_0_OUTPUT};
    use super::*;

    fn number(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn script<'a>(folder: &'a str, command: &'a [OsString]) -> BatchScript<'a> {
        BatchScript {
            folder: Path::new(folder),
            ranks: number(2),
            nodes: number(2),
            cpus: None,
            partition: None,
            time_limit: None,
            options: &[],
            secret_file: None,
            grace_s: 30,
            command,
        }
    }

    #[test]
    fn a_script_with_the_defaults() {
        let command = words(&[
            "/usr/bin/fathometer",
            "load",
            "http://10.0.0.1:8080/",
            "--rate",
            "1000",
        ]);
        let script = script("/shared/ann/fathometer-job-1", &command).to_bytes();
        insta::assert_snapshot!(String::from_utf8(script).unwrap());
    }

    #[test]
    fn all_options_are_in_the_script() {
        let command = words(&[
            "fathometer",
            "load",
            "-H",
            "X: it's $(reboot)\r\n#SBATCH --array=1-9",
            "",
        ]);
        let partition = "fast".parse().unwrap();
        let limit = "10:00".parse().unwrap();
        let options = ["--account=physics", "--exclusive"].map(|option| option.parse().unwrap());
        let mut script = script("/a folder/it's", &command);
        script.cpus = Some(number(4));
        script.ranks = number(6);
        script.partition = Some(&partition);
        script.time_limit = Some(&limit);
        script.options = &options;
        script.secret_file = Some(Path::new("/keys/my secret"));
        script.grace_s = 5;
        let text = String::from_utf8(script.to_bytes()).unwrap();
        let (head, rest) = text.split_once("rank='").unwrap();
        let (_, rest) = rest.split_once("\nset -- ").unwrap();
        let (command, rest) = rest.split_once("\n\n").unwrap();
        insta::assert_snapshot!(format!("{head}...\nset -- {command}"));
        // The script only reads the user's secret.
        assert!(!rest.contains(">\"$secret\""));
        // sbatch reads its options only before the first command, and refuses carriage returns.
        let first_command = text.find("cr=").unwrap();
        assert!(text.find("--array").unwrap() > first_command && !text.contains('\r'));
    }

    /// The script writes the files that the submitter reads.
    #[test]
    fn the_files_of_the_script_have_the_names_that_are_followed() {
        for (name, text) in [
            (LOG, LOGGING),
            (RANK_0_CODE, RANK),
            (RANK_0_CODE, SUPERVISOR),
            (EXIT_CODE, SUPERVISOR),
        ] {
            assert!(text.contains(&format!("\"$folder/{name}\"")), "{name}");
        }
        for (name, part) in [(RANK_0_OUTPUT, ".out\""), (RANK_0_ERRORS, ".err\"")] {
            assert_eq!(
                name.replace('0', "$SLURM_PROCID") + "\"",
                format!("rank-$SLURM_PROCID{part}")
            );
            assert!(RANK.contains(&format!("/rank-$SLURM_PROCID{part}")));
        }
    }

    /// The script of a rank is written in single quotes, so it must contain none.
    #[test]
    fn the_text_of_a_rank_has_no_quote_that_would_end_it() {
        assert!(!RANK.contains('\''));
    }
}
