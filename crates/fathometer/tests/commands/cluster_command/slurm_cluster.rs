//! Runs a Slurm cluster on the loopback interface: a controller and several nodes on this machine, as an ordinary user.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, run, tool};
use crate::support::waiting::{wait_until, wait_within};

/// The user that runs the cluster if the tests run as root.
const USER: &str = "nobody";

/// A running cluster. Dropping it ends all processes that it started.
pub struct Cluster {
    folder: tempfile::TempDir,
    authentication: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<Child>,
    program: PathBuf,
    /// Whether the cluster's user may use TUN devices on the nodes.
    has_tun: bool,
}

/// Gives a program a `/dev/net/tun` that every user may open, in its own mount namespace.
const WITH_TUN: &str =
    r#"mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200; exec "$@""#;

impl Cluster {
    /// Starts a cluster with this number of nodes; `None`, with a message on stderr, if Slurm is not installed.
    pub fn start(nodes: usize) -> Option<Cluster> {
        Cluster::start_nodes(nodes, false)
    }

    /// Same as [`Cluster::start`], with TUN devices for the jobs. Some systems reserve TUN devices for root.
    pub fn start_with_tun(nodes: usize) -> Option<Cluster> {
        Cluster::start_nodes(nodes, true)
    }

    fn start_nodes(nodes: usize, has_tun: bool) -> Option<Cluster> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch", "setpriv"] {
            tool(program)?;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Cluster {
            program: reachable_program(folder.path()),
            folder,
            authentication: None,
            controller: None,
            nodes: Vec::new(),
            has_tun,
        };
        cluster.configure(nodes);
        let path = cluster.path();
        let file = |name: &str| path.join(name).into_os_string().into_string().unwrap();
        let mut munged = cluster.command("munged");
        munged.args(["--foreground", "--force"]);
        for (option, name) in [
            ("--key-file", "key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.args([option, &file(name)]);
        }
        cluster.authentication = Some(spawn(munged));
        wait_until("munged listens", || path.join("munge.socket").exists());
        let mut controller = cluster.command("slurmctld");
        controller.args(["-D", "-i"]);
        cluster.controller = Some(spawn(controller));
        for number in 0..nodes {
            let node = cluster.start_node(number);
            cluster.nodes.push(node);
        }
        wait_until("all nodes are idle", || {
            let output = run(cluster
                .command("sinfo")
                .args(["--noheader", "--format=%T %D"]));
            output.stdout == format!("idle {nodes}\n").as_bytes()
        });
        Some(cluster)
    }

