//! `fathometer cluster`, run as a user runs it, with a real Slurm.

mod slurm;
mod slurm_cluster;
