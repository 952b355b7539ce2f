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
    /// Rank of this process, from 0 [default: that of Slurm, a Kubernetes Indexed Job, Open MPI or PMI]
    #[arg(long, value_name = "R")]
    pub(super) rank: Option<u32>,
    /// Number of ranks that carry out this test together: users, connections, rates and -n are those of all of them
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) ranks: Option<u32>,
    /// Where all ranks meet: a host and port at which rank 0 listens [default: FATHOMETER_RENDEZVOUS; below Slurm the
    /// first node of the job; below MPICH's mpiexec what rank 0 puts into the store of PMI-1]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) rendezvous: Option<String>,
    /// Address and port at which rank 0 listens, if it is not the rendezvous
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// File with a secret that all ranks share, at least 16 bytes [default: the value of FATHOMETER_SECRET]
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// Longest time to wait for all ranks; then no rank starts
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "60s")]
    pub(super) rendezvous_timeout: Duration,
    /// A rank is lost when nothing is heard from it for this long, at least 2s
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "5s")]
    pub(super) rank_timeout: Duration,
    /// Keep the records of this rank in a folder, for `fathometer merge`
    #[arg(long, value_name = "DIR")]
    pub(super) spool: Option<PathBuf>,
}

impl RankArguments {
    /// Whether an option says that there are several machines.
    pub(super) fn is_given(&self) -> bool {
        self.rank.is_some()
            || self.ranks.is_some()
            || self.rendezvous.is_some()
            || self.spool.is_some()
    }
}