    /// Returns a folder that the cluster's user may write.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Returns a command without arguments, which the cluster's user runs with the cluster's configuration.
    pub fn command(&self, program: &str) -> Command {
        let mut command;
        // An absolute path is not changed.
        let program = tool(program).expect("the programs were found before");
        if rustix::process::geteuid().is_root() {
            command = Command::new("setpriv");
            let group = "nogroup";
            command.args(["--reuid", USER, "--regid", group, "--clear-groups"]);
            // If the test is killed, the kernel kills this process too.
            command.args(["--pdeathsig", "KILL"]).arg(program);
        } else {
            command = Command::new(program);
        }
        command
            .env("SLURM_CONF", self.configuration())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns the command `fathometer`, without arguments.
    pub fn program(&self) -> Command {
        self.command(self.program.to_str().unwrap())
    }

    /// The path of `fathometer` for the cluster's user.
    pub fn program_path(&self) -> &Path {
        &self.program
    }

    /// Returns the command `fathometer cluster slurm`, without the command of the ranks.
    pub fn submitter(&self) -> Command {
        let mut command = self.program();
        command.args(["cluster", "slurm", "--grace", "2"]);
        command
    }

    /// Writes a shell script for the ranks to run.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Waits until no job is left, so that the next job starts at once.
    pub fn settle(&self) {
        wait_within(Duration::from_secs(60), "the queue is empty", || {
            run(self.command("squeue").arg("--noheader"))
                .stdout
                .is_empty()
        });
    }

    /// Kills the daemon of a node and, if `whole`, all processes on this node.
    pub fn kill_node(&mut self, number: usize, whole: bool) {
        self.nodes[number].kill().unwrap();
        self.nodes[number].wait().unwrap();
        if whole {
            let name = format!("SLURMD_NODENAME=n{number}");
            let step = format!("-n{number}");
            for (pid, environment, arguments) in self.processes() {
                let is_task = environment.split('\0').any(|variable| variable == name);
                // For the process that starts a step's tasks, only its open socket names the node.
                let is_step = arguments.starts_with("slurmstepd")
                    && open_sockets_mention(pid, self.folder.path(), &step);
                if is_task || is_step {
                    kill(pid);
                }
            }
        }
    }

    /// Starts the daemon of a node again and waits until the node is usable.
    pub fn restart_node(&mut self, number: usize) {
        self.nodes[number] = self.start_node(number);
        self.settle();
        wait_until("the node is idle", || {
            let node = format!("--nodes=n{number}");
            let output = run(self
                .command("sinfo")
                .args(["--noheader", "--format=%T", &node]));
            output.stdout == b"idle\n"
        });
    }

    fn start_node(&self, number: usize) -> Child {
        let mut node = self.command("slurmd");
        node.args(["-D", "-N", &format!("n{number}")]);
        if !(self.has_tun && rustix::process::geteuid().is_root()) {
            return spawn(node);
        }
        let mut inside = Command::new("unshare");
        inside
            .args(["--mount", "sh", "-c", WITH_TUN, "sh"])
            .arg(node.get_program())
            .args(node.get_args())
            .env("SLURM_CONF", self.configuration())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        spawn(inside)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    /// Writes the key and slurm.conf, and gives the folder to the cluster's user.
    fn configure(&self, nodes: usize) {
        let folder = self.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.join("state")).unwrap();
        let key: Vec<u8> = (0..128).collect();
        fs::write(folder.join("key"), key).unwrap();
        fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o400)).unwrap();
        let host = run(&Command::new("hostname"));
        let host = String::from_utf8(host.stdout).unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        let is_root = rustix::process::geteuid().is_root();
        let user = match is_root {
            true => USER.to_owned(),
            false => String::from_utf8(run(Command::new("id").arg("-un")).stdout).unwrap(),
        };
        let port = |address: SocketAddr| address.port();
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n\
             SlurmctldPort={}\n",
            port(free_address()),
            user = user.trim(),
        );
        for (key, name) in [
            ("SlurmctldPidFile", "controller.pid"),
            ("SlurmctldLogFile", "controller.log"),
            ("SlurmdPidFile", "node-%n.pid"),
            ("SlurmdLogFile", "node-%n.log"),
            ("SlurmdSpoolDir", "spool-%n"),
            ("StateSaveLocation", "state"),
            ("AuthInfo", "munge.socket"),
        ] {
            let prefix = if key == "AuthInfo" { "socket=" } else { "" };
            text += &format!("{key}={prefix}{}\n", folder.join(name).display());
        }
        text += "AuthType=auth/munge\nCredType=cred/munge\n\
                 CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nSlurmdParameters=config_overrides\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
                 JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
                 SchedulerType=sched/builtin\nReturnToService=2\nKillWait=1\nMinJobAge=300\n";
        // Slurm's default timeout for lost nodes, and longer timeouts for messages: on a busy machine, a daemon that
        // waits for a processor must not count as lost.
        text += "SlurmdTimeout=300\nMessageTimeout=60\nTCPTimeout=30\n";
        for number in 0..nodes {
            text += &format!(
                "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=2\n",
                port(free_address())
            );
        }
        text += &format!(
            "PartitionName=all Nodes=n[0-{}] Default=YES MaxTime=10\n",
            nodes - 1
        );
        fs::write(self.configuration(), text).unwrap();
        if is_root {
            let owned = run(Command::new("chown").args(["-R", USER]).arg(folder));
            assert!(owned.status.success(), "{owned:?}");
        }
    }

    /// Returns the processes that have this cluster's configuration in their environment: its daemons, and all of its
    /// jobs.
    fn processes(&self) -> Vec<(i32, String, String)> {
        let mark = format!("SLURM_CONF={}", self.configuration().display());
        let read = |path: PathBuf| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let environment = read(entry.path().join("environ"));
                let is_ours = environment.split('\0').any(|variable| variable == mark);
                is_ours.then(|| (pid, environment, read(entry.path().join("cmdline"))))
            })
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Only the controller's log shows why a node was unavailable, and its folder is removed next.
            let log = fs::read_to_string(self.folder.path().join("controller.log"));
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            eprintln!("the end of slurmctld's log:\n{}", last.join("\n"));
        }
        let children = self.nodes.iter_mut().chain(&mut self.controller);
        for child in children.chain(&mut self.authentication) {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Jobs are not children of this process. The processes of a starting job may appear a moment later.
        for _ in 0..50 {
            let processes = self.processes();
            if processes.is_empty() {
                break;
            }
            for (pid, ..) in processes {
                kill(pid);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the output and the messages of a program as text.
pub fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn spawn(mut command: Command) -> Child {
    // The daemons log to files.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
        .spawn()
        .expect("setpriv and the daemons of Slurm run")
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Whether a process listens on a socket of a node's folder.
fn open_sockets_mention(pid: i32, folder: &Path, end: &str) -> bool {
    let spool = format!("{}/spool{end}", folder.display());
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inodes: Vec<String> = sockets
        .lines()
        .filter(|line| line.contains(&spool))
        .filter_map(|line| {
            Some(format!(
                "socket:[{}]",
                line.split_ascii_whitespace().nth(6)?
            ))
        })
        .collect();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|link| {
            inodes
                .iter()
                .any(|inode| link.as_os_str() == inode.as_str())
        })
    })
}

/// Returns a path of the program that the cluster's user may execute. Other users cannot read a checkout below `/root`.
fn reachable_program(folder: &Path) -> PathBuf {
    if !rustix::process::geteuid().is_root() {
        return FATHOMETER.into();
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let mut test = Command::new("setpriv");
    test.args([
        "--reuid",
        USER,
        "--regid",
        "nogroup",
        "--clear-groups",
        "test",
        "-x",
        FATHOMETER,
    ]);
    if run(&test).status.success() {
        return FATHOMETER.into();
    }
    let copy = folder.join("fathometer");
    fs::copy(FATHOMETER, &copy).unwrap();
    copy
}
