//! The machines that measured a run, as recorded in `run.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The share of one machine in a study that several machines measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyShare {
    /// The rank of the machine, from 0.
    pub rank: u32,
    /// Number of machines that share the study.
    pub ranks: u32,
    /// Planned number of replicates over all machines.
    pub replicates: u64,
    /// The SHA-256 of the design, which is every cell with its number of replicates.
    pub design: String,
    /// The identity of the running kernel (`/proc/sys/kernel/random/boot_id`), which is the same in all containers of a
    /// machine; empty if it could not be read.
    #[serde(default)]
    pub boot_id: String,
}

impl StudyShare {
    /// Whether a replicate belongs to this share.
    pub fn has(&self, replicate: u32) -> bool {
        replicate % self.ranks.max(1) == self.rank
    }
}

/// One of the machines that measured a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuringMachine {
    /// The machine's share of the study.
    #[serde(flatten)]
    pub share: StudyShare,
    /// Facts about the machine, as in `machine` of `run.json`.
    pub facts: BTreeMap<String, String>,
    /// The command line of the machine's part, program first.
    pub command: Vec<String>,
    /// Start of the machine's part, in seconds since the Unix epoch.
    pub started: f64,
    /// End of the machine's part; absent if the part was interrupted or killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<f64>,
}
