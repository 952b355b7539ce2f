//! Tests with both sides in memory, with and without a machine in the middle.

use std::io::Write as _;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_tls::rustls::ClientConnection;
use proptest::prelude::*;

use super::{Channel, ChannelError, ChannelSettings, MOST_UNSENT, NAME, Role};
use crate::coordinator::{Coordinator, CoordinatorEvent, Expected};
use crate::link::LinkError;
use crate::member::{Member, MemberEvent};
use crate::message::{Hello, Message};
use crate::secret::{BINDING, NONCE, Secret, Side};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const UNIX_TIME: Duration = Duration::from_secs(1_700_000_000);
const RENDEZVOUS: Duration = Duration::from_secs(60);
const CONNECTION: u64 = 1;

fn secret() -> Secret {
    Secret::new(b"a secret of the tests").unwrap()
}

fn hello(rank: u32) -> Hello {
    Hello {
        rank,
        ranks: 2,
        plan: [7; 32],
        version: "1".to_owned(),
        host: format!("node-{rank}"),
    }
}

/// One end of a TLS session.
struct End {
    channel: Channel,
    /// The decrypted bytes from the other end.
    plain: Vec<u8>,
    binding: Option<[u8; BINDING]>,
}

impl End {
    fn new(side: Side) -> End {
        let settings = ChannelSettings::new(side, UNIX_TIME).unwrap();
        End {
            channel: Channel::new(&settings, NOW).unwrap(),
            plain: Vec::new(),
            binding: None,
        }
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        let mut bytes = bytes.to_vec();
        let binding = self.channel.open(&mut bytes, &mut self.plain, NOW)?;
        assert!(self.binding.is_none() || binding.is_none(), "once");
        self.binding = self.binding.or(binding);
        Ok(())
    }

    fn output(&mut self) -> Vec<u8> {
        let bytes = self.channel.output().to_vec();
        self.channel.output_sent(bytes.len());
        bytes
    }

    fn seal(&mut self, plain: &mut Vec<u8>) {
        let taken = self.channel.seal(plain);
        plain.drain(..taken);
    }
}

/// Carries the bytes of a session in both directions.
fn carry(one: &mut End, other: &mut End) {
    other.open(&one.output()).unwrap();
    one.open(&other.output()).unwrap();
}

fn established() -> [End; 2] {
    let mut ends = [End::new(Side::Member), End::new(Side::RankZero)];
    let [member, rank_0] = &mut ends;
    for _ in 0..2 {
        carry(member, rank_0);
    }
    assert!(member.channel.is_established() && rank_0.channel.is_established());
    ends
}

/// A member and rank 0 with the same secret.
struct Ranks {
    member: Member,
    coordinator: Coordinator,
}

impl Ranks {
    fn new() -> Ranks {
        let expected = Expected {
            hello: hello(0),
            test: 1,
            rendezvous: RENDEZVOUS,
            silence: RENDEZVOUS,
        };
        let mut coordinator = Coordinator::new(expected, secret(), NOW);
        assert!(coordinator.accept(CONNECTION, [2; NONCE], NOW));
        let member = Member::new(hello(1), secret(), [1; NONCE], RENDEZVOUS, NOW);
        Ranks {
            member,
            coordinator,
        }
    }

    /// Does the work of both hosts: binds the links, passes them the decrypted bytes, and encrypts their output.
    fn host(&mut self, at_member: &mut End, at_rank_0: &mut End) {
        if let Some(binding) = at_member.binding.take() {
            self.member.bind(&binding);
        }
        self.member
            .receive(&std::mem::take(&mut at_member.plain), NOW);
        at_member.seal(self.member.outbox());
        if let Some(binding) = at_rank_0.binding.take() {
            self.coordinator.bind(CONNECTION, &binding);
        }
        self.coordinator
            .receive(CONNECTION, &std::mem::take(&mut at_rank_0.plain), NOW);
        at_rank_0.seal(self.coordinator.outbox(CONNECTION).unwrap());
    }
}

#[test]
fn a_member_and_rank_0_meet_through_tls_and_messages_pass() {
    let (mut ranks, [mut member, mut rank_0]) = (
        Ranks::new(),
        [End::new(Side::Member), End::new(Side::RankZero)],
    );
    for _ in 0..6 {
        ranks.host(&mut member, &mut rank_0);
        carry(&mut member, &mut rank_0);
    }
    assert_eq!(ranks.member.event(), Some(MemberEvent::Welcome));
    assert_eq!(ranks.coordinator.event(), None);
    let (sent, received) = member.channel.traffic();
    assert_eq!(rank_0.channel.traffic(), (received, sent));
    assert!(sent > 300 && received > 700, "{sent} {received}");
}

