//! One side of a control connection, without I/O: mutual authentication, then frames.
//!
//! ```text
//! member  -> rank 0   magic, nonce                                            40 bytes
//! rank 0  -> member   magic, nonce, HMAC(secret, "proof of rank 0." nonces)   72 bytes
//! member  -> rank 0   HMAC(secret, "proof of member." nonces)                 32 bytes
//! frame               length (u32), counter (u64), message, HMAC(key, counter length message)
//! ```
//!
//! The MACs are HMAC-SHA-256 (RFC 2104). Each side has its own key, derived from the secret and both nonces. Its frames
//! are numbered from 0. A frame that is repeated, omitted, reordered, reflected or from another connection is an error.
//! Numbers are little-endian.
//!
//! A TLS session, the [`channel`](crate::channel), carries these bytes. A link that is [bound](Link::bind) to the
//! session uses HMAC(secret, "bound to session" binding) instead of the secret. The link's own counters and MACs do not
//! rely on TLS.

use ring::hmac::{self, Key};

use crate::message::Message;
use crate::secret::{BINDING, MAC, NONCE, Nonces, Secret, Side};

/// The common first bytes of all versions of this protocol. Versions before 3 had no TLS.
pub(crate) const PROTOCOL: &[u8] = b"fathom\x00";

/// The first bytes that each side sends, including the version of this protocol.
pub(crate) const MAGIC: [u8; 8] = *b"fathom\x00\x03";

/// Length of a frame's header in bytes.
const HEAD: usize = 4 + 8;

/// The maximum length of a message, in bytes: a result whose histograms are full.
pub const LONGEST: usize = 16 << 20;

/// The reason why a connection cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer is another program, or another version.
    #[error("the peer is not a rank of this version")]
    Magic,
    /// The peer has another secret.
    #[error(
        "the peer has another secret, or a proxy decrypts the connection: every rank needs the same --secret-file or \
         FATHOMETER_SECRET, and no proxy may terminate TLS between them"
    )]
    Secret,
    /// A frame was altered, repeated or omitted.
    #[error("a frame was altered, repeated or lost on the way")]
    Frame,
    /// A frame is longer than [`LONGEST`].
    #[error("a frame is longer than {LONGEST} bytes")]
    TooLong,
    /// An authenticated frame does not contain a message.
    #[error("a frame has no message of this version")]
    Message,
}

/// One side of a control connection.
#[derive(Debug)]
pub struct Link {
    side: Side,
    secret: Secret,
    nonce: [u8; NONCE],
    stage: Stage,
    /// Received bytes that are not processed yet.
    inbox: Vec<u8>,
    /// Bytes to send.
    outbox: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    /// Waits for the peer's first bytes.
    Opening,
    /// Rank 0 waits for the member's proof.
    Proof(Nonces),
    /// The link is authenticated, and frames are exchanged.
    Open(Box<Frames>),
    /// The link has failed with this error.
    Broken(LinkError),
}

/// The keys of both sides, and the numbers of frames sent and received.
#[derive(Debug)]
struct Frames {
    own: Key,
    peer: Key,
    sent: u64,
    received: u64,
}

impl Link {
    /// Creates one side of a new connection. `nonce` must be random and unique to this connection.
    pub fn new(side: Side, secret: Secret, nonce: [u8; NONCE]) -> Link {
        let mut link = Link {
            side,
            secret,
            nonce,
            stage: Stage::Opening,
            inbox: Vec::new(),
            outbox: Vec::new(),
        };
        if side == Side::Member {
            link.push(&MAGIC);
            link.push(&nonce);
        }
        link
    }

    /// Binds this connection to its TLS session, before the peer's first byte. The peer's proof is then valid only if
    /// the peer computed it for the same session.
    pub fn bind(&mut self, binding: &[u8; BINDING]) {
        debug_assert!(matches!(self.stage, Stage::Opening) && self.inbox.is_empty());
        self.secret = self.secret.bound(binding);
    }

    /// Whether this side has sent its proof and waits for the proof of the peer.
    pub(crate) fn waits_for_proof(&self) -> bool {
        matches!(self.stage, Stage::Proof(_))
    }

