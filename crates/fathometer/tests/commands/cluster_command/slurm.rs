//! `fathometer cluster slurm` with a real Slurm: output, exit codes, losses and cancellation.

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fathometer_analysis::load::Summary;
use rustix::process::{Pid, Signal, kill_process};

use super::slurm_cluster::{Cluster, text};
use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, run};
use crate::support::serving;
use crate::support::waiting::wait_until;

/// Submits a job of two ranks that run a shell script. Returns its exit code and its output.
fn submitted(cluster: &Cluster, name: &str, script: &str) -> (Option<i32>, String, String) {
    let script = cluster.script(&format!("{name}.sh"), script);
    let output = run(cluster
        .submitter()
        .args(["--ranks", "2", "--folder", name, "--program"])
        .arg(script)
        .args(["--", "load", "it's", "a  b\r\n$HOME"]));
    let (out, err) = text(&output);
    (output.status.code(), out, err)
}

/// Two ranks that succeed, fail, are killed or do not start.
#[test]
fn the_exit_code_and_the_output_of_a_job_are_those_of_rank_0() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let folder = cluster.path();

    // srun itself would return 9, the highest exit code.
    let script = "printf '%s|' rank$SLURM_PROCID of$SLURM_NTASKS \"$@\"; echo said >&2\n\
                  [ $SLURM_PROCID = 0 ] || exit 9";
    let (code, out, err) = submitted(&cluster, "good", script);
    assert_eq!(code, Some(0), "{err}");
    let spool = folder.join("good/spool");
    let spool = spool.display();
    assert_eq!(
        out,
        format!("rank0|of2|load|--spool|{spool}|it's|a  b\r\n$HOME|")
    );
    assert!(err.contains(&format!("its records to {spool}")), "{err}");
    assert!(
        err.contains("\nsaid\n") && err.contains("ended with exit code 0"),
        "{err}"
    );
    assert!(err.contains("task 1: Exited with exit code 9"), "{err}");
    let second = fs::read_to_string(folder.join("good/rank-1.out")).unwrap();
    assert!(second.starts_with("rank1|of2|"), "{second}");

    // All ranks have the same secret, and no command line contains it.
    let script = "tr '\\0' ' ' </proc/$PPID/cmdline; echo; echo \"$FATHOMETER_SECRET\"; exit 3";
    let (code, out, err) = submitted(&cluster, "invalid", script);
    assert_eq!(code, Some(3), "{err}");
    let secret = folder.join("invalid/secret");
    assert_eq!(
        secret.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let secret = fs::read_to_string(secret).unwrap();
    assert_eq!(secret.trim().len(), 64);
    let (arguments, given) = out.trim_end().rsplit_once('\n').unwrap();
    assert!(
        arguments.contains("rank-0.code") && !arguments.contains(secret.trim()),
        "{out}"
    );
    assert_eq!(given, secret.trim());
    assert_eq!(
        fs::read_to_string(folder.join("invalid/rank-1.out"))
            .unwrap()
            .lines()
            .last(),
        Some(secret.trim())
    );

    let (code, _, err) = submitted(&cluster, "absent", "exec /no/such/program");
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("could not start fathometer on the node of rank 0"),
        "{err}"
    );

    // These cases come last, because Slurm may take a node out of service after a killed step. The shell of a killed
    // rank reports the signal. If the shell is killed first, only srun reports it. If the whole step is killed, both
    // reports are possible.
    let (code, _, err) = submitted(&cluster, "killed", "[ $SLURM_PROCID = 1 ] || kill -KILL $$");
    assert_eq!(code, Some(1), "{err}");
    let reported = "rank 0 was killed by signal 9";
    assert!(err.contains(reported), "{err}");
    let (code, _, err) = submitted(&cluster, "shell", "kill -KILL $PPID $$");
    assert_eq!(code, Some(1), "{err}");
    let unreported = "rank 0 left no exit code; srun exited with code 137";
    assert!(
        err.contains(unreported) && err.contains("ended with exit code 1"),
        "{err}"
    );
    let script = "scancel --signal=KILL $SLURM_JOB_ID.0; sleep 20";
    let (code, _, err) = submitted(&cluster, "step", script);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(reported) || err.contains(unreported), "{err}");

    // The folder of another job is not changed, and a job that sbatch refuses leaves no folder.
    let refused = |arguments: &[&str]| {
        let output = run(cluster
            .submitter()
            .args(arguments)
            .args(["--", "load", "http://a/"]));
        (output.status.code(), text(&output).1)
    };
    let (code, err) = refused(&["--ranks", "2", "--folder", "good"]);
    assert!(code == Some(1) && err.contains("good exists"), "{err}");
    let (code, err) = refused(&["--ranks", "2", "--partition", "none", "--folder", "new"]);
    assert!(
        code == Some(1) && err.contains("invalid partition"),
        "{err}"
    );
    assert!(!folder.join("new").exists());
}

