//! A load test as a job of Slurm, or a study as a job array: the batch script, the reports of `sbatch`, `scontrol` and `sacct`, and its end.

pub mod array;
pub mod files;
pub mod job;
mod lines;
pub mod options;
pub mod script;
pub mod watch;

pub use array::ArrayScript;
pub use job::{JobReport, JobState, Sighting};
pub use options::{BatchOption, Partition, TimeLimit};
pub use script::BatchScript;
pub use watch::{Ending, Watch};
