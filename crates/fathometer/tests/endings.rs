//! What a user is left with when a command cannot go on: interrupted, killed, out of disk, out of
//! rights, or asked for what does not exist.
//!
//! Tests of studies need the right to make network namespaces and TUN devices; without, each says
//! so and passes, unless `FATHOMETER_REQUIRE_LAB=1`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_sys::{Namespace, Tun};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Long enough for a busy machine, short of what a page takes on the modem line.
const SOON: Duration = Duration::from_secs(30);

/// The least of a study: two cells, twice each, in less than a second.
const SHORT: [&str; 3] = ["block=quickack", "path=lan", "era=today"];

#[test]
fn an_interrupted_run_is_a_run_that_can_be_read() {
    if !possible("an_interrupted_run_is_a_run_that_can_be_read") {
        return;
    }
    let place = Place::new();
    let mut running = place.study_under_way();
    running.signal(Signal::INT);
    let ended = running.ended();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("interrupted"), "{}", ended.err);
    assert!(ended.err.contains("report.html"), "{}", ended.err);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert!(whole_lines(&place.run()) >= 1);
    assert!(place.run().join("report.html").is_file());
    place.assert_report();
}

#[test]
fn a_killed_run_leaves_no_process_and_the_next_run_tidies_up() {
    if !possible("a_killed_run_leaves_no_process_and_the_next_run_tidies_up") {
        return;
    }
    let place = Place::new();
    let mut running = place.study_under_way();
    running.signal(Signal::KILL);
    assert_eq!(running.ended().code, None);
    wait_until("the killed run's servers are gone", || {
        place.processes().is_empty()
    });
    assert!(whole_lines(&place.run()) >= 1);
    place.assert_report();
    // Nobody was left to remove it: were it gone, the rest would show nothing.
    assert_ne!(place.temporary_folders(), Vec::<PathBuf>::new());
    let next = place.folder.path().join("next");
    place.study(&SHORT, &next).ended().assert_measured();
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_folder_that_is_in_the_way_is_not_touched() {
    if !possible("a_folder_that_is_in_the_way_is_not_touched") {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.run()).unwrap();
    // What an earlier run leaves: its folder must not be taken for this one's either.
    let lines = place.run().join("replicates.ndjson");
    fs::write(&lines, "{}\n").unwrap();
    let ended = place.study(&SHORT, &place.run()).ended();
    ended.assert_failed(&[place.run().to_str().unwrap(), "--output"]);
    assert!(!ended.err.contains("is kept"), "{}", ended.err);
    assert_eq!(fs::read_to_string(&lines).unwrap(), "{}\n");
    assert_eq!(fs::read_dir(place.run()).unwrap().count(), 1);

    let below_a_file = lines.join("run");
    let ended = place.study(&SHORT, &below_a_file).ended();
    ended.assert_failed(&[lines.to_str().unwrap(), "a file is in the way", "--output"]);
    assert_eq!(fs::read_to_string(&lines).unwrap(), "{}\n");

    // Not even root may make folders in /proc.
    let ended = place.study(&SHORT, Path::new("/proc/run")).ended();
    ended.assert_failed(&["/proc/run"]);
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
}

#[test]
fn a_full_disk_ends_the_run_and_spares_what_was_measured() {
    if !possible("a_full_disk_ends_the_run_and_spares_what_was_measured") {
        return;
    }
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.folder.path().join("disk"), "2m") else {
        return;
    };
    let run = disk.0.join("run");
    // The LAN's captures fill the disk while pages are under way on the modem line, which take
    // longer than this test waits: they must be ended too.
    let mut running = place.study(&["block=main", "path=lan", "path=ppp"], &run);
    let ended = running.ended();
    ended.assert_failed(&["disk", "free some"]);
    assert!(ended.err.contains("fathometer report"), "{}", ended.err);
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert!(whole_lines(&run) >= 1);

    // Without room for its files the report is shown all the same.
    fs::write(disk.0.join("rest"), vec![0; 2 << 20]).unwrap_err();
    let full = place.fathometer(&["report", run.to_str().unwrap()]).ended();
    assert_eq!(full.code, Some(1), "{}", full.err);
    assert!(full.out.contains("Validity:"), "{}", full.out);
    fs::remove_file(disk.0.join("rest")).unwrap();
    fs::remove_dir_all(run.join("cells")).unwrap();
    let room = place.fathometer(&["report", run.to_str().unwrap()]).ended();
    assert_eq!(room.code, Some(0), "{}", room.err);
    assert!(run.join("report.html").is_file());
}

