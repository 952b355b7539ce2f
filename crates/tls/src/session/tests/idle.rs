//! Tests of the memory of an idle session.

use super::super::{Phase, Session};
use super::pair::{NOW, Pair, client_options, server_options};

/// The capacity of all buffers of a session, in bytes.
fn buffers(session: &Session) -> usize {
    let of_messages = match &session.phase {
        Phase::Established(established) => established.room_for_messages(),
        _ => 0,
    };
    let buffers = [
        &session.incoming,
        &session.outgoing,
        &session.waiting,
        &session.plain,
    ];
    of_messages
        + buffers
            .iter()
            .map(|buffer| buffer.capacity())
            .sum::<usize>()
}

#[test]
fn buffers_are_given_back_and_nothing_in_them_is_lost() {
    let mut pair = Pair::with(client_options(), server_options());
    pair.settle().unwrap();
    // Both sides receive tickets and data.
    pair.client.write(b"ping");
    pair.settle().unwrap();
    for session in [&mut pair.client, &mut pair.server] {
        assert!(buffers(session) > 0);
        session.free_buffers();
        assert_eq!(buffers(session), 0);
    }
    pair.server.write(&[7; 1000]);
    let mut record = pair.server.transmit().to_vec();
    let length = record.len();
    pair.server.transmitted(length);
    let (mut first, mut second) = record.split_at_mut(300);
    assert_eq!(pair.client.open(&mut first, NOW).unwrap(), None);
    pair.client.free_buffers();
    assert_eq!(
        pair.client.open(&mut second, NOW).unwrap(),
        Some(&[7; 1000][..])
    );
    // The record was joined in this buffer, and its data was returned.
    assert!(buffers(&pair.client) >= 1000);
    pair.client.free_buffers();
    assert_eq!(buffers(&pair.client), 0);
    assert_eq!(pair.client.open(&mut second, NOW).unwrap(), None);
    pair.server.write(b"more");
    pair.settle().unwrap();
    assert_eq!(pair.read[0], b"more");
}
