//! Measures the packet rate of the link model on one core, without the kernel. Run with `cargo run --release -p
//! fathometer-path --example pace`.

#![expect(clippy::disallowed_types, reason = "it measures a speed")]

use std::hint::black_box;
use std::time;

use fathometer_model::{Instant, Seed};
use fathometer_path::{Direction, Link, Profile};

const PACKETS: u64 = 5_000_000;

fn main() {
    let plain = "rate = \"1Gbit/s\"\npropagation = \"10ms\"\nframing = \"ethernet\"";
    for (name, more) in [
        ("rate and delay", ""),
        ("and loss", "loss = { independent = 0.001 }"),
        (
            "and jitter that reorders",
            "jitter = { distribution = \"uniform\", amount = \"1ms\", reorders = true }",
        ),
        ("and CoDel", "queue = { codel = { packets = 1000 } }"),
    ] {
        let text = format!("name = \"pace\"\nsource = \"made up\"\n[both]\n{plain}\n{more}");
        let profile = Profile::from_toml(&text, "pace").expect("the profile is valid");
        let mut link: Link<Box<[u8]>> = Link::new(&profile, Direction::Up, Seed(1));
        let mut buffers: Vec<Box<[u8]>> = (0..4096).map(|_| Box::from([0u8; 64])).collect();

        let start = time::Instant::now();
        for n in 0..PACKETS {
            // Packets arrive every 12.4 us; a full frame takes 12.3 us.
            let now = Instant::from_nanos(n * 12_400);
            let buffer = buffers.pop().unwrap_or_default();
            if let fathometer_path::Arrival::Dropped(dropped) = link.arrive(now, 1500, buffer) {
                buffers.push(dropped.payload);
            }
            while let Some(packet) = link.deliver(now) {
                buffers.push(black_box(packet).payload);
            }
            while let Some(dropped) = link.poll_drop() {
                buffers.push(dropped.payload);
            }
        }
        let rate = PACKETS as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{name:26} {rate:5.1} M packets/s");
    }
}
