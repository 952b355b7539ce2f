//! TUN devices, through which a host's kernel exchanges packets with this program.
//!
//! The device is opened only with `IFF_TUN | IFF_NO_PI`: no virtio header, no offloads, no NAPI. Therefore each read
//! returns one real IP packet, segmented and checksummed by the kernel, and each write is delivered separately. Packet
//! counts are exact, and acknowledgements are not coalesced. A write runs the receiver's whole TCP processing in the
//! calling thread, so its CPU time belongs to the receiving host.
//!
//! A packet that was passed to the device counts as sent, so TCP Small Queues do not limit a sender as with a network
//! card. The ring must have room for all packets in flight; [`Tun::counters`] reports overflows.
//!
//! The device belongs to the namespace of the thread that created it, and is removed when its last descriptor is closed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use crate::error::{Doing, Error, Result, check};
use crate::netlink::{LinkCounters, Netlink};

/// A ring length, in packets, that exceeds every window of these experiments.
pub const DEFAULT_QUEUE: u32 = 20_000;

/// An open TUN device. Two threads may read and write at the same time.
#[derive(Debug)]
pub struct Tun {
    input: TunInput,
    name: String,
    index: u32,
    mtu: u32,
    /// A netlink socket in the device's namespace, so that any thread can read the counters.
    netlink: Mutex<Netlink>,
}

impl Tun {
    /// Creates a device in the calling thread's namespace and brings it up.
    ///
    /// `name` is at most 15 bytes; `mtu` is the largest IP packet in bytes; `txqueuelen` is the length of the ring in
    /// packets (usually [`DEFAULT_QUEUE`]).
    pub fn create(name: &str, mtu: u32, txqueuelen: u32) -> Result<Tun> {
        let file = open_driver(Path::new("/dev/net/tun"))?;
        let mut netlink = Netlink::open()?;
        set_interface(&file, name)?;
        let index = netlink.link_by_name(name)?.index;
        netlink.set_link_limits(index, mtu, txqueuelen)?;
        netlink.set_link_up(index)?;
        let link = netlink.link(index)?;
        if (link.mtu, link.txqueuelen, link.up) != (mtu, txqueuelen, true) {
            return Err(Error::NotTaken {
                what: format!("MTU, queue and state of {name}"),
                wanted: format!("{mtu}, {txqueuelen}, true"),
                found: format!("{}, {}, {}", link.mtu, link.txqueuelen, link.up),
            });
        }
        Ok(Tun {
            input: TunInput { file },
            name: name.to_owned(),
            index,
            mtu,
            netlink: Mutex::new(netlink),
        })
    }

    /// Returns the device's name in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the device's index in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the largest length of an IP packet, in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Reads the next packet that the host sends into `buffer`, and returns its length; `None` if no packet is available.
    /// A packet that is longer than the buffer is truncated.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.input.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Delivers one packet to the host. When the call returns, the host's kernel has processed the packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.input.write(packet)
    }

    /// Reads the device's counters, from any thread.
    pub fn counters(&self) -> Result<LinkCounters> {
        let mut netlink = self.netlink.lock().unwrap_or_else(|lock| lock.into_inner());
        Ok(netlink.link(self.index)?.counters)
    }

    /// Returns the number of packets that the host lost because the ring was full or the device was down. Any such loss
    /// invalidates a measurement.
    pub fn dropped(&self) -> Result<u64> {
        let counters = self.counters()?;
        Ok(counters.tx_dropped + counters.tx_errors)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.file.as_fd()
    }
}

/// A device to which packets can only be written, for example in another process than its creator. The device exists
/// until its last descriptor is closed.
#[derive(Debug)]
pub struct TunInput {
    file: File,
}

impl TunInput {
    /// Delivers one packet to the host. When the call returns, the host's kernel has processed the packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            match (&self.file).write(packet) {
                Ok(length) if length == packet.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl From<OwnedFd> for TunInput {
    /// Wraps a device that was opened elsewhere.
    fn from(device: OwnedFd) -> TunInput {
        TunInput {
            file: File::from(device),
        }
    }
}

/// The device numbers of the TUN driver's node, on every Linux (`Documentation/admin-guide/devices.txt`).
const DRIVER: (u32, u32) = (10, 200);

fn open_driver(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EISDIR) => Error::NotTheTunDriver {
                found: "a directory".to_owned(),
            },
            // ENODEV and ENXIO: the device node exists, but the driver does not.
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::NoTunDevice,
            // EPERM: denied by a container's device controller.
            Some(libc::EACCES | libc::EPERM) => Error::TunDenied,
            _ => Error::System {
                doing: format!("open {}", path.display()),
                source,
            },
        })?;
    // The path may be another file, for example by a wrong bind mount, or a node with other numbers.
    let found = file.metadata().doing("read the type of /dev/net/tun")?;
    let kind = found.file_type();
    let number = (libc::major(found.rdev()), libc::minor(found.rdev()));
    if kind.is_char_device() && number == DRIVER {
        return Ok(file);
    }
    Err(Error::NotTheTunDriver {
        found: match kind {
            _ if kind.is_char_device() => {
                format!("the character device {}:{}", number.0, number.1)
            }
            _ if kind.is_block_device() => "a block device".to_owned(),
            _ if kind.is_file() => "a regular file".to_owned(),
            _ if kind.is_fifo() => "a pipe".to_owned(),
            _ => "a file of another kind".to_owned(),
        },
    })
}

fn set_interface(file: &File, name: &str) -> Result<()> {
    // SAFETY: ifreq is plain data, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['/', '\0', '%']) {
        return Err(Error::BadName {
            name: name.to_owned(),
            what: "device name (1 to 15 bytes)",
        });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
        .map(drop)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM) => Error::NoCapability {
                ability: "NET_ADMIN",
            },
            _ => Error::System {
                doing: format!("make TUN device {name}"),
                source,
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_in_place_of_the_driver_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tun");
        std::fs::write(&file, "").unwrap();
        for (path, what) in [
            (file.as_path(), "a regular file"),
            (folder.path(), "a directory"),
            (Path::new("/dev/null"), "the character device 1:3"),
        ] {
            let error = open_driver(path).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(error.contains("mknod /dev/net/tun c 10 200"), "{error}");
        }
        let error = open_driver(&folder.path().join("none")).unwrap_err();
        assert!(matches!(error, Error::NoTunDevice), "{error}");
    }
}
