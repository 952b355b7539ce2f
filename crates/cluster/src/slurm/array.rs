//! The batch script of a study over several machines: a job array.
//!
//! Each task of the array measures one machine's share of the study, independently of other tasks. So Slurm starts a
//! task whenever a node is free. No supervisor is needed: if a task is lost, the merged run lacks its share.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;

use super::files::SCRIPT;
use super::lines::Lines;
use super::options::{BatchOption, Partition, TimeLimit};

/// The values of the batch script.
#[derive(Debug, Clone)]
pub struct ArrayScript<'a> {
    /// The job's folder: an absolute path, on a file system that all nodes share.
    pub folder: &'a Path,
    /// Number of tasks.
    pub ranks: NonZeroU32,
    /// Processors of each task; Slurm's default is one.
    pub cpus: Option<NonZeroU32>,
    /// The partition, instead of the cluster's default.
    pub partition: Option<&'a Partition>,
    /// The time limit of each task, instead of the partition's default.
    pub time_limit: Option<&'a TimeLimit>,
    /// Other options of `sbatch`.
    pub options: &'a [BatchOption],
    /// The program and its arguments, without the folder of the run.
    pub command: &'a [OsString],
}

/// Runs the share of a task. The shell traps signals instead of ignoring them, because a command inherits ignored
/// signals but not traps. So a cancelled task completes its files, and the shell still writes the exit code.
const TASK: &str = r#"
rank=$SLURM_ARRAY_TASK_ID
exec >"$folder/rank-$rank.out" 2>"$folder/rank-$rank.err" || exit 1
trap : HUP INT TERM
"$@" --output "$folder/run-$rank"
code=$?
echo "$code" >"$folder/rank-$rank.code"
exit "$code"
"#;

impl ArrayScript<'_> {
    /// Returns the script's bytes. Only the bytes of the folder and the command can be non-ASCII.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = format!(
            "\n# A study over {} machines, by `fathometer cluster slurm`. To submit it by hand:\n\
             #     mkdir FOLDER && sbatch {SCRIPT}\n\
             # and, when all tasks have ended:\n\
             #     fathometer merge FOLDER/run-* --output FOLDER/run\n\
             # FOLDER is the folder below. It must be on a file system that all nodes share. It receives the run of each\n\
             # rank (run-N), its output (rank-N.out, rank-N.err) and its exit code (rank-N.code).",
            self.ranks
        );
        let mut script = Lines::begin(&self.directives(), &text, self.folder);
        script.line(&[b"set -- \\"]);
        script.command(self.command);
        script.end(TASK)
    }

    /// The `#SBATCH` options.
    fn directives(&self) -> Vec<String> {
        let mut options = vec![
            "--job-name=fathometer".to_owned(),
            format!("--array=0-{}", self.ranks.get() - 1),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
        ];
        options.extend(self.cpus.map(|cpus| format!("--cpus-per-task={cpus}")));
        options.extend(self.partition.map(|name| format!("--partition={name}")));
        options.extend(self.time_limit.map(|limit| format!("--time={limit}")));
        options.extend(["--no-requeue", "--output=/dev/null"].map(str::to_owned));
        options.extend(self.options.iter().map(BatchOption::to_string));
        options
    }
}

/// Returns the names of a rank's files in the job's folder: its stderr, its exit code, and its run.
pub fn files_of(rank: u32) -> [String; 3] {
    [
        format!("rank-{rank}.err"),
        format!("rank-{rank}.code"),
        format!("run-{rank}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_an_array_whose_tasks_have_runs_of_their_own() {
        let command = ["/usr/bin/fathometer", "study", "it's", "--full"].map(OsString::from);
        let script = ArrayScript {
            folder: Path::new("/shared/ann/job"),
            ranks: NonZeroU32::new(4).unwrap(),
            cpus: NonZeroU32::new(2),
            partition: None,
            time_limit: None,
            options: &["--exclusive".parse().unwrap()],
            command: &command,
        };
        let text = String::from_utf8(script.to_bytes()).unwrap();
        let (head, rest) = text.split_once("\n\n").unwrap();
        assert_eq!(
            head,
            "#!/bin/sh\n#SBATCH --job-name=fathometer\n#SBATCH --array=0-3\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n\
             #SBATCH --cpus-per-task=2\n#SBATCH --no-requeue\n#SBATCH --output=/dev/null\n#SBATCH --exclusive"
        );
        assert!(
            rest.contains("\nfolder=/shared/ann/job\nset -- \\\n"),
            "{rest}"
        );
        for name in files_of(7) {
            let name = name.replace('7', "$rank");
            assert!(
                rest.contains(&format!("\"$folder/{name}\"")),
                "{name}: {rest}"
            );
        }
    }
}
