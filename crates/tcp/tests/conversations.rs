//! Two endpoints over a wire with a delay and a rate: known cases, and properties that always hold.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_tcp::{Endpoint, Read, Segment, Settings};
use proptest::prelude::*;

/// One direction: serialisation, then a delay. Some segments are dropped, by number.
struct Wire {
    bits_per_second: u64,
    delay: Duration,
    free: Instant,
    travelling: VecDeque<(Instant, Segment)>,
    sent: usize,
    drops: Vec<usize>,
    lengths: Vec<u32>,
}

impl Wire {
    fn new(bits_per_second: u64, delay: Duration, drops: Vec<usize>) -> Wire {
        Wire {
            bits_per_second,
            delay,
            free: Instant::ZERO,
            travelling: VecDeque::new(),
            sent: 0,
            drops,
            lengths: Vec::new(),
        }
    }

    fn send(&mut self, segment: Segment, now: Instant) {
        self.sent += 1;
        self.lengths.push(segment.wire_length());
        if self.drops.contains(&(self.sent - 1)) {
            return;
        }
        let bits = 8 * u64::from(segment.wire_length());
        let time = Duration::from_nanos(bits * 1_000_000_000 / self.bits_per_second);
        self.free = self.free.max(now) + time;
        self.travelling.push_back((self.free + self.delay, segment));
    }

    fn due(&self) -> Option<Instant> {
        self.travelling.front().map(|(due, _)| *due)
    }

    fn deliver(&mut self, now: Instant) -> Option<Segment> {
        match self.due() {
            Some(due) if due <= now => self.travelling.pop_front().map(|(_, segment)| segment),
            _ => None,
        }
    }
}

/// A client that sends a request, and a server that answers it and closes.
struct Conversation {
    client: Endpoint,
    server: Endpoint,
    up: Wire,
    down: Wire,
    now: Instant,
    response: Vec<u8>,
    written: usize,
    received: Vec<u8>,
    complete: Option<Instant>,
}

impl Conversation {
    fn new(response: usize, settings: &Settings, up: Wire, down: Wire) -> Conversation {
        Conversation {
            client: Endpoint::connect(settings.clone(), Instant::ZERO),
            server: Endpoint::listen(settings.clone()),
            up,
            down,
            now: Instant::ZERO,
            response: (0..response).map(|n| n as u8).collect(),
            written: 0,
            received: Vec::new(),
            complete: None,
        }
    }

    /// Runs until no event is pending; returns the number of steps.
    fn run(&mut self) -> usize {
        let (mut asked, mut steps) = (false, 0);
        loop {
            steps += 1;
            assert!(steps < 100_000, "the conversation does not end");
            let now = self.now;
            while let Some(segment) = self.up.deliver(now) {
                self.server.handle_segment(&segment, now);
            }
            while let Some(segment) = self.down.deliver(now) {
                self.client.handle_segment(&segment, now);
            }
            for end in [&mut self.client, &mut self.server] {
                if end.poll_timeout().is_some_and(|due| due <= now) {
                    end.handle_timeout(now);
                }
            }
            if self.client.is_established() && !asked {
                asked = true;
                assert_eq!(self.client.write(&[0; 200], false, now), 200);
            }
            self.answer();
            self.take();
            while let Some(segment) = self.client.poll_transmit() {
                self.up.send(segment, now);
            }
            while let Some(segment) = self.server.poll_transmit() {
                self.down.send(segment, now);
            }
            let next = [
                self.up.due(),
                self.down.due(),
                self.client.poll_timeout(),
                self.server.poll_timeout(),
            ];
            match next.into_iter().flatten().filter(|&due| due > now).min() {
                Some(next) => self.now = next,
                None => return steps,
            }
        }
    }

    fn answer(&mut self) {
        while let Read::Data(_) = self.server.read(1 << 16, self.now) {
            self.written = self.written.max(1);
        }
        while self.written > 0 && self.written <= self.response.len() {
            let rest = &self.response[self.written - 1..];
            match self.server.write(rest, false, self.now) {
                0 => return,
                taken => self.written += taken,
            }
        }
        if self.written > self.response.len() {
            self.server.close(self.now);
        }
    }

    fn take(&mut self) {
        loop {
            match self.client.read(1 << 16, self.now) {
                Read::Data(bytes) => {
                    self.received.extend(bytes);
                    if self.received.len() == self.response.len() {
                        self.complete.get_or_insert(self.now);
                    }
                }
                Read::End => {
                    self.client.close(self.now);
                    return;
                }
                Read::WouldBlock => return,
            }
        }
    }
}

