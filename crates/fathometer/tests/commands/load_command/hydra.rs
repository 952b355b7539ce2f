//! The ranks of a load test as processes of MPICH's `mpiexec`, with a rendezvous by its key-value store (PMI-1).

use super::mpi_job::Job;
use super::support::{Origin, fathometer, load};

/// The launcher on this machine, without a scheduler.
const MPIEXEC: [&str; 3] = ["mpiexec.hydra", "-launcher", "fork"];

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
    let Some(job) = Job::of(MPIEXEC[0]) else {
        return;
    };
    let origin = Origin::of("almeida-a", 4);
    load(&origin.url(), &plan);
    let requests = origin.end_sorted();
    for ranks in [2, 3] {
        let origin = Origin::of("almeida-a", 4);
        let ended = fathometer(&job.command(&MPIEXEC, ranks, &origin.url(), &plan));
        let whole = ended.summary();
        assert_eq!(whole.measured.counts.completed, 120, "{}", ended.err);
        assert_eq!(whole.ranks.len(), ranks as usize);
        assert!(whole.ranks.iter().all(|rank| rank.lost.is_none()));
        assert_eq!(origin.end_sorted(), requests);
    }
}

/// The second process never enters the barrier, for which PMI-1 has no timeout.
#[test]
fn a_process_that_never_comes_ends_the_wait_in_the_barrier_of_pmi_1() {
    let Some(job) = Job::of(MPIEXEC[0]) else {
        return;
    };
    let origin = Origin::of("almeida-a", 1);
    let timeout = ["-n", "10", "--rendezvous-timeout", "300ms"];
    let mut command = job.command(&MPIEXEC, 1, &origin.url(), &timeout);
    command.args([":", "-n", "1", "sleep", "60"]);
    let ended = fathometer(&command);
    // Hydra sometimes prints its own banner after a process has failed.
    let has_figures = !(ended.out.is_empty() || ended.out.starts_with("\n====="));
    assert!(
        ended.code != Some(0) && !has_figures,
        "{:?} {:?} {}",
        ended.code,
        ended.out,
        ended.err
    );
    for expected in [
        "failed to find the rendezvous by PMI-1 (PMI_FD)",
        "cmd=barrier_in in time",
    ] {
        assert!(ended.err.contains(expected), "{expected}: {}", ended.err);
    }
    assert_eq!(origin.end(), Vec::<String>::new());
}