    /// Whether both sides have proved that they have the secret. Messages can be sent only after that.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Receives bytes of the peer; [`Link::message`] returns the messages in them.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !matches!(self.stage, Stage::Broken(_)) {
            self.inbox.extend_from_slice(bytes);
        }
    }

    /// The unsent bytes. The caller removes sent bytes from the front.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Queues a message to send.
    ///
    /// # Errors
    /// If the message is too long, or if the connection is not open.
    pub fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        let Stage::Open(frames) = &mut self.stage else {
            return Err(match self.stage {
                Stage::Broken(error) => error,
                _ => LinkError::Secret,
            });
        };
        let message = postcard::to_allocvec(message).map_err(|_| LinkError::Message)?;
        if message.len() > LONGEST {
            return Err(LinkError::TooLong);
        }
        let length = message.len() as u32;
        let mac = mac(&frames.own, frames.sent, length, &message);
        let counter = frames.sent.to_le_bytes();
        frames.sent += 1;
        for part in [&length.to_le_bytes()[..], &counter, &message, mac.as_ref()] {
            self.push(part);
        }
        Ok(())
    }

    /// Returns the next message of the peer; `None` until more bytes arrive.
    ///
    /// # Errors
    /// If the peer has another secret, or if its bytes are damaged. The connection then cannot continue, and every
    /// further call returns the same error.
    pub fn message(&mut self) -> Result<Option<Message>, LinkError> {
        let next = self.advance();
        if let Err(error) = next {
            self.stage = Stage::Broken(error);
            self.inbox = Vec::new();
        }
        next
    }

    fn advance(&mut self) -> Result<Option<Message>, LinkError> {
        loop {
            match &self.stage {
                Stage::Broken(error) => return Err(*error),
                Stage::Opening => {
                    if !self.open()? {
                        return Ok(None);
                    }
                }
                Stage::Proof(nonces) => {
                    let nonces = *nonces;
                    let Some(proof) = self.take(MAC) else {
                        return Ok(None);
                    };
                    if !self.secret.is_proof(Side::Member, &nonces, &proof) {
                        return Err(LinkError::Secret);
                    }
                    self.opened(&nonces);
                }
                Stage::Open(_) => return self.frame(),
            }
        }
    }

    /// Reads the peer's first bytes and answers. Returns false if more bytes are needed.
    fn open(&mut self) -> Result<bool, LinkError> {
        let seen = self.inbox.len().min(MAGIC.len());
        if self.inbox[..seen] != MAGIC[..seen] {
            return Err(LinkError::Magic);
        }
        let length = match self.side {
            Side::RankZero => MAGIC.len() + NONCE,
            Side::Member => MAGIC.len() + NONCE + MAC,
        };
        let Some(opening) = self.take(length) else {
            return Ok(false);
        };
        let (opening, proof) = opening[MAGIC.len()..].split_at(NONCE);
        let mut peer = [0; NONCE];
        peer.copy_from_slice(opening);
        match self.side {
            Side::RankZero => {
                let nonces = Nonces {
                    member: peer,
                    rank_0: self.nonce,
                };
                let (nonce, proof) = (self.nonce, self.secret.proof(Side::RankZero, &nonces));
                self.push(&MAGIC);
                self.push(&nonce);
                self.push(&proof);
                self.stage = Stage::Proof(nonces);
            }
            Side::Member => {
                let nonces = Nonces {
                    member: self.nonce,
                    rank_0: peer,
                };
                if !self.secret.is_proof(Side::RankZero, &nonces, proof) {
                    return Err(LinkError::Secret);
                }
                let proof = self.secret.proof(Side::Member, &nonces);
                self.push(&proof);
                self.opened(&nonces);
            }
        }
        Ok(true)
    }

    fn opened(&mut self, nonces: &Nonces) {
        self.stage = Stage::Open(Box::new(Frames {
            own: self.secret.key(self.side, nonces),
            peer: self.secret.key(self.side.other(), nonces),
            sent: 0,
            received: 0,
        }));
    }

    fn frame(&mut self) -> Result<Option<Message>, LinkError> {
        let Stage::Open(frames) = &mut self.stage else {
            return Ok(None);
        };
        let Some(head) = self.inbox.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let (length, counter) = head.split_at(4);
        let length = u32::from_le_bytes(length.try_into().map_err(|_| LinkError::Frame)?);
        let counter = u64::from_le_bytes(counter.try_into().map_err(|_| LinkError::Frame)?);
        if length as usize > LONGEST {
            return Err(LinkError::TooLong);
        }
        if counter != frames.received {
            return Err(LinkError::Frame);
        }
        let end = HEAD + length as usize;
        let Some(frame) = self.inbox.get(..end + MAC) else {
            return Ok(None);
        };
        let (message, tag) = frame[HEAD..].split_at(length as usize);
        let signed = signed(counter, length, message);
        hmac::verify(&frames.peer, &signed, tag).map_err(|_| LinkError::Frame)?;
        let message = postcard::from_bytes(message).map_err(|_| LinkError::Message)?;
        frames.received += 1;
        self.inbox.drain(..end + MAC);
        Ok(Some(message))
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.inbox.len() >= length).then(|| self.inbox.drain(..length).collect())
    }

    fn push(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }
}

