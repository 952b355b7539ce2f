//! Programs inside a namespace, which are guaranteed to exit.
//!
//! A program under test may fork, daemonise and ignore signals. Therefore it runs in its own PID namespace, under a small
//! init process of this crate. When init exits, the kernel kills all other processes in the namespace. Init exits when
//! the program exits, when [`HostProcess`] is dropped, and when this program exits for any reason.
//!
//! How it works:
//!
//! 1. For each program, a new thread enters the network namespace and unshares the PID namespace: its next child is
//!    process 1 of a new PID namespace. (The thread itself stays in the old PID namespace.)
//! 2. The standard library forks that child. In `pre_exec` the child sets its parent-death signal to SIGKILL, mounts a
//!    private `/proc`, and forks again. The grandchild returns to the standard library, which executes the program; the
//!    child stays as init. Errors of the execution are therefore reported in the usual way.
//! 3. The "parent" of a parent-death signal is the thread that forked, so that thread stays and waits. If the parent
//!    exits before the signal is set, the child detects it by a process descriptor of the parent.
//!
//! Init allocates no memory, because it was forked from a program with threads. The program must stay in the foreground:
//! when the started process exits, all its descendants are killed.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use fathometer_model::Bytes;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, pidfd_getfd, pidfd_open, pidfd_send_signal,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Doing, Error, Result};
use crate::namespace::Namespace;
use crate::probe;
use crate::socket;

/// A running program with all its descendants. Dropping this value kills all of them.
#[derive(Debug)]
pub struct HostProcess {
    /// The program's standard input, if the command has a pipe for it.
    pub stdin: Option<ChildStdin>,
    /// The program's standard output, if the command has a pipe for it.
    pub stdout: Option<ChildStdout>,
    /// The program's standard error, if the command has a pipe for it.
    pub stderr: Option<ChildStderr>,
    pid: u32,
    handle: OwnedFd,
    end: Arc<(Mutex<Option<Exit>>, Condvar)>,
}

/// The exit status of a program, and the resource use of the program and all its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit status of the started program.
    pub status: ExitStatus,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident memory of any single process.
    pub peak_resident: Bytes,
}

/// Whether a program shares the user's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// Its own session: Ctrl-C at the terminal does not signal the program.
    Own,
    /// The session of this program, for interactive programs.
    Shared,
}

impl Namespace {
    /// Starts a program inside this namespace, in its own PID namespace and with its own `/proc`.
    ///
    /// The program must not daemonise. Environment, directory and standard streams are taken from the command.
    pub fn command(&self, command: Command, session: Session) -> Result<HostProcess> {
        let namespace = self.clone();
        let end = Arc::new((Mutex::new(None), Condvar::new()));
        let end_of_thread = Arc::clone(&end);
        let (give, take) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("process".to_owned())
            .spawn(
                move || match start(&namespace, command, session, &end_of_thread) {
                    Ok((process, status)) => {
                        let pid = process.pid;
                        // Cannot fail, because the receiver waits below.
                        let _ = give.send(Ok(process));
                        let exit = await_end(pid, &status);
                        let (slot, changed) = &*end_of_thread;
                        *slot.lock().unwrap_or_else(|lock| lock.into_inner()) = Some(exit);
                        changed.notify_all();
                    }
                    Err(error) => {
                        let _ = give.send(Err(error));
                    }
                },
            )
            .doing("start a thread")?;
        take.recv().unwrap_or_else(|_| {
            Err(Error::System {
                doing: "start a program".to_owned(),
                source: io::Error::other("its thread panicked"),
            })
        })
    }
}

