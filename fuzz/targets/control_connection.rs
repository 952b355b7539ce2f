//! The control connection of the ranks of a load test, with a hostile peer: rank 0 or a member gets arbitrary bytes, or,
//! from a peer that knows the secret, frames with arbitrary messages, forged, repeated or left out.
//!
//! Without the secret a peer changes nothing: an honest rank is still welcome. After a forged frame nothing more is
//! accepted on the connection. What is kept to be sent has a bound, although the peer reads nothing.
//!
//! A rank that takes part in a test reports true figures with some bytes altered: whatever they become, they are refused
//! or can be merged, printed and saved.
//!
//! The bytes are those inside TLS, without a channel binding; the target `tls_session` has the others.
//!
//! The peer's frames and proofs are made here from their description in `link.rs`, not by the crate.

#![no_main]

use std::time::Duration;

use fathometer_analysis::load::{Summary, screen};
use fathometer_fuzz::{Pieces, figures};
use fathometer_model::Instant;
use fathometer_ranks::coordinator::{Coordinator, CoordinatorEvent, Expected};
use fathometer_ranks::member::{Member, MemberEvent};
use fathometer_ranks::message::Hello;
use fathometer_ranks::secret::Secret;
use fathometer_ranks::whole::Whole;
use libfuzzer_sys::fuzz_target;
use ring::hmac::{self, HMAC_SHA256, Key};

const SECRET: &[u8] = b"a secret of this target";
const MAGIC: &[u8] = b"fathom\x00\x03";
const MEMBER_NONCE: [u8; 32] = [1; 32];
const RANK_0_NONCE: [u8; 32] = [2; 32];
const SILENCE: Duration = Duration::from_secs(5);

/// The connection with the hostile peer, and that with an honest member.
const HOSTILE: u64 = 1;
const HONEST: u64 = 2;

/// More than a machine may keep for a peer that reads nothing, in bytes.
const MOST_KEPT: usize = 128 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&setup, rest)) = input.split_first() else {
        return;
    };
    if setup & 4 != 0 {
        return report_figures(rest);
    }
    let mut machine = Machine::new(setup & 1 == 0, 3);
    if setup & 2 == 0 {
        for piece in Pieces::new(rest).cut(100) {
            machine.receive(piece);
        }
        // No input has a MAC of the secret.
        assert!(!machine.has_figures, "figures without the secret");
        machine.welcomes_an_honest_member();
    } else {
        let mut peer = Peer::open(&mut machine);
        peer.play(&mut machine, rest);
    }
});

