//! The names of the hosts of a test.

/// Returns the names of a policy's hosts. The first is the server's name; the others have the prefixes `s1.`, `s2.`,
/// and so on.
pub(super) fn host_names(host: &str, hosts: u16) -> Vec<String> {
    let others = (1..hosts).map(|number| format!("s{number}.{host}"));
    std::iter::once(host.to_owned()).chain(others).collect()
}

/// Removes the port and the brackets of an IPv6 address from a host.
pub fn without_port(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_name_has_no_port() {
        for (host, name) in [
            ("example.org", "example.org"),
            ("example.org:8443", "example.org"),
            ("127.0.0.1:8443", "127.0.0.1"),
            ("[::1]:8443", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