#[test]
fn a_study_that_cannot_be_named_lists_what_can() {
    let place = Place::new();
    let usage = place
        .fathometer(&["study", "nielsen97", "--wibble"])
        .ended();
    assert_eq!(usage.code, Some(2), "{}", usage.err);
    assert!(usage.err.contains("--wibble"), "{}", usage.err);
    let usage = place.study(&["pathwan"], &place.run()).ended();
    assert_eq!(usage.code, Some(2), "{}", usage.err);
    assert!(usage.err.contains("FACTOR=LEVEL"), "{}", usage.err);
    if !possible("a_study_that_cannot_be_named_lists_what_can") {
        return;
    }
    let unknown = place.fathometer(&["study", "nielsen98"]).ended();
    unknown.assert_failed(&["nielsen98", "nielsen97"]);
    let era = place
        .fathometer(&["study", "nielsen97", "--era", "1850"])
        .ended();
    era.assert_failed(&["era=1850", "1997", "today"]);
    for (only, told) in [
        (&["colour=blue"][..], &["colour", "policy", "block"][..]),
        (&["block=cellar"], &["block=cellar", "main", "nagle"]),
        (&["path=moon"], &["path=moon", "lan", "ppp", "wan"]),
        // A mistake beside what exists is a mistake still.
        (&["path=lan", "path=moon"], &["path=moon", "lan"]),
        (
            &["block=flush", "path=ppp"],
            &["block=flush", "path=ppp", "together"],
        ),
    ] {
        let ended = place.study(only, &place.run()).ended();
        ended.assert_failed(told);
        assert!(!place.run().exists(), "{only:?}");
    }
}

#[test]
fn other_commands_tell_what_is_in_the_way() {
    let place = Place::new();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    place
        .fathometer(&["serve", "--site", "microscape", "--listen", &address])
        .ended()
        .assert_failed(&[&address, "already in use", "--listen"]);
    drop(busy);
    // Nobody listens on a port that was just given back.
    place
        .fathometer(&["fetch", &format!("http://{address}/")])
        .ended()
        .assert_failed(&["could not be had", "Refused"]);
    let folder = place.folder.path().to_str().unwrap();
    place
        .fathometer(&["serve", "/no/such/folder"])
        .ended()
        .assert_failed(&["/no/such/folder"]);
    place
        .fathometer(&["report", folder])
        .ended()
        .assert_failed(&[folder, "the folder of a run"]);
    place
        .fathometer(&["trace", env!("CARGO_BIN_EXE_fathometer")])
        .ended()
        .assert_failed(&["not a capture", "pcapng"]);
    place
        .fathometer(&["trace", "/no/such/capture"])
        .ended()
        .assert_failed(&["/no/such/capture"]);
}

