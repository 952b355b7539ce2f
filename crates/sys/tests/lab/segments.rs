//! A host's counters of TCP segments compared with every packet between two hosts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fathometer_sys::TcpSettings;
use fathometer_sys::probe::{Network, NetworkProbe};

use crate::lab;
use crate::pair::{Pair, SERVER4, SERVER6, Seen, Wire};

/// The time limit of a step, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Transfers data in both directions; the server closes. When it returns, TIME_WAIT shows that the last
/// segment has arrived, and that none is in flight.
fn exchange(pair: &Pair, probes: &mut [NetworkProbe; 2], address: std::net::IpAddr) {
    let listener = pair
        .server
        .run(|| TcpListener::bind((address, 80)).unwrap())
        .unwrap();
    let waiting = probes[1].read().sockets.time_wait.unwrap();
    let server = pair
        .server
        .spawn("server", move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 5_000]).unwrap();
            stream.write_all(&vec![7; 200_000]).unwrap();
        })
        .unwrap();
    let mut stream = pair
        .client
        .run(|| TcpStream::connect((address, 80)).unwrap())
        .unwrap();
    stream.write_all(&[1; 5_000]).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 200_000);
    drop(stream);
    server.join().unwrap();
    let start = Instant::now();
    loop {
        let table = probes[0].table().unwrap();
        let server = probes[1].table().unwrap();
        let ended = (server.time_wait, server.fin_wait_2) == (waiting + 1, 0);
        if table.last_ack == 0 && table.close_wait == 0 && ended {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{table:?} {server:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn compare(name: &str, host: &Network, sent: &[&Seen], received: usize) {
    let tcp = &host.tcp;
    let (out, again) = (tcp.segments_out.unwrap(), tcp.retransmitted.unwrap());
    assert_eq!(out + again, sent.len() as u64, "{name}: {tcp:?}");
    assert_eq!(tcp.segments_in, Some(received as u64), "{name}: {tcp:?}");
    println!("{name}: {out} out, {again} sent again, {received} in");
}

#[test]
fn segments_are_counted_as_they_pass() {
    if !lab() {
        return;
    }
    // With and without losses, of data and of acknowledgements.
    let lossy = Wire {
        delay: Duration::from_millis(2),
        lost_from_server: vec![20, 21, 60],
        lost_from_client: vec![9, 30],
        ..Wire::default()
    };
    for (wire, losses) in [(Wire::default(), 0), (lossy, 5)] {
        let pair = Pair::new(wire, &TcpSettings::default());
        let mut probes = [&pair.client, &pair.server].map(|host| NetworkProbe::open(host).unwrap());
        let before = [0, 1].map(|n: usize| probes[n].read());
        for address in [SERVER4, SERVER6] {
            exchange(&pair, &mut probes, address);
        }
        let hosts = [0, 1].map(|n: usize| probes[n].read().since(&before[n]));
        let packets = pair.stop().packets;
        let lost = packets.iter().filter(|packet| packet.dropped).count();
        assert_eq!(lost, losses);
        let [of_client, of_server] = [true, false].map(|client| -> Vec<&Seen> {
            packets.iter().filter(|p| p.from_client == client).collect()
        });
        let arrived = |sent: &[&Seen]| sent.iter().filter(|packet| !packet.dropped).count();
        compare("client", &hosts[0], &of_client, arrived(&of_server));
        compare("server", &hosts[1], &of_server, arrived(&of_client));
        // On a busy machine TCP may retransmit more than was lost.
        if losses > 0 {
            assert!(hosts[1].tcp.retransmitted.unwrap() >= 3);
        }
        assert_eq!(hosts[0].tcp.active_opens, Some(2));
        assert_eq!(hosts[1].tcp.passive_opens, Some(2));
    }
}