impl HostProcess {
    /// Returns the process number of the program's init in this program's PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal (`libc::SIGTERM`, …) to the started program. SIGKILL is sent to init and kills all processes. Has no
    /// effect if the program has already exited.
    pub fn signal(&self, signal: libc::c_int) -> Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or_else(|| Error::BadName {
            name: signal.to_string(),
            what: "signal",
        })?;
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error).doing("send a signal"),
        }
    }

    /// Returns the exit status and the resource use; `None` while the program runs.
    pub fn try_wait(&self) -> Option<Exit> {
        *self.end.0.lock().unwrap_or_else(|lock| lock.into_inner())
    }

    /// Waits until the program and all its descendants have exited.
    pub fn wait(&self) -> Exit {
        loop {
            if let Some(exit) = self.wait_for(Duration::from_secs(3600)) {
                return exit;
            }
        }
    }

    /// Waits at most `time` for the program to exit.
    pub fn wait_for(&self, time: Duration) -> Option<Exit> {
        let (slot, changed) = &*self.end;
        let slot = slot.lock().unwrap_or_else(|lock| lock.into_inner());
        let waited = changed.wait_timeout_while(slot, time, |exit| exit.is_none());
        *waited.unwrap_or_else(|lock| lock.into_inner()).0
    }

    /// Sends a signal to end the program. If it has not exited within `grace`, kills it with all descendants.
    pub fn stop(&self, signal: libc::c_int, grace: Duration) -> Result<Exit> {
        self.signal(signal)?;
        if let Some(exit) = self.wait_for(grace) {
            return Ok(exit);
        }
        self.signal(libc::SIGKILL)?;
        Ok(self.wait())
    }

    /// Returns the sockets on which the program and its descendants currently listen. The descriptors refer to the
    /// program's own sockets, so an option set here ([`set_quick_ack`](crate::socket::set_quick_ack)) applies to all
    /// connections that the program accepts afterwards.
    ///
    /// Requires permission to trace the program. The user who started it has this permission, as root or in the same user
    /// namespace.
    pub fn listening_sockets(&self) -> Result<Vec<TcpListener>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for pid in probe::descendants(self.pid) {
            // Processes and descriptors may appear and disappear meanwhile.
            let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
                continue;
            };
            for entry in entries.flatten() {
                let Ok(target) = std::fs::read_link(entry.path()) else {
                    continue;
                };
                let socket = target.to_string_lossy().starts_with("socket:");
                let number = entry.file_name().to_string_lossy().parse::<RawFd>();
                if let (true, Ok(number)) = (socket && seen.insert(target), number) {
                    found.extend(listening(pid, number)?);
                }
            }
        }
        Ok(found)
    }

    /// Returns the CPU time used so far, in user mode and in the kernel. Running processes are counted to the
    /// nanosecond, exited processes to 10 ms each.
    pub fn cpu_time(&self) -> Duration {
        probe::cpu_time(self.pid)
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // An exited program needs no signal, and no other failure is possible.
        let _ = self.signal(libc::SIGKILL);
        self.wait();
    }
}

type End = Arc<(Mutex<Option<Exit>>, Condvar)>;

/// Starts the program, on the thread that stays. Returns the process and the pipe for its exit status.
fn start(
    namespace: &Namespace,
    mut command: Command,
    session: Session,
    end: &End,
) -> Result<(HostProcess, OwnedFd)> {
    namespace.enter()?;
    // SAFETY: CLONE_NEWPID touches neither memory nor descriptors; it only concerns children.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.doing("create a PID namespace")?;
    let parent = pidfd_open(getpid(), PidfdFlags::empty()).doing("open a process descriptor")?;
    let (status, report) = pipe_with(PipeFlags::CLOEXEC).doing("create a pipe")?;
    let fds = (parent.as_raw_fd(), report.as_raw_fd());
    // SAFETY: the closure only makes system calls, as is required after a fork of a program with threads.
    unsafe {
        command.pre_exec(move || become_init_and_fork(fds.0, fds.1, session));
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().doing(format!("start {program}"))?;
    let pid = child.id();
    let handle = Pid::from_raw(pid as i32)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .doing("open a process descriptor")?;
    let process = HostProcess {
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        pid,
        handle,
        end: Arc::clone(end),
    };
    Ok((process, status))
}

fn await_end(pid: u32, status: &OwnedFd) -> Exit {
    let mut of_init: libc::c_int = 0;
    // SAFETY: rusage is plain data for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are of live variables.
        let waited = unsafe { libc::wait4(pid as i32, &raw mut of_init, 0, &raw mut usage) };
        if waited >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    // The program's exit status, as reported by init. If init was killed, it sends no report, and its own exit status
    // is used.
    let mut bytes = [0; 4];
    let raw = match rustix::io::read(status.as_fd(), &mut bytes) {
        Ok(4) => i32::from_ne_bytes(bytes),
        _ => of_init,
    };
    Exit {
        status: ExitStatus::from_raw(raw),
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_resident: Bytes(usage.ru_maxrss.max(0) as u64 * 1024),
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_usec.max(0) as u32 * 1000)
}

/// Runs in the child, which is process 1 of its PID namespace. Returns only in the grandchild.
fn become_init_and_fork(parent: RawFd, report: RawFd, session: Session) -> io::Result<()> {
    // SAFETY: all calls below are system calls on plain values, or on variables that outlive
    // them; the descriptors are open, inherited from the parent.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut alive = libc::pollfd {
            fd: parent,
            events: libc::POLLIN,
            revents: 0,
        };
        // If the descriptor is readable, the parent exited before the parent-death signal was set.
        if libc::poll(&raw mut alive, 1, 0) > 0 {
            libc::_exit(1);
        }
        if session == Session::Own {
            libc::setsid();
        }
        private_proc();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
                Ok(())
            }
            program => {
                close_all_but(report);
                init(program, report, &all)
            }
        }
    }
}

