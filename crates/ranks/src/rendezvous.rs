//! The rendezvous of all ranks: its address from a launcher with PMI-1, and the address on which rank 0 listens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use fathometer_sys::{Clock, SocketOptions, inherited, socket};

use crate::pmi::{DESCRIPTOR, DescriptorWire, Pmi1, meet};

/// The reason why there is no rendezvous address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RendezvousError(String);

/// The ports of which rank 0 uses the first free port. They are below Linux's ephemeral ports.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Returns the rendezvous address from the launcher's key-value store; `None` without `PMI_FD`. Rank 0 stores the
/// address `listen`, or its host name with a free port.
///
/// # Errors
/// If the variable is malformed, or the launcher does not answer in time.
pub fn by_pmi(
    rank: u32,
    listen: Option<SocketAddr>,
    timeout: Duration,
) -> Result<Option<String>, RendezvousError> {
    let Ok(number) = std::env::var(DESCRIPTOR) else {
        return Ok(None);
    };
    let descriptor = number.trim().parse().map_err(|_| {
        RendezvousError(format!(
            "{DESCRIPTOR} is {number:?}, which is not a whole number; set --rendezvous HOST:PORT"
        ))
    })?;
    let clock = Clock::start();
    let deadline = clock.now() + timeout;
    let failed = |why: String| {
        RendezvousError(format!(
            "failed to find the rendezvous by PMI-1 ({DESCRIPTOR}): {why}"
        ))
    };
    let descriptor = inherited::descriptor(descriptor).map_err(|e| failed(e.to_string()))?;
    let wire = DescriptorWire::new(descriptor, clock, deadline);
    let place = Pmi1::begin(wire)
        .and_then(|mut store| meet(&mut store, rank, &|| offered(listen)))
        .map_err(|error| failed(error.to_string()))?;
    Ok(Some(place))
}

/// Returns the address that rank 0 stores: the name of its machine, with the port of `--listen` or a free port.
fn offered(listen: Option<SocketAddr>) -> Result<String, String> {
    let name = host_name();
    match listen {
        Some(address) if address.ip().is_unspecified() => {
            return Ok(format!("{name}:{}", address.port()));
        }
        Some(address) => return Ok(address.to_string()),
        None => {}
    }
    // Tests that start at the same time try different ports first, because the first port depends on the process ID.
    let first = std::process::id() as usize % PORTS.len();
    let mut ports = PORTS.cycle().skip(first).take(PORTS.len());
    let is_free = |port: &u16| {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
        socket::listen(address, 1, &SocketOptions::default()).is_ok()
    };
    let port = ports.find(is_free);
    let port = port.ok_or("no port from 20000 to 29999 is free: set --rendezvous HOST:PORT")?;
    Ok(format!("{name}:{port}"))
}

/// Returns the name of this machine.
pub fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

/// Resolves a rendezvous address.
///
/// # Errors
/// If the name cannot be resolved.
pub fn resolve(place: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(place.to_socket_addrs()?.collect())
}

/// Returns the address on which rank 0 listens. A machine's own name often resolves to its loopback interface, which
/// other machines cannot reach. In this case, rank 0 listens on all addresses of its machine.
///
/// # Errors
/// If the rendezvous name has no address.
pub fn listening_address(rendezvous: &str) -> Result<SocketAddr, RendezvousError> {
    let mut addresses = resolve(rendezvous).map_err(|error| {
        RendezvousError(format!(
            "failed to resolve the rendezvous {rendezvous}: {error}"
        ))
    })?;
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let Some(&address) = addresses.first() else {
        return Err(RendezvousError(format!(
            "the rendezvous {rendezvous} has no address"
        )));
    };
    let host = rendezvous
        .rsplit_once(':')
        .map_or(rendezvous, |(host, _)| host);
    let is_number = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match address.ip().is_loopback() && !is_number && host != "localhost" {
        true => Ok(SocketAddr::from(([0, 0, 0, 0], address.port()))),
        false => Ok(address),
    }
}
