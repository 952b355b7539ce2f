//! Sockets on loopback: the received data equals the sent data, with and without offloads.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

const ADDRESSES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// The time limit of a step, longer than any step takes.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

fn wait_readable(socket: &UdpSocket) {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&PATIENCE)), Ok(1));
}

/// Receives datagrams and their ECN codepoints until this many bytes have arrived.
fn receive_bytes(socket: &UdpSocket, bytes: usize) -> (Vec<Vec<u8>>, Vec<Ecn>, usize) {
    let mut buffer = ReceiveBuffer::new(socket.coalesces());
    let (mut datagrams, mut marks, mut calls) = (Vec::new(), Vec::new(), 0);
    while datagrams.iter().map(Vec::len).sum::<usize>() < bytes {
        wait_readable(socket);
        while socket.receive(&mut buffer).unwrap().is_some() {
            for received in buffer.iter() {
                calls += 1;
                for datagram in received.datagrams() {
                    datagrams.push(datagram.to_vec());
                    marks.push(received.ecn);
                }
            }
        }
    }
    (datagrams, marks, calls)
}

#[test]
fn datagrams_keep_their_edges_and_marks_whatever_the_offloads() {
    for address in ADDRESSES {
        for (segmentation, coalescing) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let options = UdpOptions {
                segmentation,
                coalescing,
                ..UdpOptions::default()
            };
            let server = UdpSocket::bind(address.parse().unwrap(), &options).unwrap();
            let client = UdpSocket::connect(server.local_address(), None, &options).unwrap();
            assert_eq!(client.segments() > 1, segmentation);
            assert!(client.is_unfragmented());
            let bytes: Vec<u8> = (0..10 * 1200 + 77).map(|n| (n / 1200) as u8).collect();
            let sent = client.send(&Datagrams {
                to: server.local_address(),
                from: None,
                ecn: Ecn::Capable0,
                segment: Some(1200),
                bytes: &bytes,
            });
            assert_eq!(sent.unwrap(), Sent::Whole);
            let (datagrams, marks, calls) = receive_bytes(&server, bytes.len());
            assert_eq!(datagrams.concat(), bytes);
            let lengths: Vec<usize> = datagrams.iter().map(Vec::len).collect();
            assert_eq!(lengths, [vec![1200; 10], vec![77]].concat());
            assert!(marks.iter().all(|&mark| mark == Ecn::Capable0));
            // Only datagrams sent together can be received together.
            assert_eq!(calls < 11, segmentation && coalescing, "{calls} messages");
        }
    }
}

#[test]
fn a_socket_on_all_addresses_answers_from_the_address_of_the_request() {
    let options = UdpOptions {
        packet_info: true,
        ..UdpOptions::default()
    };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let server = UdpSocket::bind(any, &options).unwrap();
    let asked = SocketAddr::from(([127, 0, 0, 9], server.local_address().port()));
    let client = UdpSocket::connect(asked, None, &UdpOptions::default()).unwrap();
    let question = Datagrams {
        to: asked,
        from: None,
        ecn: Ecn::NotCapable,
        segment: None,
        bytes: b"question",
    };
    assert_eq!(client.send(&question).unwrap(), Sent::Whole);
    wait_readable(&server);
    let mut buffer = ReceiveBuffer::new(server.coalesces());
    assert_eq!(server.receive(&mut buffer).unwrap(), Some(false));
    let (from, to) = {
        let received = buffer.iter().next().unwrap();
        assert_eq!(
            (received.bytes, received.ecn),
            (&b"question"[..], Ecn::NotCapable)
        );
        (received.from, received.to)
    };
    assert_eq!(from, client.local_address());
    assert_eq!(to, Some(IpAddr::from([127, 0, 0, 9])));
    let answer = Datagrams {
        to: from,
        from: to,
        ecn: Ecn::Capable1,
        segment: None,
        bytes: b"answer",
    };
    assert_eq!(server.send(&answer).unwrap(), Sent::Whole);
    // A connected socket receives only from its peer, so the answer came from the right address.
    let (datagrams, marks, _) = receive_bytes(&client, 6);
    assert_eq!(
        (datagrams, marks),
        (vec![b"answer".to_vec()], vec![Ecn::Capable1])
    );
}

