//! The options of a test on several machines.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

use super::super::arguments::some_time;

/// The options of a test on several machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several machines (docs/many-machines.md)")]
pub struct RankArguments {
    /// Rank of this process, from 0 [default: the rank from Slurm, a Kubernetes Indexed Job, Open MPI or PMI]
    #[arg(long, value_name = "R")]
    pub(super) rank: Option<u32>,
    /// Number of ranks that share this test; users, connections, rates and -n are totals over all ranks
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) ranks: Option<u32>,
    /// Rendezvous of all ranks: host and port on which rank 0 listens [default: FATHOMETER_RENDEZVOUS; under Slurm
    /// the first node of the job; under MPICH's mpiexec the address that rank 0 publishes by PMI-1]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) rendezvous: Option<String>,
    /// Address and port on which rank 0 listens, if different from --rendezvous
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// File with a secret that all ranks share, at least 16 bytes [default: the value of FATHOMETER_SECRET]
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// Longest time to wait for all ranks; if a rank is missing then, no rank starts
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "60s")]
    pub(super) rendezvous_timeout: Duration,
    /// Time without a message after which a rank counts as lost; at least 2s
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "5s")]
    pub(super) rank_timeout: Duration,
    /// Folder for the records (spool) of this rank, for `fathometer merge`
    #[arg(long, value_name = "DIR")]
    pub(super) spool: Option<PathBuf>,
}

impl RankArguments {
    /// Whether an option for several machines is given.
    pub(super) fn is_given(&self) -> bool {
        self.rank.is_some()
            || self.ranks.is_some()
            || self.rendezvous.is_some()
            || self.spool.is_some()
    }
}