#[test]
fn a_user_without_rights_gets_a_run_or_a_reason() {
    let place = Place::new();
    let as_user = |arguments: &[&str]| -> Ended {
        let mut command = place.command(arguments);
        if rustix::process::geteuid().is_root() {
            command = as_nobody(&place, arguments);
        }
        place.start(command).ended()
    };
    let doctor = as_user(&["doctor"]);
    let able = doctor.code == Some(0);
    assert!(able || doctor.code == Some(1), "{}", doctor.err);
    assert!(!doctor.err.contains("panicked"), "{}", doctor.err);
    let judgement = if able {
        "experiments can be run here"
    } else {
        "experiments cannot be run here"
    };
    assert!(doctor.out.contains(judgement), "{}", doctor.out);
    let json = as_user(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect(&json.out);
    assert_eq!(json["experiments_possible"], able);

    let run = place.run();
    let mut arguments = vec!["study", "nielsen97", "--quiet"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(SHORT.iter().flat_map(|level| ["--only", level]));
    let study = as_user(&arguments);
    if able {
        study.assert_measured();
        assert!(run.join("report.html").is_file());
    } else {
        // Every refusal says what would help; which depends on what is refused.
        study.assert_failed(&[]);
        let helps = ["as root", "modprobe", "sysctl", "chmod"];
        assert!(
            helps.iter().any(|help| study.err.contains(help)),
            "{}",
            study.err
        );
    }
    assert_eq!(place.temporary_folders(), Vec::<PathBuf>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
}

/// A folder of one test's own, whose temporary folder is also the mark by which everything that
/// the test starts is known: it is in the environment of every descendant.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        // Servers under test read there as users of their own.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        Place { folder }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    fn temporary_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temporary()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
        command.args(arguments);
        command
    }

    fn start(&self, mut command: Command) -> Running {
        let output = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(output.path().join(name)).unwrap();
        let child = command
            .env("TMPDIR", self.temporary())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Running { child, output }
    }

    fn fathometer(&self, arguments: &[&str]) -> Running {
        self.start(self.command(arguments))
    }

    fn study(&self, only: &[&str], output: &Path) -> Running {
        let mut arguments = vec!["study", "nielsen97", "--quiet"];
        arguments.extend(["--output", output.to_str().unwrap()]);
        arguments.extend(only.iter().flat_map(|level| ["--only", level]));
        self.fathometer(&arguments)
    }

    /// A study in the middle: something is measured, and servers are at work, a program among them
    /// where this machine has it.
    fn study_under_way(&self) -> Running {
        let only = [
            "block=main",
            "path=wan",
            "server=httpd",
            "server=embedded-apache",
        ];
        let mut running = self.study(&only, &self.run());
        let doctor = self.fathometer(&["doctor", "--json"]).ended();
        let doctor: serde_json::Value = serde_json::from_str(&doctor.out).expect(&doctor.out);
        let httpd = doctor["abilities"]
            .as_array()
            .unwrap()
            .iter()
            .any(|ability| ability["name"] == "httpd" && ability["able"] == true);
        let lines = self.run().join("replicates.ndjson");
        wait_until("the study is under way", || {
            assert!(running.child.try_wait().unwrap().is_none(), "ended early");
            let measured = fs::read(&lines).is_ok_and(|text| text.contains(&b'\n'));
            let serving = self
                .processes()
                .iter()
                .any(|command| command.contains("server.conf"));
            measured && (serving || !httpd)
        });
        running
    }

    /// The command lines of all that this test started and that is alive.
    fn processes(&self) -> Vec<String> {
        let mark = format!("TMPDIR={}", self.temporary().display());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| {
                let environment = fs::read(process.path().join("environ")).ok()?;
                environment
                    .split(|&byte| byte == 0)
                    .any(|word| word == mark.as_bytes())
                    .then(|| fs::read(process.path().join("cmdline")).unwrap_or_default())
            })
            .map(|command| String::from_utf8_lossy(&command).replace('\0', " "))
            .collect()
    }

    fn assert_report(&self) {
        let run = self.run();
        let _ = fs::remove_file(run.join("report.html"));
        let report = self.fathometer(&["report", run.to_str().unwrap()]).ended();
        assert_eq!(report.code, Some(0), "{}", report.err);
        assert!(report.out.contains("Validity:"), "{}", report.out);
        assert!(run.join("report.html").is_file());
    }
}

/// A program that a failing test does not leave behind.
struct Running {
    child: Child,
    output: TempDir,
}

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end, which must come soon.
    fn ended(&mut self) -> Ended {
        let mut status = None;
        wait_until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let text = |name: &str| {
            let bytes = fs::read(self.output.path().join(name)).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ended {
            code: status.and_then(|status| status.code()),
            out: text("out"),
            err: text("err"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a program ended: no code when a signal ended it.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// Exit code 1, and one message that says all of this.
    fn assert_failed(&self, told: &[&str]) {
        assert_eq!(self.code, Some(1), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        for told in told {
            assert!(self.err.contains(told), "{told:?} is not in: {}", self.err);
        }
    }

    /// The run was made. On a busy machine packets may be late and cells invalid (exit code 3):
    /// not what these tests are about.
    fn assert_measured(&self) {
        assert!(
            matches!(self.code, Some(0 | 3)),
            "{:?} {}",
            self.code,
            self.err
        );
    }
}

/// A file system with little room, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "a lab is required and no small disk can be had");
            eprintln!("SKIPPED: a small disk cannot be had: only root may mount one");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The program as a user who has no rights at all.
fn as_nobody(place: &Place, arguments: &[&str]) -> Command {
    const NOBODY: u32 = 65_534;
    // The user may not be allowed into the folder of the build.
    let program = place.folder.path().join("fathometer");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_fathometer"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for folder in [place.folder.path(), &place.temporary()] {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let mut command = Command::new(program);
    command.args(arguments).gid(NOBODY).uid(NOBODY);
    command
}

/// The number of lines of a run's replicates, each of which must be JSON.
fn whole_lines(run: &Path) -> usize {
    let text = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let lines: Result<Vec<serde_json::Value>, _> = text.lines().map(serde_json::from_str).collect();
    lines.expect(&text).len()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn possible(test: &str) -> bool {
    let tried = Namespace::new()
        .and_then(|namespace| namespace.run(|| Tun::create("probe0", 1500, 100).map(drop))?);
    match tried {
        Ok(()) => true,
        Err(error) if std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1") => {
            panic!("{test}: a lab is required and cannot be had: {error}");
        }
        Err(error) => {
            eprintln!("SKIPPED {test}: a lab cannot be had: {error}");
            false
        }
    }
}