#[test]
fn a_port_without_a_listener_and_a_datagram_too_large_are_losses() {
    let options = UdpOptions::default();
    let gone = {
        let unused = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        unused.local_address()
    };
    let client = UdpSocket::connect(gone, None, &options).unwrap();
    let large = vec![0; 65_508];
    let datagrams = |bytes| Datagrams {
        to: gone,
        from: None,
        ecn: Ecn::NotCapable,
        segment: None,
        bytes,
    };
    let sent = client.send(&datagrams(&large)).unwrap();
    let lost = |loss, rejected| Sent::Lost {
        loss,
        taken: 0,
        rejected,
    };
    assert_eq!(sent, lost(Loss::TooLarge, large.len()));
    assert_eq!(client.send(&datagrams(b"x")).unwrap(), Sent::Whole);
    wait_readable(&client);
    let sent = client.send(&datagrams(b"x")).unwrap();
    assert_eq!(sent, lost(Loss::Refused, 1));
    assert!(
        client.take_error().unwrap().is_none(),
        "it is reported once"
    );
}

#[test]
fn a_full_receive_buffer_drops_datagrams_and_counts_them() {
    let options = UdpOptions {
        segmentation: false,
        receive_buffer_bytes: Some(8_192),
        ..UdpOptions::default()
    };
    let server = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let client = UdpSocket::connect(server.local_address(), None, &options).unwrap();
    let send = |count: usize| {
        for _ in 0..count {
            let sent = client.send(&Datagrams {
                to: server.local_address(),
                from: None,
                ecn: Ecn::NotCapable,
                segment: None,
                bytes: &[7; 1000],
            });
            assert_eq!(sent.unwrap(), Sent::Whole);
        }
    };
    send(100);
    let mut buffer = ReceiveBuffer::new(server.coalesces());
    let mut received = 0;
    while server.receive(&mut buffer).unwrap().is_some() {
        received += buffer
            .iter()
            .map(|one| one.datagrams().count())
            .sum::<usize>();
    }
    assert!((1..100).contains(&received), "{received}");
    // The kernel reports the count with the next datagram that is not lost.
    send(1);
    assert!(server.receive(&mut buffer).unwrap().is_some());
    assert_eq!(buffer.overflowed(), Some(100 - received as u32));
}

#[test]
fn a_port_is_shared_only_by_sockets_with_the_option() {
    let shared = UdpOptions {
        reuse_port: true,
        ..UdpOptions::default()
    };
    let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &shared).unwrap();
    let second = UdpSocket::bind(first.local_address(), &shared).unwrap();
    assert_eq!(first.local_address(), second.local_address());
    let unshared = UdpSocket::bind(first.local_address(), &UdpOptions::default());
    assert!(matches!(unshared, Err(crate::Error::PortTaken { .. })));
}

#[test]
fn a_port_of_its_own_can_be_shared_afterwards() {
    let alone = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let shared = UdpOptions {
        reuse_port: true,
        ..UdpOptions::default()
    };
    let early = UdpSocket::bind(alone.local_address(), &shared);
    assert!(matches!(early, Err(crate::Error::PortTaken { .. })));
    alone.share_port().unwrap();
    let _second = UdpSocket::bind(alone.local_address(), &shared).unwrap();
    let _third = UdpSocket::bind(alone.local_address(), &shared).unwrap();
    let unshared = UdpSocket::bind(alone.local_address(), &UdpOptions::default());
    assert!(matches!(unshared, Err(crate::Error::PortTaken { .. })));
}

#[test]
fn a_peer_that_cannot_be_reached_does_not_end_segmentation() {
    let server = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    // The test requires a kernel with segmentation offload.
    if server.segments() == 1 {
        return;
    }
    let sent = server.send(&Datagrams {
        to: "127.0.0.1:0".parse().unwrap(),
        from: None,
        ecn: Ecn::NotCapable,
        segment: Some(1000),
        bytes: &[7; 3000],
    });
    assert!(
        matches!(
            sent,
            Ok(Sent::Lost {
                taken: 0,
                rejected: 3000,
                ..
            })
        ),
        "{sent:?}"
    );
    assert!(server.segments() > 1);
}