#[test]
fn a_machine_in_the_middle_that_forwards_all_messages_is_refused_on_both_sides() {
    let mut ranks = Ranks::new();
    let [mut member, mut to_member] = [End::new(Side::Member), End::new(Side::RankZero)];
    let [mut to_rank_0, mut rank_0] = [End::new(Side::Member), End::new(Side::RankZero)];
    for _ in 0..8 {
        ranks.host(&mut member, &mut rank_0);
        carry(&mut member, &mut to_member);
        carry(&mut to_rank_0, &mut rank_0);
        to_rank_0.seal(&mut to_member.plain);
        to_member.seal(&mut to_rank_0.plain);
    }
    assert!(member.channel.is_established() && rank_0.channel.is_established());
    let lost = MemberEvent::Lost(LinkError::Secret.to_string());
    assert_eq!(ranks.member.event(), Some(lost));
    // The member closes its connection, and the machine in the middle closes its connection to rank 0.
    assert_eq!(ranks.coordinator.event(), None);
    ranks.coordinator.closed(CONNECTION, "it was closed");
    ranks.coordinator.tick(NOW + RENDEZVOUS);
    let events: Vec<_> = std::iter::from_fn(|| ranks.coordinator.event()).collect();
    let [
        CoordinatorEvent::Close(CONNECTION),
        CoordinatorEvent::Failed(why),
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(why.contains("only 1 of 2 ranks"), "{why}");
    let refused = format!("it was closed: {}", LinkError::Secret);
    assert!(why.contains(&refused), "{why}");
}

#[test]
fn each_session_has_a_binding_and_both_ends_have_the_same() {
    let [member, rank_0] = established();
    let [other, _] = established();
    assert!(member.binding.is_some());
    assert_eq!(member.binding, rank_0.binding);
    assert_ne!(member.binding, other.binding);
}

#[test]
fn what_is_sealed_does_not_contain_what_was_written_and_may_be_cut_anywhere() {
    let [mut member, mut rank_0] = established();
    let message = Message::Hello(hello(1));
    let message = postcard::to_allocvec(&message).unwrap();
    let written = message.repeat(100);
    member.seal(&mut written.clone());
    let sealed = member.output();
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|p| p == part);
    for part in [&b"node-1"[..], &[7; 32]] {
        assert!(contains(&written, part));
        assert!(!contains(&sealed, part));
    }
    for piece in sealed.chunks(7) {
        rank_0.open(piece).unwrap();
    }
    assert_eq!(rank_0.plain, written);
}

#[test]
fn a_byte_that_was_altered_ends_the_session() {
    let [mut member, mut rank_0] = established();
    member.seal(&mut b"a message".to_vec());
    let mut sealed = member.output();
    *sealed.last_mut().unwrap() ^= 1;
    let error = rank_0.open(&sealed).unwrap_err();
    assert!(matches!(error, ChannelError::Tls(_)), "{error}");
    assert_eq!(rank_0.plain, b"");
    // An alert reports the error to the peer.
    let alert = rank_0.output();
    let error = member.open(&alert).unwrap_err();
    assert!(matches!(error, ChannelError::Tls(_)), "{error}");
}

#[test]
fn a_peer_that_renews_its_keys_and_reads_no_answer_is_given_up_with_bounded_memory() {
    let Role::Member(settings) = ChannelSettings::new(Side::Member, UNIX_TIME).unwrap().0 else {
        panic!("these are the settings of a member");
    };
    // Uses the same settings in a connection of rustls, whose API can update the traffic keys at any time.
    let config = settings.quic_config(&[]).unwrap();
    let mut peer = ClientConnection::new(config, NAME.try_into().unwrap()).unwrap();
    let mut rank_0 = End::new(Side::RankZero);
    let sent = |peer: &mut ClientConnection| {
        let mut bytes = Vec::new();
        while peer.wants_write() {
            peer.write_tls(&mut bytes).unwrap();
        }
        bytes
    };
    rank_0.open(&sent(&mut peer)).unwrap();
    peer.read_tls(&mut &rank_0.output()[..]).unwrap();
    peer.process_new_packets().unwrap();
    rank_0.open(&sent(&mut peer)).unwrap();
    assert!(rank_0.channel.is_established());
    let error = (0..100_000).find_map(|_| {
        peer.refresh_traffic_keys().unwrap();
        peer.writer().write_all(b"x").unwrap();
        let error = rank_0.open(&sent(&mut peer)).err();
        assert!(rank_0.channel.output().len() < MOST_UNSENT + 100);
        error
    });
    assert_eq!(error, Some(ChannelError::Unread));
}

#[test]
fn peers_of_an_earlier_version_and_other_programs_are_told_apart() {
    let mut rank_0 = End::new(Side::RankZero);
    let opening = [&b"fathom\x00\x02"[..], &[5; NONCE]].concat();
    assert_eq!(rank_0.open(&opening), Err(ChannelError::Earlier));
    for side in [Side::RankZero, Side::Member] {
        let mut end = End::new(side);
        let error = end.open(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        assert_eq!(error, Err(ChannelError::NoTls));
        assert_eq!(end.open(b"more"), Err(ChannelError::NoTls));
    }
}

proptest! {
    /// Bytes of an unknown peer produce neither a binding nor content, independent of their segmentation.
    #[test]
    fn garbage_establishes_nothing(pieces: Vec<Vec<u8>>, is_record: bool, is_member: bool) {
        let side = if is_member { Side::Member } else { Side::RankZero };
        let mut end = End::new(side);
        if is_record {
            prop_assert_eq!(end.open(&[22, 3, 1, 1, 0]), Ok(()));
        }
        for piece in pieces {
            let _ = end.open(&piece);
            prop_assert!(end.plain.is_empty() && end.binding.is_none());
            prop_assert!(!end.channel.is_established());
        }
    }
}