/// Starts an origin as the cluster's user. Returns the process and the URL.
fn serve(cluster: &Cluster) -> (Ended, String) {
    let mut server = cluster.program();
    server.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--site",
        "microscape",
    ]);
    let mut server = Ended(
        server
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let address = serving::address(&mut BufReader::new(server.0.stdout.take().unwrap()));
    (server, format!("http://{address}/"))
}

/// Runs `fathometer merge` on the spools of a job. Returns the exit code, the output and the messages.
fn merged(cluster: &Cluster, job: &str) -> (Option<i32>, String, String) {
    let spool = cluster.path().join(job).join("spool");
    let output = run(cluster.program().arg("merge").arg(spool).arg("--json"));
    let (out, err) = text(&output);
    (output.status.code(), out, err)
}

#[test]
fn a_load_of_two_ranks_runs_as_a_job_and_keeps_what_a_lost_rank_0_had() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let (_server, url) = serve(&cluster);
    let submit = |folder: &str, program: Option<&Path>, arguments: &[&str]| {
        let mut submitter = cluster.submitter();
        // The names of the test's nodes do not resolve to addresses.
        submitter.env("FATHOMETER_RENDEZVOUS", free_address().to_string());
        submitter.args(["--nodes", "2", "--folder", folder]);
        if let Some(program) = program {
            submitter.arg("--program").arg(program);
        }
        let load = ["--", "load", "--json", "--quiet", "-c", "2"];
        let output = run(submitter.args(load).args(arguments).arg(&url));
        let (out, err) = text(&output);
        (output.status.code(), out, err)
    };
    let (code, out, err) = submit("whole", None, &["-n", "100"]);
    let summary: Summary =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    // A busy machine may make the result INVALID.
    let expected = if summary.validity.valid { 0 } else { 3 };
    assert_eq!(code, Some(expected), "{err}");
    let (code, again, err) = merged(&cluster, "whole");
    assert_eq!((code, again), (Some(expected), out), "{err}");

    // Rank 0 is killed after both ranks have recorded an interval. The header alone has less than 100 bytes.
    let script = format!(
        "[ $SLURM_PROCID = 0 ] || exec '{program}' \"$@\"\n\
         '{program}' \"$@\" &\n\
         has_interval() {{ [ \"$(stat -c %s \"$1\" 2>/dev/null || echo 0)\" -gt 150 ]; }}\n\
         until has_interval \"$3/rank-0000.spool\" && has_interval \"$3/rank-0001.spool\"; do sleep 0.1; done\n\
         kill -KILL $! $$",
        program = cluster.program_path().display()
    );
    let script = cluster.script("loses-rank-0.sh", &script);
    let (code, out, err) = submit("lost", Some(&script), &["-d", "60s"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("rank 0 was killed by signal 9"), "{err}");
    assert!(
        err.contains("the records of the ranks: fathometer merge /"),
        "{err}"
    );
    let (code, out, err) = merged(&cluster, "lost");
    assert_eq!(code, Some(3), "{err}");
    let summary: Summary = serde_json::from_str(&out).unwrap();
    assert!(summary.ranks[0].lost.is_some() && summary.ranks[1].lost.is_none());
    assert!(summary.ranks.iter().all(|rank| rank.completed > 0));
}

/// If only a node's daemon is killed, its ranks continue. If a whole node is lost, srun waits without limit, and the
/// batch script stops waiting.
#[test]
fn a_lost_node_neither_ends_nor_blocks_a_job() {
    for whole in [false, true] {
        let mut aborted = Vec::new();
        loop {
            let Some(mut cluster) = Cluster::start(2) else {
                return;
            };
            let Err(by_srun) = lose_node(&mut cluster, whole) else {
                if !whole {
                    cluster.restart_node(1);
                }
                break;
            };
            aborted.push(by_srun);
            assert!(aborted.len() < ABORTS, "{aborted:#?}");
        }
    }
}

/// Maximum number of jobs that srun itself may abort. srun aborts a job if a connection of the lost node's daemons
/// closes before rank 0 has exited, which happens on a busy machine. A node that loses power closes no connection.
const ABORTS: usize = 4;

