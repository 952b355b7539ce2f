//! Where the ranks of a launcher with PMI-1 meet.

use std::net::{Ipv4Addr, SocketAddr};

use fathometer_ranks::pmi::{DESCRIPTOR, DescriptorWire, Pmi1, meet};
use fathometer_sys::{Clock, SocketOptions, inherited, socket};

use super::super::Failure;
use super::rank_arguments::RankArguments;

/// The ports from which rank 0 takes the first free one: below those that Linux gives to clients.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The place to meet, by the key-value store of the launcher; `None` without `PMI_FD`.
pub(super) fn by_pmi(rank: u32, arguments: &RankArguments) -> Result<Option<String>, Failure> {
    let Ok(number) = std::env::var(DESCRIPTOR) else {
        return Ok(None);
    };
    let descriptor = number.trim().parse().map_err(|_| {
        format!(
            "{DESCRIPTOR} is {number:?}, which is not a whole number; set --rendezvous HOST:PORT"
        )
    })?;
    let clock = Clock::start();
    let deadline = clock.now() + arguments.rendezvous_timeout;
    let failed = |why: String| format!("failed to meet by PMI-1 ({DESCRIPTOR}): {why}");
    let descriptor = inherited::descriptor(descriptor).map_err(|e| failed(e.to_string()))?;
    let wire = DescriptorWire::new(descriptor, clock, deadline);
    let place = Pmi1::begin(wire)
        .and_then(|mut store| meet(&mut store, rank, &|| offered(arguments.listen)))
        .map_err(|error| failed(error.to_string()))?;
    Ok(Some(place))
}

/// The place that rank 0 offers: the name of its machine, and the port of `--listen` or a free one.
fn offered(listen: Option<SocketAddr>) -> Result<String, String> {
    let name = host_name();
    match listen {
        Some(address) if address.ip().is_unspecified() => {
            return Ok(format!("{name}:{}", address.port()));
        }
        Some(address) => return Ok(address.to_string()),
        None => {}
    }
    // Tests that start at the same time begin to look at different ports.
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

/// The name of this machine.
pub(super) fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
