//! The ranks of a load test as processes of MPICH's `mpiexec`, which meet by its key-value store (PMI-1).

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::support::{Origin, fathometer, load};
use crate::support::programs::{FATHOMETER, tool};

const MPIEXEC: &str = "mpiexec.hydra";

/// A folder with the secret of the ranks.
struct Job {
    folder: TempDir,
}

impl Job {
    /// `None`, and a message on stderr, where MPICH is not installed.
    fn new() -> Option<Job> {
        tool(MPIEXEC)?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "a secret of these tests\n").unwrap();
        Some(Job { folder })
    }

    /// The launcher, with this number of processes of `fathometer load`, and no place to meet.
    fn ranks(&self, ranks: u32, url: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(MPIEXEC);
        // On this machine alone, without looking for a scheduler.
        command.args(["-launcher", "fork", "-n", &ranks.to_string()]);
        command.args([FATHOMETER, "load", "--quiet", "--json", "--threads", "1"]);
        command.arg(url).args(arguments).arg("--secret-file");
        command.arg(self.folder.path().join("secret"));
        command.stdin(Stdio::null());
        for of_others in ["SLURM_PROCID", "SLURM_NTASKS", "FATHOMETER_RANKS"] {
            command.env_remove(of_others);
        }
        command
    }
}

fn sorted(mut requests: Vec<String>) -> Vec<String> {
    requests.sort_unstable();
    requests
}

#[test]
fn processes_of_mpich_meet_by_its_store_and_send_what_one_process_sends() {
    let plan = [
        &[
            "--workload",
            "almeida-a",
            "--rate",
            "600",
            "--arrivals",
            "poisson",
        ][..],
        &["-n", "120", "-c", "12", "--seed", "4"],
    ]
    .concat();
    let Some(job) = Job::new() else {
        return;
    };
    let origin = Origin::of("almeida-a", 4);
    load(&origin.url(), &plan);
    let requests = sorted(origin.end());
    for ranks in [2, 3] {
        let origin = Origin::of("almeida-a", 4);
        let ended = fathometer(&job.ranks(ranks, &origin.url(), &plan));
        let whole = ended.summary();
        assert_eq!(whole.measured.counts.completed, 120, "{}", ended.err);
        assert_eq!(whole.ranks.len(), ranks as usize);
        assert!(whole.ranks.iter().all(|rank| rank.lost.is_none()));
        assert_eq!(sorted(origin.end()), requests);
    }
}

/// The second process never enters the barrier, which PMI-1 does not bound.
#[test]
fn a_process_that_never_comes_ends_the_wait_in_the_barrier_of_pmi_1() {
    let Some(job) = Job::new() else {
        return;
    };
    let origin = Origin::of("almeida-a", 1);
    let timeout = ["-n", "10", "--rendezvous-timeout", "300ms"];
    let mut command = job.ranks(1, &origin.url(), &timeout);
    command.args([":", "-n", "1", "sleep", "60"]);
    let ended = fathometer(&command);
    assert!(
        ended.code != Some(0) && ended.out.is_empty(),
        "{}",
        ended.err
    );
    for told in ["failed to meet by PMI-1 (PMI_FD)", "cmd=barrier_in in time"] {
        assert!(ended.err.contains(told), "{told}: {}", ended.err);
    }
    assert_eq!(origin.end(), Vec::<String>::new());
}
