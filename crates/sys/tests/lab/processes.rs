//! Programs inside namespaces, and their exit.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_sys::{Namespace, Session, socket};

use crate::lab;

/// The time limit of a step, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    command
}

#[test]
fn a_program_sees_its_namespace_its_own_processes_and_reports_its_end() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let script = "echo $$; set -- /proc/[0-9]*; echo $#; cat /proc/net/dev; exit 7";
    let mut process = namespace.command(shell(script), Session::Own).unwrap();
    let mut output = String::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "2", "the program is the first child of init");
    assert_eq!(lines[1], "2", "init and the shell alone: {output}");
    assert!(lines[4].trim().starts_with("lo:"), "{output}");
    assert_eq!(lines.len(), 5, "loopback alone: {output}");
    let exit = process.wait();
    assert_eq!(exit.status.code(), Some(7));
    assert!(exit.peak_resident.0 > 0);
    assert_eq!(process.try_wait(), Some(exit));
    // A signal after the exit is no error.
    process.signal(libc::SIGTERM).unwrap();
}

#[test]
fn a_program_that_cannot_be_started_is_named_in_the_error() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let error = namespace
        .command(Command::new("/nonexistent/server"), Session::Own)
        .unwrap_err();
    assert!(error.to_string().contains("/nonexistent/server"), "{error}");
    assert_eq!(error.errno(), Some(libc::ENOENT));
}

#[test]
fn processor_time_of_the_whole_tree_is_seen_live_and_at_the_end() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let script = format!("({busy}); ({busy}) & wait; echo done; read line");
    let mut command = shell(&script);
    command.stdin(Stdio::piped());
    let mut process = namespace.command(command, Session::Own).unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
    let live = process.cpu_time();
    drop(process.stdin.take());
    let exit = process.wait();
    // Both loops ran in children, which have exited by the first reading.
    assert!(live >= Duration::from_millis(10), "{live:?}");
    let total = exit.user + exit.system;
    assert!(
        total + Duration::from_millis(40) >= live,
        "{total:?} at exit, {live:?} while running"
    );
}

#[test]
fn a_program_that_ignores_the_signal_is_killed_with_all_its_children() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let process = namespace
        .command(shell("exec sleep 1000"), Session::Own)
        .unwrap();
    let exit = process.stop(libc::SIGTERM, PATIENCE).unwrap();
    assert_eq!(exit.status.signal(), Some(libc::SIGTERM));

    let script = "trap '' TERM; setsid sleep 1000 & echo started; wait";
    let mut process = namespace.command(shell(script), Session::Own).unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let family = descendants(process.pid());
    assert_eq!(family.len(), 2, "the shell and its child");
    let exit = process
        .stop(libc::SIGTERM, Duration::from_millis(50))
        .unwrap();
    assert_eq!(exit.status.signal(), Some(libc::SIGKILL));
    for pid in family {
        assert!(!alive(pid), "{pid} outlived its init");
    }
}

#[test]
fn programs_die_with_a_parent_that_is_killed() {
    if !lab() {
        return;
    }
    // Starts this executable again; the environment variable selects its role as the parent.
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::parent_that_will_be_killed",
            "--nocapture",
        ])
        .env("FATHOMETER_TEST_PARENT", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pids = BufReader::new(parent.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("pids ").map(str::to_owned))
        .unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3, "init, the shell, its child");
    for &pid in &pids {
        assert!(alive(pid));
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while pids.iter().any(|&pid| alive(pid)) {
        assert!(start.elapsed() < PATIENCE, "{pids:?} outlived their parent");
        std::thread::yield_now();
    }
}

/// Not a test by itself: the parent process of the test above.
#[test]
fn parent_that_will_be_killed() {
    if std::env::var_os("FATHOMETER_TEST_PARENT").is_none() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let script = "trap '' TERM HUP INT; setsid sleep 1000 & echo started; wait";
    let mut process = namespace.command(shell(script), Session::Own).unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let mut pids = vec![process.pid()];
    pids.extend(descendants(process.pid()));
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    println!("pids {}", pids.join(" "));
    process.wait();
}

fn descendants(root: u32) -> Vec<u32> {
    let path = format!("/proc/{root}/task/{root}/children");
    let children: Vec<u32> = std::fs::read_to_string(path)
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    let below: Vec<u32> = children.iter().flat_map(|&pid| descendants(pid)).collect();
    [children, below].concat()
}

/// Whether a process exists and is not a zombie.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

#[test]
fn options_reach_the_listening_socket_of_another_program() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let mut server = Command::new(std::env::current_exe().unwrap());
    server
        .args([
            "--exact",
            "processes::server_of_another_program",
            "--nocapture",
        ])
        .env("FATHOMETER_TEST_SERVER", "1")
        .stdout(Stdio::piped());
    let mut process = namespace.command(server, Session::Own).unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let mut lines = output.lines().map(|line| line.unwrap());
    let port = lines
        .find_map(|line| line.strip_prefix("port ").map(str::to_owned))
        .unwrap();
    let listeners = process.listening_sockets().unwrap();
    assert_eq!(listeners.len(), 1);
    let address = listeners[0].local_addr().unwrap();
    assert_eq!(address.port().to_string(), port);
    socket::set_quick_ack(&listeners[0], false).unwrap();
    let _client = namespace
        .run(|| TcpStream::connect(address))
        .unwrap()
        .unwrap();
    let quick = lines.find_map(|line| line.strip_prefix("quick ").map(str::to_owned));
    assert_eq!(quick.as_deref(), Some("false"));
}

/// Not a test by itself: the other program of the test above.
#[test]
fn server_of_another_program() {
    if std::env::var_os("FATHOMETER_TEST_SERVER").is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("\nport {}", listener.local_addr().unwrap().port());
    let (stream, _) = listener.accept().unwrap();
    println!("\nquick {}", socket::quick_ack(&stream).unwrap());
    // Runs until it is killed, so that its own exit does not end the test's reading.
    std::thread::park();
}