/// Kills the daemon of node 1, or the whole node, while a job of two ranks runs. Fails with srun's message if srun
/// aborted the job.
fn lose_node(cluster: &mut Cluster, whole: bool) -> Result<(), String> {
    let started = cluster.path().join("started");
    let go_on = cluster.path().join("go-on");
    // Rank 1 is on the lost node. Rank 0 exits after the loss.
    let script = format!(
        "[ $SLURM_PROCID = 0 ] || : >'{}'\nwhile [ ! -e '{}' ]; do sleep 0.1; done\necho done\nexit 3",
        started.display(),
        go_on.display()
    );
    let script = cluster.script("waits.sh", &script);
    let mut submitter = cluster.submitter();
    submitter
        .args(["--ranks", "2", "--folder", "job", "--program"])
        .arg(script)
        .args(["--", "load"]);
    let job = submitter
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("rank 1 runs", || started.exists());
    cluster.kill_node(1, whole);
    fs::write(go_on, "").unwrap();
    let output = job.wait_with_output().unwrap();
    let (out, err) = text(&output);
    // srun returns the exit code of rank 0 even if it ends the job itself.
    let ended_by_us = err.contains("ranks still run 2 s after rank 0 exited");
    let has_ended = output.status.code() == Some(3) && (ended_by_us || !whole);
    if err.contains("io error with slurmstepd") && !has_ended {
        return Err(err);
    }
    assert_eq!(
        (output.status.code(), out.as_str()),
        (Some(3), "done\n"),
        "{err}"
    );
    let second = fs::read_to_string(cluster.path().join("job/rank-1.out")).unwrap();
    assert_eq!(second, if whole { "" } else { "done\n" });
    assert_eq!(ended_by_us, whole, "{err}");
    Ok(())
}

#[test]
fn an_interrupt_cancels_the_job_and_its_ranks_exit_in_order() {
    let Some(cluster) = Cluster::start(2) else {
        return;
    };
    let script = cluster.script(
        "ends.sh",
        "trap 'echo partial result; exit 0' TERM\n: >\"$4.$SLURM_PROCID\"\nwhile :; do sleep 0.1; done",
    );
    let started = cluster.path().join("started");
    let begin = |folder: &str| {
        let mut submitter = cluster.submitter();
        submitter
            .args(["--ranks", "2", "--folder", folder, "--program"])
            .arg(&script);
        submitter.args(["--", "load"]).arg(&started);
        submitter
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running = begin("running");
    wait_until("both ranks run", || {
        (0..2).all(|rank| started.with_extension(rank.to_string()).exists())
    });
    // Both nodes are in use: this job waits.
    let waiting = begin("waiting");
    let pending = || {
        run(cluster
            .command("squeue")
            .args(["--noheader", "--states=PENDING"]))
        .stdout
    };
    wait_until("the second job waits", || !pending().is_empty());

    for (job, what) in [
        (
            waiting,
            "without an exit code of rank 0, in state CANCELLED",
        ),
        (running, "ended with exit code 0"),
    ] {
        kill_process(Pid::from_child(&job), Signal::INT).unwrap();
        let output = job.wait_with_output().unwrap();
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(
            err.contains("cancelled; waiting for its ranks to exit") && err.contains(what),
            "{err}"
        );
        assert_eq!(
            out,
            if what.contains("without") {
                ""
            } else {
                "partial result\n"
            }
        );
    }
    cluster.settle();
}

/// A program that is killed when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tests without a cluster: the printed script, and rejected command lines.
#[test]
fn a_script_is_printed_without_slurm_and_bad_command_lines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let submit = |arguments: &[&str]| {
        let mut command = Command::new(FATHOMETER);
        command.args(["cluster", "slurm"]).args(arguments);
        let output = run(command
            .current_dir(folder.path())
            .env("PATH", "/usr/bin/none:/bin:/usr/bin"));
        let (out, err) = text(&output);
        (output.status.code(), out, err)
    };
    let (code, out, err) = submit(&[
        "--ranks",
        "3",
        "--time",
        "5m",
        "--print",
        "--",
        "load",
        "http://a/",
    ]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.starts_with("#!/bin/sh\n#SBATCH ") && out.contains("\n#SBATCH --time=0:05:00\n"),
        "{out}"
    );
    assert!(
        out.contains(&format!(
            "\n    {FATHOMETER} \\\n    load \\\n    --spool \\\n    {}/fathometer-job-1/spool \\\n    http://a/\n",
            folder.path().canonicalize().unwrap().display()
        )),
        "{out}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    for bad in [
        &["--", "load", "http://a/"][..],
        &["--ranks", "0", "--", "load"],
        &["--ranks", "1", "--nodes", "2", "--", "load"],
        &["--ranks", "2", "--", "reboot"],
        &["--ranks", "2", "--", "cluster", "slurm"],
        &["--ranks", "2"],
        &["--ranks", "2", "--time", "10", "--", "load"],
        &["--ranks", "2", "--sbatch=--ntasks=3", "--", "load"],
        &[
            "--ranks",
            "4",
            "--nodes",
            "2",
            "--print",
            "--",
            "study",
            "nielsen97",
        ],
        &[
            "--ranks",
            "2",
            "--secret-file",
            "none",
            "--",
            "study",
            "nielsen97",
        ],
        &["--ranks", "2", "--secret-file", "none", "--", "doctor"],
    ] {
        let (code, _, err) = submit(bad);
        assert_eq!(code, Some(2), "{bad:?}: {err}");
    }
    let (code, _, err) = submit(&["--ranks", "2", "--secret-file", "none", "--", "load"]);
    assert!(
        code == Some(1) && err.contains("cannot read the secret in none"),
        "{err}"
    );
}
