//! The ranks of a load test as processes of Open MPI's `mpirun`.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::mpi_job::Job;
use super::support::{Origin, fathometer, load, merged};
use crate::support::ports::free_address;
use crate::support::waiting::wait_until;

const LAUNCHER: &str = "mpirun";

/// Returns the `mpirun` command for this number of processes of `fathometer load`.
fn processes(job: &Job, number: u32, url: &str, arguments: &[&str]) -> Command {
    let mut launcher = vec![LAUNCHER, "--oversubscribe"];
    launcher.extend(["--mca", "oob_tcp_if_include", "lo"]);
    if rustix::process::geteuid().is_root() {
        launcher.push("--allow-run-as-root");
    }
    job.command(&launcher, number, url, arguments)
}

/// Same as [`processes`], with a rendezvous and spools.
fn ranks_of(job: &Job, ranks: u32, url: &str, arguments: &[&str]) -> Command {
    let mut command = processes(job, ranks, url, arguments);
    command.args(["--rendezvous", &free_address().to_string()]);
    command.arg("--spool").arg(job.spools());
    command
}

#[test]
fn two_and_three_processes_of_mpirun_send_what_one_process_sends() {
    let plan = [
        "--workload",
        "almeida-a",
        "--rate",
        "600",
        "--arrivals",
        "poisson",
        "-n",
        "200",
        "-c",
        "12",
        "--targets",
        "--seed",
        "4",
    ];
    let origin = Origin::of("almeida-a", 4);
    let solo = load(&origin.url(), &[&plan[..], &["--json"]].concat()).summary();
    let requests = origin.end_sorted();
    for ranks in [2, 3] {
        let Some(job) = Job::of(LAUNCHER) else {
            return;
        };
        let origin = Origin::of("almeida-a", 4);
        let ended = fathometer(&ranks_of(&job, ranks, &origin.url(), &plan));
        let whole = ended.ended_with(0);
        assert_eq!(whole.measured.counts.planned, 200);
        assert_eq!(whole.measured.counts.completed, 200);
        assert_eq!(whole.targets, solo.targets);
        assert_eq!(whole.ranks.len(), ranks as usize);
        let planned: Vec<u64> = whole.ranks.iter().map(|rank| rank.planned).collect();
        assert_eq!(planned.iter().sum::<u64>(), 200);
        assert!(
            planned
                .iter()
                .all(|&planned| planned.abs_diff(200 / u64::from(ranks)) <= 1)
        );
        assert_eq!(origin.end_sorted(), requests);
        assert_eq!(merged(&job.spools()).out, ended.out);
    }
}

#[test]
fn processes_of_mpirun_that_are_no_ranks_of_one_test_are_refused() {
    let Some(job) = Job::of(LAUNCHER) else {
        return;
    };
    let origin = Origin::of("almeida-a", 1);
    let (url, short) = (origin.url(), ["-n", "10"]);
    let meeting = free_address().to_string();
    let refused = |command: &mut Command, why: &str| {
        let ended = fathometer(command);
        assert!(
            ended.code != Some(0) && ended.out.is_empty(),
            "{}",
            ended.err
        );
        assert!(ended.err.contains(why), "{}", ended.err);
    };
    // Without a rendezvous, these would be two separate tests.
    let mut solo = processes(&job, 2, &url, &short);
    refused(
        &mut solo,
        "of 2 (OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE), and no rendezvous is known",
    );
    let other_size = [&short[..], &["--ranks", "3", "--rendezvous", &meeting]].concat();
    refused(
        &mut processes(&job, 2, &url, &other_size),
        "--ranks is 3 and OMPI_COMM_WORLD_SIZE is 2",
    );
    // In a batch job of Slurm, the environment gives rank 0 to all processes of this node.
    let mut in_slurm = ranks_of(&job, 2, &url, &short);
    in_slurm.env("SLURM_PROCID", "0").env("SLURM_NTASKS", "2");
    refused(
        &mut in_slurm,
        "rank 0 of 2 (SLURM_PROCID and SLURM_NTASKS), and rank 1 of 2 (OMPI_COMM_WORLD_RANK",
    );
    assert_eq!(origin.end(), Vec::<String>::new());
}

/// `mpirun` always ends all processes when one is killed; `srun` does so only with an option.
#[test]
fn a_rank_that_is_killed_ends_the_job_of_mpirun_and_the_spools_can_be_merged() {
    let Some(job) = Job::of(LAUNCHER) else {
        return;
    };
    let origin = Origin::of("almeida-a", 1);
    let arguments = ["-d", "60s", "-c", "4", "--warmup", "0s"];
    let mut command = ranks_of(&job, 2, &origin.url(), &arguments);
    let mpirun = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("both ranks report an interval", || {
        ["rank-0000.spool", "rank-0001.spool"].iter().all(|name| {
            let spool = fs::metadata(job.spools().join(name));
            // The spool is longer than its header, which has less than 100 bytes.
            spool.is_ok_and(|spool| spool.len() > 150)
        })
    });
    kill_process(rank_of(mpirun.id(), 1), Signal::KILL).unwrap();
    let output = mpirun.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 9), "{err}");
    let merged = merged(&job.spools());
    assert_eq!(merged.code, Some(3), "{}", merged.err);
    let merged = merged.summary();
    assert!(merged.ranks[1].lost.is_some());
    assert!(merged.ranks.iter().all(|rank| rank.completed > 0));
    assert!(
        merged
            .validity
            .reasons
            .iter()
            .any(|reason| reason.starts_with("rank 1 was lost")),
        "{:?}",
        merged.validity.reasons
    );
}

/// Returns the process ID of a rank, which is a child of `mpirun`.
fn rank_of(mpirun: u32, rank: u32) -> Pid {
    let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
    let threads = fs::read_dir(format!("/proc/{mpirun}/task")).unwrap();
    let children = threads.flatten().map(|thread| {
        let children = fs::read_to_string(thread.path().join("children"));
        children.unwrap_or_default()
    });
    let children: Vec<String> = children.collect();
    children
        .iter()
        .flat_map(|children| children.split_ascii_whitespace())
        .find_map(|child| {
            let environment = fs::read_to_string(format!("/proc/{child}/environ")).ok()?;
            let is_it = environment.split('\0').any(|found| found == variable);
            is_it.then(|| child.parse().ok().and_then(Pid::from_raw))?
        })
        .expect("mpirun has a process of this rank")
}
