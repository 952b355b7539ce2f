//! What can go wrong when asking Linux, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a request to the system failed. Messages are fragments that fit "failed to …: {error}".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed for a reason that needs no advice beyond its own words.
    #[error("{doing}: {source}")]
    System {
        /// What was attempted, as in `open /proc/stat`.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no TUN driver to open.
    #[error(
        "/dev/net/tun is missing: load the driver with `modprobe tun`, or in a container pass the \
         device through (docker: --device /dev/net/tun)"
    )]
    NoTunDevice,
    /// What lies in the TUN driver's place is something else.
    #[error(
        "/dev/net/tun is not the TUN driver but {found}: remove it, then `mknod /dev/net/tun c 10 200` \
         and `modprobe tun`, or in a container pass the device through (docker: --device /dev/net/tun)"
    )]
    NotTheTunDriver {
        /// What it is, as in `a regular file`.
        found: String,
    },
    /// The TUN driver is there but this user may not open it.
    #[error(
        "/dev/net/tun may not be opened by this user: run as root, or `chmod 666 /dev/net/tun`"
    )]
    TunDenied,
    /// The kernel gives this user no user namespace, which is needed without root.
    #[error("user namespaces are switched off here: run as root, or set `{sysctl}`")]
    UserNamespacesOff {
        /// The setting that would switch them on, as in `sysctl -w kernel.x=1`.
        sysctl: String,
    },
    /// A user namespace was given, but a security module took its abilities away.
    #[error(
        "AppArmor takes the abilities away inside unprivileged user namespaces: run as root, or \
         `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
    )]
    AppArmor,
    /// An ability is missing although a user namespace cannot be blamed for it.
    #[error(
        "{ability} is missing: run as root, or in a container add the capability (docker: \
         --cap-add {ability})"
    )]
    NoCapability {
        /// The capability, as in `NET_ADMIN`.
        ability: &'static str,
    },
    /// There is no room left for a file, or the user's share is used up.
    #[error("no room left on the disk for {}: free some, or write elsewhere", path.display())]
    DiskFull {
        /// The file that was being written.
        path: PathBuf,
    },
    /// Somebody else listens there.
    #[error(
        "{address} is already in use: choose another port, or find who has it with \
         `ss -ltnp sport = :{}`", address.port()
    )]
    PortTaken {
        /// The address wanted.
        address: SocketAddr,
    },
    /// Settings were to be changed in the namespace of the program itself.
    #[error(
        "this is the namespace of the program itself, whose settings belong to the machine: make \
         one for the experiment"
    )]
    OwnNamespace,
    /// A name does not fit where the kernel must store it.
    #[error("{name:?} is not a valid {what}")]
    BadName {
        /// The name given.
        name: String,
        /// What it was to name.
        what: &'static str,
    },
    /// The kernel answered in a form this program does not understand.
    #[error("{what}: the kernel's answer was not understood")]
    BadAnswer {
        /// What was asked.
        what: &'static str,
    },
    /// Something of a host cannot be limited, or not be accounted for, on this machine.
    #[error("{what} of a host: {reason}")]
    NoLimit {
        /// What was to be limited, as in `memory`.
        what: &'static str,
        /// Why not, and where possible what to do.
        reason: String,
    },
    /// A value was set without complaint, and reads back differently.
    #[error("{what} was set to {wanted} but reads back as {found}")]
    NotTaken {
        /// What was set.
        what: String,
        /// The value asked for.
        wanted: String,
        /// The value found.
        found: String,
    },
}

/// The result of a request to the system.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Says what was attempted when a call fails.
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

/// Turns the `-1` convention of libc into a result.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