fn today() -> Settings {
    Settings::today(1500)
}

fn over(bits_per_second: u64, delay_ms: u64, response: usize, drops: Vec<usize>) -> Conversation {
    let delay = Duration::from_millis(delay_ms);
    let up = Wire::new(bits_per_second, delay, Vec::new());
    let down = Wire::new(bits_per_second, delay, drops);
    let mut conversation = Conversation::new(response, &today(), up, down);
    conversation.run();
    conversation
}

#[test]
fn a_response_of_the_initial_window_takes_two_round_trips() {
    let conversation = over(1_000_000_000, 50, 10 * 1448, Vec::new());
    let complete = conversation.complete.expect("it ends");
    let round_trips = complete.as_secs_f64() / 0.1;
    assert!((2.0..2.02).contains(&round_trips), "{round_trips}");
}

#[test]
fn one_byte_more_than_the_initial_window_takes_a_third_round_trip() {
    let conversation = over(1_000_000_000, 50, 10 * 1448 + 1, Vec::new());
    let round_trips = conversation.complete.expect("it ends").as_secs_f64() / 0.1;
    assert!((3.0..3.02).contains(&round_trips), "{round_trips}");
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    // 10 + 20 + 40 segments: the window grows by the number of acknowledged segments.
    let conversation = over(1_000_000_000, 50, 70 * 1448, Vec::new());
    let round_trips = conversation.complete.expect("it ends").as_secs_f64() / 0.1;
    assert!((4.0..4.02).contains(&round_trips), "{round_trips}");
}

#[test]
fn a_lost_segment_is_repeated_after_three_later_ones_without_a_time_out() {
    let conversation = over(1_000_000_000, 50, 10 * 1448, vec![2]);
    let server = conversation.server.counters();
    assert_eq!((server.retransmissions, server.timeouts), (1, 0));
    let round_trips = conversation.complete.expect("it ends").as_secs_f64() / 0.1;
    assert!((3.0..3.05).contains(&round_trips), "{round_trips}");
}

#[test]
fn a_lost_tail_is_probed_before_the_time_out() {
    // The server sends the SYN-ACK, the acknowledgement of the request, nine segments and the FIN; the last two are
    // lost.
    let conversation = over(1_000_000_000, 50, 9 * 1448, vec![10, 11]);
    let server = conversation.server.counters();
    assert_eq!((server.probes, server.timeouts), (1, 0), "{server:?}");
    assert_eq!(conversation.received, conversation.response);
}

#[test]
fn a_lost_syn_ack_costs_one_second() {
    let conversation = over(1_000_000_000, 5, 100, vec![0]);
    let complete = conversation.complete.expect("it ends").as_secs_f64();
    assert!((1.0..1.4).contains(&complete), "{complete}");
}

#[test]
fn a_queue_that_looks_like_a_loss_is_undone() {
    // A modem: ten segments take four seconds, and the first acknowledgement arrives after the first time-out.
    let conversation = over(9_600, 75, 20 * 1448, Vec::new());
    let server = conversation.server.counters();
    assert!(server.timeouts > 0 && server.undone > 0, "{server:?}");
    assert_eq!(conversation.received, conversation.response);
}

#[test]
fn a_response_of_whole_segments_has_its_fin_in_the_last_of_them() {
    for segments in 1..=40 {
        let conversation = over(34_085, 20, segments * 1448, Vec::new());
        assert_eq!(conversation.received, conversation.response, "{segments}");
        assert!(conversation.server.is_closed(), "{segments}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_arrives_once_and_in_order_whatever_is_dropped(
        response in 1_usize..60_000,
        rate in 20_000_u64..50_000_000,
        delay in 0_u64..200,
        drops in prop::collection::vec(0_usize..60, 0..8),
    ) {
        let conversation = over(rate, delay, response, drops);
        prop_assert!(conversation.complete.is_some());
        prop_assert_eq!(&conversation.received, &conversation.response);
        prop_assert!(conversation.client.is_closed() && conversation.server.is_closed());
    }

    #[test]
    fn the_same_conversation_has_the_same_packets_at_the_same_times(
        response in 1_usize..60_000,
        rate in 20_000_u64..50_000_000,
        drops in prop::collection::vec(0_usize..60, 0..8),
    ) {
        let (one, other) = (over(rate, 20, response, drops.clone()), over(rate, 20, response, drops));
        prop_assert_eq!(one.complete, other.complete);
        prop_assert_eq!(one.down.lengths, other.down.lengths);
        prop_assert_eq!(one.up.lengths, other.up.lengths);
    }
}
