//! Where `fathometer serve` listens, in its own words.

use std::io::BufRead;
use std::net::SocketAddr;

/// The address on the first line of what it prints.
pub fn address(output: &mut impl BufRead) -> SocketAddr {
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    said.rsplit_once("://")
        .and_then(|(_, rest)| rest.trim().trim_end_matches('/').parse().ok())
        .unwrap_or_else(|| panic!("serve said {said:?}"))
}
