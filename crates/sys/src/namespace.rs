//! Network namespaces: the hosts of an experiment.
//!
//! Only file descriptors keep a [`Namespace`] alive. It has no name under `/run/netns`, so when the program
//! exits for any reason, the kernel removes the namespace with its devices, routes and sockets. This module
//! runs threads inside namespaces; [`netlink`](crate::netlink), [`tun`](crate::tun) and [`era`] configure the namespace.
//! [`process`](crate::process) runs processes inside.
//!
//! `/proc/sys/net` and `/proc/thread-self/net` show the namespace of the thread that reads them.
//! `/sys/class/net` shows the namespace of the process that mounted it, and is therefore not used.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::applied_limit::AppliedLimit;
use crate::era::{self, SettingOutcome};
use crate::error::{Doing, Error, Result};
use crate::netlink::Netlink;

/// A network namespace. Clones refer to the same namespace. The kernel removes it when the last clone is dropped and the
/// last thread, process and socket in it are gone.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Creates a new, empty namespace whose loopback device is up.
    ///
    /// Requires `CAP_SYS_ADMIN` in the current user namespace: see
    /// [`privilege::acquire`](crate::privilege::acquire).
    pub fn new() -> Result<Namespace> {
        // A thread cannot leave the new namespace again, so a short-lived thread creates it.
        on_new_thread("namespace", || {
            // SAFETY: CLONE_NEWNET changes no memory, descriptor table or signal state; it
            // affects only the calling thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.doing("make a network namespace")?;
            let namespace = Namespace::current()?;
            let mut netlink = Netlink::open()?;
            let loopback = netlink.link_by_name("lo")?.index;
            netlink.set_link_up(loopback)?;
            Ok(namespace)
        })
    }

    /// Returns the namespace of the calling thread.
    pub fn current() -> Result<Namespace> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).doing(format!("open {path}"))?;
        Ok(Namespace {
            file: Arc::new(file),
        })
    }

    /// Returns the namespace of a process.
    ///
    /// Requires permission to inspect that process: the same user, or `CAP_SYS_PTRACE`.
    pub fn of_process(pid: u32) -> Result<Namespace> {
        let path = format!("/proc/{pid}/ns/net");
        let file = File::open(&path).doing(format!("open {path}"))?;
        Ok(Namespace {
            file: Arc::new(file),
        })
    }

    /// Moves the calling thread into this namespace permanently. Requires no privilege if the thread is already in it.
    ///
    /// Use this only for threads that stay inside until they exit; otherwise use [`spawn`](Self::spawn) or
    /// [`run`](Self::run).
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

    /// Limits the queues of listeners inside this namespace, and reads the settings back: `net.core.somaxconn`, which
    /// limits the backlog that a program passes to `listen`, and `net.ipv4.tcp_max_syn_backlog`, for half-open
    /// connections when SYN cookies are off.
    ///
    /// A listener applies the limit at its next `listen`: set it before the server starts. A limit of *n* has room for
    /// *n* + 1 connections.
    pub fn set_listen_backlog(&self, connections: u32) -> Result<Vec<AppliedLimit>> {
        self.run(|| {
            era::refuse_own_namespace()?;
            ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"]
                .into_iter()
                .map(|name| set_limit(name, connections))
                .collect()
        })?
    }

    /// Runs a closure on a new thread inside this namespace. Returns when the thread has entered the namespace.
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
                    // Exits the thread without a value and, unlike a panic, without a message. The handle is dropped
                    // below, so no thread reads this payload.
                    std::panic::resume_unwind(Box::new("outside the namespace"));
                }
                let _ = entered.send(Ok(()));
                work()
            })
            .doing("start a thread")?;
        match wait.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(error),
            Err(_) => unreachable!("the thread sends before it exits"),
        }
    }

    /// Runs a closure inside this namespace on a short-lived thread and returns its value. A panic inside is
    /// propagated to the caller.
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

/// Sets a kernel setting in the calling thread's namespace and reads it back. Fails if the kernel does not have or
/// permit the setting.
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
