//! Two hosts and the path between them. All measurements run in them.
//!
//! A host is a network namespace with a loopback device, one TUN device, an IPv4 and an IPv6 address, and a
//! route to the other host only. No other address can be reached. The TCP of a new namespace has no state of
//! earlier connections.
//!
//! Dropping the [`Lab`] removes everything: namespaces have no names, and devices are not persistent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{PathCertificate, Validity};
use fathometer_path::Profile;
use fathometer_sys::era::{AppliedSettings, Route, TcpSettings};
use fathometer_sys::netlink::Netlink;
use fathometer_sys::tun::DEFAULT_QUEUE;
use fathometer_sys::{Clock, Error, Namespace, Result, Tun};

use crate::wire::{Carried, Wire, WireOptions};

/// The name of each host's device.
pub const DEVICE: &str = "path0";

/// One end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The host of the client.
    Client,
    /// The host of the server.
    Server,
}

impl Side {
    /// The IPv4 address of the host.
    pub const fn ipv4(self) -> Ipv4Addr {
        match self {
            Side::Client => Ipv4Addr::new(10, 77, 0, 1),
            Side::Server => Ipv4Addr::new(10, 77, 0, 2),
        }
    }

    /// The IPv6 address of the host.
    pub const fn ipv6(self) -> Ipv6Addr {
        match self {
            Side::Client => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1),
            Side::Server => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2),
        }
    }

    /// The opposite end.
    pub const fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    /// `client` or `server`.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}

/// A host of a lab.
#[derive(Debug)]
pub struct Host {
    /// The host's end of the path.
    pub side: Side,
    /// The namespace of the host's threads and programs.
    pub namespace: Namespace,
    /// The TCP settings that were applied.
    pub applied: AppliedSettings,
    device: Arc<Tun>,
}

impl Host {
    /// Creates a host without a path.
    fn new(side: Side, mtu: u32, settings: &TcpSettings) -> Result<Host> {
        let namespace = Namespace::new()?;
        let (device, applied) = namespace.run(|| -> Result<(Tun, AppliedSettings)> {
            be_silent()?;
            let device = Tun::create(DEVICE, mtu, DEFAULT_QUEUE)?;
            let mut netlink = Netlink::open()?;
            let ends: [(IpAddr, IpAddr, u8); 2] = [
                (side.ipv4().into(), side.other().ipv4().into(), 32),
                (side.ipv6().into(), side.other().ipv6().into(), 128),
            ];
            for (own, _, prefix) in ends {
                netlink.add_address(device.index(), own, prefix)?;
            }
            let routes = ends.map(|(own, other, prefix)| Route {
                destination: other,
                prefix,
                source: Some(own),
            });
            let applied = settings.apply(device.index(), &routes)?;
            Ok((device, applied))
        })??;
        Ok(Host {
            side,
            namespace,
            applied,
            device: Arc::new(device),
        })
    }

    /// Whether a program listens in this host, on a TCP socket in state LISTEN or on an unconnected UDP socket.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn has_listener(&self) -> Result<bool> {
        self.namespace.run(has_listener)
    }
}

/// Whether this thread's namespace has a TCP socket in state LISTEN or an unconnected UDP socket.
fn has_listener() -> bool {
    // The fourth column is the state. 0A means LISTEN; for UDP, 07 means "not connected".
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")]
        .iter()
        .any(|(table, state)| {
            let sockets = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
            let sockets = sockets.unwrap_or_default();
            sockets
                .lines()
                .skip(1)
                .any(|socket| socket.split_whitespace().nth(3) == Some(*state))
        })
}

/// Two hosts with a path between them.
#[derive(Debug)]
pub struct Lab {
    /// The host of the client.
    pub client: Host,
    /// The host of the server.
    pub server: Host,
    /// The clock of the path: its origin is the origin of all instants.
    pub clock: Clock,
    wire: Wire,
}

impl Lab {
    /// Starts both hosts and the path.
    ///
    /// `settings` returns the TCP settings of each host. [`Host::applied`] contains the settings that the kernel
    /// accepted. Requires the right to create namespaces.
    pub fn start(
        profile: &Profile,
        options: &WireOptions,
        settings: impl Fn(Side) -> TcpSettings,
    ) -> Result<Lab> {
        let client = Host::new(Side::Client, profile.mtu, &settings(Side::Client))?;
        let server = Host::new(Side::Server, profile.mtu, &settings(Side::Server))?;
        let wire = Wire::start(profile, &client.device, &server.device, options)?;
        Ok(Lab {
            client,
            server,
            clock: options.clock,
            wire,
        })
    }

    /// Returns one of the hosts.
    pub fn host(&self, side: Side) -> &Host {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// The ID of the process that receives packets for the server's host, if a separate process does so.
    pub fn server_receiver(&self) -> Option<u32> {
        self.wire.server_receiver()
    }

    /// The ID of the process that receives packets for the client's host, if a separate process does so.
    pub fn client_receiver(&self) -> Option<u32> {
        self.wire.client_receiver()
    }

    /// Waits until no packet has been in flight for `quiet`, but no longer than `limit`. Returns whether the path
    /// became quiet.
    pub fn settle(&self, quiet: Duration, limit: Duration) -> bool {
        self.wire.settle(quiet, limit)
    }

    /// Stops the path and releases the hosts. [`Lab::end`] also returns packet counts.
    pub fn stop(self) -> (PathCertificate, Validity) {
        self.wire.stop()
    }

    /// Stops the path and releases the hosts. Returns the result of the path.
    pub fn end(self) -> Carried {
        self.wire.end()
    }
}

/// Prevents a host from sending packets that the experiment did not cause. Otherwise an IPv6 device would configure a
/// link-local address and send router solicitations from that address.
fn be_silent() -> Result<()> {
    let folder = Path::new("/proc/sys/net/ipv6/conf");
    if !folder.exists() {
        return Err(Error::System {
            doing: "check for IPv6, which this kernel does not support".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        });
    }
    for (setting, value) in [
        ("default/addr_gen_mode", "1"),
        ("default/accept_ra", "0"),
        ("default/router_solicitations", "0"),
    ] {
        let file = folder.join(setting);
        std::fs::write(&file, value).map_err(|source| Error::System {
            doing: format!("write {value} to {}", file.display()),
            source,
        })?;
    }
    Ok(())
}
