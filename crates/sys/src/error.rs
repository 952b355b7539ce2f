//! Errors of requests to Linux, with remedies.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The error of a request to the system. The messages complete "failed to …: {error}".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed, and its error needs no further advice.
    #[error("{doing}: {source}")]
    System {
        /// What was attempted, as in `open /proc/stat`.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The TUN driver is missing.
    #[error(
        "/dev/net/tun is missing: load the driver with `modprobe tun`, or in a container pass the \
         device through (docker: --device /dev/net/tun)"
    )]
    NoTunDevice,
    /// The path of the TUN driver is a file of another kind.
    #[error(
        "/dev/net/tun is not the TUN driver but {found}: remove it, then `mknod /dev/net/tun c 10 200` \
         and `modprobe tun`, or in a container pass the device through (docker: --device /dev/net/tun)"
    )]
    NotTheTunDriver {
        /// The kind of file, as in `a regular file`.
        found: String,
    },
    /// The TUN driver exists, but this user may not open it.
    #[error(
        "cannot open /dev/net/tun: permission denied; run as root, or `chmod 666 /dev/net/tun`"
    )]
    TunDenied,
    /// The kernel denies this user a user namespace, which is needed without root.
    #[error("user namespaces are disabled: run as root, or set `{sysctl}`")]
    UserNamespacesOff {
        /// The setting that enables user namespaces, as in `sysctl -w kernel.x=1`.
        sysctl: String,
    },
    /// A user namespace was created, but a security module removed its capabilities.
    #[error(
        "AppArmor removes the capabilities in unprivileged user namespaces: run as root, or \
         `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
    )]
    AppArmor,
    /// `/proc` is not mounted, for example in an empty root directory.
    #[error("/proc is not mounted: run `mount -t proc proc /proc`; containers mount it by default")]
    NoProc,
    /// Commands cannot run because there is no shell.
    #[error("there is no /bin/sh: only the built-in servers and clients can run")]
    NoShell,
    /// A capability is missing, and user namespaces are not the reason.
    #[error(
        "{ability} is missing: run as root, or in a container add the capability (docker: \
         --cap-add {ability})"
    )]
    NoCapability {
        /// The capability, as in `NET_ADMIN`.
        ability: &'static str,
    },
    /// The disk is full, or the user's quota is used up.
    #[error("no space left on the disk for {}: free some space, or write to another disk", path.display())]
    DiskFull {
        /// The file that was being written.
        path: PathBuf,
    },
    /// Another program listens on the address.
    #[error(
        "{address} is already in use: choose another port, or find the process with \
         `ss -ltnp sport = :{}`", address.port()
    )]
    PortTaken {
        /// The requested address.
        address: SocketAddr,
    },
    /// The request would change settings in the program's own namespace.
    #[error(
        "the settings of the program's own namespace apply to the whole machine: create a namespace for the \
         experiment"
    )]
    OwnNamespace,
    /// A name is not valid for its purpose.
    #[error("{name:?} is not a valid {what}")]
    BadName {
        /// The name.
        name: String,
        /// The kind of object that the name is for.
        what: &'static str,
    },
    /// The kernel's answer could not be parsed.
    #[error("{what}: the kernel's answer cannot be parsed")]
    BadAnswer {
        /// The request.
        what: &'static str,
    },
    /// The kernel does not have the congestion control of the 1997 era.
    #[error(
        "the kernel has no congestion control reno, only {found:?}: use the era `today`, or another kernel"
    )]
    NoReno {
        /// The congestion controls of the kernel, separated by spaces.
        found: String,
    },
    /// The process that started this process passed a wrong number of descriptors.
    #[error(
        "{found} descriptors arrived from the process that started this one, and {wanted} are needed: raise the limit \
         of open files (`ulimit -n`)"
    )]
    WrongDescriptors {
        /// The number of descriptors needed.
        wanted: usize,
        /// The number of descriptors that arrived.
        found: usize,
    },
    /// On this machine, a resource of a host cannot be limited, or its use cannot be read.
    #[error("{what} of a host: {reason}")]
    NoLimit {
        /// The resource to be limited, as in `memory`.
        what: &'static str,
        /// The reason, and a remedy if there is one.
        reason: String,
    },
    /// A value was set without an error, but the value read back differs.
    #[error("{what} was set to {wanted} but reads back as {found}")]
    NotTaken {
        /// The setting.
        what: String,
        /// The requested value.
        wanted: String,
        /// The value read back.
        found: String,
    },
}

/// The result of a request to the system.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the kernel's error number, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Adds a description of the attempted operation to the error of a call.
pub(crate) trait Doing<T> {
    /// Wraps the failure with `doing`.
    fn doing(self, doing: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::System {
            doing: doing.into(),
            source: error.into(),
        })
    }
}

/// Converts a libc return value, where -1 is an error, to a result.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