fn signed(counter: u64, length: u32, message: &[u8]) -> Vec<u8> {
    [&counter.to_le_bytes()[..], &length.to_le_bytes(), message].concat()
}

fn mac(key: &Key, counter: u64, length: u32, message: &[u8]) -> hmac::Tag {
    hmac::sign(key, &signed(counter, length, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes()).unwrap()
    }

    const SECRET: &str = "sixteen bytes or more";

    fn pair() -> (Link, Link) {
        (
            Link::new(Side::Member, secret(SECRET), [1; NONCE]),
            Link::new(Side::RankZero, secret(SECRET), [2; NONCE]),
        )
    }

    /// Exchanges bytes between both sides until neither has unsent bytes. Returns all bytes that each side sent.
    fn talk(member: &mut Link, rank_0: &mut Link) -> (Result<(), LinkError>, Vec<u8>, Vec<u8>) {
        let (mut from_member, mut from_rank_0) = (Vec::new(), Vec::new());
        loop {
            let there = std::mem::take(member.outbox());
            rank_0.receive(&there);
            let result = rank_0.message().map(|message| assert_eq!(message, None));
            let back = std::mem::take(rank_0.outbox());
            member.receive(&back);
            let result = result.and(member.message().map(|message| assert_eq!(message, None)));
            let is_over = there.is_empty() && back.is_empty();
            from_member.extend(there);
            from_rank_0.extend(back);
            if is_over || result.is_err() {
                return (result, from_member, from_rank_0);
            }
        }
    }

    fn open_pair() -> (Link, Link) {
        let (mut member, mut rank_0) = pair();
        talk(&mut member, &mut rank_0).0.unwrap();
        assert!(member.is_open() && rank_0.is_open());
        (member, rank_0)
    }

    #[test]
    fn both_sides_prove_the_secret_and_then_exchange_messages() {
        let (mut member, mut rank_0) = open_pair();
        for n in 0..3 {
            member.send(&Message::Ping { sent: n }).unwrap();
            rank_0.send(&Message::Pong { sent: n, read: 9 }).unwrap();
        }
        rank_0.receive(&std::mem::take(member.outbox()));
        member.receive(&std::mem::take(rank_0.outbox()));
        for sent in 0..3 {
            assert_eq!(rank_0.message(), Ok(Some(Message::Ping { sent })));
            assert_eq!(member.message(), Ok(Some(Message::Pong { sent, read: 9 })));
        }
        assert_eq!((rank_0.message(), member.message()), (Ok(None), Ok(None)));
    }

    #[test]
    fn another_secret_fails_on_either_side_and_nothing_can_be_sent() {
        let (_, mut rank_0) = pair();
        let mut stranger = Link::new(Side::Member, secret("another secret ....."), [3; NONCE]);
        let (result, ..) = talk(&mut stranger, &mut rank_0);
        assert_eq!(result, Err(LinkError::Secret));
        assert!(!stranger.is_open() && !rank_0.is_open());
        assert_eq!(stranger.send(&Message::Done), Err(LinkError::Secret));
        // An unknown peer sends a proof without the secret.
        let (_, mut rank_0) = pair();
        rank_0.receive(&[&MAGIC[..], &[3; NONCE], &[0; MAC]].concat());
        assert_eq!(rank_0.message(), Err(LinkError::Secret));
        assert_eq!(rank_0.message(), Err(LinkError::Secret));
    }

    #[test]
    fn links_of_two_sessions_refuse_each_other_and_those_of_one_do_not() {
        for (bindings, result) in [
            ([[7; BINDING]; 2], Ok(())),
            ([[7; BINDING], [8; BINDING]], Err(LinkError::Secret)),
        ] {
            let (mut member, mut rank_0) = pair();
            member.bind(&bindings[0]);
            rank_0.bind(&bindings[1]);
            assert_eq!(talk(&mut member, &mut rank_0).0, result);
            let is_open = result.is_ok();
            assert_eq!([member.is_open(), rank_0.is_open()], [is_open; 2]);
        }
        // Only one side is bound.
        let (mut member, mut rank_0) = pair();
        member.bind(&[7; BINDING]);
        let (result, ..) = talk(&mut member, &mut rank_0);
        assert_eq!(result, Err(LinkError::Secret));
    }

    #[test]
    fn rank_0_refuses_a_proof_that_was_made_for_another_session() {
        for (binding, result) in [(7, Ok(None)), (8, Err(LinkError::Secret))] {
            let (mut member, mut rank_0) = pair();
            rank_0.bind(&[7; BINDING]);
            rank_0.receive(&std::mem::take(member.outbox()));
            assert_eq!(rank_0.message(), Ok(None));
            let nonces = Nonces {
                member: [1; NONCE],
                rank_0: [2; NONCE],
            };
            let bound = secret(SECRET).bound(&[binding; BINDING]);
            rank_0.receive(&bound.proof(Side::Member, &nonces));
            assert_eq!(rank_0.message(), result);
            assert_eq!(rank_0.is_open(), result.is_ok());
        }
    }

    #[test]
    fn a_recorded_connection_cannot_be_played_again() {
        let (mut member, mut rank_0) = pair();
        let (_, mut recorded, _) = talk(&mut member, &mut rank_0);
        member.send(&Message::Stop).unwrap();
        recorded.extend_from_slice(member.outbox());
        let mut other = Link::new(Side::RankZero, secret(SECRET), [4; NONCE]);
        other.receive(&recorded);
        assert_eq!(other.message(), Err(LinkError::Secret));
    }

    #[test]
    fn a_frame_that_is_repeated_left_out_reflected_or_altered_is_an_error() {
        let sent = |count: u64| {
            let (mut member, rank_0) = open_pair();
            let frames: Vec<Vec<u8>> = (0..count)
                .map(|sent| {
                    member.send(&Message::Ping { sent }).unwrap();
                    std::mem::take(member.outbox())
                })
                .collect();
            (member, rank_0, frames)
        };
        let (_, mut rank_0, frames) = sent(1);
        rank_0.receive(&[&frames[0][..], &frames[0]].concat());
        assert_eq!(rank_0.message(), Ok(Some(Message::Ping { sent: 0 })));
        assert_eq!(rank_0.message(), Err(LinkError::Frame));
        let (_, mut rank_0, frames) = sent(2);
        rank_0.receive(&frames[1]);
        assert_eq!(rank_0.message(), Err(LinkError::Frame));
        let (mut member, _, frames) = sent(1);
        member.receive(&frames[0]);
        assert_eq!(member.message(), Err(LinkError::Frame));
        let (_, _, frames) = sent(1);
        for place in 4..frames[0].len() {
            let (_, mut rank_0, mut frames) = sent(1);
            frames[0][place] ^= 1;
            rank_0.receive(&frames[0]);
            assert_eq!(rank_0.message(), Err(LinkError::Frame), "{place}");
        }
    }

    #[test]
    fn a_huge_frame_is_refused_before_it_arrives() {
        let (_, mut rank_0) = open_pair();
        rank_0.receive(&u32::MAX.to_le_bytes());
        rank_0.receive(&0u64.to_le_bytes());
        assert_eq!(rank_0.message(), Err(LinkError::TooLong));
    }

    proptest! {
        /// Bytes of an unknown peer never open the link, independent of their segmentation. After the error, the link
        /// stores no bytes.
        #[test]
        fn garbage_opens_nothing(pieces: Vec<Vec<u8>>, magic: bool, is_member: bool) {
            let side = if is_member { Side::Member } else { Side::RankZero };
            let mut link = Link::new(side, secret(SECRET), [2; NONCE]);
            if magic {
                link.receive(&MAGIC);
            }
            for piece in pieces {
                link.receive(&piece);
                prop_assert!(!matches!(link.message(), Ok(Some(_))));
            }
            prop_assert!(!link.is_open());
            if link.message().is_err() {
                link.receive(&[0; 100]);
                prop_assert!(link.inbox.is_empty());
            }
        }

        /// Any segmentation of the bytes yields the same messages. Damaged bytes yield an error or an incomplete
        /// message, never a different message.
        #[test]
        fn any_split_gives_the_same_messages(
            contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..5),
            split in 1usize..40,
            damaged in proptest::option::of((any::<proptest::sample::Index>(), 1u8..)),
        ) {
            let (mut member, mut rank_0) = open_pair();
            let messages: Vec<Message> = contents.into_iter().map(Message::Interval).collect();
            for message in &messages {
                member.send(message).unwrap();
            }
            let mut bytes = std::mem::take(member.outbox());
            if let Some((place, by)) = &damaged {
                let place = place.index(bytes.len());
                bytes[place] ^= by;
            }
            let mut received = Vec::new();
            let mut error = None;
            for piece in bytes.chunks(split) {
                rank_0.receive(piece);
                loop {
                    match rank_0.message() {
                        Ok(Some(message)) => received.push(message),
                        Ok(None) => break,
                        Err(why) => {
                            error = Some(why);
                            break;
                        }
                    }
                }
            }
            prop_assert!(messages.starts_with(&received));
            prop_assert_eq!(damaged.is_some(), received.len() < messages.len());
            prop_assert!(damaged.is_some() || error.is_none());
        }
    }
}
