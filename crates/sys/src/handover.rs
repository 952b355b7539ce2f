//! Passes descriptors between processes (`man 7 unix`, SCM_RIGHTS).

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::error::{Doing, Error, Result};

/// The largest number of descriptors in one message.
const MOST: usize = 8;

/// Sends descriptors to the process at the other end. They stay open in this process.
///
/// # Panics
/// If there are more than eight descriptors.
pub fn send(stream: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    assert!(descriptors.len() <= MOST, "{}", descriptors.len());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fits = message.push(SendAncillaryMessage::ScmRights(descriptors));
    debug_assert!(fits);
    // Descriptors must be sent with at least one byte.
    sendmsg(
        stream,
        &[IoSlice::new(&[0])],
        &mut message,
        SendFlags::NOSIGNAL,
    )
    .doing("send descriptors to a process")
    .map(drop)
}

/// Receives exactly `N` descriptors, with close-on-exec set.
pub fn receive<const N: usize>(stream: &UnixStream) -> Result<[OwnedFd; N]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let arrived = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut byte)],
        &mut message,
        RecvFlags::CMSG_CLOEXEC,
    )
    .doing("receive descriptors from a process")?;
    if arrived.bytes == 0 {
        return Err(Error::BadAnswer {
            what: "descriptors from another process, which has closed its socket",
        });
    }
    let received: Vec<OwnedFd> = message
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    received
        .try_into()
        .map_err(|received: Vec<OwnedFd>| Error::WrongDescriptors {
            wanted: N,
            found: received.len(),
        })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn descriptors_arrive_in_order_and_open() {
        let (here, there) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send(&here, &[writer.as_fd(), reader.as_fd()]).unwrap();
        let [to, from] = receive(&there).unwrap();
        std::fs::File::from(to).write_all(b"through").unwrap();
        drop((reader, writer));
        let mut text = String::new();
        std::fs::File::from(from).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn another_number_of_descriptors_is_refused() {
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, &[here.as_fd()]).unwrap();
        let numbers = |received: Error| match received {
            Error::WrongDescriptors { wanted, found } => (wanted, found),
            other => panic!("{other}"),
        };
        assert_eq!(numbers(receive::<2>(&there).unwrap_err()), (2, 1));
        drop(here);
        let closed = receive::<1>(&there).unwrap_err();
        assert!(matches!(closed, Error::BadAnswer { .. }), "{closed}");
    }
}
