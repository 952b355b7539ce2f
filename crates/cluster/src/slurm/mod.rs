//! Runs a load test as a Slurm job, or a study as a job array. Defines the batch script, reads the reports of `sbatch`,
//! `scontrol` and `sacct`, and detects the end of the job.

pub mod array;
pub mod files;
pub mod job;
mod lines;
pub mod options;
pub mod script;
pub mod watch;

pub use array::ArrayScript;
pub use job::{JobReport, JobState, QueryResult};
pub use options::{BatchOption, Partition, TimeLimit};
pub use script::BatchScript;
pub use watch::{Ending, Watch};
