//! `fathometer cluster`, run as a user runs it, with a real Slurm, and with the schemas of Kubernetes.

mod kubernetes;
mod kubernetes_study;
mod slurm;
mod slurm_cluster;
mod slurm_study;
