//! TUN devices: the point where a host's kernel hands its packets to this program.
//!
//! The device is opened with `IFF_TUN | IFF_NO_PI` and nothing else: no virtio header, no
//! offloads, no NAPI. So each read is one real IP packet, segmented and checksummed by the kernel,
//! and each write is delivered by itself: counts of packets are counts of packets, and
//! acknowledgements are not coalesced. A write runs the receiver's whole TCP in the calling
//! thread, whose processor time therefore belongs to the receiving host.
//!
//! A packet handed to the device counts as sent for TCP, so TCP Small Queues do not hold a sender
//! back here as they would at a network card. The ring must hold every window in flight; if it
//! ever overflows, [`Tun::counters`] shows it.
//!
//! The device belongs to the namespace of the thread that made it, and disappears with its
//! descriptor.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use crate::error::{Error, Result, check};
use crate::netlink::{LinkCounters, Netlink};

/// A ring long enough for any window of these experiments, in packets.
pub const DEFAULT_QUEUE: u32 = 20_000;

/// An open TUN device. Reading and writing take `&self` and may go on in two threads at once.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    index: u32,
    mtu: u32,
    /// Opened in the device's namespace, so that counters are read from any thread.
    netlink: Mutex<Netlink>,
}

impl Tun {
    /// Makes a device in the calling thread's namespace and switches it on.
    ///
    /// `name` is at most 15 octets; `mtu` is the largest IP packet in octets; `txqueuelen` is the
    /// ring in packets ([`DEFAULT_QUEUE`] when in doubt).
    pub fn create(name: &str, mtu: u32, txqueuelen: u32) -> Result<Tun> {
        let file = open_driver()?;
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
            file,
            name: name.to_owned(),
            index,
            mtu,
            netlink: Mutex::new(netlink),
        })
    }

    /// The device's name in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's number in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The largest IP packet, in octets.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Reads the next packet the host sends, whole, into `buffer`, and returns its length; a
    /// packet longer than the buffer is cut. `None`: there is none just now.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Delivers one packet to the host: its kernel has dealt with it when this returns.
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

    /// What the device has counted, from any thread.
    pub fn counters(&self) -> Result<LinkCounters> {
        let mut netlink = self.netlink.lock().unwrap_or_else(|lock| lock.into_inner());
        Ok(netlink.link(self.index)?.counters)
    }

    /// Packets of the host that were lost because the ring was full or the device down. Any at
    /// all invalidate a measurement.
    pub fn dropped(&self) -> Result<u64> {
        let counters = self.counters()?;
        Ok(counters.tx_dropped + counters.tx_errors)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open_driver() -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(|source| match source.raw_os_error() {
            // ENODEV and ENXIO: the node is there, the driver is not.
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::NoTunDevice,
            // EPERM: a container's device controller says no.
            Some(libc::EACCES | libc::EPERM) => Error::TunDenied,
            _ => Error::System {
                doing: "open /dev/net/tun".to_owned(),
                source,
            },
        })
}

fn set_interface(file: &File, name: &str) -> Result<()> {
    // SAFETY: ifreq is plain data, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['/', '\0', '%']) {
        return Err(Error::BadName {
            name: name.to_owned(),
            what: "device name (1 to 15 octets)",
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
