//! Measures the time that pipelining saves: the HTTP/1.1 state machines retrieve the Microscape page over a path in
//! virtual time.

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_http::h1::client::{self, Config, Event, PreparedRequest, Version};
use fathometer_http::h1::server;
use fathometer_http::origin::Origin;
use fathometer_model::{Instant, Seed};
use fathometer_path::{Direction, Link, Profile};
use fathometer_workload::microscape::{self, Variant};

fn main() {
    let path = Profile::from_toml(include_str!("../path.toml"), "path.toml").expect("it is valid");
    for (name, depth) in [("one at a time", 1), ("pipelined", u16::MAX)] {
        let (end, packets) = retrieve(&path, depth);
        println!("{name:13} {:.3} s, {packets} packets", end.as_secs_f64());
    }
}

/// Requests all files on one connection, at most `depth` at a time. Returns the time of the end and the number of
/// packets in both directions.
fn retrieve(path: &Profile, depth: u16) -> (Instant, usize) {
    let site = Arc::new(microscape::site(Seed(1997), Variant::LowerCase));
    let origin = Origin::new(site.clone(), Default::default()).expect("the site is valid");
    let mut server = server::Connection::new(origin.into(), Default::default(), Instant::ZERO);
    let mut client = client::Connection::new(Config {
        depth,
        ..Config::default()
    });
    let request = PreparedRequest::new("GET", "a.test", Version::Http11, &[], None).unwrap();
    let mut up = Link::new(path, Direction::Up, Seed(1));
    let mut down = Link::new(path, Direction::Down, Seed(1));
    let mut files = site.files.iter();
    let (mut now, mut packets, mut complete) = (Instant::ZERO, 0, 0);
    while complete < site.files.len() {
        while client.can_request() {
            let Some(file) = files.next() else { break };
            client.request_prepared(&request, &file.path).unwrap();
        }
        client.flush();
        packets += send(&mut up, client.transmit(), now);
        client.transmitted(client.transmit().len(), now);
        let mut slices = [IoSlice::new(&[]); 64];
        let filled = server.transmit(&mut slices);
        let parts = slices[..filled].iter().flat_map(|part| part.to_vec());
        let response: Vec<u8> = parts.collect();
        packets += send(&mut down, &response, now);
        server.transmitted(response.len(), now);
        let arrivals = [up.next_due(), down.next_due()];
        let next = arrivals.into_iter().flatten().min();
        now = next.expect("packets are in flight");
        while let Some(packet) = up.deliver(now) {
            server.handle_data(&packet.payload, now);
        }
        while let Some(packet) = down.deliver(now) {
            let mut input = &packet.payload[..];
            while let Some(event) = client.poll(&mut input, now) {
                complete += usize::from(matches!(event, Event::End { .. }));
            }
        }
    }
    (now, packets)
}

/// Sends packets of at most 1460 bytes of content after 40 bytes of headers. TCP itself is not simulated.
fn send(link: &mut Link<Vec<u8>>, bytes: &[u8], now: Instant) -> usize {
    for segment in bytes.chunks(1460) {
        link.arrive(now, segment.len() as u32 + 40, segment.to_vec());
    }
    bytes.chunks(1460).len()
}