/// Mounts a `/proc` with the processes of the new namespace. If that is not permitted (in a container with a masked
/// `/proc`), the old `/proc` stays, with process numbers of the outer namespace.
unsafe fn private_proc() {
    // SAFETY: constant strings, no data.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0 {
            let none = std::ptr::null();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            libc::mount(none, c"/".as_ptr(), none, private, none.cast());
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            let proc = c"proc".as_ptr();
            libc::mount(proc, c"/proc".as_ptr(), proc, flags, none.cast());
        }
    }
}

/// The number of descriptors that are closed one by one if the kernel cannot close a range: the default of `fs.nr_open`.
const MOST_DESCRIPTORS: RawFd = 1 << 20;

/// Closes all descriptors except `report`. Otherwise init would keep pipes open whose end another process waits for.
unsafe fn close_all_but(report: RawFd) {
    // SAFETY: after this no code in this process uses a descriptor, except the one left open.
    unsafe {
        let below = report == 0 || libc::close_range(0, report as libc::c_uint - 1, 0) == 0;
        if below && libc::close_range(report as libc::c_uint + 1, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        // A kernel before 5.9, or a sandbox that rejects the call. RLIMIT_NOFILE is not an upper bound: it may have been
        // lowered below open descriptors.
        for descriptor in (0..MOST_DESCRIPTORS).filter(|&descriptor| descriptor != report) {
            libc::close(descriptor);
        }
    }
}

/// Forwards signals to the program, reaps orphans, and exits with the program. The signals in `all` are blocked.
unsafe fn init(program: libc::pid_t, report: RawFd, all: &libc::sigset_t) -> ! {
    // SAFETY: system calls on variables that outlive them.
    unsafe {
        loop {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            let signal = libc::sigwaitinfo(all, &raw mut information);
            if signal != libc::SIGCHLD {
                // The terminal sends its signals directly to the program.
                if signal > 0 && information.si_code <= 0 {
                    libc::kill(program, signal);
                }
                continue;
            }
            loop {
                let mut status = 0;
                let ended = libc::waitpid(-1, &raw mut status, libc::WNOHANG);
                if ended <= 0 {
                    break;
                }
                if ended == program {
                    libc::kill(-1, libc::SIGKILL);
                    // Reaping the orphans adds their resource use to the total.
                    while libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 {}
                    libc::write(report, (&raw const status).cast(), size_of_val(&status));
                    libc::_exit(0);
                }
            }
        }
    }
}

/// Returns a TCP socket of another process, if it listens.
fn listening(pid: u32, number: RawFd) -> Result<Option<TcpListener>> {
    let Some(handle) =
        Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return Ok(None);
    };
    let socket = match pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()) {
        Ok(socket) => socket,
        // The descriptor was closed, or its process exited, after it was listed.
        Err(rustix::io::Errno::BADF | rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error).doing("duplicate a program's socket"),
    };
    // Other kinds of sockets do not support this option, or return zero.
    let listens = socket::get(&socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).unwrap_or(0) == 1;
    let tcp = socket::get(&socket, libc::SOL_SOCKET, libc::SO_PROTOCOL).unwrap_or(0);
    Ok((listens && tcp == libc::IPPROTO_TCP).then(|| TcpListener::from(socket)))
}