/// A peer that knows the secret is rank 1 of two, and reports figures.
fn report_figures(mut script: &[u8]) {
    let mut machine = Machine::new(true, 2);
    let mut peer = Peer::open(&mut machine);
    let message = [&[0, 1, 2][..], &[7; 32], b"\x011\x01n"].concat();
    machine.receive(&peer.frame(&message));
    machine.host(0);
    machine.receive(&peer.frame(&[READY]));
    assert!(!machine.is_over, "a rank of this test was refused");
    let mut intervals = 0;
    while let [step, length, rest @ ..] = script {
        let (changes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        script = rest;
        let (kind, figures) = match step % 4 {
            0 | 1 => {
                intervals += 1;
                (INTERVAL, figures::interval(intervals - 1))
            }
            2 => (ENDED, figures::result(1)),
            _ => (INTERVAL, Vec::new()),
        };
        let figures = figures::altered(figures, changes);
        let mut message = vec![kind];
        // A length of 14 bits, in two bytes.
        message.extend([figures.len() as u8 | 0x80, (figures.len() >> 7) as u8]);
        message.extend(figures);
        machine.receive(&peer.frame(&message));
    }
    machine.finish();
}

/// The numbers of messages.
const READY: u8 = 5;
const INTERVAL: u8 = 7;
const ENDED: u8 = 9;

fn hello(rank: u32, ranks: u32) -> Hello {
    Hello {
        rank,
        ranks,
        plan: [7; 32],
        version: "1".to_owned(),
        host: String::new(),
    }
}

fn secret() -> Secret {
    Secret::new(SECRET).expect("it is long enough")
}

/// The machine under test.
enum Side {
    RankZero(Coordinator),
    Member(Member),
}

struct Machine {
    side: Side,
    now: Instant,
    /// Figures of a rank were taken.
    has_figures: bool,
    /// The connection is broken, closed or refused.
    is_over: bool,
    /// The whole of the test at rank 0.
    whole: Whole,
}

impl Machine {
    fn new(is_rank_zero: bool, ranks: u32) -> Machine {
        let now = Instant::from_nanos(1_000_000_000);
        let side = if is_rank_zero {
            let expected = Expected {
                hello: hello(0, ranks),
                test: 1,
                rendezvous: Duration::from_secs(60),
                silence: SILENCE,
            };
            let mut rank_0 = Coordinator::new(expected, secret(), now);
            assert!(rank_0.accept(HOSTILE, RANK_0_NONCE, now));
            Side::RankZero(rank_0)
        } else {
            let member = Member::new(hello(1, ranks), secret(), MEMBER_NONCE, SILENCE, now);
            Side::Member(member)
        };
        Machine {
            side,
            now,
            has_figures: false,
            is_over: false,
            whole: Whole::new(figures::FACTS),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let (was_over, now) = (self.is_over, self.now);
        let kept = self.kept();
        match &mut self.side {
            Side::RankZero(rank_0) => rank_0.receive(HOSTILE, bytes, now),
            Side::Member(member) => member.receive(bytes, now),
        }
        let figures = self.take_events();
        assert!(!(was_over && figures), "figures after the connection ended");
        if was_over {
            assert_eq!(self.kept(), kept, "an answer after the connection ended");
        }
        self.has_figures |= figures;
        assert!(self.kept() <= MOST_KEPT, "too much is kept to be sent");
    }

    /// Whether figures are among the events.
    fn take_events(&mut self) -> bool {
        let mut figures = false;
        match &mut self.side {
            Side::RankZero(rank_0) => {
                while let Some(event) = rank_0.event() {
                    match event {
                        CoordinatorEvent::Close(HOSTILE) => self.is_over = true,
                        CoordinatorEvent::Interval(rank, bytes) => {
                            figures = true;
                            if let Err(error) = self.whole.interval(rank, bytes) {
                                rank_0.give_up_rank(rank, &error.to_string());
                            }
                        }
                        CoordinatorEvent::Ended(rank, bytes) => {
                            figures = true;
                            if let Err(error) = self.whole.ended(rank, &bytes) {
                                self.whole.lost(rank, error.to_string());
                            }
                        }
                        CoordinatorEvent::Lost(rank, why) => self.whole.lost(rank, why),
                        _ => {}
                    }
                }
            }
            Side::Member(member) => {
                while let Some(event) = member.event() {
                    self.is_over |= matches!(event, MemberEvent::Lost(_));
                }
            }
        }
        figures
    }

    /// Ends the test with true figures of rank 0.
    fn finish(mut self) {
        for number in 0..2 {
            let taken = self.whole.interval(0, figures::interval(number));
            assert_eq!(taken, Ok(()), "true figures are refused");
            self.whole.close_next();
        }
        assert_eq!(self.whole.ended(0, &figures::result(0)), Ok(()));
        let result = self.whole.finish().expect("rank 0 has ended");
        assert!(!Summary::of(&result).to_json().is_empty());
        assert!(!screen::details(&result, &[]).is_empty());
    }

    fn kept(&mut self) -> usize {
        match &mut self.side {
            Side::RankZero(rank_0) => rank_0.outbox(HOSTILE).map_or(0, |outbox| outbox.len()),
            Side::Member(member) => member.outbox().len(),
        }
    }

    fn sent(&mut self) -> Vec<u8> {
        match &mut self.side {
            Side::RankZero(rank_0) => rank_0.outbox(HOSTILE).map(std::mem::take),
            Side::Member(member) => Some(std::mem::take(member.outbox())),
        }
        .unwrap_or_default()
    }

    /// What the host of a machine does besides reading.
    fn host(&mut self, choice: u8) {
        let now = self.now;
        match (&mut self.side, choice % 4) {
            (Side::RankZero(rank_0), 0) => rank_0.ready(now),
            (Side::RankZero(rank_0), 1) => rank_0.stop("it was interrupted"),
            (Side::RankZero(rank_0), 2) => rank_0.give_up("it did not end"),
            (Side::RankZero(rank_0), _) => rank_0.tick(now),
            (Side::Member(member), 0) => member.ready(now),
            (Side::Member(member), 1) => member.compare_again(now),
            (Side::Member(member), _) => member.tick(now),
        }
        self.take_events();
    }

    /// A member that knows the secret takes part whatever other connections sent.
    fn welcomes_an_honest_member(&mut self) {
        let Side::RankZero(rank_0) = &mut self.side else {
            return;
        };
        let now = self.now;
        let mut member = Member::new(hello(2, 3), secret(), [3; 32], SILENCE, now);
        assert!(rank_0.accept(HONEST, [4; 32], now), "there is no room");
        for _ in 0..4 {
            rank_0.receive(HONEST, &std::mem::take(member.outbox()), now);
            let answer = rank_0.outbox(HONEST).map(std::mem::take);
            member.receive(&answer.unwrap_or_default(), now);
        }
        assert_eq!(member.event(), Some(MemberEvent::Welcome));
    }
}

/// A peer that knows the secret.
struct Peer {
    key: Key,
    counter: u64,
    last: Vec<u8>,
}

impl Peer {
    /// Proves the secret to the machine.
    fn open(machine: &mut Machine) -> Peer {
        let secret = Key::new(HMAC_SHA256, SECRET);
        let labelled =
            |label: &[u8]| hmac::sign(&secret, &[label, &MEMBER_NONCE, &RANK_0_NONCE].concat());
        let label: &[u8] = if matches!(machine.side, Side::RankZero(_)) {
            machine.receive(&[MAGIC, &MEMBER_NONCE].concat());
            let answer = machine.sent();
            let proof = labelled(b"proof of rank 0.");
            assert_eq!(answer, [MAGIC, &RANK_0_NONCE, proof.as_ref()].concat());
            machine.receive(labelled(b"proof of member.").as_ref());
            b"frames of member"
        } else {
            assert_eq!(machine.sent(), [MAGIC, &MEMBER_NONCE].concat());
            let proof = labelled(b"proof of rank 0.");
            machine.receive(&[MAGIC, &RANK_0_NONCE, proof.as_ref()].concat());
            assert!(
                machine
                    .sent()
                    .starts_with(labelled(b"proof of member.").as_ref())
            );
            b"frames of rank 0"
        };
        assert!(!machine.is_over, "the secret was right");
        Peer {
            key: Key::new(HMAC_SHA256, labelled(label).as_ref()),
            counter: 0,
            last: Vec::new(),
        }
    }

    /// Steps of two bytes, what to do and a length, and the content of that length.
    fn play(&mut self, machine: &mut Machine, mut script: &[u8]) {
        while let [step, length, rest @ ..] = script {
            let (content, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            script = rest;
            match step % 8 {
                // Most steps are true frames.
                0..3 => machine.receive(&self.frame(content)),
                3 => {
                    // In two pieces, of which the first may lack the head.
                    let frame = self.frame(content);
                    let (head, tail) = frame.split_at(frame.len().min(usize::from(*step / 8)));
                    machine.receive(head);
                    machine.receive(tail);
                }
                4 => {
                    machine.now += Duration::from_millis(10 * u64::from(*length));
                    machine.host(3);
                }
                5 => machine.host(*length),
                6 => drop(machine.sent()),
                _ => {
                    let forged = self.forged(step / 8, content);
                    if !forged.is_empty() {
                        machine.receive(&forged);
                        assert!(machine.is_over, "a forged frame was accepted");
                    }
                }
            }
        }
    }

    fn frame(&mut self, message: &[u8]) -> Vec<u8> {
        let (length, counter) = (
            (message.len() as u32).to_le_bytes(),
            self.counter.to_le_bytes(),
        );
        let mac = hmac::sign(&self.key, &[&counter[..], &length, message].concat());
        self.counter += 1;
        self.last = [&length[..], &counter, message, mac.as_ref()].concat();
        self.last.clone()
    }

    /// A frame that must not be accepted; empty when there was none to repeat.
    fn forged(&mut self, how: u8, message: &[u8]) -> Vec<u8> {
        if how % 4 == 0 {
            return self.last.clone();
        }
        if how % 4 == 1 {
            // One is left out.
            self.counter += 1;
        }
        let mut frame = self.frame(message);
        match how % 4 {
            // The length is beyond all limits.
            2 => frame[3] = 0xff,
            3 => {
                let end = frame.len() - 1;
                frame[end] ^= 1 << (how / 4 % 8);
            }
            _ => {}
        }
        frame
    }
}
