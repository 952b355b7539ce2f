//! The address that `fathometer serve` listens on, read from its output.

use std::io::BufRead;
use std::net::SocketAddr;

/// Reads the address in the first line of the server's output.
pub fn address(output: &mut impl BufRead) -> SocketAddr {
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    said.rsplit_once("://")
        .and_then(|(_, rest)| rest.trim().trim_end_matches('/').parse().ok())
        .unwrap_or_else(|| panic!("serve said {said:?}"))
}
