//! Two hosts whose TUN devices a plain loop joins: no delay, no limit, no loss.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use fathometer_sys::netlink::{Netlink, RouteMetrics};
use fathometer_sys::{Clock, Interest, Namespace, Tun, Waiter, Waker};

pub const CLIENT4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub const SERVER4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub const CLIENT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
pub const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

pub struct Pair {
    pub client: Namespace,
    pub server: Namespace,
    waker: Waker,
    pump: JoinHandle<(Tun, Tun)>,
}

impl Pair {
    pub fn new(mtu: u32) -> Pair {
        let client = Namespace::new().unwrap();
        let server = Namespace::new().unwrap();
        let client_tun = host(
            &client,
            "fm0",
            mtu,
            [(CLIENT4, SERVER4), (CLIENT6, SERVER6)],
        );
        let server_tun = host(
            &server,
            "fm0",
            mtu,
            [(SERVER4, CLIENT4), (SERVER6, CLIENT6)],
        );
        let mut waiter = Waiter::new(Clock::start()).unwrap();
        let waker = waiter.waker();
        let pump = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            loop {
                let sources = [
                    (client_tun.as_fd(), Interest::Read),
                    (server_tun.as_fd(), Interest::Read),
                ];
                if waiter.wait(&sources, None).unwrap().woken {
                    return (client_tun, server_tun);
                }
                for (from, to) in [(&client_tun, &server_tun), (&server_tun, &client_tun)] {
                    while let Some(length) = from.read(&mut buffer).unwrap() {
                        assert!(length <= mtu as usize, "a packet larger than the MTU");
                        to.write(&buffer[..length]).unwrap();
                    }
                }
            }
        });
        Pair {
            client,
            server,
            waker,
            pump,
        }
    }

    /// Stops the loop and returns the devices of client and server.
    pub fn stop(self) -> (Tun, Tun) {
        self.waker.wake();
        self.pump.join().unwrap()
    }
}

fn host(namespace: &Namespace, name: &str, mtu: u32, addresses: [(IpAddr, IpAddr); 2]) -> Tun {
    namespace
        .run(|| {
            let tun = Tun::create(name, mtu, fathometer_sys::tun::DEFAULT_QUEUE).unwrap();
            let mut netlink = Netlink::open().unwrap();
            for (own, peer) in addresses {
                let host = if own.is_ipv4() { 32 } else { 128 };
                netlink.add_address(tun.index(), own, host).unwrap();
                netlink
                    .add_route(tun.index(), peer, host, None, &RouteMetrics::default())
                    .unwrap();
            }
            tun
        })
        .unwrap()
}
