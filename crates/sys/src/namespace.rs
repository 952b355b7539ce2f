//! Network namespaces: the hosts of an experiment.
//!
//! A [`Namespace`] is held by a file descriptor and by nothing else. No name is put under
//! `/run/netns`, so when the program ends, however it ends, the kernel takes the namespace down
//! with its devices, routes and sockets. This module makes threads run inside; what they set up
//! there is the business of [`netlink`](crate::netlink), [`tun`](crate::tun) and
//! [`era`]. Processes inside are [`process`](crate::process).
//!
//! `/proc/sys/net` and `/proc/thread-self/net` show the namespace of the thread that reads them;
//! `/sys/class/net` shows that of whoever mounted it and is therefore not used at all.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::cgroup::AppliedLimit;
use crate::era::{self, SettingOutcome};
use crate::error::{Doing, Error, Result};
use crate::netlink::Netlink;

/// A network namespace. Clones are the same namespace; it ends with the last clone, thread,
/// process and socket in it.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Makes a new, empty namespace whose loopback device is up.
    ///
    /// Needs `CAP_SYS_ADMIN` in the current user namespace: see
    /// [`privilege::acquire`](crate::privilege::acquire).
    pub fn new() -> Result<Namespace> {
        // The namespace of a thread cannot be handed back, so a thread is spent on making one.
        on_new_thread("namespace", || {
            // SAFETY: CLONE_NEWNET changes no memory, descriptor table or signal state; it
            // affects the calling thread alone.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.doing("make a network namespace")?;
            let namespace = Namespace::current()?;
            let mut netlink = Netlink::open()?;
            let loopback = netlink.link_by_name("lo")?.index;
            netlink.set_link_up(loopback)?;
            Ok(namespace)
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Namespace> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).doing(format!("open {path}"))?;
        Ok(Namespace {
            file: Arc::new(file),
        })
    }

    /// The namespace that a process is in.
    ///
    /// Needs to be allowed to look into that process: its user, or `CAP_SYS_PTRACE`.
    pub fn of_process(pid: u32) -> Result<Namespace> {
        let path = format!("/proc/{pid}/ns/net");
        let file = File::open(&path).doing(format!("open {path}"))?;
        Ok(Namespace {
            file: Arc::new(file),
        })
    }

    /// Moves the calling thread into this namespace, for good. Staying where it is needs no
    /// privilege.
    ///
    /// Meant for threads that live in it for as long as they live: [`spawn`](Self::spawn) and
    /// [`run`](Self::run) are the usual ways in.
    pub fn enter(&self) -> Result<()> {
        let identity = |namespace: &Namespace| {
            let metadata = namespace.file.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        if identity(self).is_some() && identity(self) == identity(&Namespace::current()?) {
            return Ok(());
        }
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .doing("enter a network namespace")
    }

    /// Bounds the queues of listeners inside this namespace, and reads the settings back:
    /// `net.core.somaxconn`, to which the kernel cuts down what a program asks of `listen`, and
    /// `net.ipv4.tcp_max_syn_backlog`, for half-open connections where SYN cookies are off.
    ///
    /// It holds for listeners from their next `listen`: set it before the server starts. A queue
    /// of *n* has room for *n* + 1 connections.
    pub fn set_listen_backlog(&self, connections: u32) -> Result<Vec<AppliedLimit>> {
        self.run(|| {
            era::refuse_own_namespace()?;
            ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"]
                .into_iter()
                .map(|name| set_limit(name, connections))
                .collect()
        })?
    }

    /// Runs a closure on a thread of its own inside this namespace. Returns when the thread is
    /// inside.
    pub fn spawn<T, F>(&self, name: &str, work: F) -> Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let namespace = self.clone();
        let (entered, wait) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if let Err(error) = namespace.enter() {
                    let _ = entered.send(Err(error));
                    // There is no value of the caller's type to return, and nobody to see this:
                    // the handle is dropped below. Unlike a panic it prints nothing.
                    std::panic::resume_unwind(Box::new("outside the namespace"));
                }
                let _ = entered.send(Ok(()));
                work()
            })
            .doing("start a thread")?;
        match wait.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => unreachable!("the thread sends before it ends"),
        }
    }

    /// Runs a closure inside this namespace on a short-lived thread and returns its value. A panic
    /// inside comes out here.
    pub fn run<T, F>(&self, work: F) -> Result<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        on_new_thread("host", || {
            self.enter()?;
            Ok(work())
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Sets a kernel setting that must be taken, in the calling thread's namespace.
fn set_limit(name: &str, value: u32) -> Result<AppliedLimit> {
    let wanted = value.to_string();
    let outcome = era::set_sysctl(name, &wanted);
    let found = era::sysctl(name)?;
    match (outcome, found) {
        (SettingOutcome::Impossible(reason), _) => Err(Error::NoLimit {
            what: "listen backlog",
            reason: format!("{name}: {reason}"),
        }),
        (_, found) => Ok(AppliedLimit {
            what: name.to_owned(),
            holds: found.as_ref() == Some(&wanted),
            wanted,
            got: found.unwrap_or_default(),
        }),
    }
}

fn on_new_thread<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, work)
            .doing("start a thread")?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
