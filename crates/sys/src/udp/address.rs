//! Socket addresses in the kernel's form.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    pub(super) storage: libc::sockaddr_storage,
    pub(super) length: libc::socklen_t,
}

impl RawAddress {
    /// Creates room for an address that the kernel writes.
    pub(super) fn empty() -> RawAddress {
        RawAddress {
            // SAFETY: sockaddr_storage is plain data, for which zero is a value.
            storage: unsafe { mem::zeroed() },
            length: mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    /// Converts an address to the kernel's form.
    pub(super) fn new(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::empty();
        match address {
            SocketAddr::V4(address) => {
                let form = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(address.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is larger than any address and aligned for all of them.
                unsafe {
                    (&raw mut raw.storage)
                        .cast::<libc::sockaddr_in>()
                        .write(form);
                }
                raw.length = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(address) => {
                let form = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip().octets(),
                    },
                    sin6_scope_id: address.scope_id(),
                };
                // SAFETY: as above.
                unsafe {
                    (&raw mut raw.storage)
                        .cast::<libc::sockaddr_in6>()
                        .write(form);
                }
                raw.length = mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        raw
    }

    /// Converts the address that the kernel wrote; `None` if it is not an IP address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family determines the layout of the storage, which is large enough.
                let form = unsafe { (&raw const self.storage).cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(form.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(form.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let form = unsafe {
                    (&raw const self.storage)
                        .cast::<libc::sockaddr_in6>()
                        .read()
                };
                let ip = Ipv6Addr::from(form.sin6_addr.s6_addr);
                let (flow, scope) = (form.sin6_flowinfo, form.sin6_scope_id);
                Some(SocketAddrV6::new(ip, u16::from_be(form.sin6_port), flow, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in [
            "127.0.0.1:443",
            "255.0.3.9:1",
            "[::1]:8443",
            "[fe80::1%3]:65535",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::new(address).address(), Some(address));
        }
        assert_eq!(RawAddress::empty().address(), None);
    }
}
